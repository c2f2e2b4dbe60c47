"""Fake ports without a machine: a clock, and keys."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256, sha512

from remand.app.ports import SignedClaim
from remand.domain.access.keys import PublicKey
from remand.domain.instant import Instant, add_seconds, next_instant

START: Instant = "2026-11-15T09:00:00.000000Z"


class FakeClock:
    """A clock that moves when told to, and by a microsecond at each reading."""

    def __init__(self, start: Instant = START) -> None:
        self.time = start

    def now(self) -> Instant:
        self.time = next_instant(self.time)
        return self.time

    def advance(self, seconds: float) -> None:
        """Advances the clock; a negative number sets it back."""
        self.time = add_seconds(self.time, seconds)


class FakeKeys:
    """A key made from a name. Anyone with the public part can sign with it, so it is only for tests."""

    def __init__(self, name: str = "machine") -> None:
        self._key = PublicKey(raw=sha256(name.encode()).digest(), name=name)

    def own(self) -> PublicKey | None:
        """The public key."""
        return self._key

    def ensure_key(self) -> PublicKey:
        """The public key."""
        return self._key

    def load(self) -> None:
        """Does nothing."""

    def sign(self, content: bytes) -> bytes:
        """A signature of 64 bytes."""
        return sha512(self._key.raw + content).digest()

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        """For each claim, True if the signature is of that key and content."""
        return [claim.signature == sha512(claim.key + claim.content).digest() for claim in claims]
