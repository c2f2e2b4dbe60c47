"""What follows from an event, and from a task's history: its start if it was archived, without retracted answers.

Pure and total: what cannot apply becomes a conflict, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from remand.domain.access.keys import Trust
from remand.domain.events import reviews as review_events
from remand.domain.events import tasks as task_events
from remand.domain.events import work as work_events
from remand.domain.events.event import ClaimEvent, Event, OverridingEvent
from remand.domain.events.log import ARCHIVED_ID, TaskArchived
from remand.domain.events.reviews import AnswerRetracted, EscalationAnswered, EscalationNotified
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, RejectionAnswered
from remand.domain.events.work import FindingAccepted, FindingRefused, GateOverridden, GateRecovered
from remand.domain.folds import reviews, tasks, work
from remand.domain.folds.reviews import apply_objections_dismissed
from remand.domain.folds.tasks import require_counted_answer
from remand.domain.folds.work import apply_run_ended, apply_run_started, apply_task_returned
from remand.domain.record import NamedTuple
from remand.domain.task import Task, record_conflict

E = TypeVar("E", bound=ClaimEvent)


class ArchivedHistory(NamedTuple):
    """The history of an archived task of which lines are elsewhere."""

    base: TaskArchived | None
    """The archived state that replaces the lines; None if there is none that can be trusted."""
    later: tuple[Event, ...]
    """The events after that, in their order."""
    known: frozenset[str]
    """The first digits of the ids of all events that were archived."""
    is_waiting: bool
    """True when an event is here, or in another archive, that belongs among the archived ones, or nothing can be believed:
    all lines are needed."""


def archived_history(events: Sequence[Event]) -> ArchivedHistory | None:
    """The history of the task with these events; None if it is not archived, or every line is here."""
    archives = [event for event in events if type(event) is TaskArchived]
    if not archives:
        return None
    lines = [event for event in events if type(event) is not TaskArchived]
    known = frozenset().union(*(one.event_ids for one in archives))
    if lines and known <= {_short_id(event) for event in lines}:
        return None
    believed = [one for one in archives if archived_state(one) is not None]
    if not believed:
        return ArchivedHistory(None, tuple(lines), known, True)
    base = max(believed, key=lambda one: (len(one.event_ids), one.last, one.meta.id))
    later = tuple(event for event in lines if _place(event) > base.last)
    left = known - base.event_ids - {_short_id(event) for event in later}
    is_late = any(_place(event) <= base.last and _short_id(event) not in known for event in lines)
    return ArchivedHistory(base, later, known, is_late or bool(left))


def archived_state(event: TaskArchived) -> Task | None:
    """The archived state of the task; None if it cannot be read, has not ended, or does not name its events."""
    _, session, number, _ = event.last
    if not event.ids or not any(name == session and end >= number for name, _, end in event.signed):
        return None
    try:
        task: Task = _decoder()(event.state)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return task if task.id == event.task_id and task.is_terminal else None


def is_backed(event: TaskArchived, trust: Trust) -> bool:
    """True when each key that the archived events rest on is trusted up to the last of them."""
    for session, key_id, number in event.signed:
        key = trust.find_key(key_id)
        if key is None:
            return False
        if key.until is not None:
            end = key.end_of_trust(session)
            if end is None or end.number < number:
                return False
    return True


def short_id(event_id: str) -> str:
    """The part of an event's id that an archived task keeps."""
    return event_id[:ARCHIVED_ID]


def _short_id(event: Event) -> str:
    return short_id(event.meta.id)


def _place(event: Event) -> tuple[str, str, int, str]:
    meta = event.meta
    return (event.ts, meta.session, meta.seq, meta.id)


@cache
def _decoder() -> Any:
    return msgspec.json.Decoder(Task).decode


ANSWERS = (EscalationAnswered, RejectionAnswered, FindingAccepted, FindingRefused)
_OTHER_COMMANDS = (HandoffRejected, HandoffRejectionInvalid, GateOverridden, GateRecovered)
"""Events that accompany an answer and are not decisions of their own: the rules answered a rejection, a gate was overridden or runs again."""
_WITHOUT_EFFECT = (EscalationNotified, AnswerRetracted)
"""Events that may follow an answer before anybody has acted on it."""


