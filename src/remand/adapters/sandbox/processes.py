"""Processes: their pipes and output, and ending them with all of their descendants."""

from __future__ import annotations

import fcntl
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

from remand.adapters.system.files import read_start


def is_ready(descriptor: int, seconds: float) -> bool:
    """True if a descriptor becomes readable within so many seconds. Unlike select, it accepts any number."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(ceil(seconds * 1000)))


def make_pipe(reader: ExitStack, writer: ExitStack) -> tuple[FileIO, FileIO]:
    """The reading and the writing end of a pipe, each closed with its stack."""
    reading, writing = os.pipe()
    return reader.enter_context(FileIO(reading, "rb")), writer.enter_context(FileIO(writing, "wb"))


@contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """The descriptor of an anonymous file with this content."""
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
    """A handle of a process that is not our child, so that a reused process id cannot be mistaken for it."""

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
            pass  # Not available on this system: the process id has to do.

    def kill(self) -> None:
        """Kills it; if only its id is known, kills the process group that it leads."""
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
    """The running processes, without those that have ended and were not reaped."""
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
    """The running processes; read again after a while, or if a process has started since."""

    def __init__(self) -> None:
        self._read_at = -_TABLE_SECONDS
        self._table: list[ProcessEntry] = []

    def now(self, child: int) -> list[ProcessEntry]:
        """The processes, read after this child was started."""
        is_old = time.monotonic() - self._read_at >= _TABLE_SECONDS
        if is_old or all(entry.pid != child for entry in self._table):
            self._table, self._read_at = list(running_processes()), time.monotonic()
        return self._table


def descendants(ancestor: int, table: Sequence[ProcessEntry]) -> set[int]:
    """The processes that a process has started, directly or indirectly."""
    found: set[int] = set()
    size = -1
    while size < len(found):
        size = len(found)
        found |= {entry.pid for entry in table if entry.parent == ancestor or entry.parent in found}
    return found


def kill_orphans(holder: int, mark: str, seconds: float) -> bool:
    """Kills what a process that was waited for has left: its session, and processes with its mark; False if some remain."""
    deadline = time.monotonic() + seconds
    while found := _orphans(holder, mark):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True


def _orphans(holder: int, mark: str) -> set[int]:
    """The processes of a holder that was waited for. If its id is in use, it is another's: the mark alone identifies them."""
    table = list(running_processes())
    is_reused = any(entry.pid == holder for entry in table)
    return {
        entry.pid
        for entry in table
        if (entry.session == holder and not is_reused) or (mark and _mentions(entry.pid, "environ", mark))
    } - {os.getpid()}


def _mentions(pid: int, file_name: str, word: str) -> bool:
    return os.fsencode(word) in read_start(f"/proc/{pid}/{file_name}")


def is_argument_in_use(word: str) -> bool:
    """True if a running process has the word on its command line."""
    return any(_mentions(entry.pid, "cmdline", word) for entry in running_processes())


class OrphanKiller:
    """Kills the processes that a killed holder left, in a thread of its own, for callers that cannot wait."""

    def __init__(self, holder: int, mark: str, seconds: float) -> None:
        self._arguments = (holder, mark, seconds)
        self._thread: threading.Thread | None = None
        self.has_failed = False
        """True when something would not end."""

    def is_done(self) -> bool:
        """Starts the thread at the first call; True if no process is left, or the time is up."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.has_failed = not kill_orphans(*self._arguments)


# ------------------------------------------------------------------------------------------------- output

CHUNK = 1 << 20
PIPE_SIZE = 1 << 20
LAST_CHUNKS = 64
LEFT_OUT = b"\n[... output left out here ...]\n"


class BoundedOutput:
    """The beginning and end of a stream, in memory of at most one and a half times the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._head_size = limit // 2
        self._tail = bytearray()
        self._tail_size = limit - self._head_size
        self._length = 0

    def add(self, part: bytes) -> None:
        self._length += len(part)
        missing = self._head_size - len(self._head)
        if missing:
            self._head += part[:missing]
            part = part[missing:]
        self._tail += part
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    @property
    def is_cut(self) -> bool:
        """True if some of it was dropped."""
        return self._length > self._limit

    def content(self) -> bytes:
        """The whole content; if it is too long, its beginning, a line that says so, and its end."""
        if not self.is_cut:
            return bytes(self._head + self._tail)
        tail = self._tail_size - len(LEFT_OUT)
        return bytes(self._head) + (LEFT_OUT + bytes(self._tail[-tail:]) if tail > 0 else b"")

    def text(self) -> str:
        return self.content().decode("utf-8", "replace")


class OutputLog:
    """A log file of output: written as it comes up to a size; of the rest, the end is written last.

    If writing fails, as on a full disk, the log is cut short and the agent continues.
    """

    HEAD = 1 << 19
    TAIL = 1 << 16

    def __init__(self, path: str) -> None:
        self._path = path
        self._head_left = self.HEAD
        self._tail = bytearray()
        self._is_cut = False
        if path:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))

    def add(self, part: bytes) -> None:
        if not self._path:
            return
        head, rest = part[: self._head_left], part[self._head_left :]
        self._head_left -= len(head)
        self._append(head)
        self._tail += rest
        if len(self._tail) > 2 * self.TAIL:
            self._is_cut = True
            del self._tail[: -self.TAIL]

    def close(self) -> None:
        """Writes the kept end."""
        is_cut = self._is_cut or len(self._tail) > self.TAIL
        self._append((LEFT_OUT if is_cut else b"") + self._tail[-self.TAIL :])
        self._tail.clear()

    def _append(self, part: bytes) -> None:
        if part:
            # Reopened each time: hundreds of agents would keep that many files open.
            with suppress(OSError):
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                try:
                    os.write(descriptor, part)
                finally:
                    os.close(descriptor)


class OutputStream:
    """Standard output or standard error of a job, read without blocking."""

    def __init__(self, pipe: FileIO, limit: int, log: OutputLog) -> None:
        self._pipe, self._log = pipe, log
        self.kept = BoundedOutput(limit)
        self.descriptor = pipe.fileno()
        os.set_blocking(self.descriptor, False)
        # The watch thread reads a pipe once in a round: the usual 64 KiB would slow down whoever fills it.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def read(self) -> bytes | None:
        """Reads the available output: None if there is none, empty at the end."""
        part = self._pipe.read(CHUNK)
        if part:
            self.kept.add(part)
            self._log.add(part)
        return part

    def read_rest(self) -> None:
        """Reads the rest, without waiting for processes that could still write."""
        for _ in range(LAST_CHUNKS):
            if not self.read():
                break
