"""Sockets for the agents of a scheduler, and the processes that run their calls."""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from contextlib import suppress
from hashlib import sha256
from typing import BinaryIO

from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.agent_socket import (
    GRACE,
    PATIENCE,
    AgentCall,
    AgentCaller,
    AgentSocketListener,
    CallHandler,
    CallResult,
    CommandProcesses,
)
from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.git.location import LedgerLocation, read_ref
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import TaskWorktree
from remand.config import inherited_environment
from remand.wiring.startup import gates_folder, ledger_id, socket_folder

__all__ = [
    "AgentCall",
    "AgentCaller",
    "AgentSocketListener",
    "CallResult",
    "branch_tip",
    "gate_runs",
    "make_agent_sockets",
    "make_call_processes",
    "pack_call",
    "read_call",
]

MAX_DESCRIPTORS = 4096
"""What a scheduler with 200 doors may have open, should all of them be beleaguered."""


def make_agent_sockets(
    place: LedgerLocation, answering: CallHandler, *, patience: float = PATIENCE, grace: float = GRACE
) -> AgentSocketListener:
    """Doors in a folder of the ledger's own, with nothing left in it of a scheduler that was killed."""
    top = socket_folder()
    if not top:
        raise EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    folder = os.path.join(top, f"doors-{sha256(ledger_id(place).encode()).hexdigest()[:8]}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _remove_stale_sockets(folder)
    _allow_descriptors()
    return AgentSocketListener(folder, answering, patience=patience, grace=grace)


def _remove_stale_sockets(folder: str) -> None:
    """Takes away the sockets of schedulers that are gone; while another one lives, its doors stay."""
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return
    # The lock is held, and its descriptor open, for as long as this process lives.
    for name in os.listdir(folder):
        if name.endswith(".sock"):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _allow_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_call_processes(place: LedgerLocation, module: str) -> CommandProcesses:
    """Runs a module of our own in the main worktree, in this process's environment without anything of Remand's."""
    return CommandProcesses(module, place.root, inherited_environment("REMAND_"))


def gate_runs(place: LedgerLocation) -> BackgroundRuns:
    """The gates that run in the background."""
    return BackgroundRuns(os.path.join(gates_folder(ledger_id(place)), "runs"))


def branch_tip(workplace: TaskWorktree) -> str:
    """The commit at the tip of a workplace's branch, as the repository has it; empty when there is none."""
    return read_ref(workplace.common_dir, f"refs/heads/{workplace.branch}")


def pack_call(folder: str, settings: list[str], arguments: list[str], given: bytes) -> bytes:
    """A call as it is handed to a process of our own."""
    return protocol.pack_call(folder, settings, arguments, given)


def read_call(stream: BinaryIO | None = None) -> tuple[str, list[str], list[str], bytes]:
    """The call that was handed to this process: folder, settings, arguments, and what came along."""
    found = protocol.unpack((stream or sys.stdin.buffer).read())
    if found is None:
        raise EnvironmentFault("This is run by a scheduler alone.")
    return protocol.unpack_call_with_input(*found[:2])