def last_answer(events: Sequence[Event]) -> list[Event]:
    """All events of the command that gave a task's last answer, if nothing has followed; otherwise none."""
    effective = [event for event in events if not isinstance(event, _WITHOUT_EFFECT)]
    if not effective or effective[-1].is_legacy:
        return []
    end = command_end(effective[-1])
    found = [event for event in effective if command_end(event) == end]
    is_answer = any(isinstance(event, ANSWERS) for event in found)
    return found if is_answer and not any(isinstance(event, _OTHER_COMMANDS) for event in found) else []


def command_end(event: Event) -> tuple[str, int]:
    """The session and number of the last event of the command that an event follows from."""
    return event.meta.session, event.meta.seq + event.meta.more


def effective_events(events: Sequence[Event]) -> Sequence[Event]:
    """A task's events in their order, without the answers that were taken back.

    A retraction counts when nobody had acted on the answer before it, in the order that all ledgers agree on. One that
    does not keeps the id of its answer, and `evolve` records a conflict.
    """
    if not any(isinstance(event, AnswerRetracted) and event.answer for event in events):
        return events
    effective: list[Event] = []
    for event in events:
        found = last_answer(effective) if isinstance(event, AnswerRetracted) and event.answer else []
        if isinstance(event, AnswerRetracted) and event.answer in [one.meta.origin for one in found]:
            gone = {one.meta.id for one in found}
            effective = [one for one in effective if one.meta.id not in gone]
            effective.append(replace(event, answer=""))
        else:
            effective.append(event)
    return effective


def evolve(task: Task | None, event: Event) -> Task | None:
    """The task after the event. Events before a task's creation have no effect."""
    kind = type(event)
    if task is None:
        if isinstance(event, task_events.TaskAdded) and not tasks.is_backdated(event):
            return tasks.create_task(event)
        return archived_state(event) if isinstance(event, TaskArchived) else None
    handler = _HANDLERS.get(kind)
    if handler is None or (event.meta.seq <= 0 and kind not in _LEGACY):
        return task
    after = handler(task, event)
    return reviews.record_notice(after, event) if isinstance(event, OverridingEvent) else after


def replay(events: Iterable[Event]) -> Task | None:
    """Folds one task's events in order. An archived task with absent lines starts from its archived state."""
    task: Task | None = None
    ordered = list(events)
    history = archived_history(ordered) if any(type(event) is TaskArchived for event in ordered) else None
    if history is not None:
        task, ordered = archived_state(history.base) if history.base else None, list(history.later)
    for event in effective_events(ordered):
        task = evolve(task, event)
    return task


def _apply_answer_retracted(task: Task, event: review_events.AnswerRetracted) -> Task:
    """No effect: `replay` omits retracted answers. A retraction that still names its answer came too late."""
    late = "somebody had acted on the answer by then, or it was never given"
    return record_conflict(task, event, late) if event.answer else task


def _require_current_claim(apply: Callable[[Task, E], Task]) -> Callable[[Task, E], Task]:
    """Applies an event of a claim only while that claim is active."""

    def apply_current(task: Task, event: E) -> Task:
        claim = task.claim
        if claim is None or (claim.handoff_id, claim.agent) != (event.handoff_id, event.agent):
            return record_conflict(task, event, f"the claim {event.handoff_id} did not hold at that time")
        return apply(task, event)

    return apply_current


