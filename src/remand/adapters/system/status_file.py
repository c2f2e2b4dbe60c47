"""The file in which a process says how it is doing: replaced whole, read with care."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

MAX_SIZE = 1 << 20


class StatusFile:
    """One small file outside every repository. Whatever is wrong with it keeps nobody from working."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, content: bytes) -> bool:
        """Puts it in the place of what was there, whole or not at all; False when it cannot be written."""
        draft = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with open(draft, "wb", opener=_for_us_alone) as file:
                file.write(content)
            os.replace(draft, self.path)
        except OSError:
            with suppress(OSError):
                os.unlink(draft)
            return False
        return True

    def read(self) -> bytes | None:
        """What stands there: a plain file of our own and of a bearable size, else None."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
            return file.read(MAX_SIZE) if is_ours and status.st_size <= MAX_SIZE else None

    def mark(self) -> tuple[int, int]:
        """Changes whenever the file is replaced or taken away."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_mtime_ns)

    def clear(self) -> None:
        """Takes it away: nothing is running any more."""
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


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
