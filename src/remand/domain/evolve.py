"""What follows from an event. Pure and total: what cannot apply becomes a conflict, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain import (
    forge_steps,
    gate_steps,
    ids,
    notice_steps,
    objections,
    rejection_steps,
    review_steps,
    run_steps,
)
from remand.domain.rejection_steps import of_answer
from remand.domain.steps import advance, bounded, conflict
from remand.domain.task import (
    PRIORITIES,
    TERMINAL,
    Claim,
    Offer,
    Priority,
    Status,
    Submission,
    Task,
)

LEGACY_STATUS = {
    "pending": Status.INCOMING,
    "in_progress": Status.INCOMING,
    "completed": Status.DONE,
    "blocked": Status.BLOCKED,
    "deferred": Status.DEFERRED,
}

E = TypeVar("E", bound=e.ClaimEvent)


def evolve(task: Task | None, event: e.Event) -> Task | None:
    """The task after the event. Events before a task's creation have nothing to apply to."""
    kind = type(event)
    if task is None:
        is_first = isinstance(event, e.TaskAdded) and not _is_backdated(event)
        return _added(event) if is_first and isinstance(event, e.TaskAdded) else None
    handler = _HANDLERS.get(kind)
    if handler is None or (event.meta.seq <= 0 and kind not in _LEGACY):
        return task
    after = handler(task, event)
    return notice_steps.noted(after, event) if isinstance(event, e.OverridingEvent) else after


def replay(events: Iterable[e.Event]) -> Task | None:
    """Folds one task's events, in their order."""
    task: Task | None = None
    for event in events:
        task = evolve(task, event)
    return task


def _added(event: e.TaskAdded) -> Task:
    data = event.data
    is_legacy = event.is_legacy
    return Task(
        id=ids.task_id(event.id) or event.id,
        title=data.title,
        created_at=event.ts,
        created_by=event.meta.actor,
        scope=data.description,
        priority=_priority(data.priority),
        category=data.category,
        skills=data.skills,
        branch=data.branch,
        aliases=data.aliases,
        parent=data.parent,
        status=LEGACY_STATUS.get(data.status, Status.INCOMING) if is_legacy else Status.INCOMING,
        is_legacy=is_legacy,
    )


def _priority(text: str) -> Priority:
    return Priority(text) if text in PRIORITIES else Priority.MEDIUM


def _is_backdated(event: e.TaskAdded) -> bool:
    """True when a task is said to have been written down before the time that its own id tells.

    An event that restates another has the right time, and the id that was made under the wrong one.
    """
    stamp = ids.stamp_of(event.id)
    return bool(stamp) and not event.is_legacy and not event.meta.restates and event.ts[:19] < stamp


def _added_again(task: Task, event: e.TaskAdded) -> Task:
    if task.is_legacy and not event.is_legacy:
        # Lines of GoT tools carry any date; they reach no task that has a lifecycle.
        return conflict(_added(event), event, "a line of a GoT tool told of this task, too")
    if event.data.title == task.title and event.data.description == task.scope:
        return task
    return conflict(task, event, "another task with this id was written down first")


def _edited(task: Task, event: e.TaskEdited) -> Task:
    if event.is_legacy and not task.is_legacy:
        return conflict(task, event, "a line of a GoT tool edits no task that has a lifecycle")
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
            ("priority", None if changes.priority is None else _priority(changes.priority)),
        )
        if value is not None
    }
    if changes.status is not None:
        if not (task.is_legacy and event.is_legacy):
            return conflict(task, event, "an edit cannot change the status of a task that has a lifecycle")
        new["status"] = LEGACY_STATUS.get(changes.status, task.status)
    return replace(task, **new)


def _deleted(task: Task, event: e.TaskDeleted) -> Task:
    if not (task.is_legacy and event.is_legacy):
        return conflict(task, event, "a task that has a lifecycle is cancelled, not deleted")
    return replace(task, status=Status.CANCELLED)


def _linked(task: Task, event: e.EdgeCreated) -> Task:
    on = ids.task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if on is None or on in task.depends_on:
        return task
    if event.is_legacy and not task.is_legacy:
        return conflict(task, event, "a line of a GoT tool links no task that has a lifecycle")
    if on == task.id:
        return conflict(task, event, "a task cannot wait for itself")
    return replace(task, depends_on=(*task.depends_on, on))


def _unlinked(task: Task, event: e.EdgeDeleted) -> Task:
    on = ids.task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if event.is_legacy and not task.is_legacy:
        return conflict(task, event, "a line of a GoT tool unlinks no task that has a lifecycle")
    if on not in task.depends_on:
        return conflict(task, event, f"there was no such dependency on {on}")
    return replace(task, depends_on=tuple(other for other in task.depends_on if other != on))


