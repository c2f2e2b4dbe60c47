"""How an event moves a task along its transition table, and what is noted when it cannot."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.instant import Instant, is_instant, plus
from remand.domain.task import TERMINAL, TRANSITIONS, Conflict, Status, Task

MAX_CONFLICTS = 50
MAX_LEASE_SECONDS = 7 * 86400.0


def conflict(task: Task, event: e.Event, why: str) -> Task:
    found = Conflict(event_id=event.meta.id, event=event.name, at=event.ts, why=why)
    return replace(task, conflicts=(*task.conflicts, found)[-MAX_CONFLICTS:])


def advance(task: Task, event: e.Event, **changes: Any) -> Task:
    """Moves the task along its transition, or records why it could not."""
    sources, target = _STEPS[type(event)]
    if task.status not in sources:
        return conflict(task, event, f"the task was {task.status} at that time")
    status = target or task.queue
    if status in TERMINAL:
        changes |= {"claim": None, "offers": ()}
    return replace(task, status=status, is_legacy=False, **changes)


def bounded(until: Instant, since: Instant) -> Instant:
    """The end of a lease or offer. Whatever a file says, it is a time, and not far away."""
    if until[:10] == since[:10] and len(until) == len(since):
        return until
    latest = plus(since, MAX_LEASE_SECONDS)
    return until if is_instant(until) and until < latest else latest


_STEPS: dict[type[e.Event], tuple[frozenset[Status], Status | None]] = {
    kind: (TRANSITIONS[name].sources, TRANSITIONS[name].target)
    for kind in e.NATIVE
    if (name := str(kind.__struct_config__.tag)) in TRANSITIONS
}
