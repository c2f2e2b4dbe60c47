"""The orchestration log: reviews, lockouts, takeovers and questions, one line each, from a task's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remand.domain.decisions.notices import describe_override, describe_takeover
from remand.domain.events.event import Event, OverridingEvent
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    FeedbackFetched,
    Finding,
    LockoutCleared,
    LockoutSet,
    ReviewApproved,
    ReviewBypassed,
    ReviewCommented,
    ReviewNoted,
    ReviewRejected,
    ReviewRequested,
    ReviewRetracted,
    TaskReassigned,
    first_blocking,
)
from remand.domain.events.tasks import LeaseRenewed, RejectionAnswered
from remand.domain.events.work import FindingAccepted, GateAlerted, GateOverridden
from remand.domain.evolve import evolve
from remand.domain.instant import Instant
from remand.domain.task import Lockout, Status, Task
from remand.domain.text.words import flatten, shorten
from remand.domain.text.words import times_text as times
from remand.ledger.order import order_key
from remand.ledger.store import LogLine

MAX_REASON = 300
HIDDEN = "�"
"""Replaces invisible characters."""
_LOGGED = (
    ReviewRequested,
    ReviewApproved,
    ReviewRejected,
    ReviewRetracted,
    ReviewNoted,
    ReviewCommented,
    ReviewBypassed,
    LockoutSet,
    LockoutCleared,
    TaskReassigned,
    EscalationOpened,
    EscalationRepeated,
    EscalationAcknowledged,
    EscalationAnswered,
    GateAlerted,
)
LOGGED = frozenset(_LOGGED)
"""Events with a line of their own. A task that is done has a line for everyone whose lockout ends."""


_SILENT = frozenset({LeaseRenewed, FeedbackFetched, EscalationNotified})
"""Events that change none of the files."""


def is_recorded_in_files(before: Task | None, task: Task, events: Sequence[Event]) -> bool:
    """True if the events are recorded in files: the task was sent back, asks the user, or appears in the log.

    `before` is the task before the first of them. The log has its new lockouts and those that ended.
    """
    if task.reviews.feedback or task.inbox.escalation is not None:
        return not all(type(event) in _SILENT for event in events)
    if task.people.lockouts or (before is not None and before.people.lockouts):
        were = before.inheritable_lockouts if before else ()
        if were != task.inheritable_lockouts:
            return True
    for event in events:  # noqa: SIM110 - a generator takes several times as long
        if type(event) in LOGGED or _is_override(event):
            return True
    return False


def _is_override(event: Event) -> bool:
    return isinstance(event, OverridingEvent) and event.by_user


def log_lines(events: Iterable[Event]) -> list[LogLine]:
    """The lines of a task from its events in order."""
    lines: list[LogLine] = []
    task: Task | None = None
    for event in events:
        before, task = task, evolve(task, event)
        if task is None or before is None or task is before:
            continue
        told = [*_event_lines(before, task, event), *_lockout_lines(before, task, event)]
        if not told:
            continue
        time, session, seq, event_id = order_key(event)
        stands = f"{time} {session} {seq:012d} {event_id}"
        lines += [
            LogLine(f"{stands} {number:03d}", f"[{_time_text(event.ts)}] {flatten(text, HIDDEN)}")
            for number, text in enumerate(told)
        ]
    return lines


def _event_lines(before: Task, task: Task, event: Event) -> Iterator[str]:
    """An event's own line with its actor and reason."""
    if type(event) not in LOGGED and not _is_override(event):
        return
    found = _event_text(before, task, event)
    if found is not None:
        said, why = found
        lost = [one.why for one in task.inbox.conflicts[len(before.inbox.conflicts) :]]
        yield _with_actor(event, said, "; ".join(part for part in (_short_reason(why), *lost) if part))


