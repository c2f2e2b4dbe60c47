"""What follows from an event. Pure and total: what cannot apply becomes a conflict, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from remand.domain.events import reviews as review_events
from remand.domain.events import tasks as task_events
from remand.domain.events import work as work_events
from remand.domain.events.event import ClaimEvent, Event, OverridingEvent
from remand.domain.events.log import TaskArchived
from remand.domain.folds import reviews, tasks, work
from remand.domain.folds.history import archived_history, archived_state, effective_events
from remand.domain.folds.reviews import apply_objections_dismissed
from remand.domain.folds.tasks import require_counted_answer
from remand.domain.folds.work import apply_run_ended, apply_run_started, apply_task_returned
from remand.domain.task import Task, record_conflict

E = TypeVar("E", bound=ClaimEvent)


def evolve(task: Task | None, event: Event) -> Task | None:
    """The task after the event. Events before a task's creation have nothing to apply to."""
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
    """Folds one task's events, in their order. An archived task of which lines are elsewhere begins with its state."""
    task: Task | None = None
    given = list(events)
    history = archived_history(given) if any(type(event) is TaskArchived for event in given) else None
    if history is not None:
        task, given = archived_state(history.base) if history.base else None, list(history.later)
    for event in effective_events(given):
        task = evolve(task, event)
    return task


def _apply_answer_retracted(task: Task, event: review_events.AnswerRetracted) -> Task:
    """Nothing follows: `replay` leaves out what was taken back. One that names its answer still came too late."""
    late = "somebody had acted on the answer by then, or it was never given"
    return record_conflict(task, event, late) if event.answer else task


def _require_current_claim(apply: Callable[[Task, E], Task]) -> Callable[[Task, E], Task]:
    """Lets an event of a claim apply only while that very claim holds."""

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
"""What counts of the events that GoT tools wrote; their handoffs are history and no claims."""
