"""What follows from an event. Pure and total: what cannot apply becomes a conflict, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from remand.domain import ids
from remand.domain.events.event import ClaimEvent, Event, OverridingEvent
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    FeedbackFetched,
    LockoutCleared,
    LockoutSet,
    ObjectionsDismissed,
    ReviewApproved,
    ReviewBypassed,
    ReviewCommented,
    ReviewNoted,
    ReviewRejected,
    ReviewRequested,
    ReviewRetracted,
    TaskReassigned,
)
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffLapsed,
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    LeaseExpired,
    LeaseRenewed,
    RejectionAnswered,
    TaskAdded,
    TaskBlocked,
    TaskCancelled,
    TaskClaimed,
    TaskContinued,
    TaskDecomposed,
    TaskDeferred,
    TaskDeleted,
    TaskEdited,
    TaskFailed,
    TaskInfeasible,
    TaskReleased,
    TaskReopened,
    TaskSettled,
    TaskSubmitted,
    TaskWaiting,
    TaskWoken,
)
from remand.domain.events.work import (
    ActDone,
    ActFailed,
    ActIntended,
    FindingAccepted,
    FindingRefused,
    GateAlerted,
    GateErrored,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRecovered,
    GateRejected,
    IdleStopCounted,
    IssueImported,
    RunEnded,
    RunStarted,
    TaskReturned,
)
from remand.domain.folds import rejections, reviews, work
from remand.domain.folds.rejections import require_counted_answer
from remand.domain.folds.reviews import apply_objections_dismissed
from remand.domain.folds.work import apply_run_ended, apply_run_started, apply_task_returned
from remand.domain.task import (
    PRIORITIES,
    TERMINAL,
    Claim,
    Offer,
    Priority,
    Status,
    Submission,
    Task,
    advance_task,
    bound_lease,
    make_task,
    record_conflict,
    update_task,
    with_name,
)

LEGACY_STATUS = {
    "pending": Status.INCOMING,
    "in_progress": Status.INCOMING,
    "completed": Status.DONE,
    "blocked": Status.BLOCKED,
    "deferred": Status.DEFERRED,
}

E = TypeVar("E", bound=ClaimEvent)


def evolve(task: Task | None, event: Event) -> Task | None:
    """The task after the event. Events before a task's creation have nothing to apply to."""
    kind = type(event)
    if task is None:
        is_first = isinstance(event, TaskAdded) and not _is_backdated(event)
        return _create_task(event) if is_first and isinstance(event, TaskAdded) else None
    handler = _HANDLERS.get(kind)
    if handler is None or (event.meta.seq <= 0 and kind not in _LEGACY):
        return task
    after = handler(task, event)
    return reviews.record_notice(after, event) if isinstance(event, OverridingEvent) else after


def replay(events: Iterable[Event]) -> Task | None:
    """Folds one task's events, in their order."""
    task: Task | None = None
    for event in events:
        task = evolve(task, event)
    return task


def _create_task(event: TaskAdded) -> Task:
    data = event.data
    is_legacy = event.is_legacy
    return make_task(
        id=ids.parse_task_id(event.id) or event.id,
        title=data.title,
        created_at=event.ts,
        created_by=event.meta.actor,
        scope=data.description,
        priority=_parse_priority(data.priority),
        category=data.category,
        skills=data.skills,
        branch=data.branch,
        aliases=data.aliases,
        parent=data.parent,
        status=LEGACY_STATUS.get(data.status, Status.INCOMING) if is_legacy else Status.INCOMING,
        is_legacy=is_legacy,
    )


def _parse_priority(text: str) -> Priority:
    return Priority(text) if text in PRIORITIES else Priority.MEDIUM


def _is_backdated(event: TaskAdded) -> bool:
    """True when a task is said to have been written down before the time that its own id tells.

    An event that restates another has the right time, and the id that was made under the wrong one.
    """
    stamp = ids.creation_time(event.id)
    return bool(stamp) and not event.is_legacy and not event.meta.restates and event.ts[:19] < stamp


