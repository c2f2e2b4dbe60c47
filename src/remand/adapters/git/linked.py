"""A linked worktree's own files: its folder's `.git`, and its entry in the repository."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress

from remand.adapters.git.below import is_there, line_below, read_below
from remand.adapters.git.trash import Trash
from remand.adapters.git.trees import new_hash

_DRAFT = ".remand-"
_LOCKS = ("index.lock", "HEAD.lock")
_MAX_INDEX = 1 << 30
_OWNERS = stat.S_IRWXU


class Linked:
    """A worktree beside the main one, as `git worktree list` shows it. Its entry is made at a stroke."""

    def __init__(self, common_dir: str, folder: str, entry: str) -> None:
        self.common_dir = common_dir
        self.folder = folder
        self.name = entry
        self.entry = os.path.join(common_dir, "worktrees", entry)
        self.index = os.path.join(self.entry, "index")
        self._draft, self._former = leftovers(common_dir, entry)

    @property
    def objects(self) -> str:
        """Where the repository keeps its objects."""
        return os.path.join(self.common_dir, "objects")

    def is_right(self, branch: str) -> bool:
        """True when everything is as it is to be, on the branch and with no lock left. Runs no git."""
        files = self._files(branch)
        return (
            self.has_folder()
            and line_below(self.folder, ".git") == self._pointer()
            and all(line_below(self.entry, name) == text for name, text in files.items())
            and not any(os.path.lexists(os.path.join(self.entry, name)) for name in _LOCKS)
            and self.has_index()
        )

    def has_folder(self) -> bool:
        """True when the folder is there; it is only ever made whole."""
        return is_there(self.folder)

    def has_index(self) -> bool:
        """True when there is an index, all in one file and whole to its last byte."""
        return not self._halves() and is_whole(self.entry, "index")

    def drop_halves(self) -> None:
        """Takes away what an index that was in two files has left."""
        for path in self._halves():
            _remove(path)

    def last_moved_to(self) -> str:
        """The commit that was checked out or made here last, by git's own log; empty when it does not tell."""
        rows = (read_below(self.entry, "logs/HEAD", 64 << 20) or b"").rstrip(b"\n").rpartition(b"\n")[2]
        words = rows.split(b" ", 2)
        return words[1].decode("ascii", "replace") if len(words) > 1 else ""

    def enter(self, branch: str, index: str) -> None:
        """Has the repository know the folder, with this index, in place of whatever it knew of it."""
        _remove(self._draft)
        try:
            os.mkdir(self._draft)
            for name, text in self._files(branch).items():
                _write(os.path.join(self._draft, name), text)
            # With its time, by which git tells which files are so young that it has to read them.
            shutil.copy2(index, os.path.join(self._draft, "index"))
            os.makedirs(os.path.dirname(self.entry), exist_ok=True)
            self._forget()
            os.rename(self._draft, self.entry)
        finally:
            _remove(self._draft)
        self._point()

    def repair(self, branch: str, trash: Trash) -> None:
        """Puts everything but the index right: where it leads, which branch it is on, no locks of the killed."""
        for path in (*(os.path.join(self.entry, name) for name in _LOCKS), *self._drafts()):
            _remove(path)
        self._write_entry(self._files(branch))
        self.lead_back(trash)

    def lead_back(self, trash: Trash) -> None:
        """Has folder and entry lead to one another, whatever an agent has put in the place of that."""
        if self.is_entered():
            self._write_entry(self._pointers())
        pointer = os.path.join(self.folder, ".git")
        if is_there(pointer):
            trash.throw(pointer)
        self._point()

    def is_entered(self) -> bool:
        """True when the repository has an entry."""
        return is_there(self.entry)

    def leave(self) -> None:
        """Has the repository forget the folder."""
        self._forget()
        _remove(self._draft)

    def new_index(self) -> str:
        """A name for an index that is to take the place of the one there is."""
        return os.path.join(self.entry, _draft_name("index"))

    def _forget(self) -> None:
        """Takes the entry away at a stroke."""
        _remove(self._former)
        with suppress(FileNotFoundError):
            os.rename(self.entry, self._former)
        _remove(self._former)

    def _halves(self) -> list[str]:
        """The other half of an index that git has split: nobody but the worktree's own git would find it."""
        try:
            names = os.listdir(self.entry)
        except OSError:
            return []
        return [os.path.join(self.entry, name) for name in names if name.startswith("sharedindex.")]

    def _drafts(self) -> list[str]:
        """What was being written when its writer was killed."""
        return [
            os.path.join(folder, name)
            for folder in (self.entry, self.folder)
            for name in os.listdir(folder)
            if _DRAFT in name and name.startswith((*self._files(""), "index", ".git"))
        ]

    def _write_entry(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            if line_below(self.entry, name) != text:
                _replace(os.path.join(self.entry, name), text)

    def _point(self) -> None:
        os.chmod(self.folder, os.lstat(self.folder).st_mode | _OWNERS)
        if line_below(self.folder, ".git") != self._pointer():
            _replace(os.path.join(self.folder, ".git"), self._pointer())

    def _pointer(self) -> str:
        return f"gitdir: {self.entry}"

    def _files(self, branch: str) -> dict[str, str]:
        return self._pointers() | {"HEAD": f"ref: refs/heads/{branch}"}

    def _pointers(self) -> dict[str, str]:
        return {"gitdir": os.path.join(self.folder, ".git"), "commondir": "../.."}


def leftovers(common_dir: str, entry: str) -> tuple[str, str]:
    """Where an entry is made before it counts, and where it is taken apart when it does not any more."""
    return os.path.join(common_dir, f"new-{entry}"), os.path.join(common_dir, f"old-{entry}")


def write_pointer(folder: str, entry: str) -> None:
    """Writes the `.git` of a folder that is still being made."""
    _write(os.path.join(folder, ".git"), f"gitdir: {entry}")


def is_whole(folder: str, name: str) -> bool:
    """True when a file is an index of git's that ends with its own checksum."""
    content = read_below(folder, name, _MAX_INDEX) or b""
    if content[:4] != b"DIRC":
        return False
    for size in (20, 32):
        if content[-size:] in (bytes(size), new_hash(size * 2, content[:-size]).digest()):
            return True
    return False


def _draft_name(path: str) -> str:
    return f"{path}{_DRAFT}{os.urandom(6).hex()}"


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{text}\n")


def _replace(path: str, text: str) -> None:
    """Writes a file at a stroke, whatever stands there."""
    if is_there(path):
        shutil.rmtree(path)
    draft = _draft_name(path)
    try:
        _write(draft, text)
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _remove(path: str) -> None:
    if is_there(path):
        shutil.rmtree(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)
