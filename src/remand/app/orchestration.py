"""The orchestration log: who reviewed, was locked out, took over or was asked, one line each, out of a task's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remand.app.escalations import often as times
from remand.domain import events as e
from remand.domain.evolve import evolve
from remand.domain.instant import Instant
from remand.domain.notices import override, takeover
from remand.domain.task import Lockout, Status, Task
from remand.domain.visible import visible
from remand.ledger.order import place
from remand.ledger.record_tables import LogLine

MAX_REASON = 300
_LOGGED = (
    e.ReviewRequested,
    e.ReviewApproved,
    e.ReviewRejected,
    e.ReviewRetracted,
    e.ReviewNoted,
    e.ReviewCommented,
    e.ReviewBypassed,
    e.LockoutSet,
    e.LockoutCleared,
    e.TaskReassigned,
    e.EscalationOpened,
    e.EscalationRepeated,
    e.EscalationAcknowledged,
    e.EscalationAnswered,
    e.GateAlerted,
)
LOGGED = frozenset(_LOGGED)
"""The kinds of events that have a line of their own. A task that is done has one for everyone it lets back."""


_UNTOLD = frozenset({e.LeaseRenewed, e.FeedbackFetched, e.EscalationNotified})
"""The kinds of events after which every file says what it said before."""


def is_on_file(task: Task, events: Sequence[e.Event]) -> bool:
    """True when files tell of what came of these events: the task was sent back, asks the user, or is in the log."""
    if task.feedback or task.escalation is not None or task.lockouts:
        return not all(type(event) in _UNTOLD for event in events)
    return any(type(event) in LOGGED or _is_override(event) for event in events)


def _is_override(event: e.Event) -> bool:
    return isinstance(event, e.OverridingEvent) and event.by_user


def log_lines(events: Iterable[e.Event]) -> list[LogLine]:
    """The lines of one task, from its events in their order."""
    lines: list[LogLine] = []
    task: Task | None = None
    for event in events:
        before, task = task, evolve(task, event)
        if task is None or before is None or task is before:
            continue
        time, session, seq, event_id = place(event)
        stands = f"{time} {session} {seq:012d} {event_id}"
        told = [*_told(before, task, event), *_freed_and_barred(before, task, event)]
        lines += [
            LogLine(f"{stands} {number:03d}", f"[{_shown(event.ts)}] {_flat(text)}")
            for number, text in enumerate(told)
        ]
    return lines


def _told(before: Task, task: Task, event: e.Event) -> Iterator[str]:
    """What an event says by itself, with who did it and why."""
    found = _said(before, task, event)
    if found is not None:
        said, why = found
        lost = [one.why for one in task.conflicts[len(before.conflicts) :]]
        yield _by(event, said, "; ".join(part for part in (_cut(why), *lost) if part))


def _said(before: Task, task: Task, event: e.Event) -> tuple[str, str] | None:
    """An event in the requirement's words, and the reason for it; None for one that has no line."""
    label = task.label[0].upper() + task.label[1:]
    match event:
        case e.TaskReassigned():
            why = f" ({_cut(event.reason)})" if event.reason else ""
            last = "the last eligible agent" if event.is_last else ""
            parts = (f"from {event.source}" if event.source else "", last)
            return f"REASSIGN: {label} → {event.target}{why}", ", ".join(part for part in parts if part)
        case e.EscalationOpened():
            asked = task.escalation.id if task.escalation else ""
            until = f"{asked}, answer by {_shown(event.deadline)}" if event.deadline else asked
            return f"ESCALATE: {label} → user ({_cut(event.reason)})", f"{event.kind or 'asked'}, {until}"
        case e.EscalationRepeated():
            return f"ESCALATE: {label} → user, again", f"{event.escalation_id}, nobody answered in time"
        case e.EscalationAcknowledged():
            kind = "ESCALATE" if before.open_escalation else "ALERT"
            return f"{kind}: {label} seen by the user", event.escalation_id
        case e.EscalationAnswered():
            kind = "ESCALATE" if before.open_escalation else "ALERT"
            return f"{kind}: {label} answered: {_cut(event.option)}", event.guidance
        case e.GateAlerted():
            often = f"the gates rejected {event.agent}'s work {times(event.number)}"
            return f"ALERT: {label}: {often}", f"{takeover(event.escalate_after)}, a human takes over"
        case e.GateOverridden() | e.FindingAccepted() | e.RejectionAnswered() if event.by_user:
            what, why = override(event, event.meta.actor) or ("", "")
            return f"OVERRIDE: {label}: {what}", why
        case _:
            return _reviewed(before, event)


