"""Text of others made safe for one line, durations in short, and events as plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from remand.app.history.activity import ActivityEntry, activity_entry
from remand.app.scheduler.status import SchedulerStatus
from remand.app.text import single_line
from remand.domain.events.event import Event
from remand.domain.instant import Instant

MAX_TEXT = 500
_SHORT_WIDTH, _FULL_WIDTH = 11, 31
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def seconds_between(earlier: Instant, later: Instant) -> float | None:
    """How many seconds lie between two instants; None when one of them is none."""
    try:
        found = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return None
    return found.total_seconds()


def duration_text(seconds: float) -> str:
    """A time in its largest unit: `40 s`, `3 m`, `2 h`, `5 d`."""
    for size, name in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def age_text(since: Instant, now: Instant) -> str:
    """How long ago something was; empty when that is not known."""
    seconds = seconds_between(since, now)
    return "" if seconds is None else duration_text(seconds)


def time_of_day(at: Instant) -> str:
    return single_line(at[11:19], 8)


def safe_line(text: object, limit: int = MAX_TEXT) -> str:
    """Text of others on one line, with nothing in it that a terminal or an eye could be misled by."""
    return single_line(str(text), limit)


def cell(text: object, width: int) -> str:
    """Text that takes exactly so many columns."""
    flat = safe_line(text)
    return f"{set_cell_size(flat, width - 1)}…" if cell_len(flat) > width else set_cell_size(flat, width)


def short_label(label: str) -> str:
    """What a task is called where there is little room: its issue's number, or the end of its id."""
    name = label.removeprefix("issue ").removeprefix("task ")
    is_long = name.startswith("T-") and len(name) > _SHORT_WIDTH
    return cell(f"T-…{name[-8:]}" if is_long else name, _SHORT_WIDTH)


def full_label(label: str) -> str:
    """What a task is called where there is room."""
    return cell(label, _FULL_WIDTH)


def tail_text(text: str, width: int) -> str:
    """The end of a text, as much of it as fits into so many columns."""
    tail = text[-width:]
    while cell_len(tail) > width:
        tail = tail[1:]
    return tail


def wrap_text(text: str, width: int) -> list[str]:
    """Text on as many lines as it takes, by words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def event_line(event: Event, label: str = "") -> str:
    return happening_line(activity_entry(event, label))


def happening_line(one: ActivityEntry) -> str:
    without = "  (unconfirmed, without effect)" if one.is_unconfirmed else ""
    return plain_line(one.at, one.label, f"{one.text}{without}")


def status_lines(before: SchedulerStatus | None, now: SchedulerStatus | None) -> Iterator[str]:
    """What has changed about the scheduler itself: what it waits for, what is wrong with the system."""
    if now is None:
        return
    known = {breach.cause for breach in before.breaker} if before else set()
    for breach in now.breaker:
        if breach.cause not in known:
            yield plain_line(breach.since, "scheduler", f"starts nothing ({breach.cause}): {breach.message}")
    for cause in sorted(known - {breach.cause for breach in now.breaker}):
        yield plain_line(now.tick_at, "scheduler", f"starts agents again ({cause})")
    old, new = (before.waiting, before.forge) if before else ("", ""), (now.waiting, now.forge)
    if new[0] != old[0]:
        yield plain_line(now.tick_at, "scheduler", f"waits: {new[0]}" if new[0] else "no longer waits")
    if new[1] != old[1]:
        yield plain_line(now.tick_at, "forge", new[1] or "answers again")


def plain_line(at: Instant, label: str, text: str) -> str:
    """Time, subject and text on one line."""
    return f"{safe_line(at[:19], 19)}Z  {full_label(label)}  {safe_line(text)}".rstrip()
