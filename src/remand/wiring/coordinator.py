"""The coordinator of an open ledger, the sockets of a scheduler's agents, and the user's commands that are asked about rejections."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import BinaryIO

from remand.adapters.coordinator import agent_socket, protocol
from remand.adapters.coordinator.agent_socket import GRACE, PATIENCE, AgentSocketListener, CommandProcesses
from remand.adapters.coordinator.server import CommandLineCall, ConsultationProcesses, Coordinator
from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.git.location import LedgerLocation, read_ref
from remand.adapters.system.executor import UserCommands
from remand.app.director_commands import DirectorCommands
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import CallHandler, TaskWorktree
from remand.config import inherited_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.reminders import run_after_call
from remand.wiring.startup import gates_folder, ledger_id, socket_folder, socket_path


def make_consultants(opened: OpenLedger, *, is_users_own: bool) -> DirectorCommands:
    """Adviser and director of an open ledger, as its policy names them."""
    commands = UserCommands(opened.place.root, is_users_own=is_users_own)
    return DirectorCommands(opened.ledger, commands, opened.settings.rules().policy)


def _require_socket_folder() -> str:
    folder = socket_folder()
    if not folder:
        raise EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    return folder


def make_coordinator(opened: OpenLedger, call: CommandLineCall) -> Coordinator:
    """A coordinator that listens on the ledger's socket."""
    _require_socket_folder()
    opened.store.stay()
    consultations = ConsultationProcesses(
        opened.place.root,
        inherited_environment("REMAND_"),
        lambda: opened.settings.rules().policy.has_consultants,
    )
    return Coordinator(
        opened.ledger,
        socket_path(opened.store.value("id")),
        call,
        consultations.start,
        lambda: run_after_call(opened.place, opened),
    )


def make_agent_sockets(
    place: LedgerLocation, handler: CallHandler, *, patience: float = PATIENCE, grace: float = GRACE
) -> AgentSocketListener:
    """Agent sockets in a folder of the ledger's own."""
    name = f"doors-{sha256(ledger_id(place).encode()).hexdigest()[:8]}"
    folder = os.path.join(_require_socket_folder(), name)
    agent_socket.prepare_socket_folder(folder)
    agent_socket.allow_descriptors()
    return AgentSocketListener(folder, handler, patience=patience, grace=grace)


def make_call_processes(place: LedgerLocation, module: str) -> CommandProcesses:
    """Runs a module of our own in the main worktree, in this process's environment without anything of Remand's."""
    return CommandProcesses(module, place.root, inherited_environment("REMAND_"))


def gate_runs(place: LedgerLocation) -> BackgroundRuns:
    """The gates that run in the background."""
    return BackgroundRuns(os.path.join(gates_folder(ledger_id(place)), "runs"))


def branch_tip(worktree: TaskWorktree) -> str:
    """The commit at the tip of a worktree's branch, as the repository has it; empty when there is none."""
    return read_ref(worktree.common_dir, f"refs/heads/{worktree.branch}")


def pack_call(folder: str, settings: list[str], arguments: list[str], given: bytes) -> bytes:
    """A call as it is handed to a process of our own."""
    return protocol.pack_call(folder, settings, arguments, given)


def read_call(stream: BinaryIO) -> tuple[str, list[str], list[str], bytes]:
    """The call that was handed to this process: folder, settings, arguments, and what came along."""
    found = protocol.unpack(stream.read())
    if found is None:
        raise EnvironmentFault("This is run by a scheduler alone.")
    return protocol.unpack_call_with_input(*found[:2])
