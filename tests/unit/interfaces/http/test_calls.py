"""Calls in threads: done claims that wait for workers keep nobody from waiting for them, or from taking their commits."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from remand.app.errors import EnvironmentFault
from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.cli import main
from remand.interfaces.http.calls import LONG_THREADS, TRANSFERS, CallRunner

SECONDS = 20.0


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
