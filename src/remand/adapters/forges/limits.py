"""A forge's rate limits: until when nothing is asked of it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from remand.adapters.forges.transport import Reply
from remand.app.forges.ports import ForgeFault, Memory, Remembered, Trouble
from remand.app.ports import Clock
from remand.domain.instant import Instant, instant, is_instant, plus

PAUSE = 60.0
"""Seconds to wait when nobody says how long; doubled each time in a row."""
WINDOW = 3600.0
"""No primary limit lasts longer, whatever the two clocks say."""
LONGEST = 24 * 3600.0
WORDS = ("rate limit", "abuse detection", "too many requests")


class Limits:
    """Remembers a limit, also across processes, and keeps every question back while it lasts."""

    def __init__(self, clock: Clock, memory: Memory, address: str) -> None:
        self._clock, self._memory = clock, memory
        self._address = f"{address}#limited"
        self._in_a_row = 0
        kept = memory.get(self._address)
        self._until: Instant = kept.body if kept is not None and is_instant(kept.body) else ""

    def check(self) -> None:
        """Raises when nothing may be asked yet."""
        if self._until and self._clock.now() < self._until:
            raise self.fault()

    def fault(self) -> ForgeFault:
        """What to say of the limit that holds."""
        return ForgeFault(
            Trouble.LIMITED,
            f"The forge's rate limit is used up; it is asked again at {self._until}.",
            self._until,
        )

    def hit(self, reply: Reply) -> ForgeFault:
        """Notes a limit that the forge has just told."""
        self._hold(patience(reply, self._clock.now(), self._in_a_row))
        self._in_a_row += 1
        return self.fault()

    def spent(self, reply: Reply) -> None:
        """Notes an answer: after the last one that the limit allows there is nothing to ask."""
        self._in_a_row = 0
        if is_used_up(reply):
            self._hold(patience(reply, self._clock.now(), 0))

    def _hold(self, seconds: float) -> None:
        self._until = plus(self._clock.now(), seconds)
        self._memory.put(self._address, Remembered(etag="", body=self._until))


def is_limit(reply: Reply, said: str) -> bool:
    """True when an answer is a limit's: 429, or a 403 that says so in one of the known ways."""
    if reply.status == 429:
        return True
    words = said.casefold()
    return reply.status == 403 and (
        "retry-after" in reply.headers or is_used_up(reply) or any(word in words for word in WORDS)
    )


def is_used_up(reply: Reply) -> bool:
    """True when the answer says that nothing remains of the primary limit."""
    return _header(reply, "remaining") == "0"


def patience(reply: Reply, now: Instant, in_a_row: int) -> float:
    """How many seconds to wait: as told, else until the limit is reset, else longer each time."""
    told = _retry_after(reply.headers.get("retry-after", ""), now)
    if told is not None:
        return min(max(told, 1.0), LONGEST)
    reset = _seconds(_header(reply, "reset"))
    if is_used_up(reply) and reset is not None:
        left = reset - _epoch(now)
        return min(left, WINDOW) if left > 0 else PAUSE
    return min(PAUSE * 2.0 ** min(in_a_row, 10), WINDOW)


def _header(reply: Reply, name: str) -> str:
    return reply.headers.get(f"x-ratelimit-{name}", reply.headers.get(f"ratelimit-{name}", ""))


def _retry_after(text: str, now: Instant) -> float | None:
    """Seconds, or the seconds until a date; None when it is neither."""
    seconds = _seconds(text)
    if seconds is not None or not text:
        return seconds
    try:
        when = instant(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None
    return _epoch(when) - _epoch(now)


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _epoch(value: Instant) -> float:
    return datetime.fromisoformat(value[:-1]).replace(tzinfo=UTC).timestamp()