def _event_text(before: Task, task: Task, event: Event) -> tuple[str, str] | None:
    """An event in the wording of the requirements with its reason; None if it has no line."""
    label = task.label[0].upper() + task.label[1:]
    match event:
        case TaskReassigned():
            why = f" ({_short_reason(event.reason)})" if event.reason else ""
            last = "the last eligible agent" if event.is_last else ""
            parts = (f"from {event.source}" if event.source else "", last)
            return f"REASSIGN: {label} → {event.target}{why}", ", ".join(part for part in parts if part)
        case EscalationOpened():
            asked = task.inbox.escalation.id if task.inbox.escalation else ""
            until = f"{asked}, answer by {_time_text(event.deadline)}" if event.deadline else asked
            return (
                f"ESCALATE: {label} → user ({_short_reason(event.reason)})",
                f"{event.kind or 'asked'}, {until}",
            )
        case EscalationRepeated():
            return f"ESCALATE: {label} → user, again", f"{event.escalation_id}, nobody answered in time"
        case EscalationAcknowledged():
            kind = "ESCALATE" if before.open_escalation else "ALERT"
            return f"{kind}: {label} seen by the user", event.escalation_id
        case EscalationAnswered():
            kind = "ESCALATE" if before.open_escalation else "ALERT"
            return f"{kind}: {label} answered: {_short_reason(event.option)}", event.guidance
        case GateAlerted():
            often = f"the gates rejected {event.agent}'s work {times(event.number)}"
            return (
                f"ALERT: {label}: {often}",
                f"{describe_takeover(event.escalate_after)}, a human takes over",
            )
        case GateOverridden() | FindingAccepted() | RejectionAnswered() if event.by_user:
            what, why = describe_override(event, event.meta.actor) or ("", "")
            return f"OVERRIDE: {label}: {what}", why
        case _:
            return _review_text(before, event)


def _review_text(before: Task, event: Event) -> tuple[str, str] | None:
    work = f"PR #{before.pr}" if before.pr else before.label
    whose = f"{work} (author: {before.submission.agent})" if before.submission else work
    match event:
        case ReviewRequested():
            return f"REVIEW: {event.reviewer} asked to review {whose}", event.commit[:12]
        case ReviewApproved():
            return f"REVIEW: {event.reviewer} approved {whose}", f"{event.commit[:12]} approved"
        case ReviewRejected():
            return f"REVIEW: {event.reviewer} rejected {whose}", _findings_text(event.findings)
        case ReviewRetracted():
            author = before.author_of(event.review_id)
            of = f"{work} (author: {author})" if author else work
            return f"REVIEW: {event.reviewer} no longer rejects {of}", f"retracted: {event.reason}"
        case ReviewNoted():
            return f"REVIEW: {event.reviewer} reviewed {whose} without effect", event.why
        case ReviewCommented():
            return f"REVIEW: {event.reviewer} commented on {whose}", _findings_text(event.findings)
        case ReviewBypassed():
            return f"REVIEW: {event.by} merged {whose} past the rules", event.why
        case _:
            return None


def _lockout_lines(before: Task, task: Task, event: Event) -> Iterator[str]:
    """Who is locked out since the event, and whose lockout ended."""
    if before.people.lockouts is task.people.lockouts and before.status == task.status:
        return
    were = {lockout.agent: lockout for lockout in before.inheritable_lockouts}
    are = {lockout.agent: lockout for lockout in task.inheritable_lockouts}
    for agent in (agent for agent in were if agent not in are):
        text = f"UNLOCK: {agent} unlocked ({_unlock_text(task, event)})"
        yield _with_actor(event, text, _short_reason(_unlock_reason(event)))
    for agent in (agent for agent in are if agent not in were):
        yield _with_actor(
            event, f"LOCKOUT: {agent} locked out for {task.label}", _short_reason(_lockout_reason(are[agent]))
        )


def _unlock_text(task: Task, event: Event) -> str:
    if task.status == Status.DONE:
        return f"{task.label} resolved"
    return f"{task.label}, rejection retracted" if isinstance(event, ReviewRetracted) else task.label


def _unlock_reason(event: Event) -> str:
    match event:
        case LockoutCleared():
            return f"{event.reason}; guidance: {event.guidance}" if event.guidance else event.reason
        case ReviewApproved():
            return "approved"
        case ReviewRetracted():
            return event.reason
        case _:
            return event.name


def _lockout_reason(lockout: Lockout) -> str:
    return f"as for {lockout.inherited_from}: {lockout.reason}" if lockout.inherited_from else lockout.reason


def _findings_text(findings: tuple[Finding, ...]) -> str:
    """The first blocking finding, and the number of others."""
    first = first_blocking(findings)
    if first is None:
        return ""
    at = f"{first.path}:{first.line}: " if first.path and first.line else f"{first.path}: " * bool(first.path)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{at}{_short_reason(first.text)[: MAX_REASON - len(more)]}{more}"


def _with_actor(event: Event, text: str, why: str) -> str:
    """The required line, followed by what it lacks: the time zone, the actor and the reason."""
    return f"{text} [UTC, by {event.meta.actor or 'somebody'}{': ' if why else ''}{why}]"


def _time_text(at: Instant) -> str:
    return f"{at[:10]} {at[11:19]}"


def _short_reason(text: str) -> str:
    return shorten(flatten(text, HIDDEN), MAX_REASON)
