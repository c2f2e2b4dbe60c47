"""The rounds a task has been through with its reviewers: who found what, what comes again, what was said since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.feedback.likeness import Past, gist
from remand.domain.feedback.sanitise import sanitise
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.review_events import Finding
from remand.domain.task import Round, Task

MAX_TOLD = 20
"""How many findings of an earlier round are told: what blocks before what does not."""
MAX_COMPARED = 300
"""How many findings of an earlier round the last one's are held against."""
FORGES = {"github": "GitHub PR review", "gitea": "Gitea PR review", "gitlab": "GitLab MR review"}
COMMAND = "reject-task"


class Remark(Record, kw_only=True):
    """A finding, cleaned, with what it has to do with earlier rounds."""

    finding: Finding
    again: tuple[int, ...] = ()
    """The earlier rounds that it was found in, too."""
    against: int = 0
    """The earlier round with a finding that it reverses; 0 when there is none."""
    reversed_text: str = ""


class ReviewSaid(Record, kw_only=True):
    """One review that stands."""

    reviewer: str
    at: Instant
    source: str = ""
    remarks: tuple[Remark, ...] = ()

    @property
    def forge(self) -> str:
        """What the review is called on the forge it was given on; empty when it was given here."""
        return FORGES.get(self.source.partition(":")[0], "") if ":" in self.source else ""


class FeedbackRound(Record, kw_only=True):
    """A rejected submission with every review of it that stands."""

    number: int
    commit: str
    agent: str
    reviews: tuple[ReviewSaid, ...]
    left_out: int = 0
    """How many findings of an earlier round are not told."""


class Guidance(Record, kw_only=True):
    """What the user wants whoever works on the task to know."""

    by: str
    at: Instant
    text: str


class Handed(Record, kw_only=True):
    """A commit that was handed in, by whom."""

    commit: str
    agent: str


class Feedback(Record, kw_only=True):
    """All that was said to those who worked on a task."""

    rounds: tuple[FeedbackRound, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    submissions: tuple[Handed, ...] = ()


def feedback_of(task: Task, events: Sequence[e.Event], repository: str = "") -> Feedback:
    """The rounds that stand, oldest first, with the last one's findings held against those before."""
    said = {
        event.review_id or event.meta.id: event for event in events if isinstance(event, e.ReviewRejected)
    }
    rounds: list[FeedbackRound] = []
    past: list[tuple[int, Finding]] = []
    for number, one in enumerate(task.standing_rounds, 1):
        reviews = [said[review.id] for review in one.reviews if not review.is_retracted and review.id in said]
        is_last = number == len(task.standing_rounds)
        told = _round(number, one, reviews, repository, None if is_last else MAX_TOLD)
        rounds.append(_compared(told, past) if is_last and past else told)
        past += [(number, finding) for event in reviews for finding in event.findings][:MAX_COMPARED]
    return Feedback(
        rounds=tuple(rounds), guidance=tuple(_guidance(events)), submissions=tuple(_submissions(events))
    )


def _round(
    number: int, one: Round, events: Sequence[e.ReviewRejected], repository: str, most: int | None
) -> FeedbackRound:
    """A round with the findings that are told of it, each below its review and cleaned."""
    every = [(at, finding) for at, event in enumerate(events) for finding in event.findings]
    every.sort(key=lambda placed: not placed[1].is_blocking)
    remarks: list[list[Remark]] = [[] for _ in events]
    reviews = [ReviewSaid(reviewer=event.reviewer, at=event.ts, source=event.source) for event in events]
    for at, finding in every[:most]:
        text = sanitise(finding.text, repository, is_rendered=bool(reviews[at].forge)).text
        remarks[at].append(Remark(finding=replace(finding, text=text)))
    return FeedbackRound(
        number=number,
        commit=one.commit,
        agent=one.agent,
        reviews=tuple(
            replace(review, remarks=tuple(found)) for review, found in zip(reviews, remarks, strict=True)
        ),
        left_out=len(every) - len(every[:most]),
    )


def _compared(last: FeedbackRound, numbered: Sequence[tuple[int, Finding]]) -> FeedbackRound:
    """The round with each finding marked that an earlier round has, or has the opposite of."""
    past = Past([gist(finding) for _, finding in numbered])
    reviews = tuple(
        replace(review, remarks=tuple(_marked(remark, past, numbered) for remark in review.remarks))
        for review in last.reviews
    )
    return replace(last, reviews=reviews)


def _marked(remark: Remark, past: Past, numbered: Sequence[tuple[int, Finding]]) -> Remark:
    own = gist(remark.finding)
    place = past.opposed(own)
    if place >= 0:
        number, finding = numbered[place]
        return replace(remark, against=number, reversed_text=sanitise(finding.text).text)
    return replace(remark, again=tuple(sorted({numbered[place][0] for place in past.same(own)})))


def _guidance(events: Iterable[e.Event]) -> list[Guidance]:
    """What the user said with an unlock or an answer, each text once."""
    found: dict[str, Guidance] = {}
    for event in events:
        if isinstance(event, e.LockoutCleared | e.EscalationAnswered) and event.guidance.strip():
            text = sanitise(event.guidance, is_rendered=False, keeps_links=True).text
            found.setdefault(text, Guidance(by=event.meta.actor or "user", at=event.ts, text=text))
    return list(found.values())


def _submissions(events: Iterable[e.Event]) -> list[Handed]:
    return [
        Handed(commit=event.commit, agent=event.agent)
        for event in events
        if isinstance(event, e.TaskSubmitted | e.HandoffCompleted) and event.commit
    ]
