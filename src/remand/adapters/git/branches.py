"""The branches of tasks in the repository itself, and the refs that keep what would be lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count

from remand.adapters.git.bare import said
from remand.adapters.git.below import line_below
from remand.adapters.git.place import read_ref
from remand.adapters.git.repository import git
from remand.adapters.git.standing import HEADS, is_legal
from remand.app.errors import EnvironmentFault
from remand.domain.ids import is_commit

KEPT = "refs/remand/kept/"
LOCK_SECONDS = 3.0
"""How long a ref may be locked before its lock counts as left behind: git holds one for milliseconds."""
_UNDER_WAY = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_OURS = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Remand"), ("EMAIL", "remand@localhost"))
}


class Moved(EnvironmentFault):
    """A ref is not where it was thought to be: somebody else has moved it meanwhile."""


def require_legal(branch: str) -> None:
    """Raises when git would not have a branch of that name."""
    if not is_legal(branch):
        raise EnvironmentFault(f"{branch[:80]!r} is no name for a branch. Give the task another one.")


class Branches:
    """Reads and moves refs by name and value; nothing that is checked out has a say, and no hook runs."""

    def __init__(self, common_dir: str, root: str) -> None:
        self._root = root
        self._folder = common_dir
        self._alone = _OURS | {"GIT_DIR": common_dir, "GIT_NO_REPLACE_OBJECTS": "1"}

    def tip(self, branch: str) -> str:
        """The commit at the tip of a branch; empty when there is none."""
        return self.at(HEADS + branch)

    def at(self, ref: str) -> str:
        """The commit that a ref names; empty when there is none."""
        found = read_ref(self._folder, ref)
        return found if is_commit(found) else ""

    def require_free(self, branch: str, entry: str) -> None:
        """Raises when a branch cannot be checked out in a worktree, because another has it."""
        if os.path.isdir(os.path.join(self._folder, "reftable")):
            raise EnvironmentFault(
                "The repository keeps its refs in a reftable, which is not supported. "
                "Run `git refs migrate --ref-format=files`."
            )
        for folder, held in self._held(entry):
            if held == branch:
                raise EnvironmentFault(_taken(branch, folder))

    def begin(self, branch: str, start: str) -> str:
        """Makes a branch that begins at a commit, and gives that commit.

        A git that a killed scheduler has started may be making the same branch at this moment.
        """
        if not is_commit(start) or not start.strip("0"):
            raise EnvironmentFault(
                f"There is no branch {branch}, and no commit at which it could begin. Commit to the base first."
            )
        reason = self._update(HEADS + branch, start, "0" * len(start))
        if not reason or self.tip(branch) == start:
            return start
        for other in self._names():
            if other.startswith(f"{branch}/") or branch.startswith(f"{other}/"):
                raise EnvironmentFault(
                    f"Branch {branch} cannot be made beside the branch {other}: git keeps them as files. "
                    "Give the task another branch, or rename that one."
                )
        raise EnvironmentFault(f"Branch {branch} cannot begin at {start[:12]}: {reason}")

    def move(self, branch: str, commit: str, before: str) -> None:
        """Moves a branch from one commit to another; raises Moved when it is not there any more."""
        reason = self._update(HEADS + branch, commit, before)
        if reason and self.tip(branch) != before:
            raise Moved(f"Branch {branch} was moved by somebody else: {reason}")
        if reason:
            raise EnvironmentFault(f"Branch {branch} cannot be moved to {commit[:12]}: {reason}")

    def remove(self, branch: str, commit: str) -> None:
        """Removes a branch that is at a commit. One that is elsewhere by now, or checked out somewhere, stays."""
        if any(held == branch for _, held in self._held("")):
            return
        asked = ("update-ref", "--no-deref", "-d", HEADS + branch, commit)
        git(self._folder, *asked, environment=self._alone)

    def keep(self, task_id: str, commit: str) -> str:
        """Keeps a commit from being lost; gives the ref that does. What was kept before stays."""
        for number in count():
            ref = KEPT + task_id + (f"-{number}" if number else "")
            found = self.at(ref)
            if found == commit:
                return ref
            if found:
                continue
            reason = self._update(ref, commit, "0" * len(commit))
            if not reason:
                return ref
            if not self.at(ref):
                raise EnvironmentFault(f"{commit[:12]} cannot be kept at {ref}: {reason}")
        raise AssertionError("there is always another number")

    def has(self, commit: str) -> bool:
        """True when the repository has a commit."""
        return bool(self.present([commit]))

    def present(self, commits: Iterable[str]) -> list[str]:
        """Those commits that the repository has, each once."""
        asked = "".join(f"{commit}\n" for commit in dict.fromkeys(commits) if is_commit(commit))
        answer = git(self._folder, "cat-file", "--batch-check", stdin=asked.encode(), environment=self._alone)
        rows = (row.split() for row in answer.stdout.decode("ascii", "replace").splitlines())
        return [row[0] for row in rows if row[1:2] == ["commit"]]

    def is_ancestor(self, commit: str, other: str) -> bool:
        """True when a commit is part of another's history, or is that commit."""
        if commit == other:
            return True
        asked = git(self._folder, "merge-base", "--is-ancestor", commit, other, environment=self._alone)
        return not asked.returncode

    def _update(self, ref: str, commit: str, before: str) -> str:
        """Moves a ref; returns why it could not be. A lock that nobody holds any more is taken away."""
        lock = os.path.join(self._folder, f"{ref}.lock")
        asked = ("update-ref", "--no-deref", "-m", "remand", ref, commit, before)
        for is_last in (False, True):
            answer = git(self._folder, *asked, environment=self._alone)
            if not answer.returncode:
                return ""
            if is_last or not _is_let_go(lock):
                break
        return said(answer.stderr)

    def _names(self) -> list[str]:
        answer = git(self._folder, "for-each-ref", "--format=%(refname)", HEADS, environment=self._alone)
        return [
            row.decode("utf-8", "surrogateescape").removeprefix(HEADS) for row in answer.stdout.splitlines()
        ]

    def _held(self, entry: str) -> Iterator[tuple[str, str]]:
        """The branches that are in use in other worktrees than this one, each with the folder."""
        if not _is_bare(self._folder):
            for branch in _in_use(self._folder):
                yield self._root, branch
        entries = os.path.join(self._folder, "worktrees")
        with suppress(FileNotFoundError):
            for name in os.listdir(entries):
                if name != entry:
                    folder = os.path.join(entries, name)
                    for branch in _in_use(folder):
                        yield os.path.dirname(line_below(folder, "gitdir")) or folder, branch


