"""The order of events, the clock that never runs back, and the events that a repair made void."""

from __future__ import annotations

from collections.abc import Iterable

from remand.domain.events.event import Event
from remand.domain.events.log import EventsVoided
from remand.domain.instant import Instant, next_instant

EventPlace = tuple[Instant, str, int, str]


def order_key(event: Event) -> EventPlace:
    """An event's place in the order: by time, then session, then number in its session."""
    meta = event.meta
    return (event.ts, meta.session, meta.seq, meta.id)


def next_time(now: Instant, seen: Instant) -> Instant:
    """The time of a new event: now, but later than any event its writer has read."""
    return now if now > seen else next_instant(seen)


class VoidedEvents:
    """The events that voiding events leave without effect.

    In its session, a voiding event is followed by restatements of the events it names, one each, in their
    order. If two ledgers repaired the same events (one is a copy of the other), the earlier repair counts,
    and the later one's restatements are void, too.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.ids: set[str] = set()
        self._places: set[tuple[str, int]] = set()
        for event in sorted(events, key=order_key):
            if isinstance(event, EventsVoided):
                self._add(event)

    def _add(self, event: EventsVoided) -> None:
        for number, voided in enumerate(event.events, event.meta.seq + 1):
            if voided in self.ids:
                self._places.add((event.meta.session, number))
            self.ids.add(voided)

    def __bool__(self) -> bool:
        return bool(self.ids)

    def __contains__(self, event: Event) -> bool:
        meta = event.meta
        return meta.id in self.ids or (bool(self._places) and (meta.session, meta.seq) in self._places)
