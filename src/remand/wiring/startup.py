"""What fast paths need before anything heavy is loaded: the place, the session's task, and a running coordinator."""

from __future__ import annotations

import os

from remand.adapters.coordinator.protocol import MAX_CALL, CoordinatorUnavailable, forward_call
from remand.adapters.git import remote, repository, snapshots
from remand.adapters.git.location import LedgerLocation, current_branch, ledger_id, locate
from remand.adapters.hosts import checks
from remand.adapters.hosts.host import READERS
from remand.adapters.hosts.table import guarded_files, load_host, server_files, settings_files
from remand.adapters.journal import session_tasks, solo_sessions
from remand.adapters.journal import writer as journal
from remand.adapters.journal.session_tasks import SessionTask
from remand.adapters.server import client as server
from remand.adapters.stores import sqlite_views as views
from remand.adapters.system import background_runs, files
from remand.adapters.system.folders import LedgerFolders, socket_folder, state_folder

__all__ = ["MAX_CALL", "READERS", "CoordinatorUnavailable", "LedgerFolders", "LedgerLocation"]
__all__ += ["SessionTask", "background_runs", "checks", "current_branch", "files", "forward_call"]
__all__ += ["guarded_files", "journal", "ledger_id", "load_host", "locate", "remote", "repository"]
__all__ += ["server", "server_files", "session_tasks", "settings_files", "snapshots", "socket_folder"]
__all__ += ["solo_sessions", "state_folder", "views"]


def folders_of(place: LedgerLocation) -> LedgerFolders:
    """The folders for a place's ledger."""
    return LedgerFolders(ledger_id(place))


def find_socket(place: LedgerLocation) -> str:
    """The socket of a place's coordinator; empty if there is none."""
    path = folders_of(place).socket
    return path if os.path.exists(path) else ""


def may_block_again(task: str, session: str) -> bool:
    """True a few times for a session whose ledger cannot be found."""
    return session_tasks.may_block_again(os.path.join(state_folder(), "lost"), task, session)
