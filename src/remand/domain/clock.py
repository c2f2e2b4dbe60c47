"""How far the times of events may be ahead of this machine's clock."""

from __future__ import annotations

from remand.domain.instant import BEGINNING, Instant, plus, seconds_from
from remand.domain.refusals import Refused

OLD_BOUND_SECONDS = 24 * 3600.0
"""How far ahead events could be in versions without `policy.clock_skew`."""


def horizon(now: Instant, skew: float, bounded_from: Instant = BEGINNING) -> Instant:
    """The latest time an event of another ledger may have; later ones are held back.

    Events up to `bounded_from` were written before this ledger knew the bound: for them the old one holds.
    """
    return max(plus(now, skew), min(bounded_from, plus(now, OLD_BOUND_SECONDS)))


def is_ahead(clock: Instant, now: Instant, skew: float) -> bool:
    """True when the next event would be further ahead of the machine's clock than the bound."""
    return clock > now and clock >= plus(now, skew)


def require_near(clock: Instant, now: Instant, skew: float) -> None:
    """Refuses to write events that other machines would hold back, after an event of that time."""
    if is_ahead(clock, now, skew):
        raise Refused(
            "clock_ahead",
            f"The ledger's latest event is from {clock}, and this machine's clock says {now}: it is "
            f"{duration(seconds_from(now, clock))} behind, and at most {duration(skew)} are allowed "
            "(`policy.clock_skew`). Nothing was written: other machines would hold it back.",
        )


def duration(seconds: float) -> str:
    """A span of time in its largest whole unit."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    count = int(seconds)
    return "1 second" if count == 1 else f"{count} seconds"
