"""Ends processes, those that their parents have left behind included."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.sandbox.polling import is_ready

_STEP = 0.005
_CENSUS_SECONDS = 0.05


class Handle:
    """A process that is no child of ours, held so that no other can be mistaken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._is_gone = False
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor, self._is_gone = -1, True
        except (AttributeError, OSError):
            # Not on this system: the number has to do.
            self._descriptor = -1

    def kill(self) -> None:
        """Ends it; where only its number is known, with the group it leads."""
        with suppress(OSError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            elif not self._is_gone:
                os.killpg(self.pid, signal.SIGKILL)

    @property
    def descriptor(self) -> int:
        """Has something to read once the process has ended; below 0 where the system has no such thing."""
        return self._descriptor

    def has_ended(self, seconds: float) -> bool:
        """True when it ends within so many seconds."""
        if self._descriptor >= 0:
            return is_ready(self._descriptor, seconds)
        deadline = time.monotonic() + seconds
        while not self._is_gone and time.monotonic() < deadline:
            try:
                os.kill(self.pid, 0)
            except OSError:
                return True
            time.sleep(_STEP)
        return self._is_gone

    def close(self) -> None:
        """Lets go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Seen(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    session: int


def end_all_below(keeper: int, mark: str, seconds: float) -> bool:
    """Ends what descends from a process, is in its session, or carries its mark; False when something stays."""
    deadline = time.monotonic() + seconds
    while found := _below(keeper, mark):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True


class Hunt:
    """Ends what a killed keeper has left behind, in a thread of its own, for callers that may not wait."""

    def __init__(self, keeper: int, mark: str, seconds: float) -> None:
        self._thread = threading.Thread(target=end_all_below, args=(keeper, mark, seconds), daemon=True)
        self._has_begun = False

    def is_over(self) -> bool:
        """Begins it when it is first asked; True when nothing is left, or the time is up."""
        if not self._has_begun:
            self._has_begun = True
            self._thread.start()
        return not self._thread.is_alive()


def _below(keeper: int, mark: str) -> set[int]:
    """Everything a keeper answers for. Orphans become its children; should it be dead, the rest tells them."""
    table = running()
    found = descendants(keeper, table)
    is_alive = any(seen.pid == keeper for seen in table)
    if not is_alive:
        found |= {seen.pid for seen in table if seen.session == keeper or _has_mark(seen.pid, mark)}
    return found - {keeper, os.getpid()}


def descendants(keeper: int, table: Sequence[Seen]) -> set[int]:
    """The processes that a process has started, and those that these have."""
    found: set[int] = set()
    size = -1
    while size < len(found):
        size = len(found)
        found |= {seen.pid for seen in table if seen.parent == keeper or seen.parent in found}
    return found


def running() -> list[Seen]:
    """The processes that run now."""
    return list(_table())


class Census:
    """The processes that run, counted again only when the last time is a while ago."""

    def __init__(self) -> None:
        self._taken = -_CENSUS_SECONDS
        self._table: list[Seen] = []

    def now(self) -> list[Seen]:
        """Those of just now."""
        if time.monotonic() - self._taken >= _CENSUS_SECONDS:
            self._table, self._taken = running(), time.monotonic()
        return self._table


def _table() -> Iterator[Seen]:
    """The processes that run; those that have ended and were not fetched are left out."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent, _, session = file.read().rpartition(b") ")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            yield Seen(int(name), int(parent), int(session))


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return bool(mark) and os.fsencode(mark) in file.read()
    except OSError:
        return False


def has_argument(word: str) -> bool:
    """True when a process runs that was started with a word on its command line."""
    for seen in _table():
        try:
            with open(f"/proc/{seen.pid}/cmdline", "rb") as file:
                if word.encode() in file.read():
                    return True
        except OSError:
            continue
    return False
