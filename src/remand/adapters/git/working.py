"""What is done to the files of a worktree, by a git that knows our own configuration alone.

A worktree is an agent's to write: a pipe in it would keep git waiting, a submodule would have it ask a
repository of the agent's. Neither is ever looked into.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from remand.adapters.git.bare import said
from remand.adapters.git.below import read_below
from remand.adapters.git.linked import Linked
from remand.adapters.git.repository import git
from remand.adapters.git.worktree import bare_look
from remand.app.errors import EnvironmentFault

SECONDS = 600.0
"""How long writing or reading a whole worktree may take."""
LOOK_SECONDS = 60.0
"""How long it may take to find what has changed."""
NO_ROOM = "No space left on device"
_ROOM = 256 << 10
_UNWRITTEN = re.compile(rb"unable to write|write error|No space left|quota exceeded")
"""What git says when a file cannot be written; of a full disk it does not always speak."""
_STEERING = (b".gitignore", b".gitattributes", b".gitmodules")
"""Files that git opens wherever it meets them."""
_OWNERS = stat.S_IRWXU
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames"),
    "--ignore-submodules=all",  # said here: what `.gitmodules` says of it outranks the configuration
)
_MAX_EXCLUDED = 1 << 16


class Changed(NamedTuple):
    """A path at which a worktree differs from a commit."""

    how: str
    """Git's two letters for it."""
    path: bytes


