"""The effects of task, claim and handoff events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from remand.domain import ids
from remand.domain.events import tasks as task_events
from remand.domain.events.event import AnswerEvent, ClaimEvent
from remand.domain.events.tasks import (
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    RejectionAnswered,
    RejectionAppealed,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskInfeasible,
)
from remand.domain.folds import work
from remand.domain.reasons import DecisionType
from remand.domain.task import (
    PRIORITIES,
    TERMINAL,
    Claim,
    ClaimHistory,
    LastRejection,
    LockoutCause,
    Offer,
    Priority,
    RejectionSlip,
    Status,
    Submission,
    Task,
    TaskDetails,
    TaskLinks,
    advance_task,
    bound_lease,
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


def create_task(event: task_events.TaskAdded) -> Task:
    data = event.data
    is_legacy = event.is_legacy
    return Task(
        id=ids.parse_task_id(event.id) or event.id,
        title=data.title,
        details=TaskDetails(
            created_at=event.ts,
            created_by=event.meta.actor,
            scope=data.description,
            priority=_parse_priority(data.priority),
            category=data.category,
            skills=data.skills,
            aliases=data.aliases,
            must_pass=data.must_pass or (),
        ),
        branch=data.branch,
        links=TaskLinks(parent=data.parent),
        status=LEGACY_STATUS.get(data.status, Status.INCOMING) if is_legacy else Status.INCOMING,
        is_legacy=is_legacy,
    )


def _parse_priority(text: str) -> Priority:
    return Priority(text) if text in PRIORITIES else Priority.MEDIUM


def is_backdated(event: task_events.TaskAdded) -> bool:
    """True if a task was supposedly added before the time in its own id.

    An event that restates another has the corrected time and the id made under the wrong one.
    """
    stamp = ids.creation_time(event.id)
    return bool(stamp) and not event.is_legacy and not event.meta.restates and event.ts[:19] < stamp


def apply_task_added_again(task: Task, event: task_events.TaskAdded) -> Task:
    if task.is_legacy and not event.is_legacy:
        # Lines of GoT tools may have any date; they do not affect tasks with a lifecycle.
        return record_conflict(create_task(event), event, "a line of a GoT tool told of this task, too")
    if event.data.title == task.title and event.data.description == task.details.scope:
        return task
    return record_conflict(task, event, "another task with this id was added first")


def apply_task_edited(task: Task, event: task_events.TaskEdited) -> Task:
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


def apply_task_deleted(task: Task, event: task_events.TaskDeleted) -> Task:
    if not (task.is_legacy and event.is_legacy):
        return record_conflict(task, event, "a task that has a lifecycle is cancelled, not deleted")
    return replace(task, status=Status.CANCELLED)


def apply_edge_created(task: Task, event: task_events.EdgeCreated) -> Task:
    on = ids.parse_task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if on is None or on in task.links.depends_on:
        return task
    if event.is_legacy and not task.is_legacy:
        return record_conflict(task, event, "a line of a GoT tool links no task that has a lifecycle")
    if on == task.id:
        return record_conflict(task, event, "a task cannot wait for itself")
    return update_task(task, depends_on=(*task.links.depends_on, on))


def apply_edge_deleted(task: Task, event: task_events.EdgeDeleted) -> Task:
    on = ids.parse_task_id(event.tgt if event.type == "DEPENDS_ON" else event.src)
    if event.is_legacy and not task.is_legacy:
        return record_conflict(task, event, "a line of a GoT tool unlinks no task that has a lifecycle")
    if on not in task.links.depends_on:
        return record_conflict(task, event, f"there was no such dependency on {on}")
    return update_task(task, depends_on=tuple(other for other in task.links.depends_on if other != on))


def apply_task_deferred(task: Task, event: task_events.TaskDeferred) -> Task:
    if not set(event.waits_for) - {task.id}:
        return record_conflict(task, event, "it named nothing to wait for")
    return advance_task(task, event, claim=None, offers=(), waits_for=event.waits_for)


def apply_task_woken(task: Task, event: task_events.TaskWoken) -> Task:
    if task.status != Status.DEFERRED:
        return task
    return advance_task(task, event, waits_for=())


def apply_task_decomposed(task: Task, event: task_events.TaskDecomposed) -> Task:
    if not set(event.children) - {task.id}:
        return record_conflict(task, event, "it named no sub-tasks")
    return advance_task(task, event, claim=None, offers=(), children=event.children)


def apply_task_settled(task: Task, event: task_events.TaskSettled) -> Task:
    if task.status != Status.DECOMPOSED:
        return task
    status = Status.CANCELLED if event.status == Status.CANCELLED else Status.DONE
    return replace(advance_task(task, event), status=status)


def apply_task_reopened(task: Task, event: task_events.TaskReopened) -> Task:
    if event.undoes and task.status == Status.CANCELLED:
        is_reviewed = event.to_review and task.submission is not None
        status = Status.PROVISIONAL if is_reviewed else task.queue
        return update_task(task, status=status, waits_for=(), superseded_by="")
    return advance_task(task, event, claim=None, offers=(), waits_for=(), children=())


# Claims and handoffs.


def apply_claim(task: Task, event: task_events.TaskClaimed | task_events.HandoffAccepted) -> Task:
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
    # The most frequent event: its parts are replaced directly instead of by name.
    claims = task.claims
    return advance_task(
        task,
        event,
        claim=claim,
        claims=ClaimHistory(
            epoch=claims.epoch + 1, attempt_count=claims.attempt_count + 1, exits=claims.exits
        ),
        people=replace(task.people, holders=with_name(task.people.holders, event.agent)),
        gates=work.reset_for_new_claim(task.gates),
    )


def apply_handoff_initiated(task: Task, event: task_events.HandoffInitiated) -> Task:
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


def apply_handoff_lapsed(task: Task, event: task_events.HandoffLapsed) -> Task:
    return update_task(task, offers=tuple(o for o in task.claims.offers if o.handoff_id != event.handoff_id))


def apply_lease_renewed(task: Task, event: task_events.LeaseRenewed) -> Task:
    claim = task.claim and replace(task.claim, lease_expires_at=bound_lease(event.lease_expires_at, event.ts))
    return advance_task(task, event, claim=claim)


def apply_task_released(task: Task, event: task_events.TaskReleased) -> Task:
    return advance_task(task, event, claim=None, waiting_for="", exits=_with_exit(task, event))


def apply_lease_expired(task: Task, event: task_events.LeaseExpired) -> Task:
    """Two ledgers may end the same lease; the second one has no effect."""
    if task.claim is None or task.claim.handoff_id != event.handoff_id:
        return task
    # Whoever ran its agent has been silent as well, so nobody waits for that run any more.
    left = tuple(run for run in task.runs if run.handoff_id != event.handoff_id)
    return advance_task(task, event, claim=None, waiting_for="", runs=left)


def apply_task_continued(task: Task, event: task_events.TaskContinued) -> Task:
    return advance_task(
        task,
        event,
        claim=None,
        waiting_for="",
        queue=Status.NEEDS_CONTINUATION,
        exits=_with_exit(task, event),
    )


def apply_task_waiting(task: Task, event: task_events.TaskWaiting) -> Task:
    return advance_task(task, event, waiting_for=event.waiting_for, exits=_with_exit(task, event))


def _with_exit(task: Task, event: ClaimEvent) -> tuple[tuple[str, str], ...]:
    way = (event.agent, event.name)
    return task.claims.exits if way in task.claims.exits else (*task.claims.exits, way)


def apply_submission(task: Task, event: task_events.TaskSubmitted | task_events.HandoffCompleted) -> Task:
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
    # A pull request opened by Remand shows the previous branch.
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


MAX_INVALID = 100
MAX_REASON = 64
MAX_CODES = 32
F = TypeVar("F", bound=AnswerEvent)
OVERRIDE = DecisionType.OVERRIDE.name


def apply_rejection_filed(task: Task, event: HandoffRejected | HandoffRejectionInvalid) -> Task:
    """Records a rejection by the agent of a handoff, accepted or offered."""
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


def apply_rejection_appealed(task: Task, event: RejectionAppealed) -> Task:
    """Makes a rejection overridden by the rules wait for a director, once per agent."""
    filed = task.rejections.last_rejection
    if filed is None or (filed.rejection_id, filed.agent) != (event.rejection_id, event.agent):
        return record_conflict(task, event, f"there was no rejection {event.rejection_id} by {event.agent}")
    if filed.is_valid or filed.decision != OVERRIDE or (event.agent, event.name) in task.claims.exits:
        return record_conflict(
            task, event, "it was not overridden by the rules, or the agent had appealed before"
        )
    is_out = task.claim is None and _may_have_lost_task(task, event)
    if not is_out and not task.is_held_under(event.handoff_id, event.agent):
        return record_conflict(
            task, event, f"{event.agent} did not hold the handoff {event.handoff_id} any more"
        )
    pending = replace(filed, is_appealed=True, decision="", message="", answer=("", 0))
    return update_task(task, last_rejection=pending, exits=_with_exit(task, event))


def _may_have_lost_task(task: Task, event: RejectionAppealed) -> bool:
    """True for an agent locked out because of its rejection. Earlier versions did not record which one."""
    own = (lockout for lockout in task.people.lockouts if lockout.agent == event.agent)
    return task.is_locked_out_for(event.agent, event.rejection_id) or any(
        LockoutCause() in lockout.causes for lockout in own
    )


def apply_rejection_answered(task: Task, event: RejectionAnswered) -> Task:
    """Records the answer. Its consequences for the task have events of their own."""
    filed = task.rejections.last_rejection
    if filed is None or filed.rejection_id != event.rejection_id:
        return record_conflict(task, event, f"there was no rejection {event.rejection_id} to answer")
    if filed.decision and filed.decision != OVERRIDE:
        return record_conflict(task, event, f"the rejection was answered already, by {filed.decision}")
    decision = event.decision
    rejection = replace(
        filed,
        decision=decision.decision_type,
        message=decision.override_message,
        answer=(event.meta.session, event.meta.seq + event.meta.more),
    )
    if decision.decision_type == OVERRIDE:
        return update_task(task, last_rejection=rejection)
    accepted = (*task.rejections.accepted_by, filed.agent)[-MAX_INVALID:]
    # A rejection that was right after all does not count as invalid.
    counted = without_last(task.rejections.invalid_by, filed.agent if filed.is_appealed else "")
    return update_task(task, last_rejection=rejection, accepted_by=accepted, invalid_by=counted)


def without_last(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names without the last occurrence of one."""
    at = max((place for place, other in enumerate(names) if other == name), default=len(names))
    return names[:at] + names[at + 1 :]


