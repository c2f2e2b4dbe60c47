"""Folders that hold one tree each and go from one to the next, with a proof each time."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from remand.adapters.git.contents import FOLDER_MODE, Contents, Inspection, held, keep, load
from remand.adapters.git.locks import taken
from remand.adapters.git.mirror import GitMirror
from remand.adapters.git.trash import Trash
from remand.adapters.git.trees import differences, entry_at
from remand.adapters.git.writing import Writing, is_written
from remand.app.errors import EnvironmentFault


class Slot:
    """One such folder, with a note of what is in it. It is ours while its lock is."""

    def __init__(self, folder: str, handle: int, mirror: GitMirror, trash: Trash) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "tree")
        self._note = note_of(folder)
        self._handle = handle
        self._mirror = mirror
        self._trash = trash

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of it."""
        os.close(self._handle)

    def share(self) -> None:
        """Lets others read it, too, from now on."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def become(self, tree: str, *, is_untouched: bool = False) -> None:
        """Brings the folder to a tree; one that cannot be brought there is made anew.

        What it holds is proven first, unless nobody else has written to it since that was done last.
        """
        reason = self._failure(tree, is_untouched=is_untouched)
        if reason:
            reason = self._failure(tree, is_anew=True)
        if reason and self._mirror.mend():
            reason = self._failure(tree, is_anew=True)
        if reason:
            raise EnvironmentFault(f"Tree {tree[:12]} cannot be checked out in {self.path}: {reason}")

    def sweep(self) -> None:
        """Takes out what was not there when it was lent; what cannot be taken out now is seen to next time."""
        contents = load(self._note)
        if contents is not None:
            with suppress(OSError):
                Inspection(self.path, contents, self._trash, is_brief=True).run()

    def _failure(self, tree: str, *, is_untouched: bool = False, is_anew: bool = False) -> str:
        """Why the folder could not be brought to a tree; empty when it was."""
        try:
            contents = None if is_anew else load(self._note)
            if contents is None:
                self._change(self._empty(), tree, [])
            elif is_untouched:
                self._change(contents, tree, [])
            else:
                self._change(contents, tree, self._missing(contents))
        except (OSError, EnvironmentFault) as error:
            return str(error)
        return ""

    def _missing(self, contents: Contents) -> list[bytes]:
        """Has the folder hold nothing but what was written to it; returns what of that is missing."""
        now = self._now()
        inspection = Inspection(self.path, contents, self._trash)
        inspection.run()
        for path in inspection.young:
            if not is_written(self.path, path, entry_at(self._mirror.objects, contents.tree, path)):
                self._trash.throw(os.path.join(os.fsencode(self.path), path))
                inspection.missing.append(path)
        if inspection.young:  # what was read now need not be read next time
            keep(self._note, msgspec.structs.replace(contents, seen=now))
        return inspection.missing

    def _change(self, contents: Contents, tree: str, missing: list[bytes]) -> None:
        """Changes the folder from the tree it holds to another. Until that is done, it counts as holding none."""
        changed = list(differences(self._mirror.objects, contents.tree, tree))
        if not changed and not missing:
            return
        with suppress(FileNotFoundError):
            os.unlink(self._note)
        writing = Writing(self.path, contents.folders, self._mirror.objects)
        for path in missing:
            writing.remove(path)
        for path, before, after in changed:
            if before and not (before.is_file and after and after.is_file):
                writing.remove(path)
        wanted = {path: entry_at(self._mirror.objects, tree, path) for path in missing}
        wanted |= {path: after for path, _, after in changed}
        writing.put((path, entry) for path, entry in wanted.items() if entry is not None)
        keep(self._note, Contents(tree=tree, folders=writing.folders, seen=self._now()))

    def _now(self) -> int:
        """The time by the clock that the file system gives files their times by."""
        os.utime(self._handle)
        return os.fstat(self._handle).st_mtime_ns

    def _empty(self) -> Contents:
        """Throws away whatever is there and starts from an empty folder."""
        with suppress(FileNotFoundError):
            os.unlink(self._note)
        if os.path.lexists(self.path):
            self._trash.throw(self.path)
        os.mkdir(self.path)
        os.chmod(self.path, FOLDER_MODE)
        return Contents(tree="", folders={b"": {}}, seen=0)


class Slots:
    """So many folders at most. A new one is made when all others are in use."""

    def __init__(self, mirror: GitMirror, folder: str, limit: int) -> None:
        self._mirror = mirror
        self._folder = os.path.join(folder, "slots")
        self._limit = limit
        self.trash = Trash(os.path.join(folder, "trash"))
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def alone(self, tree: str) -> Slot:
        """A slot for us alone, one that holds the tree if possible, else the one unused for longest."""
        for folder in self._candidates(tree):
            handle = taken(os.path.join(folder, "lock"))
            if handle >= 0:
                return Slot(folder, handle, self._mirror, self.trash)
        number = (os.getpid() + threading.get_ident()) % self._limit
        folder = os.path.join(self._folder, str(number))
        return Slot(folder, taken(os.path.join(folder, "lock"), waits=True), self._mirror, self.trash)

    def shared(self, tree: str) -> Slot | None:
        """A slot that holds the tree and that others may read as well; None when there is none."""
        for folder in self._by_use(tree):
            if held(note_of(folder)) != tree:
                return None
            handle = taken(os.path.join(folder, "lock"), is_shared=True)
            if handle >= 0 and held(note_of(folder)) == tree:
                os.utime(note_of(folder))
                return Slot(folder, handle, self._mirror, self.trash)
            if handle >= 0:
                os.close(handle)
        return None

    def _candidates(self, tree: str) -> Iterator[str]:
        """The folders there are, then new ones, as long as there are not enough."""
        yield from self._by_use(tree)
        for number in range(self._limit):
            folder = os.path.join(self._folder, str(number))
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                yield folder

    def _by_use(self, tree: str) -> list[str]:
        """The folders that hold the tree, then those that hold another, then empty ones."""
        folders = [os.path.join(self._folder, name) for name in os.listdir(self._folder) if name.isdecimal()]
        notes = {folder: note_of(folder) for folder in folders}
        return sorted(
            folders,
            key=lambda folder: (held(notes[folder]) != tree, not held(notes[folder]), _used(notes[folder])),
        )


def note_of(folder: str) -> str:
    """Where a slot's contents are noted."""
    return os.path.join(folder, "contents")


def _used(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
