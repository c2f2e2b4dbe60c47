"""A stranger is told that a request was not carried out, and nothing of the machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.errors import EnvironmentFault
from remand.domain.refusals import Refused
from remand.interfaces.http import problems
from remand.interfaces.http.authentication import Authenticator, RequestFacts, request_facts
from remand.interfaces.http.routes import Handle, HttpAnswer, make_route
from remand.interfaces.http.server import own_routes
from remand.interfaces.http.sessions import RateLimiter
from tests.unit.interfaces.http.test_authentication import Access

DETAIL = "Cannot open /home/ada/project/.got/ledger.sqlite (socket /run/remand/1.sock)"


async def read_nothing(_look: Callable[[Any], None]) -> None:
    """Stands where the ledger is read."""


OPEN: Any = SimpleNamespace(authenticator=Authenticator(read_nothing))
"""A server that answers under any name."""


@pytest.fixture(autouse=True)
def _log_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "_log_lines", RateLimiter(0.1, 10.0))


def ask(
    route: Any, headers: dict[str, str] | None = None, path: str = "/x", body: bytes = b""
) -> tuple[int, bytes]:
    """The status and body of the answer to one request."""
    sent: list[Any] = []
    asked: list[bool] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        if asked:  # the client waits for its answer
            await asyncio.Event().wait()
        asked.append(True)
        return {"type": "http.request", "body": body}

    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    method = "POST" if body else "GET"
    scope = {"type": "http", "method": method, "path": path, "headers": pairs, "query_string": b""}
    asyncio.run(route.fn(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def failing(error: Exception, access: Access | None = None) -> Handle:
    async def handle(scope: Any, _receive: Any) -> HttpAnswer:
        if access is not None:
            await access.own.caller(request_facts(scope))
        raise error

    return handle


@pytest.mark.parametrize(
    "error", [EnvironmentFault(DETAIL), Refused("lines_missing", DETAIL)], ids=["fault", "refusal"]
)
def test_a_stranger_learns_nothing_of_the_machine_and_the_log_does(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "remand.http"):
        status, body = ask(make_route(OPEN, "/x", "GET", failing(error)))

    assert status in (409, 503)
    assert b"ledger.sqlite" not in body
    assert b"sock" not in body
    assert "ledger.sqlite" in caplog.text


def test_who_is_known_is_told_what_keeps_a_command_from_being_carried_out() -> None:
    access = Access()
    words = {"authorization": f"Bearer {access.create()}"}

    assert (
        b"ledger.sqlite"
        in ask(make_route(OPEN, "/x", "GET", failing(EnvironmentFault(DETAIL), access)), words)[1]
    )
    # The next request is a stranger's again.
    assert b"ledger.sqlite" not in ask(make_route(OPEN, "/x", "GET", failing(EnvironmentFault(DETAIL))))[1]


def test_whether_the_ledger_can_be_read_is_said_without_what_keeps_it() -> None:
    class Away:
        async def require_ready(self) -> None:
            raise EnvironmentFault(DETAIL)

    context: Any = type(
        "Context", (), {"runner": Away(), "metrics": None, "authenticator": OPEN.authenticator}
    )()
    ready = next(route for route in own_routes(context) if "/readyz" in route.paths)
    status, body = ask(ready, path="/readyz")

    assert status == 503
    assert b"ledger.sqlite" not in body


def test_a_token_that_cannot_be_checked_is_refused_without_what_is_missing() -> None:
    async def read(_look: Callable[[Any], None]) -> None:
        raise EnvironmentFault(DETAIL)

    async def handle(scope: Any, _receive: Any) -> HttpAnswer:
        await Authenticator(read).caller(RequestFacts({"authorization": "Bearer rmd_x"}))
        raise AssertionError

    status, body = ask(make_route(OPEN, "/x", "GET", handle))
    assert (status, b"ledger.sqlite" in body) == (503, False)


def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "remand.http"):
        for _ in range(200):
            ask(make_route(OPEN, "/x", "GET", failing(EnvironmentFault(DETAIL))))

    assert len(caplog.records) <= 20
