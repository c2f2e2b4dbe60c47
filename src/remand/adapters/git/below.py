"""Reading files below a folder that an agent writes to: no link is followed, no pipe waited for, nothing large read."""

from __future__ import annotations

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_below(root: str, path: str) -> int:
    """Opens a folder below another one, by folders alone; raises OSError."""
    handle = os.open(root, _FOLDER)
    for name in filter(None, path.split("/")):
        try:
            inner = os.open(name, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def read_below(root: str, path: str, limit: int) -> bytes | None:
    """What a plain file holds; None when there is none, or when it holds more than that."""
    folder, _, name = path.rpartition("/")
    try:
        handle = folder_below(root, folder)
    except OSError:
        return None
    try:
        file = os.open(name, _FILE, dir_fd=handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(file)
        return None
    with os.fdopen(file, "rb") as opened:
        content = opened.read(limit + 1)
    return content if len(content) <= limit else None


def names_below(root: str, path: str) -> list[str]:
    """What is in a folder below another one; nothing when there is no such folder."""
    try:
        handle = folder_below(root, path)
    except OSError:
        return []
    try:
        return os.listdir(handle)
    finally:
        os.close(handle)


def line_below(root: str, path: str, limit: int = 4096) -> str:
    """The first line of a small file; empty when there is none."""
    content = read_below(root, path, limit) or b""
    return content.partition(b"\n")[0].decode("utf-8", "surrogateescape").rstrip("\r")


def is_there(path: str) -> bool:
    """True for a folder, not for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