class OwnGit:
    """Git with the files of one folder, an index and an object folder, for as long as it is needed."""

    def __init__(self, look: str, folder: str, index: str, objects: str) -> None:
        self._folder = folder
        self._places = (folder, os.path.dirname(index), objects)
        self._environment = {
            "GIT_DIR": look,
            "GIT_WORK_TREE": folder,
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            **{f"GIT_{role}_NAME": "Remand" for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_EMAIL": "remand@localhost" for role in ("AUTHOR", "COMMITTER")},
        }

    def set_time(self, seconds: float) -> None:
        """Has commits be made at a time."""
        date = f"@{max(0, int(seconds))} +0000"
        self._environment |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}

    def run(
        self, *arguments: str, stdin: bytes = b"", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs git to its end."""
        return git(self._folder, *arguments, stdin=stdin, environment=self._environment, seconds=seconds)

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = SECONDS) -> bytes:
        """What git answers; raises EnvironmentFault when it cannot, and says so when that is for want of room."""
        answer = self.run(*arguments, stdin=stdin, seconds=seconds)
        if answer.returncode:
            is_full = any(map(_is_full, self._places)) or _UNWRITTEN.search(answer.stderr)
            reason = NO_ROOM if is_full else said(answer.stderr)
            raise EnvironmentFault(f"git {arguments[0]} failed in {self._folder}: {reason}")
        return answer.stdout


@contextmanager
def own_git(folder: str, index: str, objects: str, commit: str, excluded: str = "") -> Iterator[OwnGit]:
    """Git in a folder that is to be seen as a worktree of a commit."""
    with bare_look(commit, excluded) as look:
        yield OwnGit(look, folder, index, objects)


def write_out(folder: str, index: str, objects: str, commit: str) -> None:
    """Writes the files of a commit into an empty folder, and an index that knows them."""
    with own_git(folder, index, objects, commit) as own:
        own.ask("read-tree", "-u", "--reset", commit)


def align(linked: Linked, commit: str) -> None:
    """Has the index of a worktree say what a commit has; the files stay as they are."""
    with _next_index(linked) as index, own_git(linked.folder, index, linked.objects, commit) as own:
        _become(own, index, commit)
        if not hindrance(linked.folder):
            own.run("update-index", "-q", "--ignore-submodules", "--refresh")


def carry(linked: Linked, before: str, after: str) -> bool:
    """Takes a worktree from one commit to another, uncommitted work and all; False when that is in the way."""
    with _next_index(linked) as index, own_git(linked.folder, index, linked.objects, after) as own:
        own.run("update-index", "-q", "--ignore-submodules", "--refresh")
        answer = own.run("read-tree", "-m", "-u", before, after)
        if answer.returncode and NO_ROOM.encode() in answer.stderr:
            raise EnvironmentFault(f"git read-tree failed in {linked.folder}: {NO_ROOM}")
        return not answer.returncode


def restore(linked: Linked, commit: str, paths: list[bytes]) -> None:
    """Writes files anew as the index has them; those that it does not have are passed over."""
    with own_git(linked.folder, linked.index, linked.objects, commit) as own:
        own.run("checkout-index", "-q", "-f", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in paths))


@contextmanager
def index_at(linked: Linked, commit: str, objects: str) -> Iterator[str]:
    """An index like a commit, for once, with all that is known of how the files look."""
    with tempfile.TemporaryDirectory(prefix="remand-index-") as place:
        index = os.path.join(place, "index")
        if linked.has_index():
            shutil.copy2(linked.index, index)
        with own_git(linked.folder, index, objects, commit) as own:
            _become(own, index, commit)
        yield index


def changed(
    linked: Linked, index: str, commit: str, objects: str, *, every_file: bool = False
) -> list[Changed]:
    """The paths outside `.got` at which the files, or the index, differ from a commit."""
    untracked = f"--untracked-files={'all' if every_file else 'normal'}"
    with own_git(linked.folder, index, objects, commit, excluded(linked.common_dir)) as own:
        rows = own.ask(*_STATUS, untracked, seconds=LOOK_SECONDS).split(b"\0")
    found = (Changed(row[:2].decode("ascii", "replace"), row[3:]) for row in rows if row)
    return [one for one in found if one.path.split(b"/", 1)[0] != b".got"]


def excluded(common_dir: str) -> str:
    """What the repository leaves out for itself, which is a list of patterns and nothing that runs."""
    found = read_below(os.path.realpath(common_dir), "info/exclude", _MAX_EXCLUDED) or b""
    return found.decode("utf-8", "replace")


def hindrance(folder: str) -> bytes:
    """Something in a folder that would keep git waiting for ever; empty when there is nothing."""
    for path in _walk(folder):
        inside = os.path.relpath(path, os.fsencode(folder))
        if os.path.basename(path) in _STEERING or b".git" in inside.split(b"/"):
            return inside
    return b""


def tidy(folder: str, limit: int = 0) -> list[bytes]:
    """Takes away pipes and the like, which no commit can hold, and opens folders that were closed to their owner.

    Gives what was taken away. With a limit, it looks at so many things at most.
    """
    removed = []
    for path in _walk(folder, limit, opens=True):
        with suppress(OSError):
            os.unlink(path)
            removed.append(os.path.relpath(path, os.fsencode(folder)))
    return removed


def _walk(folder: str, limit: int = 0, *, opens: bool = False) -> Iterator[bytes]:
    """What is neither file, folder nor link."""
    pending = [os.fsencode(folder)]
    seen = 0
    while pending and not (limit and seen > limit):
        here = pending.pop()
        with suppress(OSError):
            if opens and os.lstat(here).st_mode & _OWNERS != _OWNERS:
                os.chmod(here, os.lstat(here).st_mode | _OWNERS)
            with os.scandir(here) as found:
                for entry in found:
                    seen += 1  # most are files, so that is asked first
                    if entry.is_file(follow_symlinks=False):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif not entry.is_symlink():
                        yield entry.path


def _become(own: OwnGit, index: str, commit: str) -> None:
    """Has an index say what a commit has. One that git cannot use, as half of it is elsewhere, is made anew."""
    if os.path.exists(index) and own.run("read-tree", "--reset", commit).returncode:
        os.unlink(index)
    if not os.path.exists(index):
        own.ask("read-tree", "--reset", commit)


@contextmanager
def _next_index(linked: Linked) -> Iterator[str]:
    """An index that takes the place of a worktree's own when all went well."""
    index = linked.new_index()
    try:
        if linked.has_index():
            shutil.copy2(linked.index, index)
        yield index
        os.replace(index, linked.index)
    finally:
        for left in (index, f"{index}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(left)


def _is_full(place: str) -> bool:
    try:
        status = os.statvfs(place)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _ROOM
