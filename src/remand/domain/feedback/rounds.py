"""The review rounds of a task: who found what, what comes again, and what was said since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationAnswered,
    Finding,
    LockoutCleared,
    ReviewCommented,
    ReviewRejected,
)
from remand.domain.events.tasks import HandoffCompleted, TaskSubmitted
from remand.domain.feedback.recurrence import EarlierFindings, read_gist
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.task import ReviewRound, Task

MAX_SHOWN = 20
"""How many findings of an earlier round are told: what blocks before what does not."""
MAX_COMPARED = 300
"""How many findings of an earlier round the last one's are held against."""
FORGES = {"github": "GitHub PR review", "gitea": "Gitea PR review", "gitlab": "GitLab MR review"}
COMMAND = "reject-task"


class FindingReply(Record, kw_only=True):
    """What a reviewer said in the thread of a finding."""

    reviewer: str
    text: str


class FeedbackFinding(Record, kw_only=True):
    """A finding, cleaned, with what it has to do with earlier rounds."""

    finding: Finding
    replies: tuple[FindingReply, ...] = ()
    again: tuple[int, ...] = ()
    """The earlier rounds that it was found in, too."""
    against: int = 0
    """The earlier round with a finding that it reverses; 0 when there is none."""
    reversed_text: str = ""


class RoundReview(Record, kw_only=True):
    """One review that stands; of a forge, all that one reviewer said there."""

    reviewer: str
    at: Instant
    source: str = ""
    remarks: tuple[FeedbackFinding, ...] = ()

    @property
    def forge(self) -> str:
        """What the review is called on the forge it was given on; empty when it was given here."""
        return FORGES.get(self.source.partition(":")[0], "") if ":" in self.source else ""


class FeedbackRound(Record, kw_only=True):
    """A rejected submission with every review of it that stands."""

    number: int
    commit: str
    agent: str
    reviews: tuple[RoundReview, ...]
    left_out: int = 0
    """How many findings of an earlier round are not told."""


class Guidance(Record, kw_only=True):
    """What the user wants whoever works on the task to know."""

    by: str
    at: Instant
    text: str


class SubmittedCommit(Record, kw_only=True):
    """A commit that was handed in, by whom."""

    commit: str
    agent: str