def _reviewed(before: Task, event: e.Event) -> tuple[str, str] | None:
    work = f"PR #{before.pr}" if before.pr else before.label
    whose = f"{work} (author: {before.submission.agent})" if before.submission else work
    match event:
        case e.ReviewRequested():
            return f"REVIEW: {event.reviewer} asked to review {whose}", event.commit[:12]
        case e.ReviewApproved():
            return f"REVIEW: {event.reviewer} approved {whose}", f"{event.commit[:12]} approved"
        case e.ReviewRejected():
            return f"REVIEW: {event.reviewer} rejected {whose}", _findings(event.findings)
        case e.ReviewRetracted():
            author = before.author_of(event.review_id)
            of = f"{work} (author: {author})" if author else work
            return f"REVIEW: {event.reviewer} no longer rejects {of}", f"retracted: {event.reason}"
        case e.ReviewNoted():
            return f"REVIEW: {event.reviewer} reviewed {whose} without effect", event.why
        case e.ReviewCommented():
            return f"REVIEW: {event.reviewer} commented on {whose}", _findings(event.findings)
        case e.ReviewBypassed():
            return f"REVIEW: {event.by} merged {whose} past the rules", event.why
        case _:
            return None


def _freed_and_barred(before: Task, task: Task, event: e.Event) -> Iterator[str]:
    """Who is locked out since the event, and who is not any more."""
    if before.lockouts is task.lockouts and before.status == task.status:
        return
    were = {lockout.agent: lockout for lockout in before.inheritable_lockouts}
    are = {lockout.agent: lockout for lockout in task.inheritable_lockouts}
    for agent in (agent for agent in were if agent not in are):
        text = f"UNLOCK: {agent} unlocked ({_freed(task, event)})"
        yield _by(event, text, _cut(_why_freed(event)))
    for agent in (agent for agent in are if agent not in were):
        yield _by(event, f"LOCKOUT: {agent} locked out for {task.label}", _cut(_why_barred(are[agent])))


def _freed(task: Task, event: e.Event) -> str:
    if task.status == Status.DONE:
        return f"{task.label} resolved"
    return f"{task.label}, rejection retracted" if isinstance(event, e.ReviewRetracted) else task.label


def _why_freed(event: e.Event) -> str:
    match event:
        case e.LockoutCleared():
            return f"{event.reason}; guidance: {event.guidance}" if event.guidance else event.reason
        case e.ReviewApproved():
            return "approved"
        case e.ReviewRetracted():
            return event.reason
        case _:
            return event.name


def _why_barred(lockout: Lockout) -> str:
    return f"as for {lockout.inherited_from}: {lockout.reason}" if lockout.inherited_from else lockout.reason


def _findings(findings: tuple[e.Finding, ...]) -> str:
    """The first finding that blocks, and how many more there are."""
    first = next((finding for finding in findings if finding.is_blocking), None)
    if first is None:
        return ""
    at = f"{first.path}:{first.line}: " if first.path and first.line else f"{first.path}: " * bool(first.path)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{at}{_cut(first.text)[: MAX_REASON - len(more)]}{more}"


def _by(event: e.Event, text: str, why: str) -> str:
    """The requirement's line with what it lacks behind it: the time zone, who did it, and why."""
    return f"{text} [UTC, by {event.meta.actor or 'somebody'}{': ' if why else ''}{why}]"


def _shown(at: Instant) -> str:
    return f"{at[:10]} {at[11:19]}"


def _cut(text: str) -> str:
    flat = _flat(text)
    return flat if len(flat) <= MAX_REASON else f"{flat[: MAX_REASON - 1]}…"


def _flat(text: str) -> str:
    """Text on one line, with nothing hidden in it."""
    return " ".join(visible(text, "�").split())
