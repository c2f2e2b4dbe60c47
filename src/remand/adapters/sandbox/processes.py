"""Processes, their pipes, what they print, and how to end them with all of their descendants."""

from __future__ import annotations

import os
import select
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from math import ceil
from typing import NamedTuple


def is_ready(descriptor: int, seconds: float) -> bool:
    """True when a descriptor has something to read within so many seconds. Unlike select, it takes any number."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(ceil(seconds * 1000)))


def make_pipe(reader: ExitStack, writer: ExitStack) -> tuple[FileIO, FileIO]:
    """The reading and the writing end of a pipe, each closed with its stack."""
    reading, writing = os.pipe()
    return reader.enter_context(FileIO(reading, "rb")), writer.enter_context(FileIO(writing, "wb"))


@contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """The descriptor of a file without a name that holds a content."""
    has_memory_files = hasattr(os, "memfd_create")
    with (
        os.fdopen(os.memfd_create("remand"), "w+b") if has_memory_files else tempfile.TemporaryFile()
    ) as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


_STEP = 0.005
_TABLE_SECONDS = 0.05


class ProcessHandle:
    """A process that is no child of ours, held so that no other can be mistaken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._is_gone = False
        self.descriptor = -1
        """Readable once the process has ended; below 0 where the system has no such descriptors."""
        try:
            self.descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._is_gone = True
        except (AttributeError, OSError):
            pass  # Not on this system: the number has to do.

    def kill(self) -> None:
        """Kills it; where only its number is known, with the group it leads."""
        with suppress(OSError):
            if self.descriptor >= 0:
                signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
            elif not self._is_gone:
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor, self._is_gone = -1, True


class ProcessEntry(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    session: int


def running_processes() -> Iterator[ProcessEntry]:
    """The processes that run now; those that have ended and were not waited for are left out."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent, _, session = file.read().rpartition(b") ")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            yield ProcessEntry(int(name), int(parent), int(session))


class ProcessTable:
    """The processes that run, read again only when the last time is a while ago."""

    def __init__(self) -> None:
        self._read_at = -_TABLE_SECONDS
        self._table: list[ProcessEntry] = []

    def now(self) -> list[ProcessEntry]:
        if time.monotonic() - self._read_at >= _TABLE_SECONDS:
            self._table, self._read_at = list(running_processes()), time.monotonic()
        return self._table


def descendants(ancestor: int, table: Sequence[ProcessEntry]) -> set[int]:
    """The processes that a process has started, and those that these have."""
    found: set[int] = set()
    size = -1
    while size < len(found):
        size = len(found)
        found |= {entry.pid for entry in table if entry.parent == ancestor or entry.parent in found}
    return found


def kill_all_below(holder: int, mark: str, seconds: float) -> bool:
    """Kills what descends from a process, is in its session, or carries its mark; False when something stays."""
    deadline = time.monotonic() + seconds
    while found := _processes_below(holder, mark):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True


def _processes_below(holder: int, mark: str) -> set[int]:
    """Everything that belongs to a holder. Orphans become its children; once it is dead, session and mark identify them."""
    table = list(running_processes())
    found = descendants(holder, table)
    if all(entry.pid != holder for entry in table):
        found |= {
            entry.pid
            for entry in table
            if entry.session == holder or (mark and _mentions(entry.pid, "environ", mark))
        }
    return found - {holder, os.getpid()}


def _mentions(pid: int, file_name: str, word: str) -> bool:
    try:
        with open(f"/proc/{pid}/{file_name}", "rb") as file:
            return os.fsencode(word) in file.read()
    except OSError:
        return False


def is_argument_in_use(word: str) -> bool:
    """True when a process runs that was started with a word on its command line."""
    return any(_mentions(entry.pid, "cmdline", word) for entry in running_processes())


class OrphanKiller:
    """Kills what a killed holder has left behind, in a thread of its own, for callers that may not wait."""

    def __init__(self, holder: int, mark: str, seconds: float) -> None:
        self._arguments = (holder, mark, seconds)
        self._thread: threading.Thread | None = None
        self.has_failed = False
        """True when something would not end."""

    def is_done(self) -> bool:
        """Starts it when first asked; True when nothing is left, or the time is up."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.has_failed = not kill_all_below(*self._arguments)
