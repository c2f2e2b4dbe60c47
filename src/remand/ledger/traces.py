"""Rejections in brief: what is learned from them needs of the events, kept apart so that it is found at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from remand.domain import events as e
from remand.domain.instant import Instant
from remand.domain.reasons import decision_named, reason_named

FILED, INVALID, ANSWERED = "handoff.reject", "handoff.reject.invalid", "handoff.reject.response"
WOKEN, LOCKED_OUT, ESCALATED = "task.wake", "lockout.set", "escalation.open"
REPAIRED = "log.repair"
NAMES = (FILED, INVALID, ANSWERED, WOKEN, LOCKED_OUT, ESCALATED, REPAIRED)
MAX_TEXT = 400
MAX_NAME = 200


class Trace(NamedTuple):
    """One event about a rejection, or about what came of it, in brief."""

    event: str
    ts: Instant
    session: str
    seq: int
    task: str = ""
    """Empty where a GoT tool named the handoff alone."""
    handoff: str = ""
    agent: str = ""
    rejection: str = ""
    """The rejection's id, or its handoff's where a GoT tool wrote it."""
    said: str = ""
    """The reason of a rejection, the type of a decision; empty when it is none of the known ones."""
    text: str = ""
    """The blocking factor of a rejection, the first task that a decision created."""


def trace(event: e.Event, task: str) -> Trace | None:
    """An event in brief; None when it is about no rejection and nothing that came of one."""
    tracer = _TRACERS.get(type(event))
    return tracer(event, task) if tracer else None


def _trace(event: e.Event, task: str, **more: str) -> Trace:
    meta = event.meta
    return Trace(event.name, event.ts, meta.session, meta.seq, task, **more)


def _filed(event: Any, task: str) -> Trace:
    told: Mapping[str, Any] = event.rejection
    return _trace(
        event,
        _task(event, task),
        handoff=_cut(event.handoff_id, MAX_NAME),
        agent=_cut(event.agent, MAX_NAME),
        rejection=_rejection(event),
        said=_reason(told.get("reason_type", getattr(event, "reason", ""))),
        text=_cut(told.get("blocking_factor"), MAX_TEXT),
    )


def _answered(event: Any, task: str) -> Trace:
    decision: e.Decision = event.decision
    named = decision_named(decision.decision_type)
    return _trace(
        event,
        _task(event, task),
        handoff=_cut(event.handoff_id, MAX_NAME),
        rejection=_rejection(event),
        said=named.name if named else "",
        text=_cut(next(iter(decision.created_tasks), ""), MAX_NAME),
    )


def _task(event: Any, task: str) -> str:
    """The task; of a line of a GoT tool the one it names itself, so that the order of arrival does not matter."""
    return event.task_id if event.is_legacy else task


def _rejection(event: Any) -> str:
    """What an answer and its rejection have in common."""
    return _cut(event.handoff_id if event.is_legacy else event.rejection_id, MAX_NAME)


def _of_agent(event: Any, task: str) -> Trace:
    return _trace(event, task, agent=_cut(event.agent, MAX_NAME))


def _reason(value: object) -> str:
    named = reason_named(value)
    return named.name if named else ""


def _cut(value: object, longest: int) -> str:
    return value[:longest] if isinstance(value, str) else ""


_TRACERS: dict[type[e.Event], Callable[[Any, str], Trace | None]] = {
    e.HandoffRejected: _filed,
    e.HandoffRejectionInvalid: _filed,
    e.RejectionAnswered: _answered,
    e.TaskWoken: _trace,
    e.LockoutSet: _of_agent,
    e.EscalationOpened: _trace,
    e.LinesGivenUp: _trace,
}

TRACED = frozenset(_TRACERS)
"""The kinds of events that may leave a trace: to tell the others apart costs next to nothing."""