def _apply_task_added_again(task: Task, event: TaskAdded) -> Task:
    if task.is_legacy and not event.is_legacy:
        # Lines of GoT tools carry any date; they reach no task that has a lifecycle.
        return record_conflict(_create_task(event), event, "a line of a GoT tool told of this task, too")
    if event.data.title == task.title and event.data.description == task.details.scope:
        return task
    return record_conflict(task, event, "another task with this id was added first")


def _apply_task_edited(task: Task, event: TaskEdited) -> Task:
    if event.is_legacy and not task.is_legacy:
        return record_conflict(task, event, "a line of a GoT tool edits no task that has a lifecycle")
    changes = event.changes
    new: dict[str, Any] = {
        name: value
        for name, value in (
            ("title", changes.title),
            ("scope", changes.description),
            ("category", changes.category),
            ("skills", changes.skills),
            ("branch", changes.branch),
            ("aliases", changes.aliases),
            ("pr", changes.pr),
            ("priority", None if changes.priority is None else _parse_priority(changes.priority)),
        )
        if value is not None
    }
    if changes.status is not None:
        if not (task.is_legacy and event.is_legacy):
            return record_conflict(
                task, event, "an edit cannot change the status of a task that has a lifecycle"
            )
        new["status"] = LEGACY_STATUS.get(changes.status, task.status)
    return update_task(task, **new)


def _apply_task_deleted(task: Task, event: TaskDeleted) -> Task:
    if not (task.is_legacy and event.is_legacy):
        return record_conflict(task, event, "a task that has a lifecycle is cancelled, not deleted")
    return replace(task, status=Status.CANCELLED)


def _apply_edge_created(task: Task, event: EdgeCreated) -> Task:
    on = ids.parse_task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if on is None or on in task.links.depends_on:
        return task
    if event.is_legacy and not task.is_legacy:
        return record_conflict(task, event, "a line of a GoT tool links no task that has a lifecycle")
    if on == task.id:
        return record_conflict(task, event, "a task cannot wait for itself")
    return update_task(task, depends_on=(*task.links.depends_on, on))


def _apply_edge_deleted(task: Task, event: EdgeDeleted) -> Task:
    on = ids.parse_task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if event.is_legacy and not task.is_legacy:
        return record_conflict(task, event, "a line of a GoT tool unlinks no task that has a lifecycle")
    if on not in task.links.depends_on:
        return record_conflict(task, event, f"there was no such dependency on {on}")
    return update_task(task, depends_on=tuple(other for other in task.links.depends_on if other != on))


def _apply_claim(task: Task, event: TaskClaimed | HandoffAccepted) -> Task:
    if task.claim is not None:
        return record_conflict(task, event, f"{task.claim.agent} had claimed the task first")
    if task.is_locked_out(event.agent):
        return record_conflict(task, event, f"{event.agent} was locked out")
    reserved = task.reserved_for(event.ts)
    if reserved is not None and reserved.target != event.agent:
        return record_conflict(task, event, f"the task was reserved for {reserved.target}")
    claim = Claim(
        handoff_id=event.handoff_id,
        agent=event.agent,
        epoch=task.claims.epoch + 1,
        claimed_at=event.ts,
        lease_expires_at=bound_lease(event.lease_expires_at, event.ts),
        base=event.base,
    )
    return advance_task(
        task,
        event,
        claim=claim,
        offers=(),
        epoch=task.claims.epoch + 1,
        attempt_count=task.claims.attempt_count + 1,
        waiting_for="",
        gates=work.reset_for_new_claim(task.gates),
        holders=with_name(task.people.holders, event.agent),
    )


def _apply_handoff_initiated(task: Task, event: HandoffInitiated) -> Task:
    if task.status in TERMINAL or task.find_offer(event.handoff_id) or not event.target_agent:
        return record_conflict(
            task, event, f"the task was {task.status} at that time, or it was handed to nobody"
        )
    if task.is_locked_out(event.target_agent):
        return record_conflict(task, event, f"{event.target_agent} was locked out")
    offer = Offer(
        handoff_id=event.handoff_id,
        source=event.source_agent,
        target=event.target_agent,
        instructions=event.instructions,
        lapses_at=bound_lease(event.lapses_at, event.ts),
    )
    return update_task(task, offers=(*task.claims.offers, offer), is_legacy=False)