def _claimed(task: Task, event: e.TaskClaimed | e.HandoffAccepted) -> Task:
    if task.claim is not None:
        return conflict(task, event, f"{task.claim.agent} had claimed the task first")
    if task.is_locked_out(event.agent):
        return conflict(task, event, f"{event.agent} was locked out")
    reserved = task.reserved_for(event.ts)
    if reserved is not None and reserved.target != event.agent:
        return conflict(task, event, f"the task was reserved for {reserved.target}")
    claim = Claim(
        handoff_id=event.handoff_id,
        agent=event.agent,
        epoch=task.epoch + 1,
        claimed_at=event.ts,
        lease_expires_at=bounded(event.lease_expires_at, event.ts),
        base=event.base,
    )
    return advance(
        task,
        event,
        claim=claim,
        offers=(),
        epoch=task.epoch + 1,
        attempt_count=task.attempt_count + 1,
        waiting_for="",
        gating=gate_steps.claimed_anew(task.gating),
        holders=_with(task.holders, event.agent),
    )


def _offered(task: Task, event: e.HandoffInitiated) -> Task:
    if task.status in TERMINAL or task.offer(event.handoff_id) or not event.target_agent:
        return conflict(task, event, f"the task was {task.status} at that time, or it was handed to nobody")
    if task.is_locked_out(event.target_agent):
        return conflict(task, event, f"{event.target_agent} was locked out")
    offer = Offer(
        handoff_id=event.handoff_id,
        source=event.source_agent,
        target=event.target_agent,
        instructions=event.instructions,
        lapses_at=bounded(event.lapses_at, event.ts),
    )
    return replace(task, offers=(*task.offers, offer), is_legacy=False)


def _lapsed(task: Task, event: e.HandoffLapsed) -> Task:
    return replace(task, offers=tuple(o for o in task.offers if o.handoff_id != event.handoff_id))


def _fenced(apply: Callable[[Task, E], Task]) -> Callable[[Task, E], Task]:
    """Lets an event of a claim apply only while that very claim holds."""

    def guarded(task: Task, event: E) -> Task:
        claim = task.claim
        if claim is None or (claim.handoff_id, claim.agent) != (event.handoff_id, event.agent):
            return conflict(task, event, f"the claim {event.handoff_id} did not hold at that time")
        return apply(task, event)

    return guarded


def _renewed(task: Task, event: e.LeaseRenewed) -> Task:
    claim = task.claim and replace(task.claim, lease_expires_at=bounded(event.lease_expires_at, event.ts))
    return advance(task, event, claim=claim)


def _ended(task: Task, event: e.TaskReleased) -> Task:
    return advance(task, event, claim=None, waiting_for="", exits=_left(task, event))


def _expired(task: Task, event: e.LeaseExpired) -> Task:
    """Two ledgers may end the same lease; the second finds it ended."""
    if task.claim is None or task.claim.handoff_id != event.handoff_id:
        return task
    # Whoever ran its agent has not been heard of either: nobody waits for that run any more.
    left = tuple(run for run in task.runs if run.handoff_id != event.handoff_id)
    return advance(task, event, claim=None, waiting_for="", runs=left)


def _continued(task: Task, event: e.TaskContinued) -> Task:
    return advance(
        task,
        event,
        claim=None,
        waiting_for="",
        queue=Status.NEEDS_CONTINUATION,
        exits=_left(task, event),
    )


def _waiting(task: Task, event: e.TaskWaiting) -> Task:
    return advance(task, event, waiting_for=event.waiting_for, exits=_left(task, event))


def _left(task: Task, event: e.ClaimEvent) -> tuple[tuple[str, str], ...]:
    way = (event.agent, event.name)
    return task.exits if way in task.exits else (*task.exits, way)


def _submitted(task: Task, event: e.TaskSubmitted | e.HandoffCompleted) -> Task:
    unreleased = gate_steps.unreleased(task, event)
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
    return advance(
        task,
        event,
        claim=None,
        waiting_for="",
        submission=submission,
        branch=event.branch if is_moved else task.branch or event.branch,
        pr=event.pr or (0 if is_moved and task.forge.pushed else task.pr),
        forge=forge_steps.submitted(task, event),
        authors=_with(task.authors, event.agent),
        requested=(),
    )


def _deferred(task: Task, event: e.TaskDeferred) -> Task:
    if not set(event.waits_for) - {task.id}:
        return conflict(task, event, "it named nothing to wait for")
    return advance(task, event, claim=None, offers=(), waits_for=event.waits_for)


