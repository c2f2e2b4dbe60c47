"""Short words for people: how long something has lasted, and text of others made safe to show."""

from __future__ import annotations

from datetime import datetime

from rich.cells import cell_len, set_cell_size

from remand.app.escalations import line
from remand.domain.instant import Instant

MAX_TEXT = 500
_BRIEF, _WHOLE = 11, 31
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def seconds_between(earlier: Instant, later: Instant) -> float | None:
    """How many seconds lie between two instants; None when one of them is none."""
    try:
        found = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return None
    return found.total_seconds()


def lasting(seconds: float) -> str:
    """A time in its largest unit: `40 s`, `3 m`, `2 h`, `5 d`."""
    for size, name in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def age(since: Instant, now: Instant) -> str:
    """How long ago something was; empty when that is not known."""
    seconds = seconds_between(since, now)
    return "" if seconds is None else lasting(seconds)


def clock(at: Instant) -> str:
    """The time of day of an instant, as the ledger has it (UTC)."""
    return line(at[11:19], 8)


def shown(text: object, limit: int = MAX_TEXT) -> str:
    """Text of others on one line, with nothing in it that a terminal or an eye could be misled by."""
    return line(str(text), limit)


def cell(text: object, width: int) -> str:
    """Text that takes exactly so many columns."""
    flat = shown(text)
    return f"{set_cell_size(flat, width - 1)}…" if cell_len(flat) > width else set_cell_size(flat, width)


def brief(label: str) -> str:
    """What a task is called where there is little room: its issue's number, or the end of its id."""
    name = label.removeprefix("issue ").removeprefix("task ")
    is_long = name.startswith("T-") and len(name) > _BRIEF
    return cell(f"T-…{name[-8:]}" if is_long else name, _BRIEF)


def whole(label: str) -> str:
    """What a task is called where there is room."""
    return cell(label, _WHOLE)


def ending(text: str, width: int) -> str:
    """The end of a text, as much of it as fits into so many columns."""
    tail = text[-width:]
    while cell_len(tail) > width:
        tail = tail[1:]
    return tail


def wrapped(text: str, width: int) -> list[str]:
    """Text on as many lines as it takes, by words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
