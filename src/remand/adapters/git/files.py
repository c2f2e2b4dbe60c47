"""Files in folders that agents write to: safe reads, locks, deferred removal, and the files of a checkout."""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import stat
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import IO

import msgspec

from remand.adapters.git.bare_repository import Objects, TreeEntry, new_hash
from remand.adapters.system.files import acquire_lock, atomic_write, read_start
from remand.app.errors import EnvironmentFault
from remand.domain.record import Record

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder_below(root: str, path: str) -> int:
    """Opens a folder below another without following links; raises OSError."""
    handle = os.open(root, _FOLDER)
    for name in filter(None, path.split("/")):
        try:
            inner = os.open(name, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def read_below(root: str, path: str, limit: int) -> bytes | None:
    """The content of a plain file; None if there is none, or if it is larger than the limit."""
    folder, _, name = path.rpartition("/")
    try:
        handle = open_folder_below(root, folder)
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


def list_below(root: str, path: str) -> list[str]:
    """The names in a folder below another; empty if there is no such folder."""
    try:
        handle = open_folder_below(root, path)
    except OSError:
        return []
    try:
        return os.listdir(handle)
    finally:
        os.close(handle)


def read_line_below(root: str, path: str, limit: int = 4096) -> str:
    """The first line of a small file; empty if there is no such file."""
    content = read_below(root, path, limit) or b""
    return content.partition(b"\n")[0].decode("utf-8", "surrogateescape").rstrip("\r")


def require_private(folder: str) -> None:
    """Creates a folder that other users cannot read; raises EnvironmentFault if another user can."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if os.path.islink(folder) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise EnvironmentFault(
            f"{folder} is open to others. Remove it, or restrict it to yourself with `chmod 700`."
        )


def is_real_folder(path: str | bytes) -> bool:
    """True for a folder, False for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


_SET_FLAGS = 0x40086602
"""The ioctl that sets a file's flags (immutable, append only) on Linux."""
_FLAGGED = (stat.S_IFREG, stat.S_IFDIR)


class Trash:
    """A folder into which things are moved at once, to be removed later by one process at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = os.fsencode(folder)
        self._lock = f"{folder}.lock"
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def throw(self, path: str | bytes) -> None:
        """Removes something. A folder is only moved; `empty` removes it."""
        place = os.fsencode(path)
        try:
            self._remove_or_move(place)
        except PermissionError:
            make_removable(os.path.dirname(place))
            make_removable(place)
            self._remove_or_move(place)

    def empty_soon(self) -> None:
        """Empties it in a background thread; what remains at exit is removed another time."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self.empty, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        self.empty(waits=True)

    def empty(self, *, waits: bool = False) -> None:
        """Removes everything in it, except what cannot be removed. Does nothing while another process does so."""
        with suppress(OSError):
            handle = acquire_lock(self._lock, waits=waits)
            if handle < 0:
                return
            try:
                pending = os.listdir(self._folder)
                while pending:
                    pending += self._remove_one(os.path.join(self._folder, pending.pop()))
            finally:
                os.close(handle)

    def _remove_one(self, path: bytes) -> list[bytes]:
        """Removes one entry. Moves its subfolders up beside it first, so that no path gets too deep."""
        moved: list[bytes] = []
        with suppress(OSError):
            if not is_real_folder(path):
                self.throw(path)
                return []
            make_removable(path)
            with os.scandir(path) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    moved.append(self._move_in(entry.path))
                else:
                    self.throw(entry.path)
            os.rmdir(path)
        return moved

    def _remove_or_move(self, path: bytes) -> None:
        if is_real_folder(path):
            self._move_in(path)
        else:
            os.unlink(path)

    def _move_in(self, path: bytes) -> bytes:
        """Moves a folder in here and returns its new name. The folder must be writable for that."""
        name = f"{self._prefix}-{next(self._numbers)}".encode()
        if os.lstat(path).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            make_removable(path)
        os.rename(path, os.path.join(self._folder, name))
        return name


def make_removable(path: bytes) -> None:
    """Makes a folder writable and clears the flags that prevent its removal."""
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


FOLDER_MODE = 0o755
_ID_WIDTH = 64

FileSignature = tuple[int, int, int, int, int]
"""A file's kind and mode, inode, size, time of last content change, and time of last change of any kind.

No program can set the last of these, so it reveals a file that was changed and got its old times back.
"""
Folders = dict[bytes, dict[bytes, FileSignature]]
"""By folder, the files in it. A folder's path ends with a slash; that of the checkout itself is empty.

A submodule's content is not checked out: it is a folder without files.
"""


class CheckoutContents(Record, kw_only=True):
    """Which tree a checkout holds, and the signature of each file when it was written."""

    tree: str
    folders: Folders
    seen: int
    """When all files had been written, by the file system's clock. A file changed later may differ."""


def file_signature(status: os.stat_result) -> FileSignature:
    """A file's signature."""
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def recorded_tree(path: str) -> str:
    """The tree that a contents record names; empty if there is none."""
    return read_start(path, _ID_WIDTH).decode("ascii", "replace").strip()


def load_contents(path: str) -> CheckoutContents | None:
    """The recorded contents; None if there are none, or they are unreadable."""
    try:
        return msgspec.msgpack.decode(read_start(path)[_ID_WIDTH:], type=CheckoutContents)
    except msgspec.DecodeError:
        return None


def save_contents(path: str, contents: CheckoutContents) -> None:
    """Writes a contents record atomically."""
    content = contents.tree.ljust(_ID_WIDTH).encode() + msgspec.msgpack.encode(contents)
    atomic_write(path, content, draft=f"{path}.new")


class Inspection:
    """Walks through a checkout and removes whatever was not written there or has changed."""

    def __init__(
        self, root: str, contents: CheckoutContents, trash: Trash, *, is_brief: bool = False
    ) -> None:
        self._root = os.path.join(os.fsencode(root), b"")
        self._folders = contents.folders
        self._seen = contents.seen
        self._trash = trash
        self._is_brief = is_brief
        """True when names are enough, and no file is looked at."""
        self.missing: list[bytes] = []
        """The files, and submodules' folders, that are not there any more."""
        self.young: list[bytes] = []
        """Files that look as they did, but were written so late that a change since might not show."""

    def run(self) -> None:
        pending = [b""]
        unreached = set(self._folders)
        while pending:
            folder = pending.pop()
            unreached.discard(folder)
            pending += self._inspect_folder(folder)
        for folder in unreached:
            self.missing += [folder + name for name in self._folders[folder]] or [folder[:-1]]

    def _inspect_folder(self, folder: bytes) -> list[bytes]:
        """Checks everything in a folder; returns the subfolders that belong there."""
        here = self._root + folder
        _make_plain(here)
        wanted = self._folders[folder]
        present: list[bytes] = []
        below: list[bytes] = []
        with os.scandir(here) as found:
            entries = list(found)
        for entry in entries:
            expected = wanted.get(entry.name)
            if expected is not None and (
                self._is_brief or file_signature(entry.stat(follow_symlinks=False)) == expected
            ):
                present.append(entry.name)
                if expected[4] >= self._seen:
                    self.young.append(folder + entry.name)
            elif folder + entry.name + b"/" in self._folders and entry.is_dir(follow_symlinks=False):
                below.append(folder + entry.name + b"/")
            else:
                self._trash.throw(entry.path)
        if len(present) < len(wanted):
            self.missing += [folder + name for name in wanted.keys() - set(present)]
        return below


def _make_plain(folder: bytes) -> None:
    """Gives a folder its original mode and removes extended attributes."""
    if stat.S_IMODE(os.lstat(folder).st_mode) != FOLDER_MODE:
        os.chmod(folder, FOLDER_MODE)
    if sys.platform == "linux":
        for name in os.listxattr(folder):
            if not name.startswith("security."):
                os.removexattr(folder, name)


_CHUNK = 1 << 20
_MAX_LINK = 1 << 16
_NEVER = frozenset((b"", b".", b"..", b".git"))


class CheckoutWriter:
    """Changes the files of a folder to which nobody else writes, and records their signatures.

    Overwrites files in place: repeatedly removing and creating files gets slower each time.
    """

    def __init__(self, root: str, folders: Folders, objects: Objects) -> None:
        self._root = os.path.join(os.fsencode(root), b"")
        self._objects = objects
        self.folders = {folder: dict(files) for folder, files in folders.items()}

    def remove(self, path: bytes) -> None:
        """Removes a file, link or submodule, and folders that this leaves empty."""
        folder, name = _split(path)
        if path + b"/" in self.folders:
            self._prune(path + b"/")
            return
        with suppress(FileNotFoundError):
            os.unlink(self._root + path)
        self.folders.get(folder, {}).pop(name, None)
        self._prune(folder)

    def put(self, entries: Iterable[tuple[bytes, TreeEntry]]) -> None:
        """Writes files, links, and the folders of submodules."""
        files: list[tuple[bytes, TreeEntry]] = []
        for path, entry in entries:
            if not _NEVER.isdisjoint(path.lower().split(b"/")):
                raise EnvironmentFault(f"A tree has a file {os.fsdecode(path)!r}, which is not written.")
            if entry.is_file:
                self._make(_split(path)[0])
                files.append((path, entry))
            elif entry.is_link:
                self._link(path, entry)
            else:
                self._make(path + b"/")
        self._objects.copy(
            (entry.id, partial(_open_for_overwrite, self._root + path, entry)) for path, entry in files
        )
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
        self.folders[folder][name] = file_signature(os.lstat(self._root + path))

    def _make(self, folder: bytes) -> None:
        if folder in self.folders:
            return
        self._make(_split(folder[:-1])[0])
        os.mkdir(self._root + folder)
        os.chmod(self._root + folder, FOLDER_MODE)
        self.folders[folder] = {}

    def _prune(self, folder: bytes) -> None:
        """Removes empty folders, from this one upwards."""
        while folder and not self.folders.get(folder):
            try:
                os.rmdir(self._root + folder)
            except FileNotFoundError:
                pass
            except OSError:
                return
            self.folders.pop(folder, None)
            folder = _split(folder[:-1])[0]


def has_content(root: str, path: bytes, entry: TreeEntry | None) -> bool:
    """True if a file has the content that the tree names."""
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


def _open_for_overwrite(path: bytes, entry: TreeEntry) -> IO[bytes]:
    """Opens a file for overwriting, with git's mode for it.

    Truncates it only after writing: ext4 syncs a file that was truncated to nothing first.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    os.fchmod(handle, 0o755 if entry.mode == "100755" else 0o644)
    return os.fdopen(handle, "wb")


def _split(path: bytes) -> tuple[bytes, bytes]:
    """The folder (with a trailing slash, empty for the checkout itself) and the name in it."""
    folder, slash, name = path.rpartition(b"/")
    return folder + slash, name
