"""Files shared between processes: tolerant reads, atomic replacement, and locks that end with their holder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from remand.app import errors

_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def atomic_write(path: str, content: bytes, *, mode: int = 0o666, draft: str = "") -> None:
    """Replaces a file's content atomically: readers never see half, and being killed leaves no partial file.

    Whatever exists under the draft's name (a pipe, a link, another user's file) is removed and never opened.
    A writer under a lock passes a fixed draft name, so that the next writer replaces what a killed one left.
    The mode is subject to the umask. It does not sync: do not use it for files that must survive a power cut.
    Raises OSError, and then leaves no draft.
    """
    draft = draft or f"{path}.{os.getpid()}.{os.urandom(4).hex()}.draft"
    try:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        with open(os.open(draft, _DRAFT_FLAGS, mode), "wb") as file:
            file.write(content)
        os.replace(draft, path)
    finally:
        with suppress(OSError):
            os.unlink(draft)  # It exists only if something failed.


def read_start(path: str, limit: int = -1) -> bytes:
    """The beginning of a file, or all of it; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""


class _LockWait:
    """How a caller waits for locks: at most so many seconds, and with progress shown."""

    seconds = 0
    show: Callable[[str], object] | None = None


@contextmanager
def limit_lock_wait(seconds: int, show: Callable[[str], object]) -> Iterator[None]:
    """Bounds each wait for a lock, and shows progress while holding one, while a caller waits for the main thread."""
    _LockWait.seconds, _LockWait.show = seconds, show
    try:
        yield
    finally:
        _LockWait.seconds, _LockWait.show = 0, None


def note_progress(handle: int, text: str) -> None:
    """Shows that the holder of a lock is working: to the user, and to those who wait, by the lock file's time."""
    if handle >= 0:
        os.utime(handle)
    if _LockWait.show is not None:
        _LockWait.show(text)


def lock_handle(handle: int, *, is_shared: bool = False, waits: bool = True) -> bool:
    """Locks an open file, or changes the kind of lock; False if another process holds it and `waits` is
    False.

    The kernel releases it when the last descriptor of that opening is closed, so at the latest with the
    process. Raises `EnvironmentFault` if a bounded wait ends without the lock.
    """
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        if waits:
            _wait_for_lock(handle, kind, _LockWait.seconds)
        return waits
    return True


def _wait_for_lock(handle: int, kind: int, seconds: int) -> None:
    """Waits that long, and longer while the holder shows progress; without a limit in other threads."""
    import signal  # These import much, and a hook seldom waits.
    import threading

    if not seconds or threading.current_thread() is not threading.main_thread():
        fcntl.flock(handle, kind)
        return

    def give_up(*_: object) -> None:
        if time.time() - os.fstat(handle).st_mtime < seconds:
            signal.alarm(seconds)
            return
        raise errors.EnvironmentFault(
            f"A lock was not released within {seconds} s. If another remand process is suspended, resume or end it, then repeat."
        )

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        fcntl.flock(handle, kind)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def unlock_handle(handle: int) -> None:
    """Releases the lock on a file that stays open."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def open_lock(path: str) -> int:
    """Opens a lock file, creating it if needed; does not follow links."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def acquire_lock(path: str, *, is_shared: bool = False, waits: bool = False) -> int:
    """Locks a file and returns its descriptor; -1 if another process holds the lock. Closing it releases the lock."""
    handle, is_held = open_lock(path), False
    try:
        is_held = lock_handle(handle, is_shared=is_shared, waits=waits)
    finally:
        if not is_held:
            os.close(handle)
    return handle if is_held else -1


def claim_lock(path: str) -> int:
    """Like `acquire_lock`, for a lock that others look at with `is_locked`: only an exclusive holder counts."""
    while (handle := acquire_lock(path)) < 0 and not is_locked(path):
        time.sleep(0.001)
    return handle


def is_locked(path: str) -> bool:
    """True if a process holds the lock exclusively. The check takes the lock for a moment, but shared."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not lock_handle(handle, is_shared=True, waits=False)
    finally:
        os.close(handle)


def require_lock(path: str, fault: str) -> int:
    """Locks a file and returns its descriptor. Raises `EnvironmentFault` if another process holds the lock."""
    handle = acquire_lock(path)
    if handle < 0:
        raise errors.EnvironmentFault(fault)
    return handle


@contextmanager
def hold_lock(path: str) -> Iterator[None]:
    """Waits for the lock on a file and holds it."""
    handle = acquire_lock(path, waits=True)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def try_lock(path: str) -> Iterator[bool]:
    """Tries to lock a file; yields False if another process holds the lock."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = acquire_lock(path)
    try:
        yield handle >= 0
    finally:
        if handle >= 0:
            os.close(handle)


def program_folders(root: str) -> list[str]:
    """The existing folders of a repository's own programs: of its Python environment and its packages."""
    packages, environment = os.path.join(root, "node_modules"), os.path.join(root, ".venv")
    has_environment = os.path.isfile(os.path.join(environment, "pyvenv.cfg"))
    has_packages = os.path.isdir(os.path.join(packages, ".bin")) and not os.path.islink(packages)
    return [
        *([os.path.join(environment, "bin")] if has_environment else ()),
        *([os.path.join(packages, ".bin")] if has_packages else ()),
    ]
