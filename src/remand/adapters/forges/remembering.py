"""What is remembered of a forge between two polls: answers to ask about conditionally, and marks of what was seen."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

import msgspec

from remand.app.forges.ports import Remembered


class Cache(Protocol):
    """Keeps texts under keys where nobody else can change them."""

    def get(self, key: str) -> bytes | None:
        """What was kept under a key."""

    def put(self, key: str, value: bytes) -> None:
        """Keeps something under a key."""


class KeptAnswers:
    """The last answer of each address."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, address: str) -> Remembered | None:
        """What was answered there last."""
        kept = self._cache.get(_key("answer", address))
        try:
            return msgspec.json.decode(kept, type=Remembered) if kept else None
        except msgspec.MsgspecError:
            return None

    def put(self, address: str, answer: Remembered) -> None:
        """Keeps an answer."""
        self._cache.put(_key("answer", address), msgspec.json.encode(answer))


class KeptMarks:
    """Short notes under short names."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, key: str) -> str:
        """What was noted; empty when nothing was."""
        return (self._cache.get(_key("mark", key)) or b"").decode("utf-8", "replace")

    def put(self, key: str, value: str) -> None:
        """Notes it."""
        self._cache.put(_key("mark", key), value.encode())


def _key(kind: str, name: str) -> str:
    return sha256(f"{kind} {name}".encode()).hexdigest()
