"""The one thread that starts agents and serves all of them.

The kernel ends a process that is to die with its parent when the *thread* that started it ends. So agents are started by
this one, which lives as long as the process, whoever asks for them.
"""

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

from remand.adapters.sandbox.polling import is_ready

PACE_SECONDS = 0.004
"""Between two rounds of listening: an agent that floods its pipe takes no more than a part of this process."""

MAX_PATIENCE = 3600.0
T = TypeVar("T")
Task = Callable[[], None]


class Timer:
    """Something to be done at a time, unless it is cancelled before."""

    __slots__ = ("task",)

    def __init__(self, task: Task | None) -> None:
        self.task = task

    def cancel(self) -> None:
        """Lets go of it."""
        self.task = None


class Watch:
    """Does what it is given, one after the other: at once, at a time, or when a descriptor has something to read.

    What it is given raises nothing, but for what `call` is given: of that the caller is told.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._tasks: deque[Task] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, task: Callable[[], T]) -> T:
        """Has something done and waits for its answer."""
        answer: Future[T] = Future()

        def do() -> None:
            try:
                answer.set_result(task())
            except (OSError, ValueError) as fault:
                answer.set_exception(fault)

        self.soon(do)
        return answer.result()

    def soon(self, task: Task) -> None:
        """Has something done without waiting for it."""
        self._tasks.append(task)
        self.go_on()
        # A pipe that is full wakes as well.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\n")

    def go_on(self) -> None:
        """Sees to it that the thread runs. Should a fault of ours have ended it, and with it every agent, it goes on."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="remand-crew", daemon=True)
                self._thread.start()

    def after(self, seconds: float, task: Task) -> Timer:
        """Has something done later; to be called in this thread."""
        timer = Timer(task)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), timer))
        return timer

    def listen(self, descriptor: int, task: Task) -> None:
        """Has something done whenever a descriptor has something to read; to be called in this thread."""
        self._selector.register(descriptor, selectors.EVENT_READ, task)

    def forget(self, descriptor: int) -> None:
        """Ends that."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    self._do_tasks()
                elif self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._do_timers()
            is_ready(self._woken, PACE_SECONDS)

    def _patience(self) -> float | None:
        return min(MAX_PATIENCE, max(0.0, self._timers[0][0] - time.monotonic())) if self._timers else None

    def _do_tasks(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        while self._tasks:
            self._tasks.popleft()()

    def _do_timers(self) -> None:
        now = time.monotonic()
        while self._timers and (self._timers[0][0] <= now or self._timers[0][2].task is None):
            timer = heapq.heappop(self._timers)[2]
            if timer.task is not None:
                timer.task()


@cache
def the_watch() -> Watch:
    """That of this process: it has one, however many crews there are."""
    return Watch()
