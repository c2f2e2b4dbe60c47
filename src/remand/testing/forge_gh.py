"""A `gh` without a program: it asks the fake forge, with a token of its own, and prints what `gh api` would."""

from __future__ import annotations

from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from urllib.parse import urlsplit

from remand.adapters.forges.transport import MAX_ANSWER, NOT_LOGGED_IN, ProgramResult


class FakeGh:
    """Runs `gh api …` against one address."""

    def __init__(self, url: str, token: str, seconds: float = 5.0) -> None:
        self._host, self._token, self._seconds = urlsplit(url).netloc, token, seconds
        self.commands: list[list[str]] = []

    async def run(self, command: Sequence[str], given: bytes) -> ProgramResult | None:
        """The answer with its headers first; nothing when none came, or too much."""
        self.commands.append(list(command))
        if not self._token:
            return ProgramResult(NOT_LOGGED_IN, b"")
        path, options = command[2], list(pairwise(command[3:]))
        method = next(value for name, value in options if name == "--method")
        headers = dict(value.split(": ", 1) for name, value in options if name == "--header")
        headers["authorization"] = f"token {self._token}"
        connection = HTTPConnection(self._host, timeout=self._seconds)
        try:
            connection.request(method, f"/{path}", given or None, headers)
            return _printed(connection)
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()


def _printed(connection: HTTPConnection) -> ProgramResult | None:
    answer = connection.getresponse()
    body = answer.read(MAX_ANSWER + 1)
    if len(body) > MAX_ANSWER:
        return None
    head = f"HTTP/1.1 {answer.status} {answer.reason}\r\n"
    head += "".join(f"{name.title()}: {value}\r\n" for name, value in answer.getheaders())
    return ProgramResult(0 if answer.status < 300 else 1, f"{head}\r\n".encode() + body)
