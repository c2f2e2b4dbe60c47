"""Calls are carried out together, and what happens to one of them concerns no other."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.requests import Request
from remand.domain import commands as c
from remand.interfaces.cli.context import Steps
from remand.interfaces.http.call_groups import CallGroups

pytestmark = pytest.mark.timeout(120)  # a group that does not end would wait for ever
ASKED = Request(command=c.CancelTask(task_id="T", reason=""), actor="user")


class Server:
    """A ledger that answers each group with its size, and the thread in which it does."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.is_away = False
        self.go = threading.Event()
        self.go.set()
        self.opened: Any = SimpleNamespace(
            ledger=SimpleNamespace(answer_in_group=self._answer), place=SimpleNamespace(root="/")
        )
        self.pool = ThreadPoolExecutor(1)
        self.groups = CallGroups(self.pool.submit, self._run)

    def _run(self, run: Callable[[Any], None]) -> None:
        assert self.go.wait(120)
        try:
            run(self.opened)
        except LedgerReplaced:
            run(self.opened)

    def _answer(self, requests: Sequence[Request]) -> Sequence[Any]:
        self.sizes.append(len(requests))
        return [EnvironmentFault("away") if self.is_away else len(requests) for _ in requests]

    async def hold(self) -> asyncio.Future[Any]:
        """Begins a group, which keeps the next one waiting until `go` is set."""
        self.go.clear()
        return self.groups.add(one_step).future


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.go.set()
    made.pool.shutdown()


def one_step(_: Any) -> Steps[Any]:
    return (yield ASKED)


def two_steps(_: Any) -> Steps[Any]:
    return (yield ASKED), (yield ASKED)


def no_step(_: Any) -> Steps[Any]:
    yield from ()
    return "nothing was asked"


def failing(_: Any) -> Steps[Any]:
    yield ASKED
    raise KeyError("a slip")


def test_calls_that_wait_are_asked_together_step_by_step(server: Server) -> None:
    async def call_all() -> None:
        first = await server.hold()
        others = [server.groups.add(begin).future for begin in (one_step, two_steps, no_step)]
        server.go.set()
        assert await first == 1
        assert await asyncio.gather(*others) == [2, (2, 1), "nothing was asked"]

    asyncio.run(call_all())
    assert server.sizes == [1, 2, 1]


def test_what_a_call_raises_concerns_no_other(server: Server) -> None:
    async def call_all() -> None:
        first = await server.hold()
        others = [server.groups.add(begin).future for begin in (failing, one_step, two_steps)]
        server.go.set()
        said = await asyncio.gather(first, *others, return_exceptions=True)
        assert isinstance(said[1], KeyError)
        assert [said[0], *said[2:]] == [1, 3, (3, 1)]

    asyncio.run(call_all())


def test_a_request_without_an_answer_raises_in_its_call(server: Server) -> None:
    def careful(_: Any) -> Steps[Any]:
        try:
            yield ASKED
        except EnvironmentFault as fault:
            return str(fault)
        return "answered"

    async def call_all() -> None:
        server.is_away = True
        calls = [server.groups.add(begin).future for begin in (careful, one_step)]
        said = await asyncio.gather(*calls, return_exceptions=True)
        assert said[0] == "away"
        assert isinstance(said[1], EnvironmentFault)

    asyncio.run(call_all())


def test_a_call_whose_client_leaves_is_dropped_before_it_begins_and_not_after(server: Server) -> None:
    begun: list[int] = []

    def note(_: Any) -> Steps[Any]:
        begun.append(1)
        return (yield ASKED)

    async def call_all() -> None:
        first = server.groups.add(one_step)
        server.go.clear()
        second = server.groups.add(note)
        second.cancel()
        first.cancel()
        server.go.set()
        assert await first.future == 1
        assert second.future.cancelled()
        third = server.groups.add(one_step)
        assert await third.future == 1

    asyncio.run(call_all())
    assert not begun


def test_calls_that_have_not_ended_begin_again_in_a_replaced_ledger(server: Server) -> None:
    tries: list[int] = []

    def replaced(_: Any) -> Steps[Any]:
        tries.append(1)
        if len(tries) == 1:
            raise LedgerReplaced("another file")
        return (yield ASKED)

    async def call_all() -> None:
        calls = [server.groups.add(begin).future for begin in (one_step,)]
        first = await asyncio.gather(*calls)
        second = server.groups.add(replaced).future
        assert [first, await second] == [[1], 1]

    asyncio.run(call_all())
    assert (len(tries), server.sizes) == (2, [1, 1])
