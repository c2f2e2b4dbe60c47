"""What gates and agents print: read as it comes, kept and logged within bounds."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from io import FileIO

CHUNK = 1 << 20
PIPE_SIZE = 1 << 20
LAST_CHUNKS = 64
LEFT_OUT = b"\n[... output left out here ...]\n"


class BoundedOutput:
    """Head and tail of a stream, in memory bounded by three halves of the limit."""

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
        """True when there was more than is kept."""
        return self._length > self._limit

    def content(self) -> bytes:
        """All of it; when it is too much, its head, a line that says so, and its tail."""
        if not self.is_cut:
            return bytes(self._head + self._tail)
        tail = self._tail_size - len(LEFT_OUT)
        return bytes(self._head) + (LEFT_OUT + bytes(self._tail[-tail:]) if tail > 0 else b"")

    def text(self) -> str:
        return self.content().decode("utf-8", "replace")


class OutputLog:
    """A file of what is printed, as it comes up to a size; of what follows the end is kept, and written last.

    A log that cannot be written, as on a full disk, is cut short: the agent continues.
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
        """Writes what was kept for the end."""
        is_cut = self._is_cut or len(self._tail) > self.TAIL
        self._append((LEFT_OUT if is_cut else b"") + self._tail[-self.TAIL :])
        self._tail.clear()

    def _append(self, part: bytes) -> None:
        if part:
            # Opened anew each time: hundreds of agents would hold as many files open.
            with suppress(OSError):
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                try:
                    os.write(descriptor, part)
                finally:
                    os.close(descriptor)


class OutputStream:
    """Standard output or standard error of a job, read without ever waiting for it."""

    def __init__(self, pipe: FileIO, limit: int, log: OutputLog) -> None:
        self._pipe, self._log = pipe, log
        self.kept = BoundedOutput(limit)
        self.descriptor = pipe.fileno()
        os.set_blocking(self.descriptor, False)
        # The watch thread reads a pipe once in a round: one of the usual 64 KiB would slow down whoever fills it.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def read(self) -> bytes | None:
        """Reads what is there: None when nothing is, empty when nothing more can come."""
        part = self._pipe.read(CHUNK)
        if part:
            self.kept.add(part)
            self._log.add(part)
        return part

    def read_rest(self) -> None:
        """Reads what is left. Should somebody still be there to write more, that is not waited for."""
        for _ in range(LAST_CHUNKS):
            if not self.read():
                break
