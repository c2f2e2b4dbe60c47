"""Short records of rejections, stored apart so that they are found at once, each with the answer that counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from remand.domain.events.event import Event
from remand.domain.events.log import LinesGivenUp, LogArchived
from remand.domain.events.reviews import EscalationOpened, LockoutSet
from remand.domain.events.tasks import (
    Decision,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskWoken,
)
from remand.domain.instant import Instant
from remand.domain.reasons import parse_decision_type, parse_reason
from remand.domain.record import NamedTuple

FILED, INVALID, ANSWERED = "handoff.reject", "handoff.reject.invalid", "handoff.reject.response"
WOKEN, LOCKED_OUT, ESCALATED = "task.wake", "lockout.set", "escalation.open"
REPAIRED, ARCHIVED = "log.repair", "log.archive"
TRACED_NAMES = (FILED, INVALID, ANSWERED, WOKEN, LOCKED_OUT, ESCALATED, REPAIRED, ARCHIVED)
MAX_TEXT = 400
MAX_NAME = 200


class Trace(NamedTuple):
    """A short record of one event about a rejection or what followed."""

    event: str
    ts: Instant
    session: str
    seq: int
    task: str = ""
    """Empty if a GoT tool named only the handoff."""
    handoff: str = ""
    agent: str = ""
    rejection: str = ""
    """The rejection's id; for a line of a GoT tool, its handoff's."""
    said: str = ""
    """The reason of a rejection, or the type of a decision; empty if unknown."""
    text: str = ""
    """The blocking factor of a rejection, or the first task that a decision created."""


def trace_event(event: Event, task: str) -> Trace | None:
    """An event's trace; None if it is about no rejection."""
    tracer = _TRACERS.get(type(event))
    return tracer(event, task) if tracer else None


def _build_trace(event: Event, task: str, **more: str) -> Trace:
    meta = event.meta
    return Trace(event.name, event.ts, meta.session, meta.seq, task, **more)


def _trace_rejection(event: Any, task: str) -> Trace:
    record: Mapping[str, Any] = event.rejection
    return _build_trace(
        event,
        _traced_task(event, task),
        handoff=_shorten_text(event.handoff_id, MAX_NAME),
        agent=_shorten_text(event.agent, MAX_NAME),
        rejection=_rejection_key(event),
        said=_reason_name(record.get("reason_type", getattr(event, "reason", ""))),
        text=_shorten_text(record.get("blocking_factor"), MAX_TEXT),
    )


def _trace_answer(event: Any, task: str) -> Trace:
    decision: Decision = event.decision
    named = parse_decision_type(decision.decision_type)
    return _build_trace(
        event,
        _traced_task(event, task),
        handoff=_shorten_text(event.handoff_id, MAX_NAME),
        rejection=_rejection_key(event),
        said=named.name if named else "",
        text=_shorten_text(next(iter(decision.created_tasks), ""), MAX_NAME),
    )


def _traced_task(event: Any, task: str) -> str:
    """The task; for a line of a GoT tool, the one that it names, so that the order of arrival does not matter."""
    return event.task_id if event.is_legacy else task


def _rejection_key(event: Any) -> str:
    """The key that an answer and its rejection share."""
    return _shorten_text(event.handoff_id if event.is_legacy else event.rejection_id, MAX_NAME)


def _trace_with_agent(event: Any, task: str) -> Trace:
    return _build_trace(event, task, agent=_shorten_text(event.agent, MAX_NAME))


def _reason_name(value: object) -> str:
    named = parse_reason(value)
    return named.name if named else ""


def _shorten_text(value: object, longest: int) -> str:
    return value[:longest] if isinstance(value, str) else ""


_TRACERS: dict[type[Event], Callable[[Any, str], Trace | None]] = {
    HandoffRejected: _trace_rejection,
    HandoffRejectionInvalid: _trace_rejection,
    RejectionAnswered: _trace_answer,
    TaskWoken: _build_trace,
    LockoutSet: _trace_with_agent,
    EscalationOpened: _build_trace,
    LinesGivenUp: _build_trace,
    LogArchived: _build_trace,
}

TRACED = frozenset(_TRACERS)
"""The kinds of events that may leave a trace, for cheaply skipping others."""


class FiledRejection(NamedTuple):
    """A rejection, and what is known about it."""

    event: str
    ts: Instant
    session: str
    seq: int
    task: str
    agent: str
    reason: str
    blocker: str
    decision: str = ""
    """Empty if there is no answer, or its type is unknown."""
    answered_at: Instant = ""
    """Empty if there is no answer."""
    created: str = ""
    """The first task that the answer created."""
    woken_at: Instant = ""
    """When the task woke after a deferral; empty if it did not."""
