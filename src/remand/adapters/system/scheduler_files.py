"""Files of a running scheduler: its status, and the logs of its runs."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from remand.adapters.system.files import atomic_write, program_folders, require_lock
from remand.app.scheduler.ports import decode_status, unstartable_by_status
from remand.domain.access.team import Member
from remand.domain.instant import Instant, format_instant
from remand.domain.text.words import remove_invisible

MAX_SIZE = 1 << 20


class StatusFile:
    """The status file, outside every repository. Problems with it never stop any work."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, content: bytes) -> bool:
        """Replaces the file atomically; False if it cannot be written."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            atomic_write(self.path, content, mode=0o600)
        except OSError:
            return False
        return True

    def read(self) -> bytes | None:
        """The content of a plain file of our own and of limited size, else None."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
            return file.read(MAX_SIZE) if is_ours and status.st_size <= MAX_SIZE else None

    def mark(self) -> tuple[int, int]:
        """A value that changes whenever the file is replaced or removed."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_mtime_ns)

    def clear(self) -> None:
        """Removes the file: no scheduler is running any more."""
        with suppress(OSError):
            os.unlink(self.path)


def is_alive(pid: int) -> bool:
    """True while a process has that number."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def unstartable(status_path: str, members: Iterable[Member], root: str) -> dict[str, str]:
    """The members that cannot be started now, and why, judging by the running scheduler and missing programs.

    Searches for a program where agents started for the repository at `root` find it, wherever the caller is.
    """
    status = decode_status(StatusFile(status_path).read() or b"")
    able = [one for one in members if one.command]
    missing = {one.command[0] for one in able if not _is_program(one.command[0], root)}
    return unstartable_by_status(status if status and is_alive(status.pid) else None, able, missing)


def _is_program(name: str, root: str) -> bool:
    own = os.path.dirname(os.path.abspath(sys.executable))
    path = os.pathsep.join((*program_folders(root), os.environ.get("PATH", ""), own))
    return shutil.which(os.path.join(root, name) if "/" in name else name, path=path) is not None


MANY = 1000
MAX_LINE = 2000
MAX_TAIL = 1 << 15
"""How much of a log's end is read to find the last message: hosts print long lines in between."""


def lock_scheduler(folder: str) -> int:
    """Takes the lock of a ledger's scheduler and returns its descriptor. Raises `EnvironmentFault` if one is running."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return require_lock(
        os.path.join(folder, "scheduler.lock"),
        "A scheduler of this ledger is already running; see `remand top`.",
    )


class RunLogs:
    """The run logs, written by whoever started the agents."""

    def __init__(self, folder: str, find_words: Callable[[str], str] | None = None) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._folder = folder
        self._find_words = find_words or (lambda output: output)
        """Finds what an agent said last in the end of its output."""
        self._read: dict[str, tuple[tuple[int, int], str]] = {}
        """What was read last of each run, and how large and old its file was then."""

    def path(self, run_id: str) -> str:
        """The file of a run."""
        return os.path.join(self._folder, f"{run_id}.log")

    def last_line(self, run_id: str) -> str:
        """The last message of a run, in short. Reads the file only if it has grown."""
        try:
            status = os.stat(self.path(run_id))
            mark = (status.st_size, status.st_mtime_ns)
            known = self._read.get(run_id)
            if known is None or known[0] != mark:
                line = _last_line(self._find_words(_end_of_file(self.path(run_id))))
                self._read[run_id] = known = (mark, line or (known[1] if known else ""))
        except OSError:
            return ""
        return known[1]

    def last_written(self, run_id: str) -> Instant:
        try:
            return format_instant(datetime.fromtimestamp(os.stat(self.path(run_id)).st_mtime, UTC))
        except (OSError, OverflowError, ValueError):
            return ""

    def thin_out(self) -> None:
        """Removes the logs of the oldest runs; their names sort by age."""
        self._read.clear()
        for name in sorted(os.listdir(self._folder))[:-MANY]:
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))


def _end_of_file(path: str) -> str:
    """The last complete lines of a file."""
    with open(path, "rb") as file:
        begin = max(0, os.fstat(file.fileno()).st_size - MAX_TAIL)
        file.seek(begin)
        text = file.read(MAX_TAIL).decode("utf-8", "replace")
    return text.partition("\n")[2] if begin else text


def _last_line(text: str) -> str:
    found = (remove_invisible(line).strip() for line in reversed(text.split("\n")) if line.strip())
    return next(found, "")[:MAX_LINE]
