"""Queries to git in the user's repository and worktree that execute nothing which the repository configures."""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress

from remand.adapters.git.command import (
    finish_process,
    git_error,
    parse_batch,
    query_git,
    run_git,
    start_git,
    temporary_git_folder,
)
from remand.adapters.git.location import LedgerLocation, current_branch, read_ref
from remand.adapters.system.files import read_start
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.ports import Commit, CommitDifference
from remand.domain.gate.control_files import is_control_name
from remand.domain.hosts import SetupFiles
from remand.domain.ids import is_commit
from remand.startup import TYPE_CHECKING, lazy_pattern

if TYPE_CHECKING:
    import subprocess

MAX_OBJECT = 1 << 20
_ID_LENGTHS = {40: hashlib.sha1, 64: hashlib.sha256}


def read_commit_tree(common_dir: str, commit: str) -> bytes | None:
    """The root tree of a commit as stored; None if git has to be asked."""
    content = _read_loose_object(common_dir, commit, b"commit")
    first = content.partition(b"\n")[0] if content else b""
    return _read_loose_object(common_dir, first.removeprefix(b"tree ").decode("ascii", "replace"), b"tree")


def read_top_file(common_dir: str, commit: str, name: str) -> tuple[bytes | None] | None:
    """The content of a file at the top of a commit, as a tuple: `(None,)` if the file is missing.

    None if git has to be asked.
    """
    tree = read_commit_tree(common_dir, commit)
    if tree is None or "/" in name:
        return None
    rest = tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        if entry.partition(b" ")[2] == name.encode():
            blob = _read_loose_object(common_dir, tail[: len(commit) // 2].hex(), b"blob")
            return None if blob is None else (blob,)
        rest = tail[len(commit) // 2 :]
    return (None,)


def _read_loose_object(common_dir: str, object_id: str, kind: bytes) -> bytes | None:
    """The content of a loose object, if it is of that kind and its hash matches its name."""
    algorithm = _ID_LENGTHS.get(len(object_id))
    if algorithm is None or not object_id.isalnum():
        return None
    stored = _decompress_file(os.path.join(common_dir, "objects", object_id[:2], object_id[2:]))
    header, _, content = stored.partition(b"\x00")
    if header != b"%s %d" % (kind, len(content)):
        return None
    return content if algorithm(stored, usedforsecurity=False).hexdigest() == object_id else None


def _decompress_file(path: str) -> bytes:
    """The decompressed content of a plain file of reasonable size; empty for any other."""
    with suppress(OSError, zlib.error):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_OBJECT:
                return zlib.decompressobj().decompress(file.read(MAX_OBJECT), MAX_OBJECT)
    return b""


MAX_KNOWN = 10_000

_MAX_INDEX = 64 << 20
_SPELT_OUT = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
"""The header of an index with full names; later versions omit what a name shares with the one before."""
_NOT_ALL_THERE = (b"link\0", b"sdir\0")
"""Extensions of an index that keeps names in another file or under a folder's name."""
_CHANGED_LINES = ("diff-tree", "-r", "-p", "-U0", "--text", "--no-ext-diff", "--no-textconv")
_HUNK = lazy_pattern(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


_REMOTE = b'[remote "'
"""How a remote's section begins in git's configuration."""


class GitRepository:
    """The repository that a ledger belongs to."""

    def __init__(self, place: LedgerLocation) -> None:
        self.place = place
        self._head = os.path.join(place.git_dir, "HEAD")
        self._branch: tuple[int, str] = (-1, "")
        self._commits: dict[str, Commit] = {}
        self.fetch_missing: Callable[[str], bool] = lambda _: False
        """Gets a commit by its id that is not here; False when that cannot be."""
        self._control: dict[str, str] = {}

    def commit(self, name: str) -> Commit | None:
        """The commit behind any name that git knows, with its code tree; None if there is none."""
        if not name or name.startswith("-") or "\n" in name or "\x00" in name or not self.place.git_dir:
            return None
        if name in self._commits:
            return self._commits[name]
        known = read_commit_tree(self.place.common_dir, name)
        commit = self._remember_commit(name, known) if known is not None else self._query_commit(name)
        if commit is None and is_commit(name) and self.fetch_missing(name):
            commit = self._query_commit(name)
        if commit is not None and commit.sha == name and len(self._commits) < MAX_KNOWN:
            self._commits[name] = commit  # The meaning of a full id never changes.
        return commit

    def _query_commit(self, name: str) -> Commit | None:
        queries = f"{name}^{{commit}}\n{name}^{{tree}}\n"
        answer = run_git(self.place.worktree, "cat-file", "--batch", stdin=queries.encode(errors="replace"))
        match [*parse_batch(answer.stdout)]:
            case [(sha, "commit", _), (_, "tree", tree)] if not answer.returncode:
                return self._remember_commit(sha, tree)
        return None

    def _remember_commit(self, sha: str, tree: bytes) -> Commit:
        """A commit by its id and its root tree as stored."""
        if len(self._control) >= MAX_KNOWN:
            self._control.clear()
        self._control[sha] = control_entries(tree, len(sha) // 2)
        return Commit(sha, code_tree(tree, len(sha) // 2))

    def has_same_control(self, commits: Iterable[str]) -> bool:
        """True if all commits have the same content under `.got` and similar names.

        False also if that is not quickly known.
        """
        found = {self._control.get(one.sha) if (one := self.commit(name)) else None for name in commits}
        return len(found) == 1 and None not in found

    def branch(self) -> str:
        """The branch checked out in the caller's worktree; reads HEAD again if it has changed."""
        try:
            changed = os.stat(self._head).st_mtime_ns
        except OSError:
            return ""
        if self._branch[0] != changed:
            self._branch = (changed, current_branch(self.place.git_dir))
        return self._branch[1]

    def difference(self, base: str, commit: str) -> CommitDifference | None:
        """What a commit changes since it left the base, read from the trees alone: no attribute or filter applies."""
        fork = run_git(self.place.worktree, "merge-base", base, commit)
        if fork.returncode and self.fetch_missing(commit):
            fork = run_git(self.place.worktree, "merge-base", base, commit)
        if fork.returncode:
            return None
        since = fork.stdout.decode().strip()
        between = ("--no-renames", since, commit, "--", ":(top)", ":(top,exclude).got")
        names = run_git(self.place.worktree, "diff-tree", "-r", "-z", "--name-only", *between)
        change = run_git(self.place.worktree, *_CHANGED_LINES, *between)
        if names.returncode or change.returncode:
            return None
        return CommitDifference(
            paths=tuple(name.decode("utf-8", "replace") for name in names.stdout.split(b"\0") if name),
            patch=change_fingerprint(change.stdout),
        )

    def has_commit(self, branch: str, commit: str) -> bool | None:
        """True if a branch contains a commit; None if there is no such branch here or on `origin`."""
        tip = self.tip(branch) or self.origin_tip(branch)
        if not tip:
            return None
        return self.is_ancestor(commit, tip)

    def is_ancestor(self, commit: str, of: str) -> bool:
        return (
            of == commit
            or not run_git(self.place.worktree, "merge-base", "--is-ancestor", commit, of).returncode
        )

    def tip(self, branch: str) -> str:
        """The commit that a local or remote branch points to; empty if there is none."""
        for name in (f"refs/heads/{branch}", f"refs/remotes/{branch}"):
            sha = read_ref(self.place.common_dir, name)
            if sha:
                return sha
        return ""

    def origin_tip(self, branch: str) -> str:
        """The commit of a branch of `origin` as last fetched, never of a local branch named `origin/…`."""
        return read_ref(self.place.common_dir, f"refs/remotes/origin/{branch}")

    def default_branch(self, usual: tuple[str, ...]) -> str:
        common = self.place.common_dir
        if head := read_start(os.path.join(common, "refs/remotes/origin/HEAD")):
            return head.decode("utf-8", "replace").strip().removeprefix("ref: refs/remotes/origin/")
        refs = ("refs/heads", "refs/remotes/origin")
        return next((name for name in usual if any(read_ref(common, f"{ref}/{name}") for ref in refs)), "")

    def remotes(self) -> tuple[str, ...]:
        if not self.place.git_dir:
            return ()
        return tuple(run_git(self.place.worktree, "remote").stdout.decode("utf-8", "replace").split())

    def has_remote(self) -> bool:
        """True if the repository's own configuration has a remote to fetch from. Starts no process."""
        rows = read_start(os.path.join(self.place.common_dir, "config")).splitlines()
        return any(row.lstrip().lower().startswith(_REMOTE) for row in rows)

    def has_fetched(self) -> bool:
        is_cut = os.path.exists(os.path.join(self.place.common_dir, "shallow"))
        return is_cut or bool(
            run_git(self.place.worktree, "for-each-ref", "--count=1", "refs/remotes").stdout
        )

    def commits_outside(self, tip: str, commits: Iterable[str]) -> frozenset[str]:
        """The commits that are here but not in the history of a tip."""
        valid = {commit for commit in commits if commit.isascii() and commit.isalnum()}
        if not valid or not tip:
            return frozenset()
        rows = "".join(f"{name}\n" for name in (f"^{tip}", *sorted(valid)))
        failure = f"git cannot list what {tip[:12]} lacks"
        listing = ("rev-list", "--ignore-missing", "--stdin")
        found = query_git(self.place.worktree, *listing, stdin=rows.encode(), failure=failure)
        return frozenset(found.decode().split()) & valid

    def commits_with_parents(self, names: str, *, since: str = "", limit: int = 0) -> list[tuple[str, str]]:
        """The commits of a range, oldest first, each with its first parent. Leaves out merges and root commits."""
        parts = names.split()
        is_wrong = not parts or "\x00" in names or any(part.startswith("-") for part in parts)
        if is_wrong or run_git(self.place.worktree, "rev-parse", *parts, "--").returncode:
            raise UsageError(f"{names[:80]!r} is not a range of commits here. Name one such as main..HEAD.")
        options = [f"--since={since}"] * bool(since) + [f"--max-count={limit}"] * bool(limit)
        arguments = ("rev-list", "--no-merges", "--reverse", "--parents", *options, *parts, "--")
        failure = f"git cannot list the commits of {names[:80]}"
        rows = (
            query_git(self.place.worktree, *arguments, failure=failure)
            .decode("ascii", "replace")
            .splitlines()
        )
        pairs = [row.split() for row in rows]
        return [(pair[0], pair[1]) for pair in pairs if len(pair) > 1]

    def file(self, commit: str, path: str) -> bytes | None:
        """The content of a file at a commit; None if it is missing. Raises if it cannot be read."""
        known = read_top_file(self.place.common_dir, commit, path)
        if known is not None:
            return known[0]
        listed = run_git(self.place.worktree, "ls-tree", commit, "--", f":(top,literal){path}")
        if not listed.returncode and not listed.stdout:
            return None
        answer = run_git(self.place.worktree, "cat-file", "blob", f"{commit}:{path}")
        if listed.returncode or answer.returncode:
            reason = git_error(listed.stderr or answer.stderr)
            raise EnvironmentFault(
                f"git cannot read {path} at {commit[:12]}: {reason}. Fix that, then repeat."
            )
        return answer.stdout

    def tracked_files(self) -> list[str]:
        """The files of the main worktree that git tracks or would track."""
        listed = run_git(
            self.place.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        ).stdout
        return [name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name]


class GitIndex:
    """The names in the main worktree's index."""

    def __init__(self, place: LedgerLocation) -> None:
        self._root = place.root
        self._path = os.path.join(place.common_dir, "index") if place.common_dir else ""

    def file_stamp(self) -> object:
        """A value that changes whenever git writes the index."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    def has(self, path: str) -> bool:
        if not self._path or self.file_stamp() is None:
            return False
        name = os.path.relpath(path, self._root)
        if self._cannot_name(name):
            return False
        return bool(run_git(self._root, "ls-files", "-z", "--", f":(literal){name}").stdout)

    def _cannot_name(self, name: str) -> bool:
        """True if the index stores all names in full and does not contain this one."""
        content = read_start(self._path, _MAX_INDEX + 1)
        is_spelt_out = content[:8] in _SPELT_OUT and not any(mark in content for mark in _NOT_ALL_THERE)
        return is_spelt_out and len(content) <= _MAX_INDEX and os.fsencode(name) not in content


def control_entries(tree: bytes, id_length: int) -> str:
    """The entries of a tree named `.got`, or named so that some file system takes them for it."""
    found, rest = [], tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        mode, _, name = entry.decode("utf-8", "surrogateescape").partition(" ")
        if is_control_name(name):
            found.append(f"{mode} {name} {tail[:id_length].hex()}")
        rest = tail[id_length:]
    return "\n".join(found)


def code_tree(tree: bytes, id_length: int) -> str:
    """The id that the tree would have without `.got`, so that publishing events does not make results stale."""
    entries, rest = b"", tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        whole = entry + b"\x00" + tail[:id_length]
        if entry.split(b" ", 1)[1] != b".got":
            entries += whole
        rest = tail[id_length:]
    algorithm = hashlib.sha1 if id_length == 20 else hashlib.sha256
    return algorithm(b"tree %d\x00" % len(entries) + entries, usedforsecurity=False).hexdigest()


def change_fingerprint(change: bytes) -> str:
    """A short text that identifies the lines a change removes and adds, file by file; empty if there are
    none.

    Ignores blank lines, whitespace within lines, modes and positions, unlike git's own patch id.
    """
    files: dict[bytes, list[bytes]] = {}
    file, left = b"", 0
    for line in change.split(b"\n"):
        if left:
            left -= 1
            text = b"".join(line[1:].split())
            if text:
                files.setdefault(file, []).append(line[:1] + text)
        elif hunk := _HUNK.match(line):
            left = int(hunk[1] or 1) + int(hunk[2] or 1)
        elif line.startswith(b"diff --git "):
            file = line
    if not files:
        return ""
    parts = (b"\n".join((name, *files[name])) for name in sorted(files))
    return hashlib.sha256(b"\n\n".join(parts)).hexdigest()[:40]


def head_commit(place: LedgerLocation) -> str:
    """The commit checked out in a worktree; empty if there is none."""
    branch = current_branch(place.git_dir)
    if branch:
        return read_ref(place.common_dir, f"refs/heads/{branch}")
    try:
        with open(os.path.join(place.git_dir, "HEAD"), encoding="ascii") as file:
            return file.read(80).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def uncommitted_files(place: LedgerLocation, ours: Callable[[], SetupFiles] = SetupFiles) -> tuple[str, ...]:
    return WorktreeStatus(place).uncommitted_files(ours)


def start_worktree_status(place: LedgerLocation) -> WorktreeStatus | None:
    """Starts git's check for uncommitted work while other modules load, which takes longer. None if it cannot start."""
    try:
        return WorktreeStatus(place)
    except (OSError, EnvironmentFault):
        return None


class WorktreeStatus:
    """A running check for uncommitted work in a worktree. Git starts at once; the result can wait."""

    def __init__(self, place: LedgerLocation) -> None:
        self._what = f"git status in {place.worktree}"
        self._kept = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        commit = head_commit(place)
        index = os.path.join(place.git_dir, "index")
        if commit and os.path.exists(index):
            try:
                self._begin(place, commit, index)
            except BaseException:
                self._kept.close()
                raise

    def _begin(self, place: LedgerLocation, commit: str, index: str) -> None:
        folder = self._kept.enter_context(temporary_git_folder(commit, _read_excludes(place)))
        self._process = start_git(
            place.worktree,
            *("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames"),
            "--ignore-submodules=dirty",  # Set here because `.gitmodules` overrides the configuration.
            environment={
                "GIT_DIR": folder,
                "GIT_WORK_TREE": place.worktree,
                "GIT_INDEX_FILE": index,
                "GIT_OBJECT_DIRECTORY": os.path.join(place.common_dir, "objects"),
                "GIT_NO_REPLACE_OBJECTS": "1",
            },
        )

    def uncommitted_files(self, ours: Callable[[], SetupFiles] = SetupFiles) -> tuple[str, ...]:
        """The files outside `.got` that differ from the checked-out commit; none if that is unknown.

        Leaves out files of Remand's set-up, which `ours` names; it is called only if something has changed.
        """
        try:
            answer = finish_process(self._process, self._what) if self._process else None
        finally:
            self.close()
        if answer is None or answer.returncode:
            return ()
        rows = [row.decode("utf-8", "replace") for row in answer.stdout.split(b"\0") if row]
        found = [row for row in rows if row[3:].split("/", 1)[0] != ".got"]
        own = ours() if found else SetupFiles()
        return tuple(row[3:] for row in found if own.is_work(row[3:], is_tracked=not row.startswith("??")))

    def close(self) -> None:
        """Ends the check, whether or not its result was used."""
        if self._process is not None:
            with self._process:
                self._process.kill()
        self._kept.close()


def _read_excludes(place: LedgerLocation) -> str:
    """The repository's own ignore patterns; reading them executes nothing."""
    try:
        with open(
            os.path.join(place.common_dir, "info", "exclude"), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(1 << 16)
    except OSError:
        return ""


class GitTrackedFiles:
    """What git knows about the files of one worktree. Without a repository, no file is tracked or ignored."""

    def __init__(self, place: LedgerLocation, root: str) -> None:
        self._root = root
        self._has_git = bool(place.common_dir)
        self.exclude = os.path.join(place.common_dir, "info", "exclude") if place.common_dir else ""
        """The repository's own list of ignored files, which all of its worktrees share; empty without one."""

    def find_tracked(self, names: Collection[str]) -> set[str]:
        if not names or not self._has_git:
            return set()
        patterns = (f":(top,literal){name}" for name in names)
        failure = f"git cannot list the files of {self._root}"
        listed = query_git(self._root, "ls-files", "-z", "--", *patterns, failure=failure)
        return set(listed.decode("utf-8", "surrogateescape").split("\0")) & set(names)

    def find_ignored(self, names: Collection[str]) -> set[str]:
        if not names or not self._has_git:
            return set()
        input_bytes = "\0".join(names).encode("utf-8", "surrogateescape")
        answer = run_git(self._root, "check-ignore", "--no-index", "-z", "--stdin", stdin=input_bytes)
        return set(answer.stdout.decode("utf-8", "surrogateescape").split("\0")) & set(names)

    def untrack(self, name: str) -> None:
        removal = ("rm", "--cached", "--quiet", "--force", "--", f":(top,literal){name}")
        query_git(self._root, *removal, failure=f"git cannot stop tracking {name}")
