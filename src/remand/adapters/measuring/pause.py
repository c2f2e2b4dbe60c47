"""The user's pause: kept under seal outside every repository, with its end, who began it and why."""

from __future__ import annotations

from hashlib import sha256

from remand.app.gates.ports import Cache
from remand.domain.instant import Instant, is_instant, plus

LONGEST = 7 * 86400.0
_KEY = sha256(b"pause").hexdigest()


def begin(cache: Cache, until: Instant, actor: str, reason: str) -> None:
    """Writes the pause down; a later one takes its place."""
    cache.put(_KEY, f"{until}\n{actor}\n{reason}\n".encode())


def is_on(cache: Cache, now: Instant) -> bool:
    """True until the pause's end."""
    until = (cache.get(_KEY) or b"").decode("utf-8", "replace").partition("\n")[0]
    return is_instant(until) and now < until <= plus(now, LONGEST)


def end(cache: Cache) -> None:
    """Takes the pause away."""
    cache.put(_KEY, b"")
