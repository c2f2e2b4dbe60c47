"""Which events are void: `log repair` wrote them again with the right time."""

from __future__ import annotations

from collections.abc import Iterable

from remand.domain.events import Event, EventsVoided
from remand.ledger.order import place


class Voids:
    """What the events that void others leave without effect.

    The events that follow a voiding one in its session restate those it names, one each, in their order. When two ledgers
    repaired the same events (one is a copy of the other), the earlier repair counts, and what the later one restated
    is void as well.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.ids: set[str] = set()
        self._places: set[tuple[str, int]] = set()
        for event in sorted(events, key=place):
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
