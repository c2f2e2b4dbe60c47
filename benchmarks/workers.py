"""Processes that stay: each holds every queue open and claims from one of them when it is told."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from benchmarks.measure import Times
from benchmarks.queues import Claimed, Places, Until

_LEAD_SECONDS = 0.05
_FAREWELL_SECONDS = 5.0
_STOP = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What all processes together claimed from one queue in a slice of time."""

    rate: float
    seconds: tuple[float, ...]
    names: tuple[str, ...]
    failures: int


class Workers:
    """All processes of a run."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def for_a_while(self, queue: str, seconds: float) -> Slice:
        """Lets all claim at once for a while; whoever is quickest gets most."""
        start = time.perf_counter() + _LEAD_SECONDS
        claimed = self._claim(queue, start, Until(end=start + seconds))
        return _slice(claimed, sum(one.in_time for one in claimed) / seconds)

    def each(self, queue: str, count: int) -> Slice:
        """Lets all claim at once until each of them has had so many."""
        start = time.perf_counter() + _LEAD_SECONDS
        claimed = self._claim(queue, start, Until(count=count))
        seconds = max(one.finished for one in claimed) - start
        return _slice(claimed, sum(len(one.names) for one in claimed) / seconds)

    def _claim(self, queue: str, start: float, until: Until) -> list[Claimed]:
        for pipe in self._pipes:
            pipe.send((queue, start, until))
        return [pipe.recv() for pipe in self._pipes]


def _slice(claimed: list[Claimed], rate: float) -> Slice:
    return Slice(
        rate=rate,
        seconds=tuple(second for one in claimed for second in one.seconds),
        names=tuple(name for one in claimed for name in one.names),
        failures=sum(one.failures for one in claimed),
    )


@contextmanager
def workers(places: Places, count: int) -> Iterator[Workers]:
    """Starts processes, and ends them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.workers", "procrastinate", "pgqueuer.queries"])
    pipes: list[Connection] = []
    processes = []
    end = 0.0
    try:
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, places, number), daemon=True)
            process.start()
            processes.append(process)
            pipes.append(ours)
        for pipe in pipes:
            pipe.recv()
        yield Workers(pipes)
        for pipe in pipes:
            pipe.send((_STOP, 0.0, Until(count=1)))
        end = time.monotonic() + _FAREWELL_SECONDS
    finally:
        for process in processes:
            process.join(max(end - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()


def _work(pipe: Connection, places: Places, number: int) -> None:
    """The life of one process."""
    queues = {name: places.open(name, number) for name in places.names}
    pipe.send(None)
    while True:
        name, start, until = pipe.recv()
        if name == _STOP:
            break
        time.sleep(max(start - time.perf_counter(), 0))
        pipe.send(queues[name].claims(until))
    for queue in queues.values():
        queue.close()


def merged(slices: list[Slice]) -> Times:
    """The times of all claims of all slices."""
    return Times.of(second for one in slices for second in one.seconds)
