"""Doors for the agents of a scheduler, and what is behind them."""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from contextlib import suppress
from hashlib import sha256
from typing import BinaryIO

from remand.adapters.coordinator import frames
from remand.adapters.coordinator.doors import GRACE, PATIENCE, SocketDoors
from remand.adapters.coordinator.outside import Outside
from remand.adapters.coordinator.visitors import Answered, Answering, Asked, Caller
from remand.adapters.git.place import Place, read_ref
from remand.adapters.measuring.background import BackgroundRuns
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.ports import Workplace
from remand.bootstrap.quick import gates_folder, ledger_id, socket_folder
from remand.config import inherited_environment

__all__ = [
    "Answered",
    "Answering",
    "Asked",
    "Caller",
    "SocketDoors",
    "brought_tip",
    "gate_runs",
    "make_doors",
    "outside_of",
    "packed",
    "received",
]

DESCRIPTORS = 4096
"""What a scheduler with 200 doors may have open, should all of them be beleaguered."""


def make_doors(
    place: Place, answering: Answering, *, patience: float = PATIENCE, grace: float = GRACE
) -> SocketDoors:
    """Doors in a folder of the ledger's own, with nothing left in it of a scheduler that was killed."""
    top = socket_folder()
    if not top:
        raise EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    folder = os.path.join(top, f"doors-{sha256(ledger_id(place).encode()).hexdigest()[:8]}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _clear(folder)
    _allow_descriptors()
    return SocketDoors(folder, answering, patience=patience, grace=grace)


def _clear(folder: str) -> None:
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
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def outside_of(place: Place, module: str) -> Outside:
    """Runs a module of our own in the main worktree, in this process's environment without anything of Remand's."""
    return Outside(module, place.root, inherited_environment("REMAND_"))


def gate_runs(place: Place) -> BackgroundRuns:
    """The gates that run in the background."""
    return BackgroundRuns(os.path.join(gates_folder(ledger_id(place)), "runs"))


def brought_tip(workplace: Workplace) -> str:
    """The commit at the tip of a workplace's branch, as the repository has it; empty when there is none."""
    return read_ref(workplace.common_dir, f"refs/heads/{workplace.branch}")


def packed(folder: str, settings: list[str], arguments: list[str], given: bytes) -> bytes:
    """A call as it is handed to a process of our own."""
    return frames.pack_call(folder, settings, arguments, given)


def received(stream: BinaryIO | None = None) -> tuple[str, list[str], list[str], bytes]:
    """The call that was handed to this process: folder, settings, arguments, and what came along."""
    found = frames.unpack((stream or sys.stdin.buffer).read())
    if found is None:
        raise EnvironmentFault("This is run by a scheduler alone.")
    return frames.unpack_given(*found[:2])
