"""A task's history from its events: handoffs, questions, reviews, pending submissions, and its timeline in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.history.activity import QUIET_EVENTS, event_words
from remand.app.history.rejections import value_text
from remand.domain.access.team import COORDINATOR, USER, Actor
from remand.domain.decisions.reviews import has_worked_on
from remand.domain.events import reviews, tasks, work
from remand.domain.events.event import Event
from remand.domain.events.work import GateErrored
from remand.domain.evolve import evolve
from remand.domain.feedback import pull_request_reviews
from remand.domain.folds.reviews import make_escalation_id
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.instant import Instant
from remand.domain.reasons import parse_decision_type
from remand.domain.record import NamedTuple, Record
from remand.domain.task import Status, Task
from remand.domain.text.words import capitalize_first, single_line
from remand.ledger.store import Transaction


class HandoffView(Record, kw_only=True):
    handoff_id: str
    task_id: str
    agent: str
    status: str
    source: str = ""
    instructions: str = ""
    initiated_at: str = ""
    accepted_at: str = ""
    completed_at: str = ""
    ended_at: str = ""
    override_message: str = ""
    """The director's message to the agent, while it holds the handoff after that override."""
    reassigned_to: str = ""
    """The agent that an override gave the task to; the handoff no longer belongs to its agent."""
    result: dict[str, Any] = msgspec.field(default_factory=dict)


_END_STATUS: dict[type[Event], str] = {
    tasks.LeaseExpired: "expired",
    tasks.TaskReleased: "released",
    tasks.TaskContinued: "continued",
    GateErrored: "continued",
    tasks.TaskFailed: "failed",
    tasks.HandoffLapsed: "lapsed",
    tasks.HandoffResumed: "overridden",
}
OPEN = ("initiated", "accepted", "overridden")


def task_handoffs(events: list[Event]) -> list[HandoffView]:
    """All handoffs of a task; those that lost a merge are marked as conflicts, and open ones end with the task."""
    found: dict[str, HandoffView] = {}
    imported = _LegacyHandoffs()
    task: Task | None = None
    for event in events:
        lost = len(task.inbox.conflicts) if task else 0
        task = evolve(task, event)
        has_lost = task is not None and len(task.inbox.conflicts) > lost
        if imported.belongs_to_history(event, task, found):
            _apply_event(found, event, has_lost)
        if task is not None and (task.is_terminal or task.claim is None):
            _close_open_handoffs(found, task, event)
    filed = task.rejections.last_rejection if task else None
    if filed is not None and filed.decision == "OVERRIDE" and filed.handoff_id in found:
        view = found[filed.handoff_id]
        # Once the handoff was resumed or has ended, the director's message is history.
        if view.status in ("initiated", "overridden"):
            found[filed.handoff_id] = msgspec.structs.replace(view, override_message=filed.message)
    return list(found.values())


class _LegacyHandoffs:
    """The lines of GoT tools that count for a task's handoffs: never for those that the ledger's own events created."""

    def __init__(self) -> None:
        self._native: set[str] = set()
        self._rejected: set[str] = set()

    def belongs_to_history(self, event: Event, task: Task | None, found: dict[str, HandoffView]) -> bool:
        """True if an event counts; a GoT tool's account of a handoff gives way to the native events."""
        name = getattr(event, "handoff_id", "")
        if not event.is_legacy:
            if isinstance(event, tasks.HandoffInitiated | tasks.TaskClaimed) and name not in self._native:
                self._native.add(name)
                found.pop(name, None)
            return True
        if name in self._native or (task is not None and not task.is_legacy):
            return False
        if isinstance(event, tasks.HandoffRejected | tasks.HandoffRejectionInvalid):
            self._rejected.add(name)
        if isinstance(event, tasks.RejectionAnswered):
            return name in self._rejected and parse_decision_type(event.decision.decision_type) is not None
        return True


