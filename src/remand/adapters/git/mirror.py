"""The mirror: our own copy of the repository, in which no code or configuration of an agent runs."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from remand.adapters.git.bare_repository import (
    MAX_DEPTH,
    BareRepository,
    DamagedRepository,
    Objects,
    TooLarge,
    Tree,
    TreeEntry,
    differences,
    entry_at,
    require_bounded,
    require_id,
    write_object,
    write_tree,
)
from remand.adapters.git.commit_import import has_grown, receive_commit
from remand.adapters.git.files import require_private
from remand.adapters.system.files import atomic_write, hold_lock
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import TreeChange

_ID = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\n")


class MirroredCommits:
    """Marks fetched commits by two refs each, for the commit and its code tree. Their time is that of the last use."""

    def __init__(self, repository: BareRepository) -> None:
        self._folder = os.path.join(repository.path, "refs", "brought")
        self._draft = os.path.join(repository.path, "brought.new")

    def tree(self, commit: str) -> str:
        """The code tree of a fetched commit; empty for any other."""
        path = os.path.join(self._folder, commit, "tree")
        try:
            os.utime(path)
            with open(path, encoding="ascii", errors="replace") as file:
                match = _ID.fullmatch(file.read(100))
        except OSError:
            return ""
        return match[1] if match else ""

    def mark(self, commit: str, tree: str) -> None:
        """Records a commit with its code tree. The tree is written last, and makes the mark valid."""
        os.makedirs(os.path.join(self._folder, commit), mode=0o700, exist_ok=True)
        for name, object_id in (("commit", commit), ("tree", tree)):
            path = os.path.join(self._folder, commit, name)
            atomic_write(path, f"{object_id}\n".encode("ascii"), draft=self._draft)

    def commits(self) -> list[str]:
        return [commit for _, commit in sorted(self._commits_by_use(), reverse=True)]

    def _commits_by_use(self) -> list[tuple[float, str]]:
        found = []
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        for commit in names:
            try:
                found.append((os.stat(os.path.join(self._folder, commit, "tree")).st_mtime, commit))
            except FileNotFoundError:  # Killed in between.
                continue
        return found


Entries = Mapping[bytes, TreeEntry | None]
"""What to put at each path; None removes it."""
FOLDER, FILE = "40000", "100644"
_NOTHING: Tree = {}


class TreeComposer:
    """Makes new trees out of existing ones; entries outside the given paths stay."""

    def __init__(self, repository: BareRepository, objects: Objects) -> None:
        self._repository = repository
        self._objects = objects

    def compose(self, tree: str, entries: Entries) -> str:
        """The id of a tree with the given entries at their paths; None removes."""
        if any(path.count(b"/") >= MAX_DEPTH for path in entries):
            raise EnvironmentFault(f"A path is over {MAX_DEPTH} folders deep; it is skipped.")
        found = self._apply_changes(self._objects.tree(tree), entries, len(tree))
        return write_tree(self._repository, found, len(tree))

    def _apply_changes(self, tree: Tree, entries: Entries, id_length: int) -> Tree:
        result = dict(tree)
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, entry in entries.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = entry
            elif entry is not None:
                result[name] = entry
            else:
                result.pop(name, None)
        for name, inner in below.items():
            self._change_folder(result, name, inner, id_length)
        return result

    def _change_folder(
        self, result: dict[bytes, TreeEntry], name: bytes, entries: Entries, id_length: int
    ) -> None:
        """Changes the entries of a folder. Removes it if it becomes empty; replaces a file by a folder where needed."""
        current = result.get(name)
        is_folder = current is not None and current.is_tree
        inside = self._objects.tree(current.id) if current is not None and is_folder else _NOTHING
        inside = self._apply_changes(inside, entries, id_length)
        if inside:
            result[name] = TreeEntry(FOLDER, write_tree(self._repository, inside, id_length))
        elif is_folder:
            del result[name]


MAX_FILE = 8 << 20
UNREAD = b"\x00larger than 8 MiB, and therefore not read\x00"
"""Stands for the content of a file above MAX_FILE. It contains a NUL, so it counts as binary."""
MAX_LINK = 4096
MAX_LINKS = 10_000
_ASKED_ABOUT = 32
"""How many recent commits are offered to the source as known."""
_WITHOUT_GOT = ":(exclude,top,literal).got"

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _repair_and_retry(
    read: Callable[Concatenate[GitMirror, _Given], _Found],
) -> Callable[Concatenate[GitMirror, _Given], _Found]:
    """Repeats a read once if it failed because the mirror was damaged."""

    @wraps(read)
    def read_twice(mirror: GitMirror, /, *given: _Given.args, **named: _Given.kwargs) -> _Found:
        try:
            return read(mirror, *given, **named)
        except DamagedRepository:
            if not mirror.repair():
                raise
        return read(mirror, *given, **named)

    return read_twice


class GitMirror:
    """A bare repository in a private folder. It can always be recreated from the source."""

    def __init__(self, folder: str, source_git_dir: str, snapshots: str = "") -> None:
        """`snapshots` is a git folder of our own with commits that the source does not have."""
        self._snapshots = snapshots
        self._folder = os.path.abspath(folder)
        self._source = os.path.abspath(source_git_dir)
        self._lock = os.path.join(self._folder, "lock")
        self._threads = threading.RLock()
        self.repository = BareRepository(os.path.join(self._folder, "git"))
        self.objects = Objects(self.repository)
        self._mirrored = MirroredCommits(self.repository)
        self._composer = TreeComposer(self.repository, self.objects)

    def fetch_commit(self, commit: str) -> str:
        return self._mirrored.tree(require_id(commit)) or self._fetch_commit(commit)

    @_repair_and_retry
    def merge_base(self, commit: str, other: str) -> str:
        return self._compare_commits(commit, other)[1]

    @_repair_and_retry
    def is_ancestor(self, commit: str, other: str) -> bool:
        return self._compare_commits("--is-ancestor", commit, other)[0]

    @_repair_and_retry
    def changes(self, base_tree: str, tree: str) -> list[TreeChange]:
        trees = (require_id(base_tree), require_id(tree))
        arguments = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-ext-diff", "--no-textconv")
        try:
            answer = self.repository.ask(*arguments, "-M", "-l1000", *trees, "--", _WITHOUT_GOT)
        except DamagedRepository:  # Files too large to be compared: renames are not recognised.
            answer = self.repository.ask(*arguments, "--no-renames", *trees, "--", _WITHOUT_GOT)
        return list(_changes(answer.split(b"\x00")))

    @_repair_and_retry
    def file(self, tree: str, path: str) -> bytes | None:
        """The content of a file in a tree. UNREAD if it is too large, None if it is missing or not a plain file."""
        entry = entry_at(self.objects, require_id(tree), _bytes(path))
        if entry is None or not entry.is_file:
            return None
        try:
            content = self.objects.read(entry.id, "blob", MAX_FILE)
        except TooLarge:
            return UNREAD
        if content is None:
            raise DamagedRepository(f"The mirror has lost {path} of tree {tree[:12]}.")
        return content

    @_repair_and_retry
    def paths(self, tree: str) -> list[str]:
        """All file paths in a tree except `.got`. Names that are not UTF-8 contain surrogates."""
        entries = differences(self.objects, "", require_id(tree))
        found = sorted(path for path, _, entry in entries if entry and (entry.is_file or entry.is_link))
        return [path.decode("utf-8", "surrogateescape") for path in found if not path.startswith(b".got/")]

    @_repair_and_retry
    def links(self, tree: str) -> dict[str, bytes]:
        entries = differences(self.objects, "", require_id(tree))
        found = sorted((path, entry.id) for path, _, entry in entries if entry and entry.is_link)
        return {
            path.decode("utf-8", "surrogateescape"): self._target(link) if at < MAX_LINKS else b""
            for at, (path, link) in enumerate(found)
        }

    @_repair_and_retry
    def compose(self, tree: str, source: str, paths: Sequence[str]) -> str:
        require_id(source)
        entries = {_bytes(path): entry_at(self.objects, source, _bytes(path)) for path in paths}
        return self._composer.compose(require_id(tree), entries)

    @_repair_and_retry
    def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        require_id(tree)
        entries: dict[bytes, TreeEntry | None] = {}
        for path, content in files.items():
            before = entry_at(self.objects, tree, _bytes(path))
            mode = before.mode if before is not None and before.is_file else FILE
            entries[_bytes(path)] = TreeEntry(mode, write_object(self.repository, "blob", content, len(tree)))
        return self._composer.compose(tree, entries)

    def repair(self) -> bool:
        """Verifies the mirror; recreates a damaged one with all that was fetched. True if it did."""
        require_private(self._folder)
        with self._threads, hold_lock(self._lock):
            if not os.path.exists(self.repository.path) or self.repository.is_sound():
                return False
            commits = self._mirrored.commits()
            self.objects.close()
            self.repository.remove()
            for commit in commits:
                try:
                    self._receive_commit(commit)
                except EnvironmentFault:  # The next use reports the error.
                    continue
            return True

    def close(self) -> None:
        self.objects.close()

    def _target(self, link: str) -> bytes:
        try:
            return self.objects.read(link, "blob", MAX_LINK) or b""
        except TooLarge:
            return b""

    def _compare_commits(self, *arguments: str) -> tuple[bool, str]:
        """Runs a git comparison of two commits: whether it succeeded, and its output."""
        for commit in arguments[-2:]:
            require_id(commit)
        answer = self.repository.run("merge-base", *arguments)
        if answer.returncode not in (0, 1):
            raise DamagedRepository(f"The mirror lacks {' or '.join(arguments[-2:])}. Fetch both first.")
        return answer.returncode == 0, answer.stdout.decode("ascii", "replace").strip()

    def _fetch_commit(self, commit: str) -> str:
        """Fetches a commit from the source; recreates the mirror if its own damage prevents that."""
        require_private(self._folder)
        with self._threads:
            try:
                with hold_lock(self._lock):
                    return self._receive_commit(commit)
            except DamagedRepository:
                if not self.repair():
                    raise
            with hold_lock(self._lock):
                return self._receive_commit(commit)

    def _receive_commit(self, commit: str) -> str:
        """Fetches a commit unless it is there, and marks it as used."""
        if not self.repository.is_made(len(commit)) or has_grown(self.repository, self._source):
            self.objects.close()
            self.repository.make(len(commit))
        tree = self.objects.tree_of(commit)
        if not tree:
            is_snapshot = os.path.exists(os.path.join(self._snapshots, "objects", commit[:2], commit[2:]))
            source = self._snapshots if self._snapshots and is_snapshot else self._source
            known = self._mirrored.commits()[:_ASKED_ABOUT]
            receive_commit(self.repository, source, commit, known, is_own=source == self._snapshots)
            tree = self.objects.tree_of(commit)
        if not tree:
            raise EnvironmentFault(f"{commit} in {self._source} is not a commit, or is damaged.")
        require_bounded(self.objects, tree)
        has_got = b".got" in self.objects.tree(tree)
        code_tree = self._composer.compose(tree, {b".got": None}) if has_got else tree
        self._mirrored.mark(commit, code_tree)
        return code_tree


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _changes(fields: Sequence[bytes]) -> Iterator[TreeChange]:
    """Parses git's raw diff: a path for each change, or two paths for a rename."""
    rest = iter([field.decode("utf-8", "surrogateescape") for field in fields if field])
    for facts in rest:
        _, mode, _, _, status = facts.removeprefix(":").split(" ")
        old_path = next(rest) if status[0] in "RC" else ""
        yield TreeChange(status[0], next(rest), old_path, "" if status == "D" else mode)
