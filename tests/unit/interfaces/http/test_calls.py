"""Calls in threads: no kind keeps another waiting, no caller takes all the places, and who left is not waited on."""

import asyncio
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.errors import EnvironmentFault
from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.cli import main
from remand.interfaces.cli.context import CallOrigin, Context
from remand.interfaces.cli.registry import CommandCall
from remand.interfaces.cli.tasks import gates
from remand.interfaces.http.calls import LONG_THREADS, TRANSFERS, CallRunner
from remand.interfaces.http.problems import HttpProblem
from remand.interfaces.http.routes import HttpAnswer, make_route
from tests.unit.interfaces.http.test_routes import OPEN

SECONDS = 480.0


class NoLedger:
    """Stands where a server's ledger is: what is run here reads nothing of it."""

    threads = 1

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[Any]:
        if not is_long:
            raise EnvironmentFault("there is nothing to look after")
        yield type("Opened", (), {"place": type("Place", (), {"root": "/"})})

    def close(self) -> None:
        """Nothing is open."""


def test_done_claims_that_wait_keep_nobody_from_waiting_or_taking_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go, user = list[str](), threading.Event(), Caller(member="owner", role=TokenRole.USER)

    def run(words: Sequence[str], _: object) -> int:
        if "submit" in words:
            begun.append("submit")
            go.wait(SECONDS)
        return 0

    monkeypatch.setattr(main, "run", run)

    async def call_all(runner: CallRunner) -> None:
        claims = [
            asyncio.create_task(runner.run(["task", "submit", "T-1"], {}, "", user, ""))
            for _ in range(LONG_THREADS)
        ]
        while len(begun) < LONG_THREADS:  # noqa: ASYNC110 - other threads fill it
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(runner.run(["gate", "wait", "T-1"], {}, "", user, ""), SECONDS / 4)
            taken = runner.in_thread(lambda _: "the pack", is_long=True, group=TRANSFERS)
            assert await asyncio.wait_for(taken, SECONDS / 4) == "the pack"
        finally:
            go.set()
            await asyncio.gather(*claims)

    runner = CallRunner(NoLedger())
    try:
        asyncio.run(call_all(runner))
    finally:
        runner.close()


ANN, BOB = (Caller(member=name, role=TokenRole.AGENT, token_id=f"TK-{name}") for name in ("Ann", "Bob"))


class Waits:
    """Commands that wait until they are let go; those about T-2 do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = list[str](), threading.Event()
        monkeypatch.setattr(main, "run", self._run)
        self.runner = CallRunner(NoLedger())

    def _run(self, words: Sequence[str], _: object) -> int:
        self.begun.append(words[-1])
        if words[-1] != "T-2":
            self.go.wait(SECONDS)
        return 0

    async def call(self, caller: Caller, task: str = "T-1") -> int:
        return (await self.runner.run(["gate", "wait", task], {}, "", caller, "")).code


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waits]:
    found = Waits(monkeypatch)
    yield found
    found.go.set()
    found.runner.close()


def test_one_member_does_not_take_all_the_threads(waits: Waits) -> None:
    async def call_all() -> None:
        calls = [asyncio.create_task(waits.call(ANN)) for _ in range(40)]
        await asyncio.sleep(0.1)
        assert await asyncio.wait_for(waits.call(BOB, "T-2"), SECONDS / 4) == 0
        assert len(waits.begun) < LONG_THREADS
        waits.go.set()
        said = await asyncio.gather(*calls, return_exceptions=True)
        refused = [one for one in said if isinstance(one, HttpProblem)]
        assert len(refused) == 40 - waits.begun.count("T-1")
        assert {(one.status, one.code, one.headers["retry-after"]) for one in refused} == {
            (429, "too_many_calls", "1")
        }
        assert await waits.call(ANN, "T-2") == 0, "who has none under way may call again"

    asyncio.run(call_all())


def test_what_waits_for_a_thread_is_dropped_when_its_client_leaves(waits: Waits) -> None:
    host = Caller(member="laptop", role=TokenRole.HOST, starts=("Ann",), token_id="TK-laptop")

    async def handle(_: Any, receive: Any) -> HttpAnswer:
        await receive()
        await waits.call(host, "T-3")
        return HttpAnswer(200, b"")

    async def call_all() -> None:
        calls = [asyncio.create_task(waits.call(host)) for _ in range(LONG_THREADS)]
        while len(waits.begun) < LONG_THREADS:  # noqa: ASYNC110 - other threads fill it
            await asyncio.sleep(0.01)
        messages: asyncio.Queue[Any] = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})

        async def send(_: Any) -> None:
            pass

        scope: Any = {"type": "http", "method": "POST", "headers": []}
        request = asyncio.ensure_future(make_route(OPEN, "/x", "POST", handle).fn(scope, messages.get, send))
        while waits.runner.call_count <= LONG_THREADS:  # noqa: ASYNC110 - the request's own task adds it
            await asyncio.sleep(0.01)
        assert waits.runner.call_count == LONG_THREADS + 1
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(request, SECONDS / 4)
        assert waits.runner.call_count == LONG_THREADS
        waits.go.set()
        await asyncio.gather(*calls)
        assert "T-3" not in waits.begun

    asyncio.run(call_all())


@pytest.mark.parametrize(("given", "seconds"), [(1e9, 600.0), (float("nan"), 600.0), (5.0, 5.0)])
def test_a_server_waits_for_gates_no_longer_than_ten_minutes(given: float, seconds: float) -> None:
    origin = CallOrigin("/", {}, io.StringIO(), io.StringIO(), given="", caller=ANN)
    context = Context(CommandCall("gate wait", []), SimpleNamespace(timeout=given), origin)

    assert gates.wait_seconds(context) == seconds
    own = Context(CommandCall("gate wait", []), SimpleNamespace(timeout=5000.0), origin._replace(caller=None))
    assert gates.wait_seconds(own) == 5000.0
