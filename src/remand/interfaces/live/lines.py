"""Plain lines: what happens, one line each, where no terminal is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.happenings import Happening, happening
from remand.app.scheduling.status import SchedulerStatus
from remand.domain.events import Event
from remand.domain.instant import Instant
from remand.interfaces.live.words import shown, whole


def event_line(event: Event, label: str = "") -> str:
    """An event on one line: when, which task, what."""
    return happening_line(happening(event, label))


def happening_line(one: Happening) -> str:
    """Something that has happened, on one line."""
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
    said, says = (before.waiting, before.forge) if before else ("", ""), (now.waiting, now.forge)
    if says[0] != said[0]:
        yield plain_line(
            now.tick_at, "scheduler", f"waits: {says[0]}" if says[0] else "waits for nothing any more"
        )
    if says[1] != said[1]:
        yield plain_line(now.tick_at, "forge", says[1] or "answers again")


def plain_line(at: Instant, label: str, text: str) -> str:
    """When, what it is about, and what there is to say, on one line."""
    return f"{shown(at[:19], 19)}Z  {whole(label)}  {shown(text)}".rstrip()
