"""The user's pause: kept under seal outside every repository, with its end, who began it and why."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from remand.app.gates.ports import Cache
from remand.domain.instant import Instant, is_instant, plus

LONGEST = 7 * 86400.0
_KEY = sha256(b"pause").hexdigest()


class Pause(NamedTuple):
    """Until when every session may stop, who said so, and why."""

    until: Instant
    actor: str
    reason: str


def begin(cache: Cache, until: Instant, actor: str, reason: str) -> None:
    """Writes the pause down; a later one takes its place."""
    cache.put(_KEY, f"{until}\n{actor}\n{reason}\n".encode())


def current(cache: Cache, now: Instant) -> Pause | None:
    """The pause, until its end."""
    text = (cache.get(_KEY) or b"").decode("utf-8", "replace")
    until, actor, reason = (*text.rstrip("\n").split("\n", 2), "", "")[:3]
    return Pause(until, actor, reason) if is_instant(until) and now < until <= plus(now, LONGEST) else None


def end(cache: Cache) -> None:
    """Takes the pause away."""
    cache.put(_KEY, b"")
