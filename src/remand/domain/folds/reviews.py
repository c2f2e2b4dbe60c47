"""The effects of review, lockout, objection, escalation and notice events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from remand.domain.decisions.findings import is_still_rejected
from remand.domain.decisions.notices import MAX_NOTICES, find_notice, open_alert
from remand.domain.decisions.objections import MAX_WORKS
from remand.domain.events import reviews as review_events
from remand.domain.events.event import Event
from remand.domain.events.work import GateAlerted
from remand.domain.gate.state import MAX_GATES, GateAlert, update_gates
from remand.domain.instant import Instant, add_seconds
from remand.domain.run import grant_after_answer
from remand.domain.task import (
    Dismissal,
    Escalation,
    Lockout,
    LockoutCause,
    Review,
    ReviewRound,
    Status,
    Submission,
    Task,
    advance_task,
    bound_lease,
    record_conflict,
    update_task,
    with_name,
)


def apply_gate_alerted(task: Task, event: GateAlerted) -> Task:
    """Stores the alert about the active claim."""
    if task.claim is None or not event.handoff_id or task.claim.handoff_id != event.handoff_id:
        return task
    alert = GateAlert(
        id=f"A-{event.meta.origin[:12]}",
        handoff_id=event.handoff_id,
        agent=event.agent,
        number=event.number,
        alert_after=event.alert_after,
        escalate_after=event.escalate_after,
        at=event.ts,
    )
    return _with_alert(task, alert)


def record_notice(task: Task, event: Event) -> Task:
    """Stores the notice that an event requires."""
    notice = find_notice(event)
    if notice is None or any(one.id == notice.id for one in task.inbox.notices):
        return task
    return update_task(task, notices=(*task.inbox.notices, notice)[-MAX_NOTICES:])


def record_notice_delivery(task: Task, event: review_events.EscalationNotified) -> Task:
    """Records that a channel delivered an alert or override, which is removed after the last channel."""
    alert = open_alert(task)
    if alert is not None and alert.id == event.escalation_id:
        return _with_alert(task, replace(alert, notified=with_name(alert.notified, event.channel)))
    left = tuple(
        replace(one, notified=with_name(one.notified, event.channel))
        if one.id == event.escalation_id
        else one
        for one in task.inbox.notices
        if one.id != event.escalation_id or not event.is_last
    )
    return task if left == task.inbox.notices else update_task(task, notices=left)


def acknowledge_alert(task: Task, event: review_events.EscalationAcknowledged) -> Task:
    alert = open_alert(task)
    if alert is None or alert.id != event.escalation_id:
        return task
    return _with_alert(task, replace(alert, acknowledged_by=event.meta.actor or "somebody"))


def take_over_on_alert(task: Task, event: review_events.EscalationAnswered) -> Task | None:
    """The task that the user took over on an alert; None if the answer concerns no alert."""
    alert = open_alert(task)
    if alert is None or alert.id != event.escalation_id:
        return None
    return update_task(
        task,
        status=task.queue,
        claim=None,
        waiting_for="",
        offers=(),
        feedback=task.reviews.feedback + bool(event.guidance),
        gates=update_gates(task.gates, alert=None),
    )


def _with_alert(task: Task, alert: GateAlert) -> Task:
    return update_task(task, gates=update_gates(task.gates, alert=alert))


MAX_DISMISSALS = 200
"""How many answers a task keeps, the latest ones."""


def apply_objections_dismissed(task: Task, event: review_events.ObjectionsDismissed) -> Task:
    """Stores the answer."""
    answer = Dismissal(signer=event.signer, works=event.works[:MAX_WORKS], at=event.ts)
    return update_task(task, dismissals=(*task.inbox.dismissals, answer)[-MAX_DISMISSALS:])


MAX_SOURCES = 2000
DAY = 86_400.0
FIX, ACCEPT = "fix", "accept"


def apply_review_requested(task: Task, event: review_events.ReviewRequested) -> Task:
    if task.submission is None or event.commit not in ("", task.submission.commit):
        return task
    return update_task(task, requested=with_name(task.reviews.requested, event.reviewer))


def apply_review_approved(task: Task, event: review_events.ReviewApproved) -> Task:
    if task.submission is None or task.submission.commit != event.commit:
        return record_conflict(task, event, "the approval names a commit that was not the one under review")
    if is_still_rejected(task):
        return record_conflict(task, event, "the same tree was rejected as well; the rejection counts")
    return advance_task(task, event, approved_commit=event.commit, sources=_with_source(task, event.source))


def apply_review_rejected(task: Task, event: review_events.ReviewRejected) -> Task:
    """Sends the submission back. A further review of work already sent back adds to that rejection."""
    submission = task.submission
    if event.source and event.source in task.reviews.sources:
        return task
    if submission is None or not _is_about(event, submission):
        task = record_conflict(task, event, "the rejection names a commit that was not the one under review")
        return _count_undone_rejection(task, event)
    review = Review(id=event.review_id or event.meta.origin, reviewer=event.reviewer)
    noted: dict[str, Any] = {
        "feedback": task.reviews.feedback + 1,
        "reviewers": with_name(task.people.reviewers, event.reviewer),
        "sources": _with_source(task, event.source),
    }
    known = task.find_rejected_round(submission.handoff_id, submission.tree)
    if known is not None and task.status != Status.PROVISIONAL:
        rounds = _add_review(task.reviews.rounds, known, review, event.findings)
        return update_task(task, rounds=rounds, **noted)
    if task.status == Status.DONE and task.reviews.approved_commit == submission.commit:
        task = record_conflict(task, event, "the same tree was approved as well; the rejection counts")
        task = update_task(task, status=Status.PROVISIONAL, approved_commit="")
    sent_back = ReviewRound(
        commit=submission.commit,
        tree=submission.tree,
        patch=event.patch,
        agent=submission.agent,
        handoff_id=submission.handoff_id,
        reviews=(review,),
        comments=_comment_ids(event.findings),
    )
    noted |= {"rounds": (*task.reviews.rounds, sent_back)}
    moved = _send_back(task, event, noted)
    return update_task(moved, rejection_count=len(moved.standing_rounds))


def _send_back(task: Task, event: review_events.ReviewRejected, noted: dict[str, Any]) -> Task:
    """Changes the status. What another ledger removed from review meanwhile stays, and the rejection counts."""
    if task.status == Status.PROVISIONAL or task.is_terminal:
        return advance_task(task, event, queue=Status.REJECTED, **noted)
    return update_task(task, **noted)


def _count_undone_rejection(task: Task, event: review_events.ReviewRejected) -> Task:
    """Counts a rejection whose submission was undone by a merge or a line with an earlier date."""
    if not event.author or not event.handoff_id:
        return task
    review = Review(id=event.review_id or event.meta.origin, reviewer=event.reviewer)
    known = task.find_rejected_round(event.handoff_id, event.tree)
    undone = ReviewRound(
        commit=event.commit,
        tree=event.tree,
        patch=event.patch,
        agent=event.author,
        handoff_id=event.handoff_id,
        reviews=(review,),
        comments=_comment_ids(event.findings),
    )
    task = update_task(
        task,
        feedback=task.reviews.feedback + 1,
        reviewers=with_name(task.people.reviewers, event.reviewer),
        sources=_with_source(task, event.source),
        rounds=_add_review(task.reviews.rounds, known, review, event.findings)
        if known
        else (*task.reviews.rounds, undone),
    )
    return update_task(task, rejection_count=len(task.standing_rounds))


def _is_about(event: review_events.ReviewRejected, submission: Submission) -> bool:
    return submission.commit == event.commit or (submission.tree or "-") == event.tree


def _add_review(
    rounds: tuple[ReviewRound, ...],
    known: ReviewRound,
    review: Review,
    findings: tuple[review_events.Finding, ...],
) -> tuple[ReviewRound, ...]:
    """The rejections with another review of the same work."""
    comments = _with_names(known.comments, _comment_ids(findings))
    both = replace(known, reviews=(*known.reviews, review), comments=comments)
    return tuple(both if one is known else one for one in rounds)


def apply_review_commented(task: Task, event: review_events.ReviewCommented) -> Task:
    """Adds comments to their rejection. If two ledgers add the same, they count once."""
    known = task.find_rejected_round(event.handoff_id, event.tree)
    if known is None or set(_comment_ids(event.findings)) <= set(known.comments):
        return task
    more = replace(known, comments=_with_names(known.comments, _comment_ids(event.findings)))
    rounds = tuple(more if one is known else one for one in task.reviews.rounds)
    return update_task(task, rounds=rounds, feedback=task.reviews.feedback + 1)


def _comment_ids(findings: tuple[review_events.Finding, ...]) -> tuple[str, ...]:
    return tuple(finding.comment for finding in findings if finding.comment)


def apply_review_retracted(task: Task, event: review_events.ReviewRetracted) -> Task:
    """Retracts a rejection. With its last review a round loses its count and its lockout."""
    review_round = next(
        (one for one in task.reviews.rounds if _has_standing_review(one, event.review_id)), None
    )
    if review_round is None:
        return record_conflict(task, event, f"no rejection {event.review_id} stood at that time")
    reviews = tuple(
        replace(review, is_retracted=True) if review.id == event.review_id else review
        for review in review_round.reviews
    )
    taken_back = replace(review_round, reviews=reviews)
    rounds = tuple(taken_back if one is review_round else one for one in task.reviews.rounds)
    task = update_task(task, rounds=rounds)
    if taken_back.is_in_force:
        return task
    queue = task.queue
    if queue == Status.REJECTED and not task.standing_rounds:
        queue = Status.INCOMING
    task = update_task(
        task,
        rejection_count=len(task.standing_rounds),
        lockouts=_without_causes(task.people.lockouts, review_round.has_led_to),
        queue=queue,
    )
    return _return_to_review(task, event, review_round)


def _is_retracted(task: Task, review_id: str) -> bool:
    """True when that rejection was retracted."""
    reviews = (review for one in task.reviews.rounds for review in one.reviews if review.id == review_id)
    return any(review.is_retracted for review in reviews)


def _has_standing_review(review_round: ReviewRound, review_id: str) -> bool:
    return any(review.id == review_id and not review.is_retracted for review in review_round.reviews)


def _return_to_review(task: Task, event: review_events.ReviewRetracted, review_round: ReviewRound) -> Task:
    """Puts the work under review again, when nobody has continued with the task since."""
    submission, escalation = task.submission, task.open_escalation
    same = (review_round.handoff_id, review_round.tree)
    is_last = submission is not None and (submission.handoff_id, submission.tree) == same
    for_another_reason = escalation is not None and escalation.kind not in ("reviews", "deadlock")
    if not is_last or for_another_reason or task.status not in (Status.REJECTED, Status.ESCALATED):
        return task
    return advance_task(task, event, offers=())


def apply_review_noted(task: Task, event: review_events.ReviewNoted | review_events.ReviewBypassed) -> Task:
    return update_task(task, sources=_with_source(task, event.source))


def apply_feedback_fetched(task: Task, event: review_events.FeedbackFetched) -> Task:
    read = min(event.count, task.reviews.feedback)
    return advance_task(task, event, claim=task.claim and replace(task.claim, read=read))


def apply_lockout_set(task: Task, event: review_events.LockoutSet) -> Task:
    """Locks out an agent, or adds a cause to its lockout.

    Two ledgers may import the same review: if one of them retracts it, the other's lockout is void.
    """
    if _is_retracted(task, event.review_id):
        return task
    cause = LockoutCause(
        review_id=event.review_id, inherited_from=event.inherited_from, rejection_id=event.rejection_id
    )
    known = next((lockout for lockout in task.people.lockouts if lockout.agent == event.agent), None)
    if known is not None:
        more = replace(
            known,
            also=known.also if cause in known.causes else (*known.also, cause),
            team=tuple(sorted({*known.team, *event.team})),
        )
        return update_task(
            task, lockouts=tuple(more if one is known else one for one in task.people.lockouts)
        )
    lockout = Lockout(
        agent=event.agent,
        by=event.by or event.meta.actor,
        reason=event.reason,
        since=event.ts,
        review_id=event.review_id,
        inherited_from=event.inherited_from,
        rejection_id=event.rejection_id,
        team=event.team,
    )
    offers = tuple(offer for offer in task.claims.offers if offer.target != event.agent)
    unlocked = tuple(name for name in task.people.unlocked if name != event.agent)
    task = update_task(task, lockouts=(*task.people.lockouts, lockout), offers=offers, unlocked=unlocked)
    if task.claim is not None and task.claim.agent == event.agent:
        return update_task(task, claim=None, status=task.queue, waiting_for="")
    return task


def _without_causes(
    lockouts: tuple[Lockout, ...], has_ended: Callable[[LockoutCause], bool]
) -> tuple[Lockout, ...]:
    """The lockouts that remain after some causes have ended; each ends with its last cause."""
    left = ((one, tuple(cause for cause in one.causes if not has_ended(cause))) for one in lockouts)
    return tuple(
        replace(
            one,
            review_id=causes[0].review_id,
            inherited_from=causes[0].inherited_from,
            rejection_id=causes[0].rejection_id,
            also=causes[1:],
        )
        for one, causes in left
        if causes
    )


def apply_lockout_cleared(task: Task, event: review_events.LockoutCleared) -> Task:
    """Clears a lockout. If caused by another task, a retraction or an appeal, only that cause ends."""
    others = tuple(item for item in task.people.lockouts if item.agent != event.agent)
    own = tuple(item for item in task.people.lockouts if item.agent == event.agent)
    left = (*others, *_without_causes(own, lambda cause: _is_lifted(cause, event)))
    is_for_this = not (event.review_id or event.inherited_from or event.rejection_id)
    names = with_name(task.people.unlocked, event.agent) if is_for_this else task.people.unlocked
    return update_task(
        task, lockouts=left, unlocked=names, feedback=task.reviews.feedback + bool(event.guidance)
    )


def _is_lifted(cause: LockoutCause, event: review_events.LockoutCleared) -> bool:
    if event.inherited_from:
        return bool(cause.inherited_from)
    if event.rejection_id:
        return cause.rejection_id == event.rejection_id
    return bool(cause.review_id) or not event.review_id


def apply_task_reassigned(task: Task, event: review_events.TaskReassigned) -> Task:
    if task.is_locked_out(event.target):
        return record_conflict(task, event, f"{event.target} was locked out")
    if task.claim is not None and task.claim.agent != event.source:
        return record_conflict(task, event, f"{task.claim.agent} had claimed the task by then")
    return advance_task(task, event, claim=None, offers=(), waiting_for="")


def make_escalation_id(event: review_events.EscalationOpened) -> str:
    """A question's id, from the event that opened it."""
    return f"E-{event.meta.origin[:12]}"


