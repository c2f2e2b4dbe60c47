"""What is in a checkout: how its files looked when they were written, and whether they look so still."""

from __future__ import annotations

import os
import stat
import sys

import msgspec

from remand.adapters.git.trash import Trash
from remand.domain.record import Record

FOLDER_MODE = 0o755
_ID_WIDTH = 64

Looks = tuple[int, int, int, int, int]
"""Kind and mode, inode, size, and when content and when anything at all was changed last.

The last of these no program can set: a file that is written to and given its old times back is noticed by it.
"""
Folders = dict[bytes, dict[bytes, Looks]]
"""By a folder's path, which ends in a slash (the checkout itself has none), the files in it.

A submodule, of which nothing is checked out, is a folder without files.
"""


class Contents(Record, kw_only=True):
    """Which tree a checkout holds, and how each file of it looked when it was written."""

    tree: str
    folders: Folders
    seen: int
    """When all files were there, by the file system's clock: one changed no earlier may have changed since."""


def looks(status: os.stat_result) -> Looks:
    """How a file looks."""
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def held(path: str) -> str:
    """The tree that a file of contents is about; empty when there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(_ID_WIDTH).decode("ascii", "replace").strip()
    except OSError:
        return ""


def load(path: str) -> Contents | None:
    """Contents as they were kept; None when there are none, or none that can be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.msgpack.decode(file.read()[_ID_WIDTH:], type=Contents)
    except (OSError, msgspec.DecodeError):
        return None


def keep(path: str, contents: Contents) -> None:
    """Writes contents to a file, at a stroke."""
    draft = f"{path}.new"
    with open(draft, "wb") as file:
        file.write(contents.tree.ljust(_ID_WIDTH).encode() + msgspec.msgpack.encode(contents))
    os.replace(draft, path)


class Inspection:
    """A walk through a checkout that takes out whatever was not written there, or is not as it was."""

    def __init__(self, root: str, contents: Contents, trash: Trash, *, is_brief: bool = False) -> None:
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
        """Walks."""
        pending = [b""]
        unreached = set(self._folders)
        while pending:
            folder = pending.pop()
            unreached.discard(folder)
            pending += self._entered(folder)
        for folder in unreached:
            self.missing += [folder + name for name in self._folders[folder]] or [folder[:-1]]

    def _entered(self, folder: bytes) -> list[bytes]:
        """Looks at everything in a folder; returns the folders in it that belong there."""
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
                self._is_brief or looks(entry.stat(follow_symlinks=False)) == expected
            ):
                present.append(entry.name)
                if expected[4] >= self._seen:
                    self.young.append(folder + entry.name)
            elif self._is_ours(folder, entry):
                below.append(folder + entry.name + b"/")
            else:
                self._trash.throw(entry.path)
        if len(present) < len(wanted):
            self.missing += [folder + name for name in wanted.keys() - set(present)]
        return below

    def _is_ours(self, folder: bytes, entry: os.DirEntry[bytes]) -> bool:
        return folder + entry.name + b"/" in self._folders and entry.is_dir(follow_symlinks=False)


def _make_plain(folder: bytes) -> None:
    """Gives a folder the mode it was made with, and no attributes of anyone's."""
    if stat.S_IMODE(os.lstat(folder).st_mode) != FOLDER_MODE:
        os.chmod(folder, FOLDER_MODE)
    if sys.platform == "linux":
        for name in os.listxattr(folder):
            if not name.startswith("security."):
                os.removexattr(folder, name)