def _apply_event(found: dict[str, HandoffView], event: Event, has_lost: bool) -> None:
    match event:
        case tasks.HandoffInitiated():
            found[event.handoff_id] = HandoffView(
                handoff_id=event.handoff_id,
                task_id=event.task_id,
                agent=event.target_agent,
                status="conflict" if has_lost else "initiated",
                source=event.source_agent,
                instructions=event.instructions,
                initiated_at=event.ts,
            )
        case tasks.TaskClaimed():
            found[event.handoff_id] = HandoffView(
                handoff_id=event.handoff_id,
                task_id=event.task_id,
                agent=event.agent,
                status="conflict" if has_lost else "accepted",
                source="queue",
                initiated_at=event.ts,
                accepted_at=event.ts,
            )
        case tasks.HandoffAccepted() if event.handoff_id in found:
            _change_handoff(
                found, event.handoff_id, has_lost, status="accepted", accepted_at=event.ts, agent=event.agent
            )
        case tasks.HandoffCompleted() if event.handoff_id in found:
            _change_handoff(
                found,
                event.handoff_id,
                has_lost,
                status="completed",
                completed_at=event.ts,
                result=event.result,
            )
        case tasks.TaskSubmitted():
            _change_handoff(found, event.handoff_id, has_lost, status="completed", completed_at=event.ts)
        case tasks.HandoffRejected() | tasks.HandoffRejectionInvalid():
            _apply_rejection(found, event, has_lost)
        case tasks.RejectionAppealed():
            _change_handoff(found, event.handoff_id, has_lost, status="rejected")
        case tasks.RejectionAnswered():
            _apply_answer(found, event, has_lost)
        case _:
            ending, handoff_id = _END_STATUS.get(type(event)), getattr(event, "handoff_id", "")
            is_reassigned = handoff_id in found and found[handoff_id].status == "reassigned"
            if ending and not is_reassigned:
                ended_at = "" if ending in OPEN else event.ts
                _change_handoff(found, handoff_id, has_lost, status=ending, ended_at=ended_at)


def _apply_rejection(
    found: dict[str, HandoffView],
    event: tasks.HandoffRejected | tasks.HandoffRejectionInvalid,
    has_lost: bool,
) -> None:
    """Applies a rejection. An imported one may be all that is known of its handoff or agent; an invalid one changes nothing."""
    known = found.get(event.handoff_id)
    if event.is_legacy and known is None:
        found[event.handoff_id] = HandoffView(
            handoff_id=event.handoff_id, task_id=event.task_id, agent=event.agent, status="initiated"
        )
    elif event.is_legacy and known is not None and not known.agent:
        _change_handoff(found, event.handoff_id, has_lost, agent=event.agent)
    if not (event.is_legacy and isinstance(event, tasks.HandoffRejectionInvalid)):
        _change_handoff(found, event.handoff_id, has_lost, status="rejected")


def _apply_answer(found: dict[str, HandoffView], event: tasks.RejectionAnswered, has_lost: bool) -> None:
    """Applies the answer to a rejection, and whether it gave the task to another agent."""
    known, decision = found.get(event.handoff_id), event.decision
    if known is None:
        return
    if decision.decision_type != "OVERRIDE":
        _change_handoff(found, event.handoff_id, has_lost, status="rejection_accepted", ended_at=event.ts)
        return
    # The message of a native override comes from the task: it is valid only as long as the override.
    text, other = decision.override_message if event.is_legacy else "", decision.reassign_to
    if other in ("", known.agent):
        _change_handoff(found, event.handoff_id, has_lost, status="overridden", override_message=text)
        return
    _change_handoff(
        found,
        event.handoff_id,
        has_lost,
        status="reassigned",
        override_message=text,
        reassigned_to=other,
        ended_at=event.ts,
    )


def _change_handoff(found: dict[str, HandoffView], handoff_id: str, has_lost: bool, **changes: Any) -> None:
    if handoff_id in found and not has_lost:
        found[handoff_id] = msgspec.structs.replace(found[handoff_id], **changes)


def _close_open_handoffs(found: dict[str, HandoffView], task: Task, event: Event) -> None:
    """Closes open handoffs with their task, or when its claim is ended from outside."""
    if task.is_legacy:
        return
    offered = {offer.handoff_id for offer in task.claims.offers}
    for handoff_id, view in found.items():
        if view.status in OPEN and handoff_id not in offered:
            found[handoff_id] = msgspec.structs.replace(view, status="closed", ended_at=event.ts)