def apply_escalation_opened(task: Task, event: review_events.EscalationOpened) -> Task:
    escalation = Escalation(
        id=make_escalation_id(event),
        reason=event.reason,
        kind=event.kind,
        opened_at=event.ts,
        deadline=bound_lease(event.deadline or add_seconds(event.ts, DAY), event.ts),
        gates=event.gates[:MAX_GATES],
    )
    claim, way = task.claim, (event.meta.actor, event.name)
    is_own = claim is not None and claim.agent == event.meta.actor and way not in task.claims.exits
    exits = (*task.claims.exits, way) if is_own else task.claims.exits
    return advance_task(
        task, event, claim=None, offers=(), waiting_for="", escalation=escalation, exits=exits
    )


def apply_escalation_repeated(task: Task, event: review_events.EscalationRepeated) -> Task:
    """Two ledgers may repeat the same question; the later deadline counts."""
    escalation = _find_open_escalation(task, event.escalation_id)
    if escalation is None:
        return task
    deadline: Instant = max(bound_lease(event.deadline, event.ts), escalation.deadline)
    again = replace(escalation, deadline=deadline, repeats=escalation.repeats + 1, notified=())
    return update_task(task, escalation=again)


def apply_escalation_notified(task: Task, event: review_events.EscalationNotified) -> Task:
    escalation = _find_open_escalation(task, event.escalation_id)
    if escalation is None:
        return record_notice_delivery(task, event)
    channels = with_name(escalation.notified, event.channel)
    return update_task(task, escalation=replace(escalation, notified=channels))