def _woken(task: Task, event: e.TaskWoken) -> Task:
    if task.status != Status.DEFERRED:
        return task
    return advance(task, event, waits_for=())


def _decomposed(task: Task, event: e.TaskDecomposed) -> Task:
    if not set(event.children) - {task.id}:
        return conflict(task, event, "it named no sub-tasks")
    return advance(task, event, claim=None, offers=(), children=event.children)


def _settled(task: Task, event: e.TaskSettled) -> Task:
    if task.status != Status.DECOMPOSED:
        return task
    status = Status.CANCELLED if event.status == Status.CANCELLED else Status.DONE
    return replace(advance(task, event), status=status)


def _reopened(task: Task, event: e.TaskReopened) -> Task:
    return advance(task, event, claim=None, offers=(), waits_for=(), children=())


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


_HANDLERS: dict[type[e.Event], Callable[[Task, Any], Task]] = {
    e.TaskAdded: _added_again,
    e.TaskEdited: _edited,
    e.TaskDeleted: _deleted,
    e.EdgeCreated: _linked,
    e.EdgeDeleted: _unlinked,
    e.TaskClaimed: _claimed,
    e.HandoffInitiated: of_answer(_offered),
    e.HandoffAccepted: _claimed,
    e.HandoffCompleted: _fenced(_submitted),
    e.HandoffRejected: rejection_steps.filed,
    e.HandoffRejectionInvalid: rejection_steps.filed,
    e.RejectionAnswered: rejection_steps.answered,
    e.HandoffResumed: rejection_steps.resumed,
    e.HandoffLapsed: _lapsed,
    e.LeaseRenewed: _fenced(_renewed),
    e.LeaseExpired: _expired,
    e.TaskReleased: _fenced(_ended),
    e.TaskContinued: _fenced(_continued),
    e.TaskWaiting: _fenced(_waiting),
    e.TaskFailed: _fenced(rejection_steps.failed),
    e.TaskSubmitted: _fenced(_submitted),
    e.TaskCancelled: of_answer(rejection_steps.cancelled),
    e.TaskBlocked: of_answer(rejection_steps.blocked),
    e.TaskInfeasible: of_answer(rejection_steps.infeasible),
    e.TaskReopened: of_answer(_reopened),
    e.TaskDeferred: of_answer(_deferred),
    e.TaskWoken: _woken,
    e.TaskSettled: _settled,
    e.TaskDecomposed: of_answer(_decomposed),
    e.LockoutSet: review_steps.locked,
    e.LockoutCleared: review_steps.unlocked,
    e.ReviewRequested: review_steps.requested,
    e.ReviewApproved: review_steps.approved,
    e.ObjectionsDismissed: objections.dismissed,
    e.ReviewRejected: review_steps.rejected,
    e.ReviewRetracted: review_steps.retracted,
    e.ReviewNoted: review_steps.noted,
    e.ReviewCommented: review_steps.commented,
    e.ReviewBypassed: review_steps.noted,
    e.FeedbackFetched: _fenced(review_steps.fetched),
    e.TaskReassigned: review_steps.reassigned,
    e.EscalationOpened: review_steps.escalated,
    e.EscalationRepeated: review_steps.repeated,
    e.EscalationNotified: review_steps.notified,
    e.EscalationAcknowledged: review_steps.acknowledged,
    e.EscalationAnswered: review_steps.answered,
    e.GatePassed: _fenced(gate_steps.passed),
    e.GateRejected: _fenced(gate_steps.rejected),
    e.GateHeld: _fenced(gate_steps.held),
    e.GateErrored: _fenced(gate_steps.errored),
    e.GateAlerted: notice_steps.alerted,
    e.FindingAccepted: gate_steps.accepted,
    e.FindingRefused: gate_steps.refused,
    e.GateOverridden: gate_steps.overridden,
    e.GateRecovered: gate_steps.recovered,
    e.RunStarted: run_steps.started,
    e.RunEnded: run_steps.ended,
    e.TaskReturned: _fenced(run_steps.returned),
    e.IssueImported: forge_steps.imported,
    e.ActIntended: forge_steps.intended,
    e.ActDone: forge_steps.done,
    e.ActFailed: forge_steps.failed,
}

_LEGACY = frozenset({e.TaskAdded, e.TaskEdited, e.TaskDeleted, e.EdgeCreated, e.EdgeDeleted})
"""What counts of the events that GoT tools wrote; their handoffs are history and no claims."""
