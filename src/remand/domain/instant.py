"""Points in time as text of fixed width, and the limit on how far events may be ahead of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from remand.domain.refusals import Refused

Instant = str

BEGINNING: Instant = "0001-01-01T00:00:00.000000Z"
END: Instant = "9999-12-31T23:59:59.999999Z"
_WIDTH = len("2026-11-15T09:00:00.000000Z")


def format_instant(moment: datetime) -> Instant:
    """Formats a moment as an instant; a naive moment is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def add_seconds(value: Instant, seconds: float) -> Instant:
    """The instant that many seconds later (earlier if negative), within the calendar."""
    if len(value) == _WIDTH and value[20:26].isdigit():
        second = _second_later(value[:19], seconds)
        if second:
            return second + value[19:]
    try:
        later = datetime.fromisoformat(value[:-1]) + timedelta(seconds=seconds)
        return f"{later.isoformat(timespec='microseconds')}Z"
    except OverflowError:
        return BEGINNING if seconds < 0 else END


@lru_cache(maxsize=64)
def _second_later(second: str, seconds: float) -> str:
    """A second that many whole seconds later; empty if that is no second. Leases that begin together end together."""
    try:
        later = datetime.fromisoformat(second) + timedelta(seconds=seconds)
    except OverflowError:
        return ""
    return "" if later.microsecond else later.isoformat(timespec="seconds")


def seconds_between(earlier: Instant, later: Instant) -> float:
    """The seconds between two instants; negative if they are in reverse order."""
    return (datetime.fromisoformat(later[:-1]) - datetime.fromisoformat(earlier[:-1])).total_seconds()


def next_instant(value: Instant) -> Instant:
    """The next representable instant."""
    return add_seconds(value, 0.000001)


def parse_instant(text: str) -> Instant | None:
    """Parses an ISO 8601 time as an instant; None if invalid."""
    if is_instant(text):
        return text
    try:
        return format_instant(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def parse_local_instant(text: str) -> Instant | None:
    """Parses a date or time entered by a person; None if invalid. Without a zone it is local time."""
    try:
        return format_instant(to_utc(datetime.fromisoformat(text)))
    except (ValueError, OverflowError):
        return None


def to_utc(moment: datetime) -> datetime:
    """A moment in UTC; a naive one is local time, as from `datetime.now()`."""
    try:
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):  # at an end of the calendar
        return moment.replace(tzinfo=UTC)


def is_instant(text: str) -> bool:
    """True if the text is in the fixed format."""
    return (
        len(text) == _WIDTH
        and text.isascii()
        and text[-1] == "Z"
        and text[20:26].isdigit()
        and _is_second(text[:20])
    )


@lru_cache(maxsize=64)
def _is_second(text: str) -> bool:
    """True for the part of an instant up to its point. Cached, as the events of a log come in the order of time."""
    if text[4::3] != "--T::." or not text[:4].isdigit() or text[11:13] == "24":
        return False
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


OLD_BOUND_SECONDS = 24 * 3600.0
"""How far ahead events could be before `policy.clock_skew` existed."""


def latest_event_time(now: Instant, skew: float, bounded_from: Instant = BEGINNING) -> Instant:
    """The latest acceptable time of another ledger's event; later ones are held back.

    Events up to `bounded_from` were written before this ledger knew the limit, so the old one applies to them.
    """
    return max(add_seconds(now, skew), min(bounded_from, add_seconds(now, OLD_BOUND_SECONDS)))


def is_clock_ahead(clock: Instant, now: Instant, skew: float) -> bool:
    """True if the next event would be further ahead of the machine's clock than the limit."""
    return clock > now and clock >= add_seconds(now, skew)


def require_clock_near(clock: Instant, now: Instant, skew: float) -> None:
    """Refuses to write events that other machines would hold back because of their time."""
    if is_clock_ahead(clock, now, skew):
        raise Refused(
            "clock_ahead",
            f"The ledger's latest event is from {clock}, and this machine's clock says {now}: it is "
            f"{format_duration(seconds_between(now, clock))} behind, and at most {format_duration(skew)} is allowed (`policy.clock_skew`). Nothing was written: other machines would hold back the event.",
        )


def format_duration(seconds: float) -> str:
    """A duration in its largest whole unit."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    count = int(seconds)
    return "1 second" if count == 1 else f"{count} seconds"


def format_time(at: Instant) -> str:
    """An instant for people."""
    return f"{at[:10]} {at[11:19]} UTC"
