"""Sessions of browsers, log-in codes that work once, and limits on how often somebody may call. All of it is bounded."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Generic, TypeVar

from remand.domain.access.tokens import Caller
from remand.domain.record import NamedTuple

SESSION_SECONDS = 12 * 3600.0
"""How long a browser stays logged in."""
CODE_SECONDS = 3600.0
"""How long a log-in code can be used."""
MAX_SESSIONS, MAX_CODES, MAX_RATES = 10_000, 1000, 20_000
SECRET_BYTES = 32
_PREFIX_BITS = 64
"""What one subscriber of IPv6 has: all addresses with the same beginning are one caller."""

Kept = TypeVar("Kept")
Clock = Callable[[], float]


class ExpiringSecrets(Generic[Kept]):
    """Values that are found by a secret for a while. Only a hash of the secret is kept; the oldest goes when there are too many."""

    def __init__(self, seconds: float, most: int, clock: Clock = monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Kept]] = OrderedDict()

    def add(self, value: Kept) -> str:
        """Keeps a value; gives the secret."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        while self._kept and (len(self._kept) >= self._most or self._is_oldest_over()):
            self._kept.popitem(last=False)
        self._kept[_hash(secret)] = (self._clock() + self._seconds, value)
        return secret

    def find(self, secret: str) -> Kept | None:
        """The value of a secret; None when there is none, or its time is over."""
        # A dictionary of hashes tells nothing by its time: whoever guesses does not know what the guess hashes to.
        found = self._kept.get(_hash(secret))
        return found[1] if found and self._clock() < found[0] else None

    def take(self, secret: str) -> Kept | None:
        """The same, once."""
        value = self.find(secret)
        self._kept.pop(_hash(secret), None)
        return value

    def drop_where(self, is_over: Callable[[Kept], bool]) -> None:
        """Forgets the values for which that is so."""
        for name in [name for name, (_, value) in self._kept.items() if is_over(value)]:
            del self._kept[name]

    def __len__(self) -> int:
        return len(self._kept)

    def _is_oldest_over(self) -> bool:
        ends, _ = next(iter(self._kept.values()))
        return ends <= self._clock()


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


class BrowserSession(NamedTuple):
    """A browser that is logged in."""

    caller: Caller
    csrf: str
    """What its pages send along with every change, and pages of others do not know."""


def open_sessions(clock: Clock = monotonic) -> ExpiringSecrets[BrowserSession]:
    """Room for the sessions of a server."""
    return ExpiringSecrets(SESSION_SECONDS, MAX_SESSIONS, clock)


class RateLimiter:
    """Lets each key through so many times a second, and a burst at once (a token bucket)."""

    def __init__(self, rate: float, burst: float, most: int = MAX_RATES, clock: Clock = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key, least recently used first: what was left, and when."""

    def take(self, key: str) -> float:
        """Counts one call of a key; how many seconds it has to wait, 0 when it may go on."""
        now = self._clock()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        is_through = left >= 1
        self._buckets[key] = (left - 1 if is_through else left, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if is_through else (1 - left) / self._rate

    def __len__(self) -> int:
        return len(self._buckets)


def address_key(address: str) -> str:
    """What tells callers apart by where they call from."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return f"{int(found) >> (128 - _PREFIX_BITS):x}::"
    return str(found)
