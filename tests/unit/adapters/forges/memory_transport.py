"""A way to a forge without a network: answers by address, kept where a test can look at what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from remand.adapters.forges.transport import ForgeReply
from remand.app.forge.ports import CachedAnswer
from tests.support.forge.server import Dialect, HttpRequest


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, object]:
        """What was sent."""
        return msgspec.json.decode(self.body, type=dict[str, object])


class Notes:
    """A memory that lasts as long as the test."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedAnswer] = {}

    def get(self, address: str) -> CachedAnswer | None:
        return self.kept.get(address)

    def put(self, address: str, answer: CachedAnswer) -> None:
        self.kept[address] = answer


def reply(value: object, status: int = 200, **headers: str) -> ForgeReply:
    """An answer in JSON; header names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return ForgeReply(status, {"content-type": "application/json", **named}, msgspec.json.encode(value))


@dataclass
class Table:
    """Answers each `METHOD path` from a table, page by page; what is not in it is not there."""

    answers: dict[str, list[ForgeReply] | ForgeReply] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ForgeReply:
        parts = urlsplit(url)
        asked = Asked(method, parts.path, parse_qs(parts.query), headers, body)
        self.asked.append(asked)
        found = self.answers.get(f"{method} {parts.path}")
        if isinstance(found, list):
            page = int(asked.query.get("page", ["1"])[0])
            return found[min(page, len(found)) - 1]
        return found if found is not None else reply({"message": "not found"}, 404)

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Spoken:
    """Answers in a dialect of the fake forge, without its server."""

    dialect: Dialect
    asked: list[Asked] = field(default_factory=list)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ForgeReply:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self.asked.append(Asked(method, parts.path, query, headers, body))
        last = {name: values[-1] for name, values in query.items()}
        answer = self.dialect.answer(
            HttpRequest(method, parts.path, last, dict(headers), body, "https://forge")
        )
        assert answer is not None
        return ForgeReply(answer.status, answer.headers, answer.body)

    def close(self) -> None:
        """Nothing is open."""
