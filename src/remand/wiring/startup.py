"""What fast paths need before anything heavy is loaded: the place, the session's task, and a running coordinator."""

from __future__ import annotations

import os
import sys

from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.protocol import Connection, CoordinatorUnavailable
from remand.adapters.git import repository
from remand.adapters.git.location import LedgerLocation, current_branch, locate
from remand.adapters.system.folders import (
    gates_folder,
    private_folder,
    reports_folder,
    runtime_folder,
    state_folder,
)
from remand.app import errors

__all__ = [
    "MAX_CALL",
    "CoordinatorUnavailable",
    "LedgerLocation",
    "SessionTask",
    "current_branch",
    "find_session_task",
    "find_socket",
    "forward_call",
    "gates_folder",
    "ledger_id",
    "load_msgspec",
    "locate",
    "record_session_claim",
    "reports_folder",
    "repository",
    "socket_folder",
    "socket_path",
    "start_worktree_status",
    "state_folder",
]

MAX_CALL = protocol.MAX_FRAME - 4096
"""How many bytes a forwarded call may have, with all that comes along."""
MAX_BLOCKS = 3
"""How often a session is sent back when nothing can be known of its task."""


def socket_path(ledger_id: str) -> str:
    """Where the coordinator of a ledger listens."""
    return os.path.join(runtime_folder(), f"{ledger_id}.sock")


def socket_folder() -> str:
    """The folder of the sockets, made for this user alone; empty when someone else's is in the way."""
    return private_folder(runtime_folder())


def find_socket(place: LedgerLocation) -> str:
    """The socket of a place's coordinator; empty when there is none."""
    ledger = ledger_id(place)
    path = socket_path(ledger) if ledger else ""
    return path if path and os.path.exists(path) else ""


class SessionTask:
    """The task a host session belongs to: by its id, or by the branch of the worktree it runs in."""

    __slots__ = ("agent", "branch", "earlier", "task_id")

    def __init__(
        self, task_id: str = "", agent: str = "", branch: str = "", earlier: tuple[str, ...] = ()
    ) -> None:
        self.task_id = task_id
        self.agent = agent
        self.branch = branch
        self.earlier = earlier
        """Tasks that the session claimed before this one, each with its agent behind a space."""


def find_session_task(place: LedgerLocation, session: str, named: str, agent: str = "") -> SessionTask | None:
    """The task of a session: the one its environment names, that it claimed, or whose worktree it runs in."""
    if named:
        return SessionTask(named, agent)
    ledger = ledger_id(place)
    if not ledger:
        return None
    claimed = _read_lines(_claims_file(ledger, session)) if session else []
    if claimed:
        task_id, _, who = claimed[-1].partition(" ")
        return SessionTask(task_id, who, earlier=tuple(claimed[:-1]))
    if place.git_dir == place.common_dir:
        return None
    branch = current_branch(place.git_dir)
    return SessionTask(branch=branch) if branch else None


def record_session_claim(place: LedgerLocation, session: str, task_id: str, agent: str) -> None:
    """Notes that a session has claimed a task, beside those that it claimed before."""
    ledger = ledger_id(place)
    line = f"{task_id} {agent}"
    if ledger and session:
        path = _claims_file(ledger, session)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if line not in _read_lines(path)[-1:]:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def may_block_again(task: str, session: str) -> bool:
    """True a few times for a session whose ledger cannot be found."""
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in f"{task}-{session}")
    path = os.path.join(state_folder(), "lost", plain[:150])
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "ab") as file:
            file.write(b".")
            return file.tell() <= MAX_BLOCKS
    except OSError:
        return True


def ledger_id(place: LedgerLocation) -> str:
    """The id of a place's ledger; empty when it has none. It names folders, so it is nothing but an id."""
    try:
        with open(os.path.join(place.got, "ledger.id"), encoding="ascii") as file:
            found = file.read(64).strip()
    except (OSError, ValueError):
        return ""
    return found if found.replace("-", "").isalnum() else ""


def load_msgspec() -> None:
    """Loads msgspec without `typing_extensions`, which it takes where that is installed, and does without elsewhere.

    It has nothing that `typing` lacks on the Pythons we run on, and takes about as long to load as Python itself.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # how Python is told that there is none
    try:
        __import__("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def start_worktree_status(place: LedgerLocation) -> repository.WorktreeStatus | None:
    """Has git look for uncommitted work while the rest is loaded, which takes longer; None when it cannot begin."""
    try:
        return repository.WorktreeStatus(place)
    except (OSError, errors.EnvironmentFault):
        return None


def _claims_file(ledger: str, session: str) -> str:
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in session)
    return os.path.join(gates_folder(ledger), "sessions", f"claim-{plain[:100]}")


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(100_000).splitlines()
    except (OSError, ValueError):
        return []


def forward_call(
    path: str,
    folder: str,
    settings: list[str],
    arguments: list[str],
    *,
    given: bytes = b"",
    patience: float = 0.0,
) -> tuple[int, bytes, bytes]:
    """Has a coordinator, or a door, run a call of the command line; raises `Lost` when it cannot."""
    connection = Connection(path, patience)
    try:
        frame = protocol.pack_call(folder, settings, arguments, given)
        return protocol.unpack_result(connection.exchange(frame))
    except IndexError:
        raise CoordinatorUnavailable("the answer is none") from None
    finally:
        connection.close()