class QuestionView(Record, kw_only=True, omit_defaults=False):
    """A question to the user and its outcome."""

    escalation_id: str
    kind: str
    reason: str
    since: str
    deadline: str
    status: str = "open"
    """`answered`, or `closed` if the task continued in another way."""
    repeats: int = 0
    acknowledged_by: str | None = None
    option: str | None = None
    guidance: str | None = None
    answered_by: str | None = None
    answered_at: str | None = None


def task_questions(task: Task, events: list[Event]) -> list[QuestionView]:
    """All questions of a task to the user, in order."""
    found: dict[str, QuestionView] = {}
    guidance: dict[str, str] = {}
    for event in events:
        if isinstance(event, reviews.LockoutCleared):
            guidance[f"unlock:{event.agent}"] = event.guidance
        elif isinstance(event, reviews.EscalationOpened):
            view = QuestionView(
                escalation_id=make_escalation_id(event),
                kind=event.kind,
                reason=event.reason,
                since=event.ts,
                deadline=event.deadline,
            )
            found[view.escalation_id] = view
        elif (known := found.get(getattr(event, "escalation_id", ""))) is not None:
            found[known.escalation_id] = msgspec.structs.replace(
                known, **_question_changes(known, event, guidance)
            )
    current = task.open_escalation.id if task.open_escalation else ""
    return [
        msgspec.structs.replace(known, status="closed")
        if known.status == "open" and known.escalation_id != current
        else known
        for known in found.values()
    ]


def _question_changes(known: QuestionView, event: Event, guidance: dict[str, str]) -> dict[str, Any]:
    """An event's changes to the question it names. The guidance of an unlock is in the unlock's own event."""
    match event:
        case reviews.EscalationAnswered():
            return {
                "status": "answered",
                "option": event.option,
                "guidance": event.guidance or guidance.get(event.option) or None,
                "answered_by": event.meta.actor,
                "answered_at": event.ts,
            }
        case reviews.EscalationRepeated():
            return {"repeats": known.repeats + 1, "deadline": event.deadline or known.deadline}
        case reviews.EscalationAcknowledged():
            return {"acknowledged_by": event.meta.actor}
        case _:
            return {}


_REVIEWS = (
    "review.request",
    "review.approve",
    "review.reject",
    "review.retract",
    "review.note",
    "review.comment",
)


def task_reviews(task: Task, events: list[Event]) -> list[dict[str, Any]]:
    """The reviews of a task as plain rows; rejections with their id and whether they were retracted."""
    is_retracted = {
        review.id: review.is_retracted
        for review_round in task.reviews.rounds
        for review in review_round.reviews
    }
    rows = [row for row in event_rows(events) if row["event"] in _REVIEWS]
    for row in rows:
        if row["event"] == "review.reject":
            row["review_id"] = row.get("review_id") or row["event_id"]
            row["is_retracted"] = is_retracted.get(row["review_id"], False)
    return rows


class UncountedReview(Record, kw_only=True, omit_defaults=False):
    """A review on the forge that does not count."""

    task_id: str
    reviewer: str
    why: str
    commit: str
    source: str
    """The forge and its id of the review."""
    at: str
    """When it was seen."""

    @property
    def text(self) -> str:
        """The review and the reason in one sentence."""
        of = f" of {self.commit[:12]}" if self.commit else ""
        return f"{self.reviewer}'s review{of} was seen and does not count: {self.why.rstrip('.')}."


def uncounted_review(event: reviews.ReviewNoted) -> UncountedReview:
    """A review as it was noted."""
    return UncountedReview(
        task_id=event.task_id,
        reviewer=event.reviewer or "Somebody",
        why=event.why,
        commit=event.commit,
        source=pull_request_reviews.source_review(event.source),
        at=event.ts,
    )


