"""Processes, their pipes, what they print and report, and ending them with all of their descendants."""

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
from typing import IO, NamedTuple

import msgspec

from remand.domain.record import Record


def is_ready(descriptor: int, seconds: float) -> bool:
    """True when a descriptor has something to read within so many seconds; its number may be any."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(ceil(seconds * 1000)))


def make_pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    """The two ends of a pipe: to read, and to write."""
    reading, writing = os.pipe()
    ends = FileIO(reading, "rb"), FileIO(writing, "wb")
    for end in ends:
        stack.enter_context(end)
    return ends


@contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """The descriptor of a file without a name that holds a content."""
    with _nameless() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _nameless() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("remand"), "w+b")
    return tempfile.TemporaryFile()


LEFT_OUT = b"\n[... output left out here ...]\n"


class BoundedOutput:
    """What one stream said, in memory bounded by three halves of the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._head_size = limit // 2
        self._tail = bytearray()
        self._tail_size = limit - self._head_size
        self._length = 0

    def add(self, part: bytes) -> None:
        """Takes the next bytes in."""
        self._length += len(part)
        room = self._head_size - len(self._head)
        if room:
            self._head += part[:room]
            part = part[room:]
        self._tail += part
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    @property
    def is_cut(self) -> bool:
        """True when more was said than is kept."""
        return self._length > self._limit

    def content(self) -> bytes:
        """All of it; when it is too much, its head, a line that says so, and its tail."""
        if not self.is_cut:
            return bytes(self._head + self._tail)
        room = self._tail_size - len(LEFT_OUT)
        if room <= 0:
            return bytes(self._head)
        return bytes(self._head) + LEFT_OUT + bytes(self._tail[-room:])


_MAX = 1 << 16


class LauncherMessage(Record, kw_only=True, rename="kebab"):
    """One line; bubblewrap says the first, our own launcher any."""

    child_pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    fault: str = ""


class LauncherStatus:
    """What is known of a job by what has been said."""

    def __init__(self) -> None:
        self.is_closed = False
        """True once nobody is left to say anything."""
        self.child = 0
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.fault = ""

    @property
    def has_ended(self) -> bool:
        """True when nothing more is to come that matters."""
        return self.is_closed or self.exit_code is not None or self.signal is not None or bool(self.fault)


class StatusPipe(LauncherStatus):
    """Reads what is said, and keeps what has been."""

    def __init__(self, pipe: FileIO) -> None:
        super().__init__()
        self.pipe = pipe
        self._unread = b""

    def read(self) -> None:
        """Takes in what is there; to be called when something is."""
        part = self.pipe.read(_MAX) or b""
        self.is_closed = not part
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = msgspec.json.decode(line, type=LauncherMessage)
        except msgspec.MsgspecError:
            return
        self.child = said.child_pid or self.child
        self.exit_code = said.exit_code if said.exit_code is not None else self.exit_code
        self.signal = said.signal if said.signal is not None else self.signal
        self.fault = said.fault or self.fault

    def await_child(self, seconds: float) -> bool:
        """True when the job's first process is there within so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.child and not self.has_ended:
            left = deadline - time.monotonic()
            if left <= 0 or not is_ready(self.pipe.fileno(), left):
                return False
            self.read()
        return bool(self.child) and not self.has_ended


_STEP = 0.005
_CENSUS_SECONDS = 0.05


class ProcessHandle:
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


class ProcessEntry(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    session: int


def end_all_below(keeper: int, mark: str, seconds: float) -> bool:
    """Ends what descends from a process, is in its session, or carries its mark; False when something stays."""
    deadline = time.monotonic() + seconds
    while found := _processes_below(keeper, mark):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True


class OrphanKiller:
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


def _processes_below(keeper: int, mark: str) -> set[int]:
    """Everything a keeper answers for. Orphans become its children; should it be dead, the rest tells them."""
    table = running_processes()
    found = descendants(keeper, table)
    is_alive = any(seen.pid == keeper for seen in table)
    if not is_alive:
        found |= {seen.pid for seen in table if seen.session == keeper or _has_mark(seen.pid, mark)}
    return found - {keeper, os.getpid()}


def descendants(keeper: int, table: Sequence[ProcessEntry]) -> set[int]:
    """The processes that a process has started, and those that these have."""
    found: set[int] = set()
    size = -1
    while size < len(found):
        size = len(found)
        found |= {seen.pid for seen in table if seen.parent == keeper or seen.parent in found}
    return found


def running_processes() -> list[ProcessEntry]:
    """The processes that run now."""
    return list(_read_table())


class ProcessTable:
    """The processes that run, counted again only when the last time is a while ago."""

    def __init__(self) -> None:
        self._taken = -_CENSUS_SECONDS
        self._table: list[ProcessEntry] = []

    def now(self) -> list[ProcessEntry]:
        """Those of just now."""
        if time.monotonic() - self._taken >= _CENSUS_SECONDS:
            self._table, self._taken = running_processes(), time.monotonic()
        return self._table


def _read_table() -> Iterator[ProcessEntry]:
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
            yield ProcessEntry(int(name), int(parent), int(session))


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return bool(mark) and os.fsencode(mark) in file.read()
    except OSError:
        return False


def has_argument(word: str) -> bool:
    """True when a process runs that was started with a word on its command line."""
    for seen in _read_table():
        try:
            with open(f"/proc/{seen.pid}/cmdline", "rb") as file:
                if word.encode() in file.read():
                    return True
        except OSError:
            continue
    return False
