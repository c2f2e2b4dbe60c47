"""The order of events: one clock that never runs back, and one order whatever way they arrive."""

from __future__ import annotations

from remand.domain.events import Event
from remand.domain.instant import Instant, just_after

Place = tuple[Instant, str, int, str]


def place(event: Event) -> Place:
    """Where an event stands: by time, then session, then number in its session."""
    meta = event.meta
    return (event.ts, meta.session, meta.seq, meta.id)


def tick(now: Instant, seen: Instant) -> Instant:
    """The time of a new event: now, but later than anything its writer has seen."""
    return now if now > seen else just_after(seen)