def _apply_handoff_lapsed(task: Task, event: HandoffLapsed) -> Task:
    return update_task(task, offers=tuple(o for o in task.claims.offers if o.handoff_id != event.handoff_id))


def _require_current_claim(apply: Callable[[Task, E], Task]) -> Callable[[Task, E], Task]:
    """Lets an event of a claim apply only while that very claim holds."""

    def apply_current(task: Task, event: E) -> Task:
        claim = task.claim
        if claim is None or (claim.handoff_id, claim.agent) != (event.handoff_id, event.agent):
            return record_conflict(task, event, f"the claim {event.handoff_id} did not hold at that time")
        return apply(task, event)

    return apply_current


def _apply_lease_renewed(task: Task, event: LeaseRenewed) -> Task:
    claim = task.claim and replace(task.claim, lease_expires_at=bound_lease(event.lease_expires_at, event.ts))
    return advance_task(task, event, claim=claim)


def _apply_task_released(task: Task, event: TaskReleased) -> Task:
    return advance_task(task, event, claim=None, waiting_for="", exits=_with_exit(task, event))


def _apply_lease_expired(task: Task, event: LeaseExpired) -> Task:
    """Two ledgers may end the same lease; the second finds it ended."""
    if task.claim is None or task.claim.handoff_id != event.handoff_id:
        return task
    # Whoever ran its agent has not been heard of either: nobody waits for that run any more.
    left = tuple(run for run in task.runs if run.handoff_id != event.handoff_id)
    return advance_task(task, event, claim=None, waiting_for="", runs=left)


def _apply_task_continued(task: Task, event: TaskContinued) -> Task:
    return advance_task(
        task,
        event,
        claim=None,
        waiting_for="",
        queue=Status.NEEDS_CONTINUATION,
        exits=_with_exit(task, event),
    )


def _apply_task_waiting(task: Task, event: TaskWaiting) -> Task:
    return advance_task(task, event, waiting_for=event.waiting_for, exits=_with_exit(task, event))


def _with_exit(task: Task, event: ClaimEvent) -> tuple[tuple[str, str], ...]:
    way = (event.agent, event.name)
    return task.claims.exits if way in task.claims.exits else (*task.claims.exits, way)


def _apply_submission(task: Task, event: TaskSubmitted | HandoffCompleted) -> Task:
    unreleased = work.find_release_conflict(task, event)
    if unreleased is not None:
        return unreleased
    submission = Submission(
        commit=event.commit,
        tree=event.tree,
        agent=event.agent,
        handoff_id=event.handoff_id,
        at=event.ts,
        base=task.claim.base if task.claim else "",
        is_asserted=event.meta.is_asserted,
    )
    # A pull request that Remand opened shows the branch of before.
    is_moved = event.is_branch_given and event.branch not in ("", task.branch)
    return advance_task(
        task,
        event,
        claim=None,
        waiting_for="",
        submission=submission,
        branch=event.branch if is_moved else task.branch or event.branch,
        pr=event.pr or (0 if is_moved and task.forge.pushed else task.pr),
        forge=work.forge_state_after_submission(task, event),
        authors=with_name(task.people.authors, event.agent),
        requested=(),
    )


def _apply_task_deferred(task: Task, event: TaskDeferred) -> Task:
    if not set(event.waits_for) - {task.id}:
        return record_conflict(task, event, "it named nothing to wait for")
    return advance_task(task, event, claim=None, offers=(), waits_for=event.waits_for)


def _apply_task_woken(task: Task, event: TaskWoken) -> Task:
    if task.status != Status.DEFERRED:
        return task
    return advance_task(task, event, waits_for=())


def _apply_task_decomposed(task: Task, event: TaskDecomposed) -> Task:
    if not set(event.children) - {task.id}:
        return record_conflict(task, event, "it named no sub-tasks")
    return advance_task(task, event, claim=None, offers=(), children=event.children)


def _apply_task_settled(task: Task, event: TaskSettled) -> Task:
    if task.status != Status.DECOMPOSED:
        return task
    status = Status.CANCELLED if event.status == Status.CANCELLED else Status.DONE
    return replace(advance_task(task, event), status=status)


