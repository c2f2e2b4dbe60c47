"""Browser sessions, one-time log-in codes and rate limits, all with bounded memory."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Generic, TypeVar

from remand.app.tokens import (
    LOOK_AGAIN_SECONDS,
    SESSIONS,
    derived_secret,
    find_session,
    keep_session,
    secret_hash,
)
from remand.domain.access.tokens import Caller
from remand.domain.record import NamedTuple
from remand.wiring.open_ledger import OpenLedger

SESSION_SECONDS = 12 * 3600.0
"""How long a browser stays logged in."""
CODE_SECONDS = 3600.0
"""How long a log-in code is valid."""
MAX_SESSIONS, MAX_CODES, MAX_ATTEMPTS, MAX_RATES = 10_000, 1000, 20_000, 20_000
"""The most entries kept; of sessions, those used here most recently."""
MAX_SESSIONS_EACH = 20
"""The most sessions per member or token."""
SECRET_BYTES = 32
_PREFIX_BITS = 64
"""The IPv6 prefix of one subscriber: all addresses in it count as one caller."""

Kept = TypeVar("Kept")
Clock = Callable[[], float]


class ExpiringSecrets(Generic[Kept]):
    """Values that can be looked up by a secret until they expire. Only a hash of the secret is kept; the oldest are
    evicted.

    With `most_each`, entries are evicted per owner, so that nobody loses one because somebody else adds many.
    """

    def __init__(
        self, seconds: float, most: int, clock: Clock = monotonic, most_each: int | None = None
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._most_each = most_each or most
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Kept, str]] = OrderedDict()
        self._names_of: dict[str, dict[str, None]] = {}
        """The hashes of each owner, oldest first."""

    def add(self, value: Kept, owner: str = "", secret: str = "") -> str:
        """Adds a value and returns its secret, a new one unless given."""
        secret = secret or secrets.token_urlsafe(SECRET_BYTES)
        while self._kept and (len(self._kept) >= self._most or self._is_oldest_over()):
            self._drop(next(iter(self._kept)))
        own = self._names_of.get(owner, {})
        if len(own) >= self._most_each:
            self._drop(next(iter(own)))
        self._kept[secret_hash(secret)] = (self._clock() + self._seconds, value, owner)
        self._names_of.setdefault(owner, {})[secret_hash(secret)] = None
        return secret

    def find(self, secret: str) -> Kept | None:
        """The value of a secret; None if it does not exist or has expired."""
        # A lookup by hash leaks nothing through timing: an attacker does not know the hash of a guess.
        found = self._kept.get(secret_hash(secret))
        return found[1] if found and self._clock() < found[0] else None

    def take(self, secret: str) -> Kept | None:
        """The same, and removes it."""
        value = self.find(secret)
        if secret_hash(secret) in self._kept:
            self._drop(secret_hash(secret))
        return value

    def _drop(self, name: str) -> None:
        *_, owner = self._kept.pop(name)
        own = self._names_of[owner]
        del own[name]
        if not own:
            del self._names_of[owner]

    def __len__(self) -> int:
        return len(self._kept)

    def _is_oldest_over(self) -> bool:
        ends, *_ = next(iter(self._kept.values()))
        return ends <= self._clock()


class BrowserSession(NamedTuple):
    """A browser that is logged in."""

    caller: Caller
    csrf: str
    """The CSRF token that the server's pages send with each change; pages of other sites do not know it."""


class BrowserSessions:
    """Browser sessions, stored beside the ledger so that all its servers share them and they survive a restart."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[float, BrowserSession | None]] = OrderedDict()
        """By hash: the session as last read, and until when that result is valid."""

    def open(self, opened: OpenLedger, caller: Caller) -> str:
        """Opens a session and returns its secret."""
        secret, rules = secrets.token_urlsafe(SECRET_BYTES), opened.settings.rules()
        keep_session(
            opened.ledger,
            rules,
            opened.store.shared_data,
            caller,
            secret,
            seconds=SESSION_SECONDS,
            most=MAX_SESSIONS_EACH,
        )
        return secret

    def close(self, opened: OpenLedger, secret: str) -> None:
        """Ends a session: here immediately, on other servers within half a second."""
        opened.store.shared_data.drop(SESSIONS, secret_hash(secret))
        self._note(secret, None)

    def is_due(self, secret: str) -> bool:
        """True if the session must be read again."""
        good_until, _ = self._seen.get(secret_hash(secret), (float("-inf"), None))
        return good_until <= monotonic()

    def read(self, opened: OpenLedger, secret: str) -> None:
        """Reads the session of a secret."""
        caller = find_session(opened.ledger, opened.settings.rules(), opened.store.shared_data, secret)
        self._note(secret, BrowserSession(caller, derived_secret(secret, "csrf")) if caller else None)

    def find(self, secret: str) -> BrowserSession | None:
        """The session as last read; None if there is none."""
        _, session = self._seen.get(secret_hash(secret), (0.0, None))
        return session

    def _note(self, secret: str, session: BrowserSession | None) -> None:
        name = secret_hash(secret)
        self._seen.pop(name, None)
        self._seen[name] = (monotonic() + LOOK_AGAIN_SECONDS, session)
        while len(self._seen) > MAX_SESSIONS:
            self._seen.popitem(last=False)


class RateLimiter:
    """Limits the calls of each key (a token bucket)."""

    def __init__(self, rate: float, burst: float, most: int = MAX_RATES, clock: Clock = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key, least recently used first: the tokens left, and when that was."""

    def take(self, key: str) -> float:
        """Counts one call of a key and returns the seconds it must wait; 0 if it may proceed."""
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
    """The key of a client's address for rate limits."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return f"{int(found) >> (128 - _PREFIX_BITS):x}::"
    return str(found)
