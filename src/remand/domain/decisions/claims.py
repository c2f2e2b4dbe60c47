"""What may be decided about claims: to take a task, keep it, return it, and submit the work."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.decisions import handoffs as h
from remand.domain.decisions import runs
from remand.domain.decisions.gates import (
    require_release,
)
from remand.domain.decisions.notices import ask_user
from remand.domain.decisions.runs import end_lost_runs
from remand.domain.events.event import Events
from remand.domain.events.tasks import (
    HandoffAccepted,
    HandoffLapsed,
    LeaseExpired,
    LeaseRenewed,
    TaskClaimed,
    TaskContinued,
    TaskFailed,
    TaskReleased,
    TaskSubmitted,
    TaskWaiting,
)
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.domain.task import Task


def claim_task(
    task: Task, command: c.ClaimTask, context: c.CommandContext
) -> tuple[TaskClaimed | HandoffAccepted]:
    r.require_claimable(task, context.actor, context)
    offer = next(
        (o for o in task.claims.offers if o.target == command.agent and o.lapses_at > context.at), None
    )
    if offer is not None:
        return (h.accept_offer(task, offer, context),)
    return (
        TaskClaimed(
            task_id=task.id,
            handoff_id=context.facts.fresh.handoff_id,
            agent=context.actor.name,
            attempt=task.claims.attempt_count + 1,
            epoch=task.claims.epoch + 1,
            lease_expires_at=add_seconds(context.at, context.facts.policy.lease_seconds),
            branch=task.branch,
            base=context.facts.work.base,
        ),
    )


def assign_task(task: Task, command: c.AssignTask, context: c.CommandContext) -> Events:
    """A claim for an agent, by the agent's own rights, and the beginning of its run."""
    agent = context.facts.team.target
    if agent is None:
        raise Refused("bad_value", "Name the agent that gets the task.")
    if task.runs:
        run = task.runs[0]
        raise Refused("already_running", f"{run.agent} is still working on task {task.id} (run {run.id}).")
    own = replace(context, actor=agent, command=c.ClaimTask(agent=agent.name, task_id=task.id))
    (claimed,) = claim_task(task, c.ClaimTask(agent=agent.name, task_id=task.id), own)
    return (claimed, runs.begin_assigned_run(task, claimed, context))


def renew_lease(task: Task, command: c.Heartbeat, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    lease = context.facts.policy.lease_seconds
    if claim.lease_expires_at > add_seconds(context.at, lease / 2):
        return ()
    return (
        LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=add_seconds(context.at, lease),
        ),
    )


def release_task(task: Task, command: c.ReleaseTask, context: c.CommandContext) -> Events:
    """Returns the task untouched."""
    return _end_claim(TaskReleased, task, command, context)


def continue_task(task: Task, command: c.ContinueTask, context: c.CommandContext) -> Events:
    """Pauses the task so that another session can continue it."""
    return _end_claim(TaskContinued, task, command, context)


def _end_claim(
    kind: type[TaskReleased | TaskContinued], task: Task, command: c.ClaimCommand, context: c.CommandContext
) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    r.require_unused_exit(task, claim.agent, kind)
    ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason)
    return (ended, *_question_after_return(task, context))


def fail_task(task: Task, command: c.FailTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    failed = TaskFailed(
        task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason
    )
    return (failed, *h.lock_out_after_giving_up(task, claim.agent, context))


def wait_task(task: Task, command: c.WaitTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("thing waited for (--for)", command.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, TaskWaiting)
    if context.facts.links.closed_tasks:
        ended = ", ".join(context.facts.links.closed_tasks)
        raise Refused(
            "nothing_to_wait_for", f"The task cannot wait for what has ended or does not exist: {ended}."
        )
    return (
        TaskWaiting(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=command.reason
        ),
    )


def submit_task(task: Task, command: c.SubmitTask, context: c.CommandContext) -> Events:
    claim = h.require_done_claim(task, command, context)
    facts = context.facts
    return (
        *require_release(task, claim, context),
        TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.work.commit,
            tree=facts.work.tree,
            branch=h.recorded_branch(task, command, facts),
            is_branch_given=command.is_branch_given,
            pr=command.pr,
        ),
    )


def expire_lease(task: Task, command: c.ExpireLease, context: c.CommandContext) -> Events:
    lapsed = tuple(
        HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
        if offer.lapses_at <= context.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > context.at:
        return lapsed
    expired = LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = end_lost_runs(task, claim, context)
    return (*lapsed, *runs, expired, *(question or _question_after_return(task, context)))


def _question_after_return(task: Task, context: c.CommandContext) -> Events:
    """The question once more, when the user who took a task on does not finish it: maybe nobody else may have it."""
    if task.claim is None or task.claim.agent != task.people.fixer:
        return ()
    return (ask_user(task, "asked", f"{task.people.fixer} returned {task.label} unfinished", context),)
