"""Writing files of a tree into a folder, byte for byte as they were committed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import IO

from remand.adapters.git.contents import FOLDER_MODE, Folders, looks
from remand.adapters.git.objects import Objects
from remand.adapters.git.trees import TreeEntry, new_hash
from remand.app.errors import EnvironmentFault

_CHUNK = 1 << 20
_MAX_LINK = 1 << 16
_NEVER = frozenset((b"", b".", b"..", b".git"))


class Writing:
    """Changes the files of a folder that nobody else writes to, and notes how they look.

    A file is written over in place, not replaced: making and removing files in turn gets slower each time.
    """

    def __init__(self, root: str, folders: Folders, objects: Objects) -> None:
        self._root = os.path.join(os.fsencode(root), b"")
        self._objects = objects
        self.folders = {folder: dict(files) for folder, files in folders.items()}

    def remove(self, path: bytes) -> None:
        """Takes a file, link or submodule away, and the folders that are empty without it."""
        folder, name = _split(path)
        if path + b"/" in self.folders:
            self._prune(path + b"/")
            return
        with suppress(FileNotFoundError):
            os.unlink(self._root + path)
        self.folders.get(folder, {}).pop(name, None)
        self._prune(folder)

    def put(self, entries: Iterable[tuple[bytes, TreeEntry]]) -> None:
        """Writes files, links and submodules' folders."""
        files: list[tuple[bytes, TreeEntry]] = []
        for path, entry in entries:
            _require_harmless(path)
            if entry.is_file:
                self._make(_split(path)[0])
                files.append((path, entry))
            elif entry.is_link:
                self._link(path, entry)
            else:
                self._make(path + b"/")
        self._objects.copy((entry.id, partial(_opened, self._root + path, entry)) for path, entry in files)
        for path, _ in files:
            self._note(path)

    def _link(self, path: bytes, entry: TreeEntry) -> None:
        self._make(_split(path)[0])
        target = self._objects.read(entry.id, "blob", _MAX_LINK)
        if not target or b"\x00" in target:
            raise EnvironmentFault(f"{os.fsdecode(path)!r} is a link to nowhere, and cannot be made.")
        os.symlink(target, self._root + path)
        self._note(path)

    def _note(self, path: bytes) -> None:
        folder, name = _split(path)
        self.folders[folder][name] = looks(os.lstat(self._root + path))

    def _make(self, folder: bytes) -> None:
        if folder in self.folders:
            return
        self._make(_split(folder[:-1])[0])
        os.mkdir(self._root + folder)
        os.chmod(self._root + folder, FOLDER_MODE)
        self.folders[folder] = {}

    def _prune(self, folder: bytes) -> None:
        """Takes away folders that are empty, from one upwards."""
        while folder and not self.folders.get(folder):
            try:
                os.rmdir(self._root + folder)
            except FileNotFoundError:
                pass
            except OSError:
                return
            self.folders.pop(folder, None)
            folder = _split(folder[:-1])[0]


def is_written(root: str, path: bytes, entry: TreeEntry | None) -> bool:
    """Reads a file; True when it holds what it holds in the tree."""
    place = os.path.join(os.fsencode(root), path)
    if entry is None:
        return False
    if entry.is_link:
        target = os.readlink(place)
        return new_hash(len(entry.id), b"blob %d\x00%s" % (len(target), target)).hexdigest() == entry.id
    with open(place, "rb") as file:
        found = new_hash(len(entry.id), b"blob %d\x00" % os.fstat(file.fileno()).st_size)
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest() == entry.id


def _opened(path: bytes, entry: TreeEntry) -> IO[bytes]:
    """Opens a file to be written over, with the mode that git gives it.

    It is cut off only once it is written: ext4 writes a file to disk at once that was cut to nothing before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    os.fchmod(handle, 0o755 if entry.mode == "100755" else 0o644)
    return os.fdopen(handle, "wb")


def _split(path: bytes) -> tuple[bytes, bytes]:
    """The folder, which ends in a slash unless it is the checkout itself, and the name in it."""
    folder, slash, name = path.rpartition(b"/")
    return folder + slash, name


def _require_harmless(path: bytes) -> None:
    if not _NEVER.isdisjoint(path.lower().split(b"/")):
        raise EnvironmentFault(f"A tree has a file {os.fsdecode(path)!r}, which is not written.")
