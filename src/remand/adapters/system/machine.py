"""This machine: its clock, its random source, and its folders, which events replace by symbols."""

from __future__ import annotations

import os
import pwd
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from remand.adapters.system.files import read_start
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.domain.instant import Instant
from remand.domain.text.redaction import MachinePaths


class SystemClock:
    """The machine's clock. Formats each second only once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> Instant:
        """The current time."""
        second, micros = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            self._text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
            self._second = second
        return f"{self._text}.{micros:06d}Z"


class RandomIds:
    """Random digits for new ids."""

    def hex(self) -> str:
        return os.urandom(4).hex()


def new_project_id() -> str:
    """A random id for a project."""
    return os.urandom(8).hex()


BASE_FOLDERS = (
    ("XDG_STATE_HOME", ".local/state", "$STATE"),
    ("XDG_CACHE_HOME", ".cache", "$CACHE"),
    ("XDG_CONFIG_HOME", ".config", "$CONFIG"),
    ("XDG_DATA_HOME", ".local/share", "$DATA"),
)
CHECKOUTS = (
    "*/worktrees/*",
    "*/gates/checkouts/pooled/slots/*/tree",
    "*/gates/checkouts/overlay/leases/*/merged",
)
"""The parts of our state folder that hold files of the repository."""
SYSTEM = ("/usr", "/bin", "/lib")
"""System folders for programs, equal on all machines."""


class MachinePathSource:
    """Finds the folders, again whenever a worktree was added or removed."""

    def __init__(self, root: str, worktree: str, common_dir: str, environment: Mapping[str, str]) -> None:
        self._own = (root, worktree)
        self._environment = environment
        self._linked = os.path.join(common_dir, "worktrees") if common_dir else ""
        self._changed = -1
        self._paths: MachinePaths | None = None

    def paths(self) -> MachinePaths:
        """The folders as they are now."""
        changed = _change_time(self._linked)
        if self._paths is None or changed != self._changed:
            self._changed = changed
            own = [*self._own, *_worktrees(self._linked)]
            self._paths = MachinePaths(
                [*_machine_folders(self._environment), *_with_real_paths((path, "") for path in own)]
            )
        return self._paths


def _machine_folders(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """The folders of the user and of this machine, independent of the repository."""
    home = os.path.expanduser("~")
    folders = [
        (home, "~"),
        (_account_home(), "~"),
        ("/tmp", "$TMP"),  # noqa: S108 - only named
        (environment.get("TMPDIR", ""), "$TMP"),
    ]
    for variable, usual, symbol in BASE_FOLDERS:
        named = environment.get(variable, "")
        folders.append((named if os.path.isabs(named) else os.path.join(home, usual), symbol))
    folders.append((runtime_folder(), "$RUNTIME"))
    prefixes = (sys.prefix, sys.base_prefix)
    folders += [(prefix, "$PYTHON") for prefix in prefixes if not prefix.startswith(SYSTEM)]
    folders += [(os.path.join(state_folder(), place), "") for place in CHECKOUTS]
    return _with_real_paths(folders)


def _account_home() -> str:
    """The user's home by the account database, where gates look for programs. Empty if it is a system folder."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return "" if home.startswith(SYSTEM) else home


def _with_real_paths(folders: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each folder by its name, and with links resolved."""
    return [
        (path, symbol)
        for folder, symbol in folders
        if os.path.isabs(folder)
        for path in dict.fromkeys((folder, os.path.realpath(folder)))
    ]


def _change_time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns if folder else 0
    except OSError:
        return 0


def _worktrees(folder: str) -> list[str]:
    """The linked worktrees of a repository, wherever they are."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    paths = (read_start(os.path.join(folder, name, "gitdir"), 4096) for name in names)
    return [os.path.dirname(os.fsdecode(path.strip())) for path in paths]