class TaskFeedback(Record, kw_only=True):
    """All that was said to those who worked on a task."""

    rounds: tuple[FeedbackRound, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    submissions: tuple[SubmittedCommit, ...] = ()


def read_feedback(task: Task, events: Sequence[Event], repository: str = "") -> TaskFeedback:
    """The rounds that stand, oldest first, with the last one's findings held against those before."""
    said = {
        event.review_id or event.meta.origin: event for event in events if isinstance(event, ReviewRejected)
    }
    comments = [event for event in events if isinstance(event, ReviewCommented)]
    rounds: list[FeedbackRound] = []
    past: list[tuple[int, Finding]] = []
    for number, one in enumerate(task.standing_rounds, 1):
        given = [said[review.id] for review in one.reviews if not review.is_retracted and review.id in said]
        reviews = _thread_replies(
            _group_by_reviewer([*given, *(event for event in comments if _belongs_to_round(event, one))])
        )
        is_last = number == len(task.standing_rounds)
        told = _build_round(number, one, reviews, repository, None if is_last else MAX_SHOWN)
        rounds.append(_mark_recurrences(told, past) if is_last and past else told)
        past += [(number, remark.finding) for review in reviews for remark in review.remarks][:MAX_COMPARED]
    return TaskFeedback(
        rounds=tuple(rounds), guidance=tuple(_guidance(events)), submissions=tuple(_submissions(events))
    )


def _belongs_to_round(event: ReviewCommented, one: ReviewRound) -> bool:
    """True for comments on the work of a round, unless their reviewer has taken its rejection of it back."""
    if (event.handoff_id, event.tree) != (one.handoff_id, one.tree):
        return False
    has_rejected = any(review.reviewer == event.reviewer for review in one.reviews)
    return one.is_rejected_by(event.reviewer) or not has_rejected


def _group_by_reviewer(events: Sequence[ReviewRejected | ReviewCommented]) -> list[RoundReview]:
    """The reviews of a round: those given here each by itself, those of a forge by reviewer; the earliest first.

    What is told does not depend on which poll brought it: a comment that came more than once is told once, and blocks if
    it ever did.
    """
    groups: dict[tuple[str, ...], list[ReviewRejected | ReviewCommented]] = {}
    for event in events:
        forge = FORGES.get(event.source.partition(":")[0], "") if ":" in event.source else ""
        key = (forge, event.reviewer) if forge else (event.meta.id, event.reviewer, event.source)
        groups.setdefault(key, []).append(event)
    return sorted((_gather_review(group) for group in groups.values()), key=_review_start)


def _gather_review(events: Sequence[ReviewRejected | ReviewCommented]) -> RoundReview:
    found: dict[tuple[str, str, int], Finding] = {}
    places: dict[str, tuple[str, str, int]] = {}
    for event in events:
        for finding in event.findings:
            place = (
                places.setdefault(finding.comment, _finding_key(finding))
                if finding.comment
                else _finding_key(finding)
            )
            known = found.get(place)
            dated = finding if finding.at else replace(finding, at=event.ts)
            found[place] = (
                replace(known, is_blocking=known.is_blocking or finding.is_blocking) if known else dated
            )
    first = events[0]
    ordered = (
        sorted(found.values(), key=lambda finding: finding.at) if ":" in first.source else found.values()
    )
    return RoundReview(
        reviewer=first.reviewer,
        at=max((finding.at for finding in found.values()), default=first.ts),
        source=first.source,
        remarks=tuple(FeedbackFinding(finding=finding) for finding in ordered),
    )


def _finding_key(finding: Finding) -> tuple[str, str, int]:
    return finding.text, finding.path, finding.line


def _review_start(review: RoundReview) -> Instant:
    return min((remark.finding.at for remark in review.remarks), default=review.at)


def _thread_replies(reviews: list[RoundReview]) -> list[RoundReview]:
    """The reviews with every reply below the finding that it answers, whoever gave that; others stand by themselves."""
    begun = {
        remark.finding.comment
        for review in reviews
        for remark in review.remarks
        if remark.finding.comment and not remark.finding.reply_to
    }
    replies: dict[str, list[tuple[str, Finding]]] = {}
    for review in reviews:
        for remark in review.remarks:
            if remark.finding.reply_to in begun:
                replies.setdefault(remark.finding.reply_to, []).append((review.reviewer, remark.finding))
    left = (
        replace(
            review,
            remarks=tuple(
                _with_replies(remark, replies.get(remark.finding.comment, ()))
                for remark in review.remarks
                if remark.finding.reply_to not in begun
            ),
        )
        for review in reviews
    )
    return [after for before, after in zip(reviews, left, strict=True) if after.remarks or not before.remarks]


def _with_replies(remark: FeedbackFinding, replies: Sequence[tuple[str, Finding]]) -> FeedbackFinding:
    ordered = sorted(replies, key=lambda reply: reply[1].at)
    blocks = remark.finding.is_blocking or any(finding.is_blocking for _, finding in replies)
    return FeedbackFinding(
        finding=replace(remark.finding, is_blocking=blocks),
        replies=tuple(FindingReply(reviewer=reviewer, text=finding.text) for reviewer, finding in ordered),
    )


def _build_round(
    number: int, one: ReviewRound, reviews: Sequence[RoundReview], repository: str, most: int | None
) -> FeedbackRound:
    """A round with the findings that are told of it, each below its review and cleaned."""
    every = [(at, remark) for at, review in enumerate(reviews) for remark in review.remarks]
    every.sort(key=lambda placed: not placed[1].finding.is_blocking)
    remarks: list[list[FeedbackFinding]] = [[] for _ in reviews]
    for at, remark in every[:most]:
        remarks[at].append(_sanitise_remark(remark, repository, is_rendered=bool(reviews[at].forge)))
    return FeedbackRound(
        number=number,
        commit=one.commit,
        agent=one.agent,
        reviews=tuple(
            replace(review, remarks=tuple(found)) for review, found in zip(reviews, remarks, strict=True)
        ),
        left_out=len(every) - len(every[:most]),
    )


def _sanitise_remark(remark: FeedbackFinding, repository: str, *, is_rendered: bool) -> FeedbackFinding:
    def clean(text: str) -> str:
        return sanitise(text, repository, is_rendered=is_rendered).text

    return FeedbackFinding(
        finding=replace(remark.finding, text=clean(remark.finding.text)),
        replies=tuple(replace(reply, text=clean(reply.text)) for reply in remark.replies),
    )


def _mark_recurrences(last: FeedbackRound, numbered: Sequence[tuple[int, Finding]]) -> FeedbackRound:
    """The round with each finding marked that an earlier round has, or has the opposite of."""
    past = EarlierFindings([read_gist(finding) for _, finding in numbered])
    reviews = tuple(
        replace(review, remarks=tuple(_mark_remark(remark, past, numbered) for remark in review.remarks))
        for review in last.reviews
    )
    return replace(last, reviews=reviews)


def _mark_remark(
    remark: FeedbackFinding, past: EarlierFindings, numbered: Sequence[tuple[int, Finding]]
) -> FeedbackFinding:
    own = read_gist(remark.finding)
    place = past.find_last_opposed(own)
    if place >= 0:
        number, finding = numbered[place]
        return replace(remark, against=number, reversed_text=sanitise(finding.text).text)
    return replace(remark, again=tuple(sorted({numbered[place][0] for place in past.find_same(own)})))


def _guidance(events: Iterable[Event]) -> list[Guidance]:
    """What the user said with an unlock or an answer, each text once."""
    found: dict[str, Guidance] = {}
    for event in events:
        if isinstance(event, LockoutCleared | EscalationAnswered) and event.guidance.strip():
            text = sanitise(event.guidance, is_rendered=False, keeps_links=True).text
            found.setdefault(text, Guidance(by=event.meta.actor or "user", at=event.ts, text=text))
    return list(found.values())


def _submissions(events: Iterable[Event]) -> list[SubmittedCommit]:
    return [
        SubmittedCommit(commit=event.commit, agent=event.agent)
        for event in events
        if isinstance(event, TaskSubmitted | HandoffCompleted) and event.commit
    ]
