"""The review rounds of a task: who found what, what recurs, and what the user said since."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
"""How many findings of an earlier round are shown: those that block first."""
MAX_COMPARED = 300
"""How many findings of an earlier round are compared with the last round's."""
FORGES = {"github": "GitHub PR review", "gitea": "Gitea PR review", "gitlab": "GitLab MR review"}
COMMAND = "reject-task"


class FindingReply(Record, kw_only=True):
    reviewer: str
    text: str


class FeedbackFinding(Record, kw_only=True):
    """A finding, sanitised, with its relation to earlier rounds."""

    finding: Finding
    replies: tuple[FindingReply, ...] = ()
    again: tuple[int, ...] = ()
    """The earlier rounds that have the same finding."""
    against: int = 0
    """The earlier round with a finding that it reverses; 0 when there is none."""
    reversed_text: str = ""


class RoundReview(Record, kw_only=True):
    """A review in force; on a forge, everything that one reviewer wrote there."""

    reviewer: str
    at: Instant
    source: str = ""
    remarks: tuple[FeedbackFinding, ...] = ()

    @property
    def forge(self) -> str:
        return forge_name(self.source)


def forge_name(source: str) -> str:
    """What reviews are called on the forge of a source; empty for one that was given here."""
    return FORGES.get(source.partition(":")[0], "") if ":" in source else ""


class FeedbackRound(Record, kw_only=True):
    """A rejected submission with every review of it that is in force."""

    number: int
    commit: str
    agent: str
    reviews: tuple[RoundReview, ...]
    left_out: int = 0
    """How many findings of an earlier round are not shown."""


class Guidance(Record, kw_only=True):
    by: str
    at: Instant
    text: str


class SubmittedCommit(Record, kw_only=True):
    commit: str
    agent: str