def _apply_task_reopened(task: Task, event: TaskReopened) -> Task:
    return advance_task(task, event, claim=None, offers=(), waits_for=(), children=())


_HANDLERS: dict[type[Event], Callable[[Task, Any], Task]] = {
    TaskAdded: _apply_task_added_again,
    TaskEdited: _apply_task_edited,
    TaskDeleted: _apply_task_deleted,
    EdgeCreated: _apply_edge_created,
    EdgeDeleted: _apply_edge_deleted,
    TaskClaimed: _apply_claim,
    HandoffInitiated: require_counted_answer(_apply_handoff_initiated),
    HandoffAccepted: _apply_claim,
    HandoffCompleted: _require_current_claim(_apply_submission),
    HandoffRejected: rejections.apply_rejection_filed,
    HandoffRejectionInvalid: rejections.apply_rejection_filed,
    RejectionAnswered: rejections.apply_rejection_answered,
    HandoffResumed: rejections.apply_handoff_resumed,
    HandoffLapsed: _apply_handoff_lapsed,
    LeaseRenewed: _require_current_claim(_apply_lease_renewed),
    LeaseExpired: _apply_lease_expired,
    TaskReleased: _require_current_claim(_apply_task_released),
    TaskContinued: _require_current_claim(_apply_task_continued),
    TaskWaiting: _require_current_claim(_apply_task_waiting),
    TaskFailed: _require_current_claim(rejections.apply_task_failed),
    TaskSubmitted: _require_current_claim(_apply_submission),
    TaskCancelled: require_counted_answer(rejections.apply_task_cancelled),
    TaskBlocked: require_counted_answer(rejections.apply_task_blocked),
    TaskInfeasible: require_counted_answer(rejections.apply_task_infeasible),
    TaskReopened: require_counted_answer(_apply_task_reopened),
    TaskDeferred: require_counted_answer(_apply_task_deferred),
    TaskWoken: _apply_task_woken,
    TaskSettled: _apply_task_settled,
    TaskDecomposed: require_counted_answer(_apply_task_decomposed),
    LockoutSet: reviews.apply_lockout_set,
    LockoutCleared: reviews.apply_lockout_cleared,
    ReviewRequested: reviews.apply_review_requested,
    ReviewApproved: reviews.apply_review_approved,
    ObjectionsDismissed: apply_objections_dismissed,
    ReviewRejected: reviews.apply_review_rejected,
    ReviewRetracted: reviews.apply_review_retracted,
    ReviewNoted: reviews.apply_review_noted,
    ReviewCommented: reviews.apply_review_commented,
    ReviewBypassed: reviews.apply_review_noted,
    FeedbackFetched: _require_current_claim(reviews.apply_feedback_fetched),
    TaskReassigned: reviews.apply_task_reassigned,
    EscalationOpened: reviews.apply_escalation_opened,
    EscalationRepeated: reviews.apply_escalation_repeated,
    EscalationNotified: reviews.apply_escalation_notified,
    EscalationAcknowledged: reviews.apply_escalation_acknowledged,
    EscalationAnswered: reviews.apply_escalation_answered,
    GatePassed: _require_current_claim(work.apply_gate_passed),
    GateRejected: _require_current_claim(work.apply_gate_rejected),
    GateHeld: _require_current_claim(work.apply_gate_held),
    GateErrored: _require_current_claim(work.apply_gate_errored),
    IdleStopCounted: _require_current_claim(work.apply_idle_stop),
    GateAlerted: reviews.apply_gate_alerted,
    FindingAccepted: work.apply_finding_accepted,
    FindingRefused: work.apply_finding_refused,
    GateOverridden: work.apply_gate_overridden,
    GateRecovered: work.apply_gate_recovered,
    RunStarted: apply_run_started,
    RunEnded: apply_run_ended,
    TaskReturned: _require_current_claim(apply_task_returned),
    IssueImported: work.apply_issue_imported,
    ActIntended: work.apply_act_intended,
    ActDone: work.apply_act_done,
    ActFailed: work.apply_act_failed,
}

_LEGACY = frozenset({TaskAdded, TaskEdited, TaskDeleted, EdgeCreated, EdgeDeleted})
"""What counts of the events that GoT tools wrote; their handoffs are history and no claims."""
