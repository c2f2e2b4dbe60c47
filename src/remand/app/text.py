"""Text of others, numbers and times as people read them: on one line, nothing hidden, not too long."""

from __future__ import annotations

from remand.domain.instant import Instant
from remand.domain.text.words import flatten, shorten

MAX_LINE = 200


def times_text(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def single_line(text: str, limit: int = MAX_LINE) -> str:
    """Text of others on one line, with nothing hidden in it and not too long."""
    return shorten(flatten(text), limit)


def format_time(at: Instant) -> str:
    """An instant as people write it."""
    return f"{at[:10]} {at[11:19]} UTC"
