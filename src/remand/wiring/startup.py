"""What fast paths need before anything heavy is loaded: the place, the session's task, and a running coordinator."""

from __future__ import annotations

import os

from remand.adapters.coordinator.protocol import MAX_CALL, CoordinatorUnavailable, forward_call
from remand.adapters.git import repository
from remand.adapters.git.location import LedgerLocation, current_branch, ledger_id, locate
from remand.adapters.journal import session_tasks
from remand.adapters.journal.session_tasks import SessionTask
from remand.adapters.system.folders import (
    gates_folder,
    reports_folder,
    socket_folder,
    socket_path,
    state_folder,
)

__all__ = [
    "MAX_CALL",
    "CoordinatorUnavailable",
    "LedgerLocation",
    "SessionTask",
    "current_branch",
    "forward_call",
    "gates_folder",
    "ledger_id",
    "locate",
    "reports_folder",
    "repository",
    "socket_folder",
    "socket_path",
    "state_folder",
]


def find_socket(place: LedgerLocation) -> str:
    """The socket of a place's coordinator; empty when there is none."""
    ledger = ledger_id(place)
    path = socket_path(ledger) if ledger else ""
    return path if path and os.path.exists(path) else ""


def find_session_task(place: LedgerLocation, session: str, named: str, agent: str = "") -> SessionTask | None:
    """The task of a session: the one its environment names, that it claimed, or whose worktree it runs in."""
    if named:
        return SessionTask(named, agent)
    ledger = ledger_id(place)
    if not ledger:
        return None
    claimed = session_tasks.claimed_task(_sessions_folder(ledger), session)
    if claimed is not None or place.git_dir == place.common_dir:
        return claimed
    branch = current_branch(place.git_dir)
    return SessionTask(branch=branch) if branch else None


def record_session_claim(place: LedgerLocation, session: str, task_id: str, agent: str) -> None:
    """Notes that a session has claimed a task."""
    ledger = ledger_id(place)
    if ledger and session:
        session_tasks.record_claim(_sessions_folder(ledger), session, task_id, agent)


def may_block_again(task: str, session: str) -> bool:
    """True a few times for a session whose ledger cannot be found."""
    return session_tasks.may_block_again(os.path.join(state_folder(), "lost"), task, session)


def _sessions_folder(ledger: str) -> str:
    return os.path.join(gates_folder(ledger), "sessions")
