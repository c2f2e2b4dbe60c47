"""Finds a repository and its ledger by reading files alone. Every call runs this, so it imports only os."""

from __future__ import annotations

import os

from remand.app import errors

ROOT_NOTE = "remand-root"
"""The file in which a git folder outside its main worktree names that worktree, since git does not record it."""
OWN = ".own"
"""The folder beside task worktrees for files that agents cannot see."""
REPOSITORY_NOTE = os.path.join(OWN, "locks", "repository")
"""A link in there to the repository. An agent may rewrite everything in its own worktree, so that cannot tell."""
ENTRY = "remand-"
"""The prefix of the repository's names for these worktrees; a task's id follows."""


class LedgerLocation:
    """The folders of a ledger. Linked worktrees share the main worktree's `.got`."""

    __slots__ = ("common_dir", "git_dir", "is_foreign", "root", "server_ledger", "worktree")

    def __init__(
        self, *, root: str, worktree: str, git_dir: str = "", common_dir: str = "", is_foreign: bool = False
    ) -> None:
        self.root = root
        """The main worktree (of a bare repository: the repository itself)."""
        self.worktree = worktree
        """The worktree we were called in."""
        self.git_dir = git_dir
        """The current worktree's own git folder; empty outside git."""
        self.common_dir = common_dir
        """The repository's shared git folder; empty outside git."""
        self.is_foreign = is_foreign
        """The worktree is an agent's, or does not belong where it says: its event files are not read."""
        self.server_ledger = ""
        """What a ledger is called here that a server has; empty for one of this machine."""

    @property
    def got(self) -> str:
        """The ledger's folder."""
        return os.path.join(self.root, ".got")

    @property
    def database(self) -> str:
        """The database file."""
        return os.path.join(self.root, ".got", "ledger.db")

    @property
    def events(self) -> str:
        """The folder of event files to write to."""
        return os.path.join(self.root, ".got", "events")

    @property
    def event_folders(self) -> tuple[str, ...]:
        """All folders from which event files are read."""
        own = os.path.join(self.worktree, ".got", "events")
        return (self.events,) if own == self.events or self.is_foreign else (self.events, own)


def ledger_id(place: LedgerLocation) -> str:
    """The id of a place's ledger; empty if it has none. It becomes part of folder names, so its form is checked."""
    if place.server_ledger:
        return place.server_ledger
    try:
        with open(os.path.join(place.got, "ledger.id"), encoding="ascii") as file:
            found = file.read(64).strip()
    except (OSError, ValueError):
        return ""
    return found if found.replace("-", "").isalnum() else ""


def locate(start: str) -> LedgerLocation | None:
    """The ledger's location for a folder: the repository around it, else the nearest `.got`.

    In a worktree that Remand made for a task, no file of that worktree is trusted.
    """
    here = os.path.realpath(start)
    return _task_worktree(here) or _enclosing_location(here)


def find_place(folder: str) -> LedgerLocation:
    """The ledger's location for a folder; raises `EnvironmentFault` if there is none."""
    if not os.path.isdir(folder):
        raise errors.EnvironmentFault(f"There is no folder {folder}.")
    place = locate(folder)
    if place is None:
        raise errors.EnvironmentFault(
            f"{os.path.realpath(folder)} is not in a git repository. Run `git init` there first, or use -C DIR."
        )
    return place


def _task_worktree(start: str) -> LedgerLocation | None:
    """The location for a folder inside a task worktree; None for any other folder."""
    here, parent = start, os.path.dirname(start)
    while parent != here:
        common_dir = _link_target(os.path.join(parent, REPOSITORY_NOTE))
        if common_dir and _is_private(os.path.join(parent, OWN)) and not _may_be_committed(common_dir):
            entry = os.path.join(common_dir, "worktrees", ENTRY + os.path.basename(here))
            if _points_to(entry, here):
                return LedgerLocation(
                    root=_main_worktree(common_dir),
                    worktree=here,
                    git_dir=entry,
                    common_dir=common_dir,
                    is_foreign=True,
                )
        here, parent = parent, os.path.dirname(parent)
    return None


