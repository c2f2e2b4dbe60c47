"""Questions to git, asked so that nothing the repository configures is run."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping

from remand.adapters.git import loose
from remand.adapters.git.place import Place, current_branch, read_ref
from remand.app.errors import EnvironmentFault
from remand.app.ports import Commit, Difference
from remand.domain.control import is_control_name

SAFE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
MAX_KNOWN = 10_000
SECONDS = 60.0
SETTINGS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
    *("-c", "core.commitGraph=false"),
)

_MAX_INDEX = 64 << 20
_SPELT_OUT = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
"""How an index begins that holds every name whole; later versions leave out what the name before has, too."""
_NOT_ALL_THERE = (b"link\0", b"sdir\0")
"""The extensions of an index that leaves names to another file, or to a folder's name."""
_CHANGED_LINES = ("diff-tree", "-r", "-p", "-U0", "--text", "--no-ext-diff", "--no-textconv")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def git(
    folder: str,
    *arguments: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Runs git in a folder without hooks, prompts, lazy fetches or anyone's configuration but the repository's."""
    process = started(folder, *arguments, environment=environment)
    return ended(process, f"git {arguments[0]} in {folder}", stdin, seconds)


def started(
    folder: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts git as `git` does; `ended` has its answer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.Popen(
            ["git", *SETTINGS, *arguments],
            cwd=folder,
            env=kept | SAFE | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        raise EnvironmentFault("git is not installed, or not on PATH. Install it, then repeat.") from None


def ended(
    process: subprocess.Popen[bytes], what: str, stdin: bytes = b"", seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """What a git that was started has answered at its end; whatever happens, it goes on no longer than this."""
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"{what} did not answer within {seconds:.0f} s.") from None
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


_REMOTE = b'[remote "'
"""How the part of git's configuration begins that is about a remote."""


class GitRepository:
    """The repository a ledger belongs to."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._head = os.path.join(place.git_dir, "HEAD")
        self._branch: tuple[int, str] = (-1, "")
        self._commits: dict[str, Commit] = {}
        self._control: dict[str, str] = {}

    def commit(self, name: str) -> Commit | None:
        """The commit behind any name git knows, with its code tree; None when there is none."""
        if not name or name.startswith("-") or "\n" in name or "\x00" in name or not self.place.git_dir:
            return None
        if name in self._commits:
            return self._commits[name]
        known = loose.commit_tree(self.place.common_dir, name)
        found = self._seen(name, known) if known is not None else self._asked(name)
        if found is not None and found.sha == name and len(self._commits) < MAX_KNOWN:
            self._commits[name] = found  # what a full id means never changes
        return found

    def _asked(self, name: str) -> Commit | None:
        """The commit behind a name, by git's word."""
        asked = f"{name}^{{commit}}\n{name}^{{tree}}\n"
        answer = git(self.place.worktree, "cat-file", "--batch", stdin=asked.encode(errors="replace"))
        header, _, rest = answer.stdout.partition(b"\n")
        sha, kind, size = (*header.split(b" "), b"", b"")[:3]
        if answer.returncode or kind != b"commit":
            return None
        tree_header, _, body = rest[int(size) + 1 :].partition(b"\n")
        length = int(tree_header.split(b" ")[2])
        return self._seen(sha.decode(), body[:length])

    def _seen(self, sha: str, tree: bytes) -> Commit:
        """A commit by its id and its top tree, as that is stored."""
        if len(self._control) >= MAX_KNOWN:
            self._control.clear()
        self._control[sha] = control_entries(tree, len(sha) // 2)
        return Commit(sha, code_tree(tree, len(sha) // 2))

    def has_same_control(self, commits: Iterable[str]) -> bool:
        """True when commits have the same under `.got` and names like it; False also where that is not known at once."""
        found = {self._control.get(one.sha) if (one := self.commit(name)) else None for name in commits}
        return len(found) == 1 and None not in found

    def branch(self) -> str:
        """The branch checked out where we were called; HEAD is read again when it has changed."""
        try:
            changed = os.stat(self._head).st_mtime_ns
        except OSError:
            return ""
        if self._branch[0] != changed:
            self._branch = (changed, current_branch(self.place.git_dir))
        return self._branch[1]

    def difference(self, base: str, commit: str) -> Difference | None:
        """What a commit changes since it left the base, read from the trees alone: no attribute or filter has a say."""
        fork = git(self.place.worktree, "merge-base", base, commit)
        if fork.returncode:
            return None
        since = fork.stdout.decode().strip()
        between = ("--no-renames", since, commit, "--", ":(top)", ":(top,exclude).got")
        names = git(self.place.worktree, "diff-tree", "-r", "-z", "--name-only", *between)
        change = git(self.place.worktree, *_CHANGED_LINES, *between)
        if names.returncode or change.returncode:
            return None
        return Difference(
            paths=tuple(name.decode("utf-8", "replace") for name in names.stdout.split(b"\0") if name),
            patch=fingerprint(change.stdout),
        )

    def has_commit(self, branch: str, commit: str) -> bool | None:
        """Whether a branch has a commit in its history; None when there is no such branch here, nor of `origin`."""
        tip = self.tip(branch) or self.origin_tip(branch)
        if not tip:
            return None
        return (
            tip == commit
            or not git(self.place.worktree, "merge-base", "--is-ancestor", commit, tip).returncode
        )

    def tip(self, branch: str) -> str:
        """The commit a branch or remote branch points to; empty when there is none."""
        for name in (f"refs/heads/{branch}", f"refs/remotes/{branch}"):
            sha = read_ref(self.place.common_dir, name)
            if sha:
                return sha
        return ""

    def origin_tip(self, branch: str) -> str:
        """The commit of a branch of `origin`, as last fetched; never that of a local branch named `origin/…`."""
        return read_ref(self.place.common_dir, f"refs/remotes/origin/{branch}")

    def remotes(self) -> tuple[str, ...]:
        """The names of the repositories that this one is set up to fetch from."""
        if not self.place.git_dir:
            return ()
        return tuple(git(self.place.worktree, "remote").stdout.decode("utf-8", "replace").split())

    def has_remote(self) -> bool:
        """True when the repository's own configuration names one to fetch from. It takes no process to tell."""
        try:
            with open(os.path.join(self.place.common_dir, "config"), "rb") as file:
                return any(line.lstrip().lower().startswith(_REMOTE) for line in file)
        except OSError:
            return False

    def has_fetched(self) -> bool:
        """True when something here came from another repository."""
        is_cut = os.path.exists(os.path.join(self.place.common_dir, "shallow"))
        return is_cut or bool(git(self.place.worktree, "for-each-ref", "--count=1", "refs/remotes").stdout)

    def outside(self, tip: str, commits: Iterable[str]) -> frozenset[str]:
        """Those of the commits that are here, and not in the history of a tip."""
        asked = {commit for commit in commits if commit.isascii() and commit.isalnum()}
        if not asked or not tip:
            return frozenset()
        rows = "".join(f"{name}\n" for name in (f"^{tip}", *sorted(asked)))
        answer = git(self.place.worktree, "rev-list", "--ignore-missing", "--stdin", stdin=rows.encode())
        if answer.returncode:
            said = answer.stderr.decode(errors="replace").strip()
            raise EnvironmentFault(f"git cannot list what {tip[:12]} lacks: {said}. Mend that, then repeat.")
        return frozenset(answer.stdout.decode().split()) & asked

    def file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None when it is not there. What cannot be read is not taken for absent."""
        known = loose.top_file(self.place.common_dir, commit, path)
        if known is not None:
            return known[0]
        listed = git(self.place.worktree, "ls-tree", commit, "--", f":(top,literal){path}")
        if not listed.returncode and not listed.stdout:
            return None
        answer = git(self.place.worktree, "cat-file", "blob", f"{commit}:{path}")
        if listed.returncode or answer.returncode:
            said = (listed.stderr or answer.stderr).decode(errors="replace").strip()
            raise EnvironmentFault(
                f"git cannot read {path} at {commit[:12]}: {said}. Mend that, then repeat."
            )
        return answer.stdout

    def tracked(self) -> list[str]:
        """The files of the main worktree that git tracks, or would."""
        listed = git(self.place.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        return [name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name]


class GitIndex:
    """What the main worktree's index names."""

    def __init__(self, place: Place) -> None:
        self._root = place.root
        self._path = os.path.join(place.common_dir, "index") if place.common_dir else ""

    def signature(self) -> object:
        """Changes whenever git writes the index."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    def has(self, path: str) -> bool:
        """True when the index names the file."""
        if not self._path or self.signature() is None:
            return False
        name = os.path.relpath(path, self._root)
        if self._cannot_name(name):
            return False
        return bool(git(self._root, "ls-files", "-z", "--", f":(literal){name}").stdout)

    def _cannot_name(self, name: str) -> bool:
        """True when the index does not hold the name anywhere, in a form that spells every name out."""
        try:
            with open(self._path, "rb") as file:
                content = file.read(_MAX_INDEX + 1)
        except OSError:
            return False
        is_spelt_out = content[:8] in _SPELT_OUT and not any(mark in content for mark in _NOT_ALL_THERE)
        return is_spelt_out and len(content) <= _MAX_INDEX and os.fsencode(name) not in content


def control_entries(tree: bytes, id_length: int) -> str:
    """What a tree has under names that are, or that some file system takes for, `.got`."""
    found, rest = [], tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        mode, _, name = entry.decode("utf-8", "surrogateescape").partition(" ")
        if is_control_name(name):
            found.append(f"{mode} {name} {tail[:id_length].hex()}")
        rest = tail[id_length:]
    return "\n".join(found)


def code_tree(tree: bytes, id_length: int) -> str:
    """The id the tree would have without `.got`, so that publishing events makes no work stale."""
    kept, rest = b"", tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        whole = entry + b"\x00" + tail[:id_length]
        if entry.split(b" ", 1)[1] != b".got":
            kept += whole
        rest = tail[id_length:]
    algorithm = hashlib.sha1 if id_length == 20 else hashlib.sha256
    return algorithm(b"tree %d\x00" % len(kept) + kept, usedforsecurity=False).hexdigest()


def fingerprint(change: bytes) -> str:
    """One short text for the lines that a change takes away and adds, file by file; empty when there are none.

    Blank lines, spaces within lines, modes and the place in the file do not count: git's own patch id tells changes
    apart by those.
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