def require_counted_answer(apply: Callable[[Task, F], Task]) -> Callable[[Task, F], Task]:
    """Applies a consequence of an answer only if that answer counted."""

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
    """Returns the task to the agent whose rejection was overridden."""
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
    """Blocks a task over a rejection that waits for its answer, or whose answer says so.

    An agent without the task has nothing to reject: a line in a file does not block a task that others work on.
    """
    filed = task.rejections.last_rejection
    is_waiting = filed is not None and filed.is_pending
    is_out = filed is not None and filed.is_appealed and task.claim is None
    if not event.rejection_id and not (
        is_waiting and filed is not None and (is_out or task.is_held_under(filed.handoff_id, filed.agent))
    ):
        return record_conflict(task, event, "no rejection by who held the task had led to it")
    return advance_task(task, event, claim=None, offers=())


def apply_task_infeasible(task: Task, event: TaskInfeasible) -> Task:
    return advance_task(task, event, superseded_by=event.reformulated_as)


def apply_task_cancelled(task: Task, event: TaskCancelled) -> Task:
    return advance_task(task, event, superseded_by=event.superseded_by)


def apply_task_failed(task: Task, event: TaskFailed) -> Task:
    """Giving up counts as an invalid rejection."""
    invalid_by = (*task.rejections.invalid_by, event.agent)[-MAX_INVALID:]
    return advance_task(task, event, claim=None, waiting_for="", invalid_by=invalid_by)
