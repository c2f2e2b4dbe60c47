"""Timing: one operation of each kind in random order, again and again, so that all see the same noise."""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Operation = Callable[[], float]
"""Does something once and returns the seconds it took."""

LINE = b"x" * 499 + b"\n"
QUIET_SECONDS = 0.001
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Times:
    """How long an operation took, each time."""

    seconds: tuple[float, ...]

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Times:
        """Puts times in order."""
        return cls(tuple(sorted(seconds)))

    def at(self, share: float) -> float:
        """The time that this share of all is not above."""
        if not self.seconds:
            return float("nan")
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)]

    @property
    def p50(self) -> float:
        """The median."""
        return self.at(0.5)

    @property
    def p99(self) -> float:
        """The time that one in a hundred is above."""
        return self.at(0.99)


def timed(action: Callable[[], object]) -> Operation:
    """An operation that times an action."""

    def operation() -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return operation


def processor_time(action: Callable[[], object]) -> Operation:
    """An operation that gives the processor time of the processes that an action starts and waits for."""

    def operation() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        action()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return operation


class Quiet:
    """Waits for moments when the disk answers within a clock tick: it does not while others use every core."""

    def __init__(self, folder: str, patience: float) -> None:
        self._append = timed(appending(os.path.join(folder, "quiet")))
        self._left = patience
        self._seen: list[float] = []

    def wait(self) -> None:
        """Returns at such a moment, or at once when all patience is used up."""
        start = time.monotonic()
        while (raw := self._append()) > QUIET_SECONDS and self._left > 0:
            time.sleep(_PAUSE_SECONDS)
            self._left -= time.monotonic() - start
            start = time.monotonic()
        self._seen.append(raw)

    @property
    def raw(self) -> float:
        """What a raw append with fdatasync took, at the median of these moments."""
        return Times.of(self._seen).p50

    @property
    def is_loud(self) -> bool:
        """True when there were too few such moments: every sync then takes a tick, and ratios say little."""
        return self.raw > QUIET_SECONDS


def interleaved(
    operations: Mapping[str, Operation],
    rounds: int,
    quiet: Quiet | None = None,
    *,
    in_a_row: int = 1,
    warm_up: int = 5,
) -> dict[str, Times]:
    """Does one of each (or a few in a row) in random order, round by round; the first rounds do not count."""
    rng = random.Random(1)
    names = list(operations)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + warm_up):
        rng.shuffle(names)
        if quiet is not None:
            quiet.wait()
        for name in names:
            seconds = [operations[name]() for _ in range(in_a_row)]
            if number >= warm_up:
                found[name] += seconds
    return {name: Times.of(found[name]) for name in operations}


def appending(path: str, lines: int = 1) -> Callable[[], None]:
    """Appends 500-byte lines to a file of its own and has them on disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    data = LINE * lines

    def append() -> None:
        os.write(handle, data)
        os.fdatasync(handle)

    return append


def probe(folder: str, count: int = 60) -> Times:
    """What the disk takes for one line right now."""
    append = timed(appending(os.path.join(folder, "probe")))
    return Times.of(append() for _ in range(count))
