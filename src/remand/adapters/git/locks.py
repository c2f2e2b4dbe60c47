"""Locks between processes. The kernel lets go of them when a process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


def taken(path: str, *, is_shared: bool = False, waits: bool = False) -> int:
    """Takes the lock on a file and returns its descriptor; -1 when another holds it. Closing it lets go."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind if waits else kind | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return -1
    return handle


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Waits for the lock on a file and holds it."""
    handle = taken(path, waits=True)
    try:
        yield
    finally:
        os.close(handle)