def apply_escalation_acknowledged(task: Task, event: review_events.EscalationAcknowledged) -> Task:
    escalation = _find_open_escalation(task, event.escalation_id)
    if escalation is None:
        return acknowledge_alert(task, event)
    return update_task(task, escalation=replace(escalation, acknowledged_by=event.meta.actor))


def apply_escalation_answered(task: Task, event: review_events.EscalationAnswered) -> Task:
    fixer = event.meta.actor if event.option == FIX else task.people.fixer
    taken_over = take_over_on_alert(task, event)
    if taken_over is not None:
        return update_task(taken_over, fixer=fixer)
    if _find_open_escalation(task, event.escalation_id) is None:
        return record_conflict(task, event, f"the question {event.escalation_id} was not open at that time")
    moved = advance_task(
        task,
        event,
        fixer=fixer,
        offers=(),
        feedback=task.reviews.feedback + bool(event.guidance),
        spent=grant_after_answer(task.spent, task.inbox.escalation.kind if task.inbox.escalation else ""),
    )
    # What was merged past the rules counts as submitted, so that the following approval finds it under review.
    is_handed_in = event.option == ACCEPT and task.submission is not None and not is_still_rejected(task)
    return replace(moved, status=Status.PROVISIONAL) if is_handed_in else moved


def _find_open_escalation(task: Task, escalation_id: str) -> Escalation | None:
    """The open question of that id."""
    escalation = task.open_escalation
    return escalation if escalation is not None and escalation.id == escalation_id else None


def _with_source(task: Task, source: str) -> tuple[str, ...]:
    """The reviews that were taken in, with this one. A source without its own id may come again."""
    return with_name(task.reviews.sources, source)[-MAX_SOURCES:] if ":" in source else task.reviews.sources


def _with_names(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))