_HANDLERS: dict[type[Event], Callable[[Task, Any], Task]] = {
    task_events.TaskAdded: tasks.apply_task_added_again,
    task_events.TaskEdited: tasks.apply_task_edited,
    task_events.TaskDeleted: tasks.apply_task_deleted,
    task_events.EdgeCreated: tasks.apply_edge_created,
    task_events.EdgeDeleted: tasks.apply_edge_deleted,
    task_events.TaskClaimed: tasks.apply_claim,
    task_events.HandoffInitiated: require_counted_answer(tasks.apply_handoff_initiated),
    task_events.HandoffAccepted: tasks.apply_claim,
    task_events.HandoffCompleted: _require_current_claim(tasks.apply_submission),
    task_events.HandoffRejected: tasks.apply_rejection_filed,
    task_events.HandoffRejectionInvalid: tasks.apply_rejection_filed,
    task_events.RejectionAppealed: tasks.apply_rejection_appealed,
    task_events.RejectionAnswered: tasks.apply_rejection_answered,
    task_events.HandoffResumed: tasks.apply_handoff_resumed,
    task_events.HandoffLapsed: tasks.apply_handoff_lapsed,
    task_events.LeaseRenewed: _require_current_claim(tasks.apply_lease_renewed),
    task_events.LeaseExpired: tasks.apply_lease_expired,
    task_events.TaskReleased: _require_current_claim(tasks.apply_task_released),
    task_events.TaskContinued: _require_current_claim(tasks.apply_task_continued),
    task_events.TaskWaiting: _require_current_claim(tasks.apply_task_waiting),
    task_events.TaskFailed: _require_current_claim(tasks.apply_task_failed),
    task_events.TaskSubmitted: _require_current_claim(tasks.apply_submission),
    task_events.TaskCancelled: require_counted_answer(tasks.apply_task_cancelled),
    task_events.TaskBlocked: require_counted_answer(tasks.apply_task_blocked),
    task_events.TaskInfeasible: require_counted_answer(tasks.apply_task_infeasible),
    task_events.TaskReopened: require_counted_answer(tasks.apply_task_reopened),
    task_events.TaskDeferred: require_counted_answer(tasks.apply_task_deferred),
    task_events.TaskWoken: tasks.apply_task_woken,
    task_events.TaskSettled: tasks.apply_task_settled,
    task_events.TaskDecomposed: require_counted_answer(tasks.apply_task_decomposed),
    review_events.LockoutSet: reviews.apply_lockout_set,
    review_events.LockoutCleared: reviews.apply_lockout_cleared,
    review_events.ReviewRequested: reviews.apply_review_requested,
    review_events.ReviewApproved: reviews.apply_review_approved,
    review_events.ObjectionsDismissed: apply_objections_dismissed,
    review_events.ReviewRejected: reviews.apply_review_rejected,
    review_events.ReviewRetracted: reviews.apply_review_retracted,
    review_events.ReviewNoted: reviews.apply_review_noted,
    review_events.ReviewCommented: reviews.apply_review_commented,
    review_events.ReviewBypassed: reviews.apply_review_noted,
    review_events.FeedbackFetched: _require_current_claim(reviews.apply_feedback_fetched),
    review_events.TaskReassigned: reviews.apply_task_reassigned,
    review_events.EscalationOpened: reviews.apply_escalation_opened,
    review_events.EscalationRepeated: reviews.apply_escalation_repeated,
    review_events.EscalationNotified: reviews.apply_escalation_notified,
    review_events.EscalationAcknowledged: reviews.apply_escalation_acknowledged,
    review_events.EscalationAnswered: reviews.apply_escalation_answered,
    review_events.AnswerRetracted: _apply_answer_retracted,
    work_events.GatePassed: _require_current_claim(work.apply_gate_passed),
    work_events.GateRejected: _require_current_claim(work.apply_gate_rejected),
    work_events.GateHeld: _require_current_claim(work.apply_gate_held),
    work_events.GateErrored: _require_current_claim(work.apply_gate_errored),
    work_events.IdleStopCounted: _require_current_claim(work.apply_idle_stop),
    work_events.GateAlerted: reviews.apply_gate_alerted,
    work_events.FindingAccepted: work.apply_finding_accepted,
    work_events.FindingRefused: work.apply_finding_refused,
    work_events.GateOverridden: work.apply_gate_overridden,
    work_events.GateRecovered: work.apply_gate_recovered,
    work_events.RunStarted: apply_run_started,
    work_events.RunEnded: apply_run_ended,
    work_events.TaskReturned: _require_current_claim(apply_task_returned),
    work_events.IssueImported: work.apply_issue_imported,
    work_events.ActIntended: work.apply_act_intended,
    work_events.ActDone: work.apply_act_done,
    work_events.ActFailed: work.apply_act_failed,
}

_LEGACY = frozenset(
    {
        task_events.TaskAdded,
        task_events.TaskEdited,
        task_events.TaskDeleted,
        task_events.EdgeCreated,
        task_events.EdgeDeleted,
    }
)
"""The effective events of GoT tools; their handoffs are history and not claims."""
