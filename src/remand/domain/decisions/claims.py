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


def claim_task(task: Task, ask: c.ClaimTask, command: c.Command) -> tuple[TaskClaimed | HandoffAccepted]:
    r.require_claimable(task, command.actor, command)
    offer = next((o for o in task.claims.offers if o.target == ask.agent and o.lapses_at > command.at), None)
    if offer is not None:
        return (h.accept_offer(task, offer, command),)
    return (
        TaskClaimed(
            task_id=task.id,
            handoff_id=command.facts.fresh.handoff_id,
            agent=command.actor.name,
            attempt=task.claims.attempt_count + 1,
            epoch=task.claims.epoch + 1,
            lease_expires_at=add_seconds(command.at, command.facts.policy.lease_seconds),
            branch=task.branch,
            base=command.facts.work.base,
        ),
    )


def assign_task(task: Task, ask: c.AssignTask, command: c.Command) -> Events:
    """A claim for an agent, by the agent's own rights, and the beginning of its run."""
    agent = command.facts.team.target
    if agent is None:
        raise Refused("bad_value", "Name the agent that gets the task.")
    if task.runs:
        run = task.runs[0]
        raise Refused("already_running", f"{run.agent} is still working on task {task.id} (run {run.id}).")
    own = replace(command, actor=agent, ask=c.ClaimTask(agent=agent.name, task_id=task.id))
    (claimed,) = claim_task(task, c.ClaimTask(agent=agent.name, task_id=task.id), own)
    return (claimed, runs.begin_assigned_run(task, claimed, command))


def renew_lease(task: Task, ask: c.Heartbeat, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    lease = command.facts.policy.lease_seconds
    if claim.lease_expires_at > add_seconds(command.at, lease / 2):
        return ()
    return (
        LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=add_seconds(command.at, lease),
        ),
    )


def release_task(task: Task, ask: c.ReleaseTask, command: c.Command) -> Events:
    """Returns the task untouched."""
    return _end_claim(TaskReleased, task, ask, command)


def continue_task(task: Task, ask: c.ContinueTask, command: c.Command) -> Events:
    """Pauses the task so that another session can continue it."""
    return _end_claim(TaskContinued, task, ask, command)


def _end_claim(
    kind: type[TaskReleased | TaskContinued], task: Task, ask: c.ClaimAsk, command: c.Command
) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("reason", ask.reason)
    r.require_unused_exit(task, claim.agent, kind)
    ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
    return (ended, *_question_after_return(task, command))


def fail_task(task: Task, ask: c.FailTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("reason", ask.reason)
    failed = TaskFailed(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
    return (failed, *h.lock_out_after_giving_up(task, claim.agent, command))


def wait_task(task: Task, ask: c.WaitTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("thing waited for (--for)", ask.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, TaskWaiting)
    if command.facts.links.closed_tasks:
        ended = ", ".join(command.facts.links.closed_tasks)
        raise Refused(
            "nothing_to_wait_for", f"The task cannot wait for what has ended or does not exist: {ended}."
        )
    return (
        TaskWaiting(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=ask.reason),
    )


def submit_task(task: Task, ask: c.SubmitTask, command: c.Command) -> Events:
    claim = h.require_done_claim(task, ask, command)
    facts = command.facts
    return (
        *require_release(task, claim, command),
        TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.work.commit,
            tree=facts.work.tree,
            branch=h.recorded_branch(task, ask, facts),
            is_branch_given=ask.is_branch_given,
            pr=ask.pr,
        ),
    )


def expire_lease(task: Task, ask: c.ExpireLease, command: c.Command) -> Events:
    lapsed = tuple(
        HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
        if offer.lapses_at <= command.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > command.at:
        return lapsed
    expired = LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = end_lost_runs(task, claim, command)
    return (*lapsed, *runs, expired, *(question or _question_after_return(task, command)))


def _question_after_return(task: Task, command: c.Command) -> Events:
    """The question once more, when the user who took a task on does not finish it: maybe nobody else may have it."""
    if task.claim is None or task.claim.agent != task.people.fixer:
        return ()
    return (ask_user(task, "asked", f"{task.people.fixer} returned {task.label} unfinished", command),)