def _taken(branch: str, folder: str) -> str:
    if not os.path.isdir(folder):
        return f"Branch {branch} counts as checked out in {folder}, which is gone. Run `git worktree prune`."
    return (
        f"Branch {branch} is checked out in {folder}. Switch to another branch there "
        "(`git switch`), or give the task another branch."
    )


def _in_use(git_dir: str) -> Iterator[str]:
    """The branches that a worktree is on: the one it shows, and one that it rebases or looks through."""
    head = line_below(git_dir, "HEAD")
    if head.startswith(f"ref: {HEADS}"):
        yield head.removeprefix(f"ref: {HEADS}").strip()
    for name in _UNDER_WAY:
        if os.path.lexists(os.path.join(git_dir, name)):
            yield line_below(git_dir, name).removeprefix(HEADS)


def _is_bare(common_dir: str) -> bool:
    """True when the repository has no worktree of its own, whatever its HEAD says."""
    with (
        suppress(OSError),
        open(os.path.join(common_dir, "config"), encoding="utf-8", errors="replace") as file,
    ):
        rows = ("".join(row.split()).lower() for row in file.read(1 << 20).split("\n"))
        return any(row in ("bare=true", "bare") for row in rows)
    return False


def _is_let_go(lock: str) -> bool:
    """Waits until nobody holds a lock; one that stays was left by a killed process. False when there was none."""
    try:
        found = os.lstat(lock).st_ino
    except OSError:
        return False
    deadline = time.monotonic() + LOCK_SECONDS
    with suppress(OSError):
        while os.lstat(lock).st_ino == found:
            if time.monotonic() > deadline:
                os.unlink(lock)
            time.sleep(0.02)
    return True
