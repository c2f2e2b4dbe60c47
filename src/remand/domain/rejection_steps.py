"""What follows from the events of task rejections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.filed import Filed, Slip
from remand.domain.reasons import DecisionType
from remand.domain.steps import advance, bounded, conflict
from remand.domain.task import Claim, Task

MAX_INVALID = 100
MAX_REASON = 64
MAX_CODES = 32
F = TypeVar("F", bound=e.AnswerEvent)
OVERRIDE = DecisionType.OVERRIDE.name


def filed(task: Task, event: e.HandoffRejected | e.HandoffRejectionInvalid) -> Task:
    """Notes a rejection by the agent that holds the handoff, accepted or still offered."""
    if not task.is_held_under(event.handoff_id, event.agent):
        return conflict(task, event, f"{event.agent} did not hold the handoff {event.handoff_id} any more")
    is_valid = isinstance(event, e.HandoffRejected)
    filed = Filed(
        rejection_id=event.rejection_id,
        handoff_id=event.handoff_id,
        agent=event.agent,
        reason=str(event.rejection.get("reason_type", ""))[:MAX_REASON],
        is_valid=is_valid,
        was_claimed=task.claim is not None,
        runner=task.claim.runner if task.claim else "",
        base=task.claim.base if task.claim else "",
    )
    if isinstance(event, e.HandoffRejected):
        return replace(task, filed=filed)
    if event.is_formal:
        codes = tuple(issue.code[:MAX_REASON] for issue in event.issues[:MAX_CODES])
        slips = (*task.slips, Slip(agent=event.agent, codes=codes))[-MAX_INVALID:]
        return replace(task, filed=filed, slips=slips)
    return replace(task, filed=filed, invalid_by=(*task.invalid_by, event.agent)[-MAX_INVALID:])


def answered(task: Task, event: e.RejectionAnswered) -> Task:
    """Notes the answer. What follows from it for the task has events of its own."""
    filed = task.filed
    if filed is None or filed.rejection_id != event.rejection_id:
        return conflict(task, event, f"there was no rejection {event.rejection_id} to answer")
    if filed.decision and filed.decision != OVERRIDE:
        return conflict(task, event, f"the rejection was answered already, by {filed.decision}")
    decision = event.decision
    given = replace(
        filed,
        decision=decision.decision_type,
        message=decision.override_message,
        answer=(event.meta.session, event.meta.seq + event.meta.more),
    )
    if decision.decision_type == OVERRIDE:
        return replace(task, filed=given)
    return replace(task, filed=given, accepted_by=(*task.accepted_by, filed.agent)[-MAX_INVALID:])


def of_answer(apply: Callable[[Task, F], Task]) -> Callable[[Task, F], Task]:
    """Lets what follows from an answer apply only when that very answer counted."""

    def guarded(task: Task, event: F) -> Task:
        filed = task.filed
        if event.rejection_id and (filed is None or filed.rejection_id != event.rejection_id):
            return conflict(task, event, f"there was no rejection {event.rejection_id} to answer")
        if event.rejection_id and filed is not None:
            session, last = filed.answer
            if event.meta.session != session or event.meta.seq > last:
                return conflict(task, event, "another answer to the rejection came first")
        return apply(task, event)

    return guarded


def resumed(task: Task, event: e.HandoffResumed) -> Task:
    """Gives the task back to the agent whose rejection was overridden."""
    filed = task.filed
    if filed is None or (filed.handoff_id, filed.agent, filed.decision) != (
        event.handoff_id,
        event.agent,
        OVERRIDE,
    ):
        return conflict(task, event, f"no rejection by {event.agent} was overridden at that time")
    if task.is_locked_out(event.agent):
        return conflict(task, event, f"{event.agent} was locked out")
    claim = Claim(
        handoff_id=event.handoff_id,
        agent=event.agent,
        epoch=task.epoch + 1,
        claimed_at=event.ts,
        lease_expires_at=bounded(event.lease_expires_at, event.ts),
        base=filed.base,
        runner=filed.runner,
    )
    return advance(task, event, claim=claim, epoch=task.epoch + 1)


def blocked(task: Task, event: e.TaskBlocked) -> Task:
    """Stops a task over a rejection: one that waits for its answer, or one whose answer says so.

    Whoever holds nothing has nothing to reject: a line in a file does not stop a task that others work on.
    """
    filed = task.filed
    is_waiting = filed is not None and filed.is_valid and not filed.decision
    if not event.rejection_id and not (
        is_waiting and filed is not None and task.is_held_under(filed.handoff_id, filed.agent)
    ):
        return conflict(task, event, "no rejection by who held the task had led to it")
    return advance(task, event, claim=None, offers=())


def infeasible(task: Task, event: e.TaskInfeasible) -> Task:
    return advance(task, event, superseded_by=event.reformulated_as)


def cancelled(task: Task, event: e.TaskCancelled) -> Task:
    return advance(task, event, superseded_by=event.superseded_by)


def failed(task: Task, event: e.TaskFailed) -> Task:
    """Giving up counts as a rejection that was not earned."""
    invalid_by = (*task.invalid_by, event.agent)[-MAX_INVALID:]
    return advance(task, event, claim=None, waiting_for="", invalid_by=invalid_by)
