"""The one thread that starts and watches over all gates and agents of this process."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import TypeVar

from remand.adapters.sandbox.processes import is_ready

PACE_SECONDS = 0.004
"""Between two rounds: an agent that floods its pipe takes no more than a part of this process."""
MAX_WAIT_SECONDS = 3600.0

T = TypeVar("T")
Callback = Callable[[], None]


class Timer:
    """Something to be done at a time, unless it is cancelled before."""

    __slots__ = ("task",)

    def __init__(self, task: Callback | None) -> None:
        self.task = task

    def cancel(self) -> None:
        self.task = None


class WatchThread:
    """Runs tasks one after the other: at once, at a time, or when a descriptor is readable.

    Tasks raise nothing, but for those of `call`, whose caller gets the error.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._tasks: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, task: Callable[[], T]) -> T:
        """Runs a task and waits for its answer."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(task())
            except (OSError, ValueError) as fault:
                answer.set_exception(fault)

        self.call_soon(run)
        return answer.result()

    def call_soon(self, task: Callback) -> None:
        self._tasks.append(task)
        self.ensure_running()
        # A pipe that is full wakes as well.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\n")

    def ensure_running(self) -> None:
        """Starts the thread, also should a fault of ours have ended it: bubblewraps end with the thread that began them."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="remand-watch", daemon=True)
                self._thread.start()

    def call_later(self, seconds: float, task: Callback) -> Timer:
        """Runs a task later; to be called in this thread."""
        timer = Timer(task)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), timer))
        return timer

    def on_readable(self, descriptor: int, task: Callback) -> None:
        """Runs a task whenever a descriptor is readable; to be called in this thread."""
        self._selector.register(descriptor, selectors.EVENT_READ, task)

    def forget(self, descriptor: int) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def _serve(self) -> None:
        while True:
            wait = None
            if self._timers:
                wait = min(MAX_WAIT_SECONDS, max(0.0, self._timers[0][0] - time.monotonic()))
            for key, _ in self._selector.select(wait):
                if key.data is None:
                    with suppress(BlockingIOError):
                        os.read(self._woken, 1 << 16)
                    while self._tasks:
                        self._tasks.popleft()()
                elif self._selector.get_map().get(key.fd) is key:
                    key.data()
            now = time.monotonic()
            while self._timers and (self._timers[0][0] <= now or self._timers[0][2].task is None):
                timer = heapq.heappop(self._timers)[2]
                if timer.task is not None:
                    timer.task()
            is_ready(self._woken, PACE_SECONDS)


@cache
def watch_thread() -> WatchThread:
    """That of this process."""
    return WatchThread()
