"""What follows from the events of reviews, lockouts and escalations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain import notice_steps
from remand.domain.gates.outages import MAX_GATES
from remand.domain.gating import is_rejected_still
from remand.domain.instant import Instant, plus
from remand.domain.run_steps import granted
from remand.domain.steps import advance, bounded, conflict
from remand.domain.task import (
    Cause,
    Escalation,
    Lockout,
    Review,
    Round,
    Status,
    Submission,
    Task,
)

MAX_SOURCES = 2000
DAY = 86_400.0
FIX, ACCEPT = "fix", "accept"


def requested(task: Task, event: e.ReviewRequested) -> Task:
    if task.submission is None or event.commit not in ("", task.submission.commit):
        return task
    return replace(task, requested=_with(task.requested, event.reviewer))


def approved(task: Task, event: e.ReviewApproved) -> Task:
    if task.submission is None or task.submission.commit != event.commit:
        return conflict(task, event, "the approval names a commit that was not the one under review")
    if is_rejected_still(task):
        return conflict(task, event, "the same tree was rejected as well; the rejection counts")
    return advance(task, event, approved_commit=event.commit, sources=_source(task, event.source))


def rejected(task: Task, event: e.ReviewRejected) -> Task:
    """Sends the submission back. A further review of work that was sent back already adds to that rejection."""
    submission = task.submission
    if event.source and event.source in task.sources:
        return task
    if submission is None or not _is_about(event, submission):
        task = conflict(task, event, "the rejection names a commit that was not the one under review")
        return _of_undone_work(task, event)
    review = Review(id=event.review_id or event.meta.origin, reviewer=event.reviewer)
    noted: dict[str, Any] = {
        "feedback": task.feedback + 1,
        "reviewers": _with(task.reviewers, event.reviewer),
        "sources": _source(task, event.source),
    }
    known = task.sent_back(submission.handoff_id, submission.tree)
    if known is not None and task.status != Status.PROVISIONAL:
        rounds = _joined(task.rounds, known, review, event.findings)
        return replace(task, rounds=rounds, **noted)
    if task.status == Status.DONE and task.approved_commit == submission.commit:
        task = conflict(task, event, "the same tree was approved as well; the rejection counts")
        task = replace(task, status=Status.PROVISIONAL, approved_commit="")
    sent_back = Round(
        commit=submission.commit,
        tree=submission.tree,
        patch=event.patch,
        agent=submission.agent,
        handoff_id=submission.handoff_id,
        reviews=(review,),
        comments=_ids(event.findings),
    )
    noted |= {"rounds": (*task.rounds, sent_back)}
    moved = _sent_back(task, event, noted)
    return replace(moved, rejection_count=len(moved.standing_rounds))


def _sent_back(task: Task, event: e.ReviewRejected, noted: dict[str, Any]) -> Task:
    """Moves the task. What another ledger took out of review meanwhile stays where it is, and the rejection counts."""
    if task.status == Status.PROVISIONAL or task.is_terminal:
        return advance(task, event, queue=Status.REJECTED, **noted)
    return replace(task, **noted)


def _of_undone_work(task: Task, event: e.ReviewRejected) -> Task:
    """Counts a rejection whose submission a merge, or a line with an earlier date, has undone: a no is believed."""
    if not event.author or not event.handoff_id:
        return task
    review = Review(id=event.review_id or event.meta.origin, reviewer=event.reviewer)
    known = task.sent_back(event.handoff_id, event.tree)
    undone = Round(
        commit=event.commit,
        tree=event.tree,
        patch=event.patch,
        agent=event.author,
        handoff_id=event.handoff_id,
        reviews=(review,),
        comments=_ids(event.findings),
    )
    task = replace(
        task,
        feedback=task.feedback + 1,
        reviewers=_with(task.reviewers, event.reviewer),
        sources=_source(task, event.source),
        rounds=_joined(task.rounds, known, review, event.findings) if known else (*task.rounds, undone),
    )
    return replace(task, rejection_count=len(task.standing_rounds))


def _is_about(event: e.ReviewRejected, submission: Submission) -> bool:
    return submission.commit == event.commit or (submission.tree or "-") == event.tree


def _joined(
    rounds: tuple[Round, ...], known: Round, review: Review, findings: tuple[e.Finding, ...]
) -> tuple[Round, ...]:
    """The rejections, with one review more that is of the same work as a known one."""
    comments = _with_all(known.comments, _ids(findings))
    both = replace(known, reviews=(*known.reviews, review), comments=comments)
    return tuple(both if one is known else one for one in rounds)


def commented(task: Task, event: e.ReviewCommented) -> Task:
    """Adds comments to the rejection that they belong to. Two ledgers may add the same; they are counted once."""
    known = task.sent_back(event.handoff_id, event.tree)
    if known is None or set(_ids(event.findings)) <= set(known.comments):
        return task
    more = replace(known, comments=_with_all(known.comments, _ids(event.findings)))
    rounds = tuple(more if one is known else one for one in task.rounds)
    return replace(task, rounds=rounds, feedback=task.feedback + 1)


def _ids(findings: tuple[e.Finding, ...]) -> tuple[str, ...]:
    return tuple(finding.comment for finding in findings if finding.comment)


def retracted(task: Task, event: e.ReviewRetracted) -> Task:
    """Takes a rejection back. With its last review a round loses its count and its lockout."""
    found = next((one for one in task.rounds if _standing(one, event.review_id)), None)
    if found is None:
        return conflict(task, event, f"no rejection {event.review_id} stood at that time")
    reviews = tuple(
        replace(review, is_retracted=True) if review.id == event.review_id else review
        for review in found.reviews
    )
    taken_back = replace(found, reviews=reviews)
    rounds = tuple(taken_back if one is found else one for one in task.rounds)
    task = replace(task, rounds=rounds)
    if taken_back.stands:
        return task
    queue = task.queue
    if queue == Status.REJECTED and not task.standing_rounds:
        queue = Status.INCOMING
    task = replace(
        task,
        rejection_count=len(task.standing_rounds),
        lockouts=_without(task.lockouts, found.has_led_to),
        queue=queue,
    )
    return _under_review_again(task, event, found)


def _is_taken_back(task: Task, review_id: str) -> bool:
    """True when that rejection was retracted."""
    reviews = (review for one in task.rounds for review in one.reviews if review.id == review_id)
    return any(review.is_retracted for review in reviews)


def _standing(one: Round, review_id: str) -> bool:
    return any(review.id == review_id and not review.is_retracted for review in one.reviews)


def _under_review_again(task: Task, event: e.ReviewRetracted, found: Round) -> Task:
    """Puts the work under review again, when nobody has gone on with the task since."""
    submission, escalation = task.submission, task.open_escalation
    same = (found.handoff_id, found.tree)
    is_last = submission is not None and (submission.handoff_id, submission.tree) == same
    for_another_reason = escalation is not None and escalation.kind not in ("reviews", "deadlock")
    if not is_last or for_another_reason or task.status not in (Status.REJECTED, Status.ESCALATED):
        return task
    return advance(task, event, offers=())


def noted(task: Task, event: e.ReviewNoted | e.ReviewBypassed) -> Task:
    return replace(task, sources=_source(task, event.source))


def fetched(task: Task, event: e.FeedbackFetched) -> Task:
    read = min(event.count, task.feedback)
    return advance(task, event, claim=task.claim and replace(task.claim, read=read))


def locked(task: Task, event: e.LockoutSet) -> Task:
    """Keeps an agent away, for one cause more when it is kept away already.

    Two ledgers may take in the same review: when one of them retracts it, the other's lockout does not hold.
    """
    if _is_taken_back(task, event.review_id):
        return task
    cause = Cause(review_id=event.review_id, inherited_from=event.inherited_from)
    known = next((lockout for lockout in task.lockouts if lockout.agent == event.agent), None)
    if known is not None:
        more = replace(
            known,
            also=known.also if cause in known.causes else (*known.also, cause),
            team=tuple(sorted({*known.team, *event.team})),
        )
        return replace(task, lockouts=tuple(more if one is known else one for one in task.lockouts))
    lockout = Lockout(
        agent=event.agent,
        by=event.by or event.meta.actor,
        reason=event.reason,
        since=event.ts,
        review_id=event.review_id,
        inherited_from=event.inherited_from,
        team=event.team,
    )
    offers = tuple(offer for offer in task.offers if offer.target != event.agent)
    unlocked = tuple(name for name in task.unlocked if name != event.agent)
    task = replace(task, lockouts=(*task.lockouts, lockout), offers=offers, unlocked=unlocked)
    if task.claim is not None and task.claim.agent == event.agent:
        return replace(task, claim=None, status=task.queue, waiting_for="")
    return task


def _without(lockouts: tuple[Lockout, ...], has_ended: Callable[[Cause], bool]) -> tuple[Lockout, ...]:
    """The lockouts that are left when some causes have ended; each goes with its last one."""
    left = ((one, tuple(cause for cause in one.causes if not has_ended(cause))) for one in lockouts)
    return tuple(
        replace(one, review_id=causes[0].review_id, inherited_from=causes[0].inherited_from, also=causes[1:])
        for one, causes in left
        if causes
    )


def unlocked(task: Task, event: e.LockoutCleared) -> Task:
    """Lets an agent work again. What follows from another task or a retraction ends that cause alone."""
    others = tuple(item for item in task.lockouts if item.agent != event.agent)
    own = tuple(item for item in task.lockouts if item.agent == event.agent)
    left = (*others, *_without(own, lambda cause: _is_lifted(cause, event)))
    is_for_this = not event.review_id and not event.inherited_from
    names = _with(task.unlocked, event.agent) if is_for_this else task.unlocked
    return replace(task, lockouts=left, unlocked=names, feedback=task.feedback + bool(event.guidance))


def _is_lifted(cause: Cause, event: e.LockoutCleared) -> bool:
    if event.inherited_from:
        return bool(cause.inherited_from)
    return bool(cause.review_id) or not event.review_id


def reassigned(task: Task, event: e.TaskReassigned) -> Task:
    if task.is_locked_out(event.target):
        return conflict(task, event, f"{event.target} was locked out")
    if task.claim is not None and task.claim.agent != event.source:
        return conflict(task, event, f"{task.claim.agent} had claimed the task by then")
    return advance(task, event, claim=None, offers=(), waiting_for="")


def escalation_id(event: e.EscalationOpened) -> str:
    """What a question is called by, from the event that opened it."""
    return f"E-{event.meta.origin[:12]}"


def escalated(task: Task, event: e.EscalationOpened) -> Task:
    escalation = Escalation(
        id=escalation_id(event),
        reason=event.reason,
        kind=event.kind,
        opened_at=event.ts,
        deadline=bounded(event.deadline or plus(event.ts, DAY), event.ts),
        gates=event.gates[:MAX_GATES],
    )
    claim, way = task.claim, (event.meta.actor, event.name)
    is_own = claim is not None and claim.agent == event.meta.actor and way not in task.exits
    exits = (*task.exits, way) if is_own else task.exits
    return advance(task, event, claim=None, offers=(), waiting_for="", escalation=escalation, exits=exits)


def repeated(task: Task, event: e.EscalationRepeated) -> Task:
    """Two ledgers may repeat the same question; the later deadline holds."""
    escalation = _of(task, event.escalation_id)
    if escalation is None:
        return task
    deadline: Instant = max(bounded(event.deadline, event.ts), escalation.deadline)
    again = replace(escalation, deadline=deadline, repeats=escalation.repeats + 1, notified=())
    return replace(task, escalation=again)


def notified(task: Task, event: e.EscalationNotified) -> Task:
    escalation = _of(task, event.escalation_id)
    if escalation is None:
        return notice_steps.notified(task, event)
    channels = _with(escalation.notified, event.channel)
    return replace(task, escalation=replace(escalation, notified=channels))


def acknowledged(task: Task, event: e.EscalationAcknowledged) -> Task:
    escalation = _of(task, event.escalation_id)
    if escalation is None:
        return notice_steps.acknowledged(task, event)
    return replace(task, escalation=replace(escalation, acknowledged_by=event.meta.actor))


def answered(task: Task, event: e.EscalationAnswered) -> Task:
    fixer = event.meta.actor if event.option == FIX else task.fixer
    taken_over = notice_steps.answered(task, event)
    if taken_over is not None:
        return replace(taken_over, fixer=fixer)
    if _of(task, event.escalation_id) is None:
        return conflict(task, event, f"the question {event.escalation_id} was not open at that time")
    moved = advance(
        task,
        event,
        fixer=fixer,
        offers=(),
        feedback=task.feedback + bool(event.guidance),
        spent=granted(task.spent, task.escalation.kind if task.escalation else ""),
    )
    # What was merged past the rules is accepted as handed in: the approval that follows finds it under review.
    is_handed_in = event.option == ACCEPT and task.submission is not None and not is_rejected_still(task)
    return replace(moved, status=Status.PROVISIONAL) if is_handed_in else moved


def _of(task: Task, escalation_id: str) -> Escalation | None:
    """The open question of that id."""
    escalation = task.open_escalation
    return escalation if escalation is not None and escalation.id == escalation_id else None


def _source(task: Task, source: str) -> tuple[str, ...]:
    """The reviews that were taken in, with this one. A source without an id of its own may come again."""
    return _with(task.sources, source)[-MAX_SOURCES:] if ":" in source else task.sources


def _with_all(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
