"""The story of one task in sentences, as people read it: what happened, with the findings and reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from remand.app.history.activity import QUIET_EVENTS, event_words
from remand.app.history.rejections import value_text
from remand.domain.events import reviews, tasks, work
from remand.domain.events.event import Event
from remand.domain.folds.reviews import make_escalation_id
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.text.words import capitalize_first, single_line

MAX_SENTENCE = 400
MAX_DETAIL = 600
MAX_DETAILS = 12
_TASK_VERBS = frozenset(("asks", "cannot", "goes", "is", "no", "sleeps", "waits", "was", "woke"))
"""What the words about an event begin with when they are about the task itself."""

_OUR_WORDS = frozenset(("an", "findings", "gates", "its", "on", "sessions", "the"))
"""What they begin with otherwise when it is no name, which stays as it is written."""
_ENDS = (".", "?", "!", "…")


class StoryLine(NamedTuple):
    """One thing that happened, as a sentence, and what belongs to it: findings, figures, reasons."""

    at: Instant
    sentence: str
    details: tuple[str, ...] = ()


def tell_story(events: Iterable[Event], asserted: Collection[str] = ()) -> list[StoryLine]:
    """What happened to a task, in order, without what says nothing new. `asserted` are those who only said who they are."""
    return [
        StoryLine(event.ts, _sentence(event, asserted), _details(event))
        for event in events
        if type(event) not in QUIET_EVENTS
    ]


def _sentence(event: Event, asserted: Collection[str]) -> str:
    match event:
        case reviews.ReviewRejected():
            mark = " (asserted)" if event.meta.is_asserted and event.meta.actor in asserted else ""
            words = f"{event.reviewer}{mark} rejected {event.commit[:12]} ({event.review_id})"
        case reviews.EscalationOpened():
            words = f"asks the user ({make_escalation_id(event)}): {event.reason}"
        case _:
            words = event_words(event)
    first = words.partition(" ")[0]
    if first in _TASK_VERBS:
        words = f"The task {words}"
    elif first in _OUR_WORDS:
        words = capitalize_first(words)
    sentence = single_line(words, MAX_SENTENCE)
    return sentence if sentence.endswith(_ENDS) else f"{sentence}."


def _details(event: Event) -> tuple[str, ...]:
    """What belongs to an event, one line each; of very much the first."""
    lines = [single_line(line, MAX_DETAIL) for line in _all_details(event) if line]
    more = len(lines) - MAX_DETAILS
    return (*lines[:MAX_DETAILS], *([f"and {more} more"] if more > 0 else []))


def _all_details(event: Event) -> Iterator[str]:
    match event:
        case reviews.ReviewRejected() | reviews.ReviewNoted() | reviews.ReviewCommented():
            for finding in sorted(event.findings, key=lambda one: not one.is_blocking):
                weight = "blocking" if finding.is_blocking else "suggestion"
                yield f"{weight}: {_place(finding.path, finding.line)}{finding.text}"
        case work.GateRejected() | work.GateHeld() | work.GateErrored():
            yield from _verdict_lines(event.verdict)
        case work.GatePassed():
            yield ", ".join(gate.line.removeprefix("- ") for gate in event.verdict.gates if gate.line)
        case tasks.HandoffRejected() | tasks.HandoffRejectionInvalid():
            yield from _rejection_lines(event)
        case tasks.RejectionAnswered(decision=decision):
            yield f"message: {decision.override_message}" if decision.override_message else ""
        case reviews.EscalationAnswered() | reviews.LockoutCleared():
            yield f"guidance: {event.guidance}" if event.guidance else ""
        case _:
            return


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    """The figures of the gates that stood in the way, with their first findings."""
    for gate in verdict.gates:
        if gate.status is not GateStatus.PASSED:
            yield gate.line.removeprefix("- ") or gate.detail
            for finding in gate.findings[:3]:
                yield f"{_place(finding.path, finding.line)}{finding.text}"


def _rejection_lines(event: tasks.HandoffRejected | tasks.HandoffRejectionInvalid) -> Iterator[str]:
    """What an agent gave as its reasons, and what was found lacking."""
    record = tasks.record_of(event)
    for label, name in (
        ("because", "reason_detail"),
        ("in the way", "blocking_factor"),
        ("tried", "what_attempted"),
        ("instead", "suggested_alternative"),
    ):
        value = record.get(name)
        yield f"{label}: {value_text(value)}" if value else ""
    if isinstance(event, tasks.HandoffRejectionInvalid):
        for issue in event.issues:
            yield f"lacking: {issue.message}"


def _place(path: str, line: int) -> str:
    return f"{path}:{line}: " if path and line else f"{path}: " if path else ""
