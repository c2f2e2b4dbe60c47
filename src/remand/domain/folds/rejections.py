"""What follows from the events of task rejections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from remand.domain.events.event import AnswerEvent
from remand.domain.events.tasks import (
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    RejectionAnswered,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskInfeasible,
)
from remand.domain.reasons import DecisionType
from remand.domain.task import (
    Claim,
    LastRejection,
    RejectionSlip,
    Task,
    advance_task,
    bound_lease,
    record_conflict,
    update_task,
)

MAX_INVALID = 100
MAX_REASON = 64
MAX_CODES = 32
F = TypeVar("F", bound=AnswerEvent)
OVERRIDE = DecisionType.OVERRIDE.name


def apply_rejection_filed(task: Task, event: HandoffRejected | HandoffRejectionInvalid) -> Task:
    """Notes a rejection by the agent that holds the handoff, accepted or still offered."""
    if not task.is_held_under(event.handoff_id, event.agent):
        return record_conflict(
            task, event, f"{event.agent} did not hold the handoff {event.handoff_id} any more"
        )
    is_valid = isinstance(event, HandoffRejected)
    filed = LastRejection(
        rejection_id=event.rejection_id,
        handoff_id=event.handoff_id,
        agent=event.agent,
        reason=str(event.rejection.get("reason_type", ""))[:MAX_REASON],
        is_valid=is_valid,
        was_claimed=task.claim is not None,
        runner=task.claim.runner if task.claim else "",
        base=task.claim.base if task.claim else "",
    )
    if isinstance(event, HandoffRejected):
        return update_task(task, last_rejection=filed)
    if event.is_formal:
        codes = tuple(issue.code[:MAX_REASON] for issue in event.issues[:MAX_CODES])
        slips = (*task.rejections.slips, RejectionSlip(agent=event.agent, codes=codes))[-MAX_INVALID:]
        return update_task(task, last_rejection=filed, slips=slips)
    return update_task(
        task, last_rejection=filed, invalid_by=(*task.rejections.invalid_by, event.agent)[-MAX_INVALID:]
    )


def apply_rejection_answered(task: Task, event: RejectionAnswered) -> Task:
    """Notes the answer. What follows from it for the task has events of its own."""
    filed = task.rejections.last_rejection
    if filed is None or filed.rejection_id != event.rejection_id:
        return record_conflict(task, event, f"there was no rejection {event.rejection_id} to answer")
    if filed.decision and filed.decision != OVERRIDE:
        return record_conflict(task, event, f"the rejection was answered already, by {filed.decision}")
    decision = event.decision
    given = replace(
        filed,
        decision=decision.decision_type,
        message=decision.override_message,
        answer=(event.meta.session, event.meta.seq + event.meta.more),
    )
    if decision.decision_type == OVERRIDE:
        return update_task(task, last_rejection=given)
    return update_task(
        task, last_rejection=given, accepted_by=(*task.rejections.accepted_by, filed.agent)[-MAX_INVALID:]
    )


def require_counted_answer(apply: Callable[[Task, F], Task]) -> Callable[[Task, F], Task]:
    """Lets what follows from an answer apply only when that very answer counted."""

    def apply_counted(task: Task, event: F) -> Task:
        filed = task.rejections.last_rejection
        if event.rejection_id and (filed is None or filed.rejection_id != event.rejection_id):
            return record_conflict(task, event, f"there was no rejection {event.rejection_id} to answer")
        if event.rejection_id and filed is not None:
            session, last = filed.answer
            if event.meta.session != session or event.meta.seq > last:
                return record_conflict(task, event, "another answer to the rejection came first")
        return apply(task, event)

    return apply_counted


def apply_handoff_resumed(task: Task, event: HandoffResumed) -> Task:
    """Gives the task back to the agent whose rejection was overridden."""
    filed = task.rejections.last_rejection
    if filed is None or (filed.handoff_id, filed.agent, filed.decision) != (
        event.handoff_id,
        event.agent,
        OVERRIDE,
    ):
        return record_conflict(task, event, f"no rejection by {event.agent} was overridden at that time")
    if task.is_locked_out(event.agent):
        return record_conflict(task, event, f"{event.agent} was locked out")
    claim = Claim(
        handoff_id=event.handoff_id,
        agent=event.agent,
        epoch=task.claims.epoch + 1,
        claimed_at=event.ts,
        lease_expires_at=bound_lease(event.lease_expires_at, event.ts),
        base=filed.base,
        runner=filed.runner,
    )
    return advance_task(task, event, claim=claim, epoch=task.claims.epoch + 1)


def apply_task_blocked(task: Task, event: TaskBlocked) -> Task:
    """Stops a task over a rejection: one that waits for its answer, or one whose answer says so.

    Whoever holds nothing has nothing to reject: a line in a file does not stop a task that others work on.
    """
    filed = task.rejections.last_rejection
    is_waiting = filed is not None and filed.is_valid and not filed.decision
    if not event.rejection_id and not (
        is_waiting and filed is not None and task.is_held_under(filed.handoff_id, filed.agent)
    ):
        return record_conflict(task, event, "no rejection by who held the task had led to it")
    return advance_task(task, event, claim=None, offers=())


def apply_task_infeasible(task: Task, event: TaskInfeasible) -> Task:
    return advance_task(task, event, superseded_by=event.reformulated_as)


def apply_task_cancelled(task: Task, event: TaskCancelled) -> Task:
    return advance_task(task, event, superseded_by=event.superseded_by)


def apply_task_failed(task: Task, event: TaskFailed) -> Task:
    """Giving up counts as a rejection that was not earned."""
    invalid_by = (*task.rejections.invalid_by, event.agent)[-MAX_INVALID:]
    return advance_task(task, event, claim=None, waiting_for="", invalid_by=invalid_by)
