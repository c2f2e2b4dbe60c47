"""The forges by kind, and the data cached between two polls of one. A forge's module is loaded only when it is used."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

import msgspec

from remand.adapters.forges import gitea, github, gitlab
from remand.app.forge.ports import CachedAnswer, Forge
from remand.app.ports import Clock

GITHUB = "github"


def open_forge(
    kind: str, repository: str, api: str, token: str, *, clock: Clock, memory: StoredAnswers
) -> Forge:
    """The client of a repository on a forge."""
    if kind == GITHUB:
        return github.GitHub(repository, api=api, token=token, clock=clock, memory=memory)
    client = gitea.Gitea if kind == "gitea" else gitlab.GitLab
    return client(repository, api=api, token=token, clock=clock, memory=memory)


def stored_token(kind: str, api: str) -> str:
    """The token that another program stores for a forge; empty if there is no such program."""
    return github.gh_token(api) if kind == GITHUB else ""


class ForgeCache(Protocol):
    """Stores values by key where agents cannot change them."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class StoredAnswers:
    """The cached answer of each URL."""

    def __init__(self, cache: ForgeCache) -> None:
        self._cache = cache

    def get(self, address: str) -> CachedAnswer | None:
        cached = self._cache.get(_key("answer", address))
        try:
            return msgspec.json.decode(cached, type=CachedAnswer) if cached else None
        except msgspec.MsgspecError:
            return None

    def put(self, address: str, answer: CachedAnswer) -> None:
        self._cache.put(_key("answer", address), msgspec.json.encode(answer))


class StoredMarks:
    """Small values by name, stored between polls."""

    def __init__(self, cache: ForgeCache) -> None:
        self._cache = cache

    def get(self, key: str) -> str:
        return (self._cache.get(_key("mark", key)) or b"").decode("utf-8", "replace")

    def put(self, key: str, value: str) -> None:
        self._cache.put(_key("mark", key), value.encode())


def _key(kind: str, name: str) -> str:
    return sha256(f"{kind} {name}".encode()).hexdigest()
