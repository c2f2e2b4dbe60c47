"""Folders of prepared dependencies: each is whole or made anew, and none is removed while somebody uses it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

KEPT = 8
"""How many stay: those of the base and of a few branches with lock files of their own. One may take a gigabyte."""

LOCK, DONE = ".lock", ".done"
"""Lie beside a folder, where the step that fills it cannot write."""


class PreparedFolders:
    """Folders by name, of which those that were not used for longest are removed."""

    def __init__(self, root: str, kept: int = KEPT) -> None:
        self._root, self._kept = root, kept

    @contextmanager
    def lend(self, name: str, make: Callable[[str], None]) -> Iterator[str]:
        """A folder that `make` has filled, now or before; it stays as long as it is lent."""
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        folder = os.path.join(self._root, name)
        lock = _used(folder)
        try:
            while lock is None:
                _made(folder, make)
                lock = _used(folder)
                self._remove_unused()
            yield folder
        finally:
            if lock is not None:
                os.close(lock)

    def _remove_unused(self) -> None:
        names = {os.path.splitext(name)[0] for name in os.listdir(self._root)}
        folders = [os.path.join(self._root, name) for name in names]
        there = sorted(filter(os.path.isdir, folders), key=_last_used, reverse=True)
        for folder in {*folders} - {*there[: self._kept]}:
            with suppress(BlockingIOError):
                lock = _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    if _is_removed(folder):
                        os.unlink(folder + LOCK)
                finally:
                    os.close(lock)


def _used(folder: str) -> int | None:
    """A lock on a folder that is made, which keeps it; None when it is to be made."""
    lock = _locked(folder, fcntl.LOCK_SH)
    try:
        os.utime(folder + DONE)
    except FileNotFoundError:
        os.close(lock)
        return None
    return lock


def _made(folder: str, make: Callable[[str], None]) -> None:
    """Makes a folder, one process at a time; what was left of it by one that was killed is removed."""
    lock = _locked(folder, fcntl.LOCK_EX)
    try:
        if not os.path.exists(folder + DONE):
            _is_removed(folder)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            make(folder)
            with open(folder + DONE, "wb"):
                pass
    finally:
        if not os.path.exists(folder + DONE):
            _is_removed(folder)
        os.close(lock)


def _locked(folder: str, how: int) -> int:
    """A lock on a folder, whether that is there or not; raises BlockingIOError when it was not to be waited for."""
    while True:
        lock = os.open(folder + LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, how)
            if os.path.samestat(os.fstat(lock), os.stat(folder + LOCK)):
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            raise
        # It was removed before it was ours.
        os.close(lock)


def _last_used(folder: str) -> float:
    """When a folder was used last; for one that was not finished, when it was begun."""
    for path in (folder + DONE, folder):
        with suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0


def _is_removed(folder: str) -> bool:
    """Removes a folder, from which moment on it counts as not made; False when something of it stays."""
    with suppress(FileNotFoundError):
        os.unlink(folder + DONE)
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            _open_up(folder)
            shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)


def _open_up(folder: str) -> None:
    """Lets us write to every folder below one: some tools take that right away from what they keep."""
    os.chmod(folder, stat.S_IRWXU)
    for at, names, _ in os.walk(folder):
        for path in (os.path.join(at, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
