"""What is kept between two polls of a forge: answers for conditional requests, and marks of what was read."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

import msgspec

from remand.app.forge.ports import CachedAnswer


class ForgeCache(Protocol):
    """Keeps values under keys, where agents cannot change them."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class StoredAnswers:
    """The last answer of each address."""

    def __init__(self, cache: ForgeCache) -> None:
        self._cache = cache

    def get(self, address: str) -> CachedAnswer | None:
        kept = self._cache.get(_key("answer", address))
        try:
            return msgspec.json.decode(kept, type=CachedAnswer) if kept else None
        except msgspec.MsgspecError:
            return None

    def put(self, address: str, answer: CachedAnswer) -> None:
        self._cache.put(_key("answer", address), msgspec.json.encode(answer))


class StoredMarks:
    """Short notes under short names."""

    def __init__(self, cache: ForgeCache) -> None:
        self._cache = cache

    def get(self, key: str) -> str:
        return (self._cache.get(_key("mark", key)) or b"").decode("utf-8", "replace")

    def put(self, key: str, value: str) -> None:
        self._cache.put(_key("mark", key), value.encode())


def _key(kind: str, name: str) -> str:
    return sha256(f"{kind} {name}".encode()).hexdigest()
