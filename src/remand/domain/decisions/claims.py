"""What may be decided about claims: to take a task, keep it, return it, submit the work; and what a stop means."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.decisions import handoffs as h
from remand.domain.decisions import runs
from remand.domain.decisions.gates import require_passing_verdict
from remand.domain.decisions.notices import ask_user
from remand.domain.decisions.runs import end_lost_runs
from remand.domain.events import tasks as task_events
from remand.domain.events.event import Events
from remand.domain.events.work import IdleStopCounted
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task
from remand.domain.text.words import format_count


def claim_task(
    task: Task, command: c.ClaimTask, context: c.CommandContext
) -> tuple[task_events.TaskClaimed | task_events.HandoffAccepted]:
    r.require_claimable(task, context.actor, context)
    offer = next(
        (o for o in task.claims.offers if o.target == command.agent and o.lapses_at > context.at), None
    )
    if offer is not None:
        return (h.accept_offer(task, offer, context),)
    return (
        task_events.TaskClaimed(
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
        task_events.LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=add_seconds(context.at, lease),
        ),
    )


def release_task(task: Task, command: c.ReleaseTask, context: c.CommandContext) -> Events:
    """Returns the task untouched."""
    return _end_claim(task_events.TaskReleased, task, command, context)


def continue_task(task: Task, command: c.ContinueTask, context: c.CommandContext) -> Events:
    """Pauses the task so that another session can continue it."""
    return _end_claim(task_events.TaskContinued, task, command, context)


def _end_claim(
    kind: type[task_events.TaskReleased | task_events.TaskContinued],
    task: Task,
    command: c.ClaimCommand,
    context: c.CommandContext,
) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    r.require_unused_exit(task, claim.agent, kind)
    ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason)
    return (ended, *_question_after_return(task, context))


def fail_task(task: Task, command: c.FailTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    failed = task_events.TaskFailed(
        task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason
    )
    return (failed, *h.lock_out_after_giving_up(task, claim.agent, context))


def wait_task(task: Task, command: c.WaitTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("thing waited for (--for)", command.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, task_events.TaskWaiting)
    if context.facts.links.closed_tasks:
        ended = ", ".join(context.facts.links.closed_tasks)
        raise Refused(
            "nothing_to_wait_for", f"The task cannot wait for what has ended or does not exist: {ended}."
        )
    return (
        task_events.TaskWaiting(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=command.reason
        ),
    )


def submit_task(task: Task, command: c.SubmitTask, context: c.CommandContext) -> Events:
    claim = h.require_done_claim(task, command, context)
    facts = context.facts
    return (
        *require_passing_verdict(task, claim, context),
        task_events.TaskSubmitted(
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
        task_events.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
        if offer.lapses_at <= context.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > context.at:
        return lapsed
    expired = task_events.LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = end_lost_runs(task, claim, context)
    return (*lapsed, *runs, expired, *(question or _question_after_return(task, context)))


def _question_after_return(task: Task, context: c.CommandContext) -> Events:
    """The question once more, when the user who took a task on does not finish it: maybe nobody else may have it."""
    if task.claim is None or task.claim.agent != task.people.fixer:
        return ()
    return (ask_user(task, "asked", f"{task.people.fixer} returned {task.label} unfinished", context),)


# Stops.


class StopState(Record, kw_only=True):
    """What is known of a stop when it is answered."""

    agent: str = ""
    """Who stopped; empty when only the task is known."""
    commit: str = ""
    """The head of the branch."""
    uncommitted: tuple[str, ...] = ()
    has_fault: bool = False
    """The work cannot be looked at."""
    is_unreadable: bool = False
    """The host's call could not be read."""
    has_background_work: bool = False
    has_waited: bool = False
    """The session was already allowed to stop once because it waits for something."""


class StopMeaning(StrEnum):
    """What a stop is taken for."""

    END = "end"
    """The session may end: the task is not its own any more, or it has work of its own in the background."""
    WAIT = "wait"
    """The agent waits for what it has named; it may end once."""
    UNREADABLE = "unreadable"
    FAULT = "fault"
    UNCOMMITTED = "uncommitted"
    NOTHING_COMMITTED = "nothing_committed"
    DONE_CLAIM = "done_claim"
    """There are commits: they are measured."""


def stop_meaning(task: Task | None, stop: StopState) -> StopMeaning:
    """What the stop of an agent means for the task it holds."""
    claim = task.claim if task is not None else None
    if task is None or claim is None or task.status != Status.CLAIMED or stop.agent not in ("", claim.agent):
        return StopMeaning.END
    if stop.is_unreadable:
        return StopMeaning.UNREADABLE
    if stop.has_background_work:
        return StopMeaning.END
    if task.claims.waiting_for and not stop.has_waited:
        return StopMeaning.WAIT
    if stop.has_fault:
        return StopMeaning.FAULT
    if stop.uncommitted:
        return StopMeaning.UNCOMMITTED
    if stop.commit in ("", claim.base):
        return StopMeaning.NOTHING_COMMITTED
    return StopMeaning.DONE_CLAIM


def count_idle_stop(task: Task, command: c.CountIdleStop, context: c.CommandContext) -> Events:
    """Counts a stop with nothing to measure, in whatever host it happened; the last one of a row asks the user.

    A stop that is reported again is no other stop, and one of an earlier claim says nothing of this one.
    """
    claim = task.claim
    if (
        claim is None
        or claim.handoff_id != command.handoff_id
        or (command.key and command.key == claim.idle_key)
    ):
        return ()
    number = claim.idle_stops + 1
    counted = IdleStopCounted(
        task_id=task.id,
        handoff_id=claim.handoff_id,
        agent=claim.agent,
        number=number,
        key=command.key,
        commit=command.commit,
    )
    if number < context.facts.policy.escalate_after_gates:
        return (counted,)
    why = f"{claim.agent} stopped {format_count(number, 'time')} with nothing to measure"
    detail = f": {command.reason[:300]}" if command.reason else ""
    return (counted, ask_user(task, "gates", f"{why}{detail}", context))
