"""The thread pools of calls: kinds of calls do not wait for each other, and no caller occupies all threads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar

from litestar.types import Receive

from remand.domain.access.tokens import MACHINES, Caller, TokenRole, rate_refusal
from remand.domain.record import NamedTuple
from remand.interfaces.http.problems import UNAVAILABLE, HttpProblem, refusal_problem

PRIVILEGE = 20
"""How many times the calls of other members hosts, workers and the user may have in progress."""

Answer = TypeVar("Answer")


class QueueLimits(NamedTuple):
    """The limits for one kind of call."""

    threads: int
    seconds: float
    """The time after which a request is answered with "too slow"."""
    most: int = 1000
    """How many may run or wait for a thread; further calls are refused immediately."""
    each: int = 16
    """How many of them one caller may have."""


class CallQueue:
    """The calls of one kind. For one event loop."""

    def __init__(self, name: str, limits: QueueLimits) -> None:
        self.limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, name)
        self.running = 0
        """How many calls are running or waiting."""
        self._by_caller: Counter[str] = Counter()

    def submit(
        self, run: Callable[[], Answer], caller: Caller | None
    ) -> tuple[Future[Answer], asyncio.Future[Answer]]:
        """Runs a function in a thread. Raises `HttpProblem` when too many calls are in progress."""
        name, limits = (caller.token_id or caller.member) if caller else "", self.limits
        if self.running >= limits.most:
            raise HttpProblem(UNAVAILABLE, "unavailable", "Too many requests wait.", {"retry-after": "1"})
        if caller is not None and self._by_caller[name] >= limits.each * _privilege(caller):
            raise refusal_problem(rate_refusal(1.0), {"retry-after": "1"})
        job = self._pool.submit(run)
        self.running += 1
        self._by_caller[name] += 1

        def note_end(ended: asyncio.Future[Answer]) -> None:
            self.running -= 1
            self._by_caller[name] -= 1
            if not self._by_caller[name]:
                del self._by_caller[name]
            if not ended.cancelled():
                ended.exception()  # retrieved even if nobody awaits it any more

        future = asyncio.wrap_future(job)
        future.add_done_callback(note_end)
        return job, future

    def close(self) -> None:
        """Waits for the running calls and cancels those that are still waiting for a thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _privilege(caller: Caller) -> int:
    return PRIVILEGE if caller.role in (TokenRole.USER, *MACHINES) else 1


class ClientPresence:
    """Watches whether the client is still connected: jobs that wait for a thread are cancelled when it disconnects."""

    def __init__(self, receive: Receive, *, has_body: bool) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()
        self._jobs: list[Future[Any]] = []
        self._is_gone = False
        if not has_body:
            self._is_read.set()

    async def receive(self) -> Any:
        """The next part of the body."""
        message: Any = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self._is_read.set()
        return message

    def add(self, job: Future[Any]) -> None:
        """Registers a job that only this client needs."""
        self._jobs.append(job)
        if self._is_gone:
            job.cancel()

    async def watch(self) -> None:
        """Waits until the client disconnects, and then cancels the jobs that have not started."""
        await self._is_read.wait()
        message: Any = None
        while message is None or message["type"] != "http.disconnect":
            message = await self._receive()
        self._is_gone = True
        for job in self._jobs:
            job.cancel()  # running jobs continue


presence: ContextVar[ClientPresence | None] = ContextVar("presence", default=None)
"""The client of the current request."""