class TaskFeedback(Record, kw_only=True):
    rounds: tuple[FeedbackRound, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    submissions: tuple[SubmittedCommit, ...] = ()


def read_feedback(task: Task, events: Sequence[Event], repository: str = "") -> TaskFeedback:
    """The rounds in force, oldest first; the last one's findings are compared with those before."""
    rejections = {
        event.review_id or event.meta.origin: event for event in events if isinstance(event, ReviewRejected)
    }
    comments = [event for event in events if isinstance(event, ReviewCommented)]
    rounds: list[FeedbackRound] = []
    past: list[tuple[int, Finding]] = []
    for number, one in enumerate(task.standing_rounds, 1):
        given: list[ReviewRejected | ReviewCommented] = [
            rejections[review.id]
            for review in one.reviews
            if not review.is_retracted and review.id in rejections
        ]
        given += [event for event in comments if _belongs_to_round(event, one)]
        reviews = _thread_replies(_group_by_reviewer(given))
        is_last = number == len(task.standing_rounds)
        shown = _build_round(number, one, reviews, repository, None if is_last else MAX_SHOWN)
        rounds.append(_mark_recurrences(shown, past) if is_last and past else shown)
        past += [(number, remark.finding) for review in reviews for remark in review.remarks][:MAX_COMPARED]
    guidance: dict[str, Guidance] = {}
    submissions: list[SubmittedCommit] = []
    for event in events:
        match event:
            case LockoutCleared() | EscalationAnswered() if event.guidance.strip():
                text = sanitise(event.guidance, is_rendered=False, keeps_links=True).text
                guidance.setdefault(text, Guidance(by=event.meta.actor or "user", at=event.ts, text=text))
            case TaskSubmitted() | HandoffCompleted() if event.commit:
                submissions.append(SubmittedCommit(commit=event.commit, agent=event.agent))
            case _:
                pass
    return TaskFeedback(
        rounds=tuple(rounds), guidance=tuple(guidance.values()), submissions=tuple(submissions)
    )


def _belongs_to_round(event: ReviewCommented, one: ReviewRound) -> bool:
    """True for comments on the work of a round, unless their reviewer has retracted its rejection."""
    if (event.handoff_id, event.tree) != (one.handoff_id, one.tree):
        return False
    has_rejected = any(review.reviewer == event.reviewer for review in one.reviews)
    return one.is_rejected_by(event.reviewer) or not has_rejected


def _group_by_reviewer(events: Sequence[ReviewRejected | ReviewCommented]) -> list[RoundReview]:
    """The reviews of a round, the earliest first: those given here one by one, those of a forge by reviewer.

    The result does not depend on which poll imported what: a comment that came more than once is shown once, and blocks
    if it ever did.
    """
    groups: dict[tuple[str, ...], list[ReviewRejected | ReviewCommented]] = {}
    for event in events:
        forge = forge_name(event.source)
        key = (forge, event.reviewer) if forge else (event.meta.id, event.reviewer, event.source)
        groups.setdefault(key, []).append(event)

    def start(review: RoundReview) -> Instant:
        return min((remark.finding.at for remark in review.remarks), default=review.at)

    return sorted((_gather_review(group) for group in groups.values()), key=start)


def _gather_review(events: Sequence[ReviewRejected | ReviewCommented]) -> RoundReview:
    found: dict[tuple[str, str, int], Finding] = {}
    places: dict[str, tuple[str, str, int]] = {}
    for event in events:
        for finding in event.findings:
            key = (finding.text, finding.path, finding.line)
            place = places.setdefault(finding.comment, key) if finding.comment else key
            known = found.get(place)
            if known is None:
                found[place] = finding if finding.at else replace(finding, at=event.ts)
            else:
                found[place] = replace(known, is_blocking=known.is_blocking or finding.is_blocking)
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


def _thread_replies(reviews: list[RoundReview]) -> list[RoundReview]:
    """The reviews with every reply below the finding that it answers, whoever gave that; other replies stay findings."""
    first_comments = {
        remark.finding.comment
        for review in reviews
        for remark in review.remarks
        if remark.finding.comment and not remark.finding.reply_to
    }
    replies: dict[str, list[tuple[str, Finding]]] = {}
    for review in reviews:
        for remark in review.remarks:
            if remark.finding.reply_to in first_comments:
                replies.setdefault(remark.finding.reply_to, []).append((review.reviewer, remark.finding))

    def with_replies(finding: Finding) -> FeedbackFinding:
        found = sorted(replies.get(finding.comment, ()), key=lambda reply: reply[1].at)
        blocks = finding.is_blocking or any(reply.is_blocking for _, reply in found)
        return FeedbackFinding(
            finding=replace(finding, is_blocking=blocks),
            replies=tuple(FindingReply(reviewer=reviewer, text=reply.text) for reviewer, reply in found),
        )

    threaded: list[RoundReview] = []
    for review in reviews:
        findings = [remark.finding for remark in review.remarks]
        left = [finding for finding in findings if finding.reply_to not in first_comments]
        if left or not findings:
            threaded.append(replace(review, remarks=tuple(map(with_replies, left))))
    return threaded


def _build_round(
    number: int, one: ReviewRound, reviews: Sequence[RoundReview], repository: str, most: int | None
) -> FeedbackRound:
    """A round with the findings that are shown of it, sanitised, each below its review."""
    every = [(at, remark) for at, review in enumerate(reviews) for remark in review.remarks]
    every.sort(key=lambda placed: not placed[1].finding.is_blocking)
    remarks: list[list[FeedbackFinding]] = [[] for _ in reviews]
    for at, remark in every[:most]:
        clean = partial(sanitise, repository=repository, is_rendered=bool(reviews[at].forge))
        remarks[at].append(
            FeedbackFinding(
                finding=replace(remark.finding, text=clean(remark.finding.text).text),
                replies=tuple(replace(reply, text=clean(reply.text).text) for reply in remark.replies),
            )
        )
    return FeedbackRound(
        number=number,
        commit=one.commit,
        agent=one.agent,
        reviews=tuple(
            replace(review, remarks=tuple(found)) for review, found in zip(reviews, remarks, strict=True)
        ),
        left_out=len(every) - len(every[:most]),
    )


def _mark_recurrences(last: FeedbackRound, numbered: Sequence[tuple[int, Finding]]) -> FeedbackRound:
    """The round with each finding marked that an earlier round has, or has the opposite of."""
    past = EarlierFindings([read_gist(finding) for _, finding in numbered])

    def mark(remark: FeedbackFinding) -> FeedbackFinding:
        own = read_gist(remark.finding)
        place = past.find_last_opposed(own)
        if place >= 0:
            number, finding = numbered[place]
            return replace(remark, against=number, reversed_text=sanitise(finding.text).text)
        return replace(remark, again=tuple(sorted({numbered[place][0] for place in past.find_same(own)})))

    reviews = tuple(replace(review, remarks=tuple(map(mark, review.remarks))) for review in last.reviews)
    return replace(last, reviews=reviews)
