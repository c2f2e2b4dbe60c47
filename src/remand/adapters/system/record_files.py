"""Readable files made from the ledger (logs, messages, tasks): rewritten or appended to. Touches no others."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress

from remand.adapters.system.files import atomic_write, try_lock
from remand.app.errors import EnvironmentFault
from remand.app.record_files import RecordKind
from remand.startup import lazy_pattern

_OURS = {
    RecordKind.LOG: lazy_pattern(r"(\d{4}-\d\d-\d\d)\.log"),
    RecordKind.MESSAGE: lazy_pattern(r"(E-[A-Za-z0-9-]{1,80})\.md"),
    RecordKind.TASK: lazy_pattern(r"(T-[A-Za-z0-9-]{1,80})\.md"),
}
_ENDINGS = {RecordKind.LOG: "log", RecordKind.MESSAGE: "md", RecordKind.TASK: "md"}
_BACK_NS = 10_000_000_000
_MAX_SAME = 64 << 20


class RecordFiles:
    """A repository's folders of such files, one for each kind, during one write. Touches nothing else there."""

    def __init__(self, root: str, folders: Mapping[RecordKind, str]) -> None:
        self._root = os.path.realpath(root)
        self._folders = dict(folders)
        self._made_already: set[RecordKind] = set()

    def put(self, kind: RecordKind, name: str, text: str, after: str = "") -> str:
        """Writes a file with this text. Appends to a log that continues, so that `tail -f` works."""
        path, wanted = self._file(kind, name), text.encode("utf-8", "replace")
        if after:
            return _append(path, wanted, after)
        present = _content(path)
        if kind is RecordKind.LOG and present and wanted.startswith(present):
            return _append(path, wanted[len(present) :])
        if present != wanted:
            _replace(path, wanted)
        return _file_mark(os.stat(path, follow_symlinks=False))

    def _file(self, kind: RecordKind, name: str) -> str:
        return os.path.join(self._make_folder(kind), f"{name}.{_ENDINGS[kind]}")

    def drop(self, kind: RecordKind, name: str) -> None:
        folder = self._path(kind)
        if os.path.realpath(folder) == folder:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(os.path.join(folder, f"{name}.{_ENDINGS[kind]}"))

    def names(self, kind: RecordKind) -> set[str]:
        try:
            found = map(_OURS[kind].fullmatch, os.listdir(self._path(kind)))
        except (FileNotFoundError, NotADirectoryError):
            return set()
        return {match[1] for match in found if match}

    def stamp(self, *, seals: bool = False, sees_edits: bool = False) -> str:
        """A value that changes when a file is added or removed.

        `seals` resets the folders' times, since the clock may tick slowly. The seal is the folder's last change: with
        `sees_edits`, the value is empty if a file's is not earlier.
        """
        at = time.time_ns() - _BACK_NS
        for kind in self._folders if seals else ():
            with suppress(OSError):
                os.utime(self._path(kind), ns=(at, at))
        if sees_edits and any(map(_has_later_change, map(self._path, self._folders))):
            return ""
        return " ".join(f"{folder}:{_stamp(self._path(kind))}" for kind, folder in self._folders.items())

    def lock(self) -> AbstractContextManager[bool]:
        return try_lock(os.path.join(self._root, ".got", "records.lock"))

    def _path(self, kind: RecordKind) -> str:
        return os.path.join(self._root, self._folders[kind])

    def _make_folder(self, kind: RecordKind) -> str:
        """The folder of a kind, created if needed. Does not follow a link that leads elsewhere."""
        folder = self._path(kind)
        if kind in self._made_already:
            return folder
        os.makedirs(folder, exist_ok=True)
        if os.path.realpath(folder) != folder:
            raise EnvironmentFault(f"{folder} is a link to another place. Remove it, then repeat.")
        if not self._folders[kind].startswith(".got/"):
            ignored = os.path.join(folder, ".gitignore")
            if not os.path.lexists(ignored):
                _replace(ignored, b"*\n")
        self._made_already.add(kind)
        return folder


def _content(path: str) -> bytes | None:
    """A file's content; None if it is not a file, or too large for a record."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(opened)
        is_own = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= _MAX_SAME
        return os.read(opened, status.st_size + 1) if is_own else None
    finally:
        os.close(opened)


def _append(path: str, more: bytes, after: str = "") -> str:
    """Appends lines in one write; returns the file's new mark, or an empty string if its mark was not `after`
    or the disk is full.

    If the process is killed meanwhile, the mark reveals it next time.
    """
    try:
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if after and _file_mark(os.fstat(opened)) != after:
            return ""
        if os.write(opened, more) != len(more):
            return ""
        return _file_mark(os.fstat(opened))
    finally:
        os.close(opened)


def _file_mark(status: os.stat_result) -> str:
    """A value that differs for another file, and after a change by anybody else."""
    is_own = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}.{is_own}"


def _replace(path: str, content: bytes) -> None:
    """Replaces a file atomically. The draft has a fixed name, since only one process writes, under the lock."""
    if os.path.isdir(path) and not os.path.islink(path):
        raise EnvironmentFault(f"{path} is a folder. Remove it, then repeat.")
    atomic_write(path, content, mode=0o644, draft=f"{path}.draft")


def _stamp(folder: str) -> str:
    try:
        status = os.stat(folder)
    except OSError:
        return "-"
    return f"{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"


def _has_later_change(folder: str) -> bool:
    """True if a file in a folder has changed since the folder has."""
    try:
        sealed = os.stat(folder).st_ctime_ns
        with os.scandir(folder) as entries:
            return any(entry.stat(follow_symlinks=False).st_ctime_ns >= sealed for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False
