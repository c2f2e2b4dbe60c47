"""Snapshots of a working tree, taken with an index and objects of our own; writes nothing into the user's."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256

from remand.adapters.git.command import (
    CONFIG,
    OUR_IDENTITY,
    SHA256_CONFIG,
    finish_process,
    git_error,
    run_git,
    start_process,
)
from remand.adapters.git.location import LedgerLocation, locate
from remand.adapters.git.repository import head_commit, start_worktree_status
from remand.adapters.system.files import atomic_write, hold_lock, read_start
from remand.app.errors import EnvironmentFault
from remand.domain.record import NamedTuple
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

MIB = 1 << 20
MAX_FILE = 64 * MIB
MAX_BYTES = 1024 * MIB
DAYS = 7
_DAY = 86_400.0
_SECONDS = 240.0
_CONFIG_SECONDS = 600.0
"""How long the copied user settings count as current."""
_MODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)
_HARMLESS = r"^core\.(ignorecase|precomposeunicode|filemode|symlinks|excludesfile|autocrlf|eol)$"
"""User settings for comparing and ignoring files. None of them executes anything."""
_COPIED = ("shallow",)
_FAST = "[core]\n\tlooseCompression = 1\n\tfsync = none\n"
"""No syncing: a snapshot lost in a power cut is taken again."""
_OWN_EXCLUDES = "\n/.got/\n"
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*sha256\s*$", re.MULTILINE | re.IGNORECASE)


class TreeSnapshot(NamedTuple):
    """A working tree at one moment, as a commit that only our own repository has."""

    commit: str
    tree: str
    left_out: tuple[str, ...] = ()
    """Paths that it leaves out, each with the reason."""


class _IndexChanges(NamedTuple):
    """The changes that make the index equal to the working tree."""

    added: list[str]
    removed: list[str]
    left_out: list[str]


class SnapshotStore:
    """Takes snapshots of the worktrees of one repository. Its folder may be deleted at any time.

    Git runs with our own folder, configuration and index, and uses the user's objects as alternates: it does
    not know the repository's filters, hooks and monitors, and has nowhere else to write.
    """

    def __init__(self, folder: str, place: LedgerLocation) -> None:
        self._folder = folder
        self._place = place
        self.git_dir = os.path.join(folder, "git")
        name = sha256(os.fsencode(place.worktree)).hexdigest()[:16]
        self._index = os.path.join(folder, f"index-{name}")

    def take(self, before: TreeSnapshot | None = None) -> TreeSnapshot:
        """Takes a snapshot of the working tree, or returns `before` if nothing changed. Raises EnvironmentFault."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with hold_lock(f"{self._index}.held"):
            self._prepare()
            with suppress(OSError):
                os.unlink(f"{self._index}.lock")  # Left by a killed git: nobody else can be here.
            return self._take(before)

    def changed_paths(self, before: str, after: str) -> tuple[str, ...]:
        """The files that differ between two snapshots."""
        answer = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
        return tuple(os.fsdecode(name) for name in answer.split(b"\0") if name)

    def file(self, commit: str, path: str) -> bytes | None:
        """The content of a file in a snapshot; None if it is not there."""
        answer = self._run("cat-file", "blob", f"{commit}:{path}")
        return None if answer.returncode else answer.stdout

    def keep(self, name: str, commit: str) -> None:
        """Protects a snapshot from being pruned until its name is forgotten."""
        folder = os.path.join(self.git_dir, "refs", "sessions")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        atomic_write(os.path.join(folder, name), f"{commit}\n".encode(), mode=0o600)

    def prune(self, names: Iterable[str]) -> None:
        """Forgets all snapshots except those with the given names and recent ones; at most once a day."""
        mark = os.path.join(self._folder, "pruned")
        with suppress(OSError):
            if time.time() - os.stat(mark).st_mtime < _DAY:
                return
        kept, folder = set(names), os.path.join(self.git_dir, "refs", "sessions")
        with suppress(FileNotFoundError):
            for name in set(os.listdir(folder)) - kept:
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        if not kept and os.path.isdir(self.git_dir):
            shutil.rmtree(self.git_dir, ignore_errors=True)
        elif os.path.isdir(self.git_dir):
            self._run("prune", f"--expire={DAYS:g}.days.ago")
        atomic_write(mark, b"", mode=0o600)

    # ------------------------------------------------------------------------------------------ the folder

    def _prepare(self) -> None:
        """Creates the folder and updates its copy of the repository's settings."""
        place = self._place
        for name in ("objects/info", "objects/pack", "refs", "info"):
            os.makedirs(os.path.join(self.git_dir, name), mode=0o700, exist_ok=True)
        exclude = read_start(os.path.join(place.common_dir, "info", "exclude"), 1 << 20)
        files = {
            "HEAD": b"ref: refs/heads/none\n",
            "info/exclude": exclude + _OWN_EXCLUDES.encode(),
            "objects/info/alternates": os.fsencode(os.path.join(place.common_dir, "objects")) + b"\n",
        }
        config = os.path.join(self.git_dir, "config")
        if not os.path.exists(config) or time.time() - os.stat(config).st_mtime > _CONFIG_SECONDS:
            files["config"] = self._config()
            with suppress(FileNotFoundError):
                os.unlink(config)
        for name in _COPIED:
            content = read_start(os.path.join(place.common_dir, name))
            if content:
                files[name] = content
        for name, content in files.items():
            path = os.path.join(self.git_dir, name)
            if read_start(path) != content:
                atomic_write(path, content, mode=0o600)

    def _config(self) -> bytes:
        """Our configuration with the user's settings for comparing and ignoring files. Reading them executes nothing."""
        place = self._place
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "config", "-z", "--get-regexp", _HARMLESS]
        answer = finish_process(start_process(command, place.worktree, inherited), "git config")
        rows = (row.partition("\n") for row in answer.stdout.decode("utf-8", "surrogateescape").split("\0"))
        values = {key.partition(".")[2]: value for key, _, value in rows if key and value.isprintable()}
        escaped = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in values.items()}
        lines = [f'\t{key} = "{value}"\n' for key, value in escaped.items()]
        is_sha256 = _SHA256.search(read_start(os.path.join(place.common_dir, "config"), 1 << 20))
        text = (SHA256_CONFIG if is_sha256 else CONFIG) + "".join([_FAST, *lines])
        return text.encode("utf-8", "surrogateescape")

    # ------------------------------------------------------------------------------------------ a snapshot

    def _take(self, before: TreeSnapshot | None) -> TreeSnapshot:
        """Takes a snapshot with our current index, else with a copy of the user's, else with an empty one."""
        seeds = (self._keep_index, self._copy_index, self._drop_index)
        problem: EnvironmentFault | None = None
        for seed in seeds:
            if not seed():
                continue
            try:
                return self._take_with_index(before)
            except EnvironmentFault as fault:
                problem = fault
        raise problem or EnvironmentFault(f"{self._place.worktree} cannot be read.")

    def _keep_index(self) -> bool:
        return os.path.exists(self._index)

    def _copy_index(self) -> bool:
        """Copies the user's index, which knows which files are unchanged. Its time says up to when."""
        source = os.path.join(self._place.git_dir, "index")
        self._drop_index()
        try:
            shutil.copy2(source, self._index)
        except OSError:
            return False
        return True

    def _drop_index(self) -> bool:
        with suppress(FileNotFoundError):
            os.unlink(self._index)
        return True

    def _take_with_index(self, before: TreeSnapshot | None) -> TreeSnapshot:
        listed = self._list_changes()
        rows = [*(f"{path}\0" for path in listed.added), *(f"{path}\0" for path in listed.removed)]
        change = ("update-index", "-q", "--refresh", "--add", "--remove", "--replace", "-z", "--stdin")
        answer = self._run(*change, stdin=os.fsencode("".join(rows)))
        if answer.returncode and b"Unable to process path" in answer.stderr:
            raise EnvironmentFault(f"A file could not be read: {git_error(answer.stderr)}.")
        tree = self._git("write-tree").decode().strip()
        left_out = (*listed.left_out, *self._dirty_submodules())
        if before is not None and before.tree == tree:
            return TreeSnapshot(before.commit, tree, left_out)
        # A parent that exists elsewhere, too, so that only new objects are copied from here.
        parent = before.commit if before else head_commit(self._place)
        commit = self._git("commit-tree", tree, *(("-p", parent) if parent else ()), "-m", "snapshot")
        return TreeSnapshot(commit.decode().strip(), tree, left_out)

    def _list_changes(self) -> _IndexChanges:
        """The files that differ from the index. Leaves out files that are too large, and all beyond the total."""
        answer = self._git("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard")
        found = {*answer.split(b"\0"), *self._added_by_force()} - {b""}
        names = sorted(map(os.fsdecode, found))
        listed = _IndexChanges([], [], [])
        sizes: list[tuple[int, str]] = []
        for name in names:
            size = self._file_size(name, listed)
            if size is not None:
                sizes.append((size, name))
        total = 0
        for size, name in sorted(sizes):
            total += size
            if size > MAX_FILE:
                listed.left_out.append(f"{name} ({size // MIB} MiB, over {MAX_FILE // MIB} MiB)")
            elif total > MAX_BYTES:
                listed.left_out.append(f"{name} (beyond {MAX_BYTES // MIB} MiB in all)")
            else:
                listed.added.append(name)
        if any(os.path.basename(name) == ".gitignore" for name in names):
            self._remove_newly_ignored()
        return listed

    def _added_by_force(self) -> set[bytes]:
        """Ignored files that the user added to their index by force and that ours lacks."""
        theirs = os.path.join(self._place.git_dir, "index")
        ignored = ("ls-files", "-z", "-i", "-c", "--exclude-standard")
        if not os.path.exists(theirs):
            return set()
        answer = self._run(*ignored, index=theirs)  # A split index cannot be read from here.
        if answer.returncode or not answer.stdout:
            return set()
        return set(answer.stdout.split(b"\0")) - set(self._git(*ignored).split(b"\0"))

    def _file_size(self, name: str, listed: _IndexChanges) -> int | None:
        """The size of a file that can be added. None for anything else, which is recorded where it belongs."""
        path = os.path.join(self._place.worktree, name)
        try:
            status = os.lstat(path)
        except OSError:
            listed.removed.append(name)
            return None
        if stat.S_ISDIR(status.st_mode):
            if name.endswith("/"):
                listed.left_out.append(f"{name} (a repository of its own)")
            else:
                listed.added.append(name)  # A submodule at another commit.
            return None
        if stat.S_ISLNK(status.st_mode):
            return status.st_size
        if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
            listed.left_out.append(f"{name} (cannot be read)")
            return None
        return status.st_size

    def _remove_newly_ignored(self) -> None:
        """Removes from our index what is ignored now and not in the user's index."""
        own = self._git("ls-files", "-z", "-i", "-c", "--exclude-standard")
        ignored = {name for name in own.split(b"\0") if name}
        theirs = os.path.join(self._place.git_dir, "index")
        if ignored and os.path.exists(theirs):
            ignored -= set(self._git("ls-files", "-z", index=theirs).split(b"\0"))
        rows = b"".join(name + b"\0" for name in sorted(ignored))
        self._git("update-index", "--force-remove", "-z", "--stdin", stdin=rows)

    def _dirty_submodules(self) -> Iterator[str]:
        """The submodules with uncommitted work, which no snapshot contains."""
        text = read_start(os.path.join(self._place.worktree, ".gitmodules"), 1 << 20).decode(
            "utf-8", "replace"
        )
        for name in _MODULE.findall(text):
            folder = os.path.join(self._place.worktree, name)
            if not os.path.lexists(os.path.join(folder, ".git")):
                continue
            place = locate(folder)
            status = start_worktree_status(place) if place is not None else None
            if status is not None and status.uncommitted_files():
                yield f"{name} (a submodule with uncommitted changes)"

    # ---------------------------------------------------------------------------------------------- git

    def _git(self, *arguments: str, stdin: bytes = b"", index: str = "") -> bytes:
        answer = self._run(*arguments, stdin=stdin, index=index)
        if answer.returncode:
            raise EnvironmentFault(f"git {arguments[0]} failed: {git_error(answer.stderr)}.")
        return answer.stdout

    def _run(
        self, *arguments: str, stdin: bytes = b"", index: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self._place.worktree,
            "GIT_INDEX_FILE": index or self._index,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            **OUR_IDENTITY,
        }
        return run_git(
            self._place.worktree, *arguments, stdin=stdin, environment=environment, seconds=_SECONDS
        )