def uncounted_reviews(events: list[Event]) -> list[UncountedReview]:
    """The reviews since the last submission that do not count, each with the latest reason."""
    found: dict[str, UncountedReview] = {}
    for event in events:
        match event:
            case tasks.TaskSubmitted() | tasks.HandoffCompleted():
                found.clear()
            case reviews.ReviewNoted():
                found[pull_request_reviews.source_review(event.source)] = uncounted_review(event)
            case reviews.ReviewRejected() | reviews.ReviewApproved():
                found.pop(pull_request_reviews.source_review(event.source), None)
            case _:
                pass
    return list(found.values())


def asserted_actors(events: list[Event]) -> tuple[str, ...]:
    """Actors that are identified only by their own word; none if the user did everything."""
    actors = {event.meta.actor for event in events} - {"", COORDINATOR}
    found = {event.meta.actor for event in events if event.meta.is_asserted}
    return tuple(sorted(found)) if actors - {USER} else ()


def event_rows(events: list[Event]) -> list[dict[str, Any]]:
    """The events of a task as plain rows: time, name, actor and data."""
    rows = []
    for event in events:
        fields = msgspec.to_builtins(event)
        fields.pop("meta", None)
        who = {"ts": event.ts, "event": event.name, "actor": event.meta.actor, "event_id": event.meta.id}
        rows.append(fields | who | {"asserted": event.meta.is_asserted})
    return rows


class SubmissionUnderReview(Record, kw_only=True, omit_defaults=False):
    """A submission that awaits review."""

    task_id: str
    title: str
    commit: str
    author: str
    since: Instant
    branch: str | None = None
    pr: int | None = None
    requested: tuple[str, ...] = ()
    """The reviewers that were requested."""
    attempt: int = 0
    rejection_count: int = 0
    asserted: bool = False
    """Whether the author is identified only by their own word."""
    not_counted: tuple[UncountedReview, ...] = ()
    """Reviews of it on the forge that do not count."""


def submissions_under_review(view: Transaction, reviewer: Actor | None = None) -> list[SubmissionUnderReview]:
    """All submissions under review, oldest first; with a reviewer, only those it was not involved in."""
    submissions = [
        SubmissionUnderReview(
            task_id=task.id,
            title=task.title,
            commit=work.commit,
            author=work.agent,
            since=work.at,
            branch=task.branch or None,
            pr=task.pr or None,
            requested=task.reviews.requested,
            attempt=task.claims.attempt_count,
            rejection_count=task.reviews.rejection_count,
            asserted=work.is_asserted,
            not_counted=tuple(uncounted_reviews(task_events(view, task.id))) if task.reviews.sources else (),
        )
        for task in view.task_lists.with_status(Status.PROVISIONAL)
        if (work := task.submission) and not (reviewer and has_worked_on(task, reviewer))
    ]
    return sorted(submissions, key=lambda entry: (entry.since, entry.task_id))


MAX_SENTENCE = 400
MAX_DETAIL = 600
MAX_DETAILS = 12
_TASK_VERBS = frozenset(("asks", "cannot", "goes", "is", "no", "waits", "was"))
"""The first words of event texts whose subject is the task itself."""

_OUR_WORDS = frozenset(("an", "findings", "gates", "its", "on", "sessions", "the"))
"""Other first words that are not names and need a capital letter."""
_ENDS = (".", "?", "!", "…")


class StoryLine(NamedTuple):
    """One event as a sentence, with its details: findings, figures, reasons."""

    at: Instant
    sentence: str
    details: tuple[str, ...] = ()


def story_lines(events: Iterable[Event], asserted: Collection[str] = ()) -> list[StoryLine]:
    """The timeline of a task without quiet events. `asserted` are actors identified only by their own word."""
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
    """The details of an event, one line each; of very many only the first."""
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
    """The blocking figures of the gates, with their first findings."""
    for gate in verdict.gates:
        if gate.status is not GateStatus.PASSED:
            yield gate.line.removeprefix("- ") or gate.detail
            for finding in gate.findings[:3]:
                yield f"{_place(finding.path, finding.line)}{finding.text}"


def _rejection_lines(event: tasks.HandoffRejected | tasks.HandoffRejectionInvalid) -> Iterator[str]:
    """An agent's reasons, and what they lack."""
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
