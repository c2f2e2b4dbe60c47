"""Calls that are carried out together: those that ask the ledger by steps share a thread and a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from remand.app.errors import LedgerReplaced, RemandError
from remand.app.requests import Answer, Request
from remand.interfaces.cli.context import Steps
from remand.wiring.open_ledger import OpenLedger

GROUPS_AT_ONCE = 1
"""How many groups are carried out at once. With more of them one is decided while another is made durable, but each is smaller."""
MOST_TOGETHER = 256
"""The most calls in one group."""
T = TypeVar("T")
Begin = Callable[[OpenLedger], Steps[T]]


class GroupedCall(Generic[T]):
    """A call that is carried out in a group, step by step. What it raises concerns no other call."""

    def __init__(self, begin: Begin[T], future: asyncio.Future[T]) -> None:
        self._begin = begin
        self._steps: Steps[T] | None = None
        self.future = future
        self.has_begun = False
        self.outcome: Callable[[], None] | None = None
        """Resolves the future; None until the call has ended."""

    def cancel(self) -> None:
        """Drops the call, unless it has begun."""
        if not self.has_begun:
            self.future.cancel()

    def next_request(self, opened: OpenLedger, answer: Answer | RemandError | None) -> Request | None:
        """Takes a step, with the answer to the one before; None when the call has ended."""
        with self:
            if answer is None or self._steps is None:
                self._steps = self._begin(opened)
                return next(self._steps)
            if isinstance(answer, RemandError):
                return self._steps.throw(answer)
            return self._steps.send(answer)
        return None

    def __enter__(self) -> None:
        """Begins a step."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, StopIteration):
            self.outcome = partial(self.future.set_result, error.value)
        elif error is not None and not isinstance(
            error, LedgerReplaced
        ):  # which is asked again, of the new one
            self.outcome = partial(self.future.set_exception, error)
        return isinstance(error, Exception)

    def fail_if_pending(self, error: BaseException) -> None:
        """Wakes whoever waits for it with an error, although the call may go on."""
        if not self.future.done():
            self.future.set_exception(error)

    def deliver(self, fault: BaseException | None) -> None:
        """Wakes whoever waits for it, with the fault of its group if it has not ended."""
        if self.outcome is None and fault is not None:
            self.fail_if_pending(fault)
        elif self.outcome is not None and not self.future.done():
            self.outcome()


class CallGroups:
    """The calls that wait for the group under way: the next one is larger for it, and costs each of them less. For one event loop."""

    def __init__(
        self,
        submit: Callable[[Callable[[], None]], Future[None]],
        run: Callable[[Callable[[OpenLedger], None]], None],
    ) -> None:
        """`submit` runs a function in a thread, and `run` there with the open ledger."""
        self._submit = submit
        self._run = run
        self._waiting: list[GroupedCall[Any]] = []
        self._running = 0

    def add(self, begin: Begin[T]) -> GroupedCall[T]:
        """Adds a call to the next group."""
        call = GroupedCall(begin, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        self._start()
        return call

    def _start(self) -> None:
        if not self._waiting or self._running >= GROUPS_AT_ONCE:
            return
        group = [call for call in self._waiting[:MOST_TOGETHER] if not call.future.done()]
        del self._waiting[:MOST_TOGETHER]
        for call in group:
            call.has_begun = True
        self._running += 1
        loop = asyncio.get_running_loop()
        job = self._submit(lambda: self._run(lambda opened: _carry_out(opened, group)))

        def note_end(ended: Future[None]) -> None:
            loop.call_soon_threadsafe(self._end, group, ended)

        job.add_done_callback(note_end)

    def _end(self, group: list[GroupedCall[Any]], job: Future[None]) -> None:
        self._running -= 1
        fault = asyncio.CancelledError() if job.cancelled() else job.exception()
        for call in group:
            call.deliver(fault)
        self._start()


def _carry_out(opened: OpenLedger, group: Sequence[GroupedCall[Any]]) -> None:
    """Takes the steps of all calls of a group that have not ended, and each step of all of them together."""
    calls: Sequence[GroupedCall[Any]] = [call for call in group if call.outcome is None]
    answers: Sequence[Answer | RemandError | None] = [None] * len(calls)
    while calls:
        steps = [
            (call, call.next_request(opened, answer)) for call, answer in zip(calls, answers, strict=True)
        ]
        calls = [call for call, request in steps if request is not None]
        answers = _ask(opened, [request for _, request in steps if request is not None])
    if any(call.outcome is None for call in group):
        raise LedgerReplaced(f"The ledger {opened.place.root} was replaced. Repeat the command.")


def _ask(opened: OpenLedger, requests: Sequence[Request]) -> Sequence[Answer | RemandError]:
    if opened.ledger.answer_in_group is None or not requests:
        return opened.ledger.ask_all(requests) if requests else ()
    return opened.ledger.answer_in_group(requests)
