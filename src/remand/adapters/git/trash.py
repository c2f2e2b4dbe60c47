"""Removing what gates leave behind, whatever it is, when nobody waits for it."""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import stat
import struct
import threading
from contextlib import suppress

from remand.adapters.git.locks import taken

_SET_FLAGS = 0x40086602
"""The request by which a file's flags (immutable, append only) are set; Linux knows it."""
_FLAGGED = (stat.S_IFREG, stat.S_IFDIR)


class Trash:
    """A folder that things are moved into at once and removed from later, by one process at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = os.fsencode(folder)
        self._lock = f"{folder}.lock"
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def throw(self, path: str | bytes) -> None:
        """Takes a thing away. A folder is only moved; `empty` removes it."""
        place = os.fsencode(path)
        try:
            self._take(place)
        except PermissionError:
            loosen(os.path.dirname(place))
            loosen(place)
            self._take(place)

    def empty_soon(self) -> None:
        """Empties it in a thread that nobody waits for; what is left at the end is removed another time."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self.empty, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Waits until nobody empties it any more, and removes what has come meanwhile."""
        self.empty(waits=True)

    def empty(self, *, waits: bool = False) -> None:
        """Removes everything in it; what cannot be removed stays, and so does all while another is at it."""
        with suppress(OSError):
            handle = taken(self._lock, waits=waits)
            if handle < 0:
                return
            try:
                pending = os.listdir(self._folder)
                while pending:
                    pending += self._removed(os.path.join(self._folder, pending.pop()))
            finally:
                os.close(handle)

    def _removed(self, path: bytes) -> list[bytes]:
        """Removes one thing. Folders in it are moved up beside it first, so that none is too deep."""
        moved: list[bytes] = []
        with suppress(OSError):
            if not is_folder(path):
                self.throw(path)
                return []
            loosen(path)
            for entry in _entries(path):
                if entry.is_dir(follow_symlinks=False):
                    moved.append(self._moved(entry.path))
                else:
                    self.throw(entry.path)
            os.rmdir(path)
        return moved

    def _take(self, path: bytes) -> None:
        if is_folder(path):
            self._moved(path)
        else:
            os.unlink(path)

    def _moved(self, path: bytes) -> bytes:
        """Moves a folder in here and returns its new name. Moving writes into it, so it must be writable."""
        name = f"{self._prefix}-{next(self._numbers)}".encode()
        if os.lstat(path).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            loosen(path)
        os.rename(path, os.path.join(self._folder, name))
        return name


def loosen(path: bytes) -> None:
    """Makes a folder writable and takes away the flags that keep a file from being removed."""
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    if kind not in _FLAGGED:
        return
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("l", 0))
        finally:
            os.close(handle)
    if kind == stat.S_IFDIR:
        os.chmod(path, 0o700)


def is_folder(path: bytes) -> bool:
    """True for a folder, not for a link to one."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _entries(path: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(path) as found:
        return list(found)
