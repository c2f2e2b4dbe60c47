"""Where a repository and its ledger are, found by reading files alone.

This runs on every call, so it imports nothing that Python has not loaded already.
"""

from __future__ import annotations

import os

ROOT_NOTE = "remand-root"
"""Where a git folder that lies apart from its main worktree tells where that is: git itself does not know."""


class Place:
    """A ledger's surroundings. Linked worktrees share the main worktree's `.got`."""

    __slots__ = ("common_dir", "git_dir", "root", "worktree")

    def __init__(self, *, root: str, worktree: str, git_dir: str = "", common_dir: str = "") -> None:
        self.root = root
        """The main worktree (of a bare repository: the repository itself)."""
        self.worktree = worktree
        """The worktree we were called in."""
        self.git_dir = git_dir
        """The current worktree's own git folder; empty outside git."""
        self.common_dir = common_dir
        """The repository's shared git folder; empty outside git."""

    @property
    def got(self) -> str:
        """The folder of the ledger."""
        return os.path.join(self.root, ".got")

    @property
    def events(self) -> str:
        """The folder of the exchange segments."""
        return os.path.join(self.root, ".got", "events")

    @property
    def event_folders(self) -> tuple[str, ...]:
        """Every folder whose event files are read."""
        own = os.path.join(self.worktree, ".got", "events")
        return (self.events,) if own == self.events else (self.events, own)


def locate(start: str) -> Place | None:
    """The place of the ledger seen from a folder: the repository around it, or the nearest `.got`."""
    here = os.path.realpath(start)
    while True:
        marker = os.path.join(here, ".git")
        if os.path.exists(marker):
            return _in_git(here, marker)
        if _is_bare(here):
            return Place(root=here, worktree=here, git_dir=here, common_dir=here)
        if os.path.isdir(os.path.join(here, ".got")):
            return Place(root=here, worktree=here, git_dir="", common_dir="")
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _in_git(worktree: str, marker: str) -> Place:
    git_dir = marker if os.path.isdir(marker) else _pointed(worktree, _first_line(marker)[len("gitdir: ") :])
    common = _first_line(os.path.join(git_dir, "commondir"))
    common_dir = _pointed(git_dir, common) if common else git_dir
    is_linked = bool(common)
    root = _main_worktree(common_dir) if is_linked else worktree
    return Place(root=root, worktree=worktree, git_dir=git_dir, common_dir=common_dir)


def _main_worktree(common_dir: str) -> str:
    """The main worktree of a repository; a bare one has none and stands for it itself."""
    if os.path.basename(common_dir) == ".git":
        return os.path.dirname(common_dir)
    try:
        with open(os.path.join(common_dir, "config"), encoding="utf-8", errors="surrogateescape") as file:
            rows = [row.strip() for row in file]
    except OSError:
        rows = []
    for row in rows:
        key, _, value = row.partition("=")
        if key.strip() == "worktree":  # a submodule's repository names its worktree
            return _pointed(common_dir, value.strip())
    return _first_line(os.path.join(common_dir, ROOT_NOTE)) or common_dir


def _is_bare(folder: str) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _pointed(base: str, target: str) -> str:
    return os.path.realpath(os.path.join(base, target))


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\r\n")
    except OSError:
        return ""


def current_branch(git_dir: str) -> str:
    """The branch checked out in a worktree; empty when there is none."""
    line = _first_line(os.path.join(git_dir, "HEAD")) if git_dir else ""
    return line[len("ref: refs/heads/") :] if line.startswith("ref: refs/heads/") else ""


def read_ref(common_dir: str, name: str) -> str:
    """The commit a full ref name points to; empty when there is none (or it is kept in a newer format)."""
    line = _first_line(os.path.join(common_dir, name))
    if line.startswith("ref: "):
        return read_ref(common_dir, line[5:])
    if line:
        return line
    try:
        with open(os.path.join(common_dir, "packed-refs"), encoding="utf-8", errors="replace") as file:
            for row in file:
                if row.rstrip("\n").endswith(f" {name}"):
                    return row.split(" ", 1)[0]
    except OSError:
        return ""
    return ""
