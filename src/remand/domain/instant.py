"""Points in time as text of fixed width, so that order of text is order of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

Instant = str

BEGINNING: Instant = "0001-01-01T00:00:00.000000Z"
END: Instant = "9999-12-31T23:59:59.999999Z"
_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
_WIDTH = len("2026-11-15T09:00:00.000000Z")


def instant(moment: datetime) -> Instant:
    """Writes a moment as an instant; a naive moment is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def moment(value: Instant) -> datetime:
    """Reads an instant back as an aware moment."""
    return datetime.strptime(value, _FORMAT).replace(tzinfo=UTC)


def plus(value: Instant, seconds: float) -> Instant:
    """The instant that many seconds later (or earlier, when negative), kept within the calendar."""
    try:
        later = datetime.fromisoformat(value[:-1]) + timedelta(seconds=seconds)
        return f"{later.isoformat(timespec='microseconds')}Z"
    except OverflowError:
        return BEGINNING if seconds < 0 else END


def seconds_from(earlier: Instant, later: Instant) -> float:
    """How many seconds lie between two instants; negative when they stand the other way round."""
    return (datetime.fromisoformat(later[:-1]) - datetime.fromisoformat(earlier[:-1])).total_seconds()


def just_after(value: Instant) -> Instant:
    """The next instant the clock can tell apart."""
    return plus(value, 0.000001)


def parse(text: str) -> Instant | None:
    """Reads any ISO 8601 time as an instant; None when it is none."""
    if is_instant(text):
        return text
    try:
        return instant(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def parse_local(text: str) -> Instant | None:
    """Reads a day or a time that a person wrote; None when it is none. Without a zone it is the machine's local time."""
    try:
        return instant(in_utc(datetime.fromisoformat(text)))
    except (ValueError, OverflowError):
        return None


def in_utc(moment: datetime) -> datetime:
    """A moment in UTC; a naive one is the machine's local time, as `datetime.now()` gives it."""
    try:
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):  # at an end of the calendar
        return moment.replace(tzinfo=UTC)


def is_instant(text: str) -> bool:
    """True when the text is already in the fixed form."""
    if len(text) != _WIDTH or not text.isascii() or text[4::3][:2] != "--" or text[10::9] != "T.":
        return False
    if text[-1] != "Z" or not text[:4].isdigit():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
