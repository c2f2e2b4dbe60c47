"""The folders for files outside a repository."""

from __future__ import annotations

import os
from binascii import crc32

from remand.app import errors
from remand.startup import VERSION


def runtime_folder() -> str:
    """The folder for sockets: short, private, removed by a restart."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and os.path.isdir(base) and len(base) < 60:
        return os.path.join(base, "remand")
    return f"/tmp/remand-{os.getuid()}"  # noqa: S108 - made private and checked before use


def state_folder() -> str:
    """The folder for what is remembered about ledgers."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # A relative path is ignored: it would put the key into a working tree.
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "remand")


def private_folder(path: str) -> str:
    """Creates a folder for this user alone; empty if another user's folder is in the way."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return ""
    is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o077 and not os.path.islink(path)
    return path if is_ours else ""


def socket_folder() -> str:
    """The sockets' folder, created for this user alone; empty if another user's folder is in the way."""
    return private_folder(runtime_folder())


def require_socket_folder() -> str:
    """The sockets' folder; raises `EnvironmentFault` if it cannot be private."""
    folder = socket_folder()
    if not folder:
        raise errors.EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    return folder


class LedgerFolders:
    """The folders of one ledger."""

    def __init__(self, ledger_id: str) -> None:
        join = os.path.join
        self.own = join(state_folder(), ledger_id)
        self.gates = join(self.own, "gates")
        """What the gates need: results, checkouts, a mirror of the repository."""
        self.reports = join(self.gates, "reports")
        """The full reports of gates, for people and agents to read."""
        self.sessions = join(self.gates, "sessions")
        """What is noted about the sessions of agent hosts."""
        self.gate_runs = join(self.gates, "runs")
        """The gates that run in the background."""
        self.solo = join(self.own, "solo")
        """Sessions that hold no task: what is noted of them, snapshots, and a ledger of their verdicts."""
        self.snapshots = join(self.solo, "git")
        """Our own repository with the snapshots of such sessions."""
        self.session_ledger = join(self.solo, "ledger")
        """A ledger outside every repository, which nothing publishes."""
        self.journal = join(self.own, "journal")
        """What agents ran, task by task."""
        self.notices = join(self.own, "notices")
        self.status = join(self.own, "scheduler.json")
        """Where the scheduler says how it is doing."""
        self.coordinator_log = join(self.own, "coordinator.log")
        """Where a coordinator that was started behind a command writes why it failed."""
        self.forge = join(state_folder(), "forges", ledger_id)
        """What polls of the forge note for one another."""
        same = crc32(f"{VERSION}\0{state_folder()}".encode("utf-8", "surrogateescape"))
        self.socket = join(runtime_folder(), f"{ledger_id}-{same:08x}.sock")
        """Where the coordinator listens: one of the same version, which uses the same keys and notes as whoever calls."""

    def worktrees(self, root: str, named: str = "") -> str:
        """The folder for task worktrees: inside the configured one (relative to the main worktree), or here.

        Several clones may configure the same folder, so each ledger has its own folder in it.
        """
        if named:
            return os.path.join(root, os.path.expanduser(named), os.path.basename(self.own))
        return os.path.join(self.own, "worktrees")