def _link_target(path: str) -> str:
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    return target if os.path.isabs(target) else ""


def _is_private(folder: str) -> bool:
    status = os.lstat(folder)
    return status.st_uid == os.getuid() and not status.st_mode & 0o077 and not os.path.islink(folder)


def _may_be_committed(git_dir: str) -> bool:
    """True for a git folder that could be files of a commit: inside a worktree, but not in its `.git`."""
    if ".git" in git_dir.split(os.sep):
        return False
    here = os.path.dirname(git_dir)
    while here != os.path.dirname(here):
        if os.path.lexists(os.path.join(here, ".git")):
            return True
        here = os.path.dirname(here)
    return False


def _points_to(entry: str, worktree: str) -> bool:
    """True if a repository's worktree entry names exactly that folder."""
    line = _first_line(os.path.join(entry, "gitdir"))
    return bool(line) and os.path.dirname(_join_real_folder(entry, line)) == worktree


def _enclosing_location(start: str) -> LedgerLocation | None:
    here, nearest = start, ""
    while True:
        marker = os.path.join(here, ".git")
        if os.path.exists(marker):
            return _git_location(here, marker)
        if not nearest and _is_bare(here):
            return LedgerLocation(root=here, worktree=here, git_dir=here, common_dir=here)
        if not nearest and os.path.isdir(os.path.join(here, ".got")):
            nearest = here  # Unless a repository is around it: then a commit may have brought it.
        parent = os.path.dirname(here)
        if parent == here:
            return LedgerLocation(root=nearest, worktree=nearest) if nearest else None
        here = parent


def _git_location(worktree: str, marker: str) -> LedgerLocation:
    git_dir = marker if os.path.isdir(marker) else _resolve(worktree, _first_line(marker)[len("gitdir: ") :])
    common = _first_line(os.path.join(git_dir, "commondir"))
    common_dir = _resolve(git_dir, common) if common else git_dir
    is_linked = bool(common)
    root = _main_worktree(common_dir) if is_linked else worktree
    is_foreign = is_linked and not _is_own_worktree(worktree, git_dir, common_dir)
    return LedgerLocation(
        root=root, worktree=worktree, git_dir=git_dir, common_dir=common_dir, is_foreign=is_foreign
    )


def _is_own_worktree(worktree: str, git_dir: str, common_dir: str) -> bool:
    """True if the repository registers this linked worktree and Remand did not make it for a task."""
    entries, name = os.path.split(git_dir)
    is_known = entries == os.path.join(common_dir, "worktrees") and _points_to(git_dir, worktree)
    return is_known and name != ENTRY + os.path.basename(worktree)


def _main_worktree(common_dir: str) -> str:
    """The main worktree of a repository; for a bare repository, the repository itself."""
    if os.path.basename(common_dir) == ".git":
        return os.path.dirname(common_dir)
    try:
        with open(os.path.join(common_dir, "config"), encoding="utf-8", errors="surrogateescape") as file:
            rows = [row.strip() for row in file]
    except OSError:
        rows = []
    for row in rows:
        key, _, value = row.partition("=")
        if key.strip() == "worktree":  # A submodule's repository names its worktree.
            return _resolve(common_dir, value.strip())
    return _first_line(os.path.join(common_dir, ROOT_NOTE)) or common_dir


def _is_bare(folder: str) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _resolve(base: str, target: str) -> str:
    return os.path.realpath(os.path.join(base, target))


def _join_real_folder(base: str, target: str) -> str:
    """A path as written, with links in its folder resolved."""
    folder, name = os.path.split(os.path.join(base, target))
    return os.path.join(os.path.realpath(folder), name)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\r\n")
    except OSError:
        return ""


def current_branch(git_dir: str) -> str:
    """The branch checked out in a worktree; empty if there is none."""
    line = _first_line(os.path.join(git_dir, "HEAD")) if git_dir else ""
    return line[len("ref: refs/heads/") :] if line.startswith("ref: refs/heads/") else ""


def read_ref(common_dir: str, name: str) -> str:
    """The commit that a full ref name points to; empty if there is none (or refs are in a newer format)."""
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
