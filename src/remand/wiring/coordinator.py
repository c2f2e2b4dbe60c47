"""The coordinator of an open ledger, and the user's commands that are asked about rejections."""

from __future__ import annotations

import subprocess
import sys

from remand.adapters.coordinator.server import CommandLineCall, Coordinator
from remand.adapters.system.executor import UserCommands
from remand.app.director_commands import DirectorCommands
from remand.app.errors import EnvironmentFault
from remand.config import inherited_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.reminders import run_after_call
from remand.wiring.startup import socket_folder, socket_path


def make_consultants(opened: OpenLedger, *, is_users_own: bool) -> DirectorCommands:
    """Adviser and director of an open ledger, as its policy names them."""
    commands = UserCommands(opened.place.root, is_users_own=is_users_own)
    return DirectorCommands(opened.ledger, commands, opened.settings.rules().policy)


class Consultations:
    """Lets a process of its own ask the user's commands about each rejection, so that nobody waits for them."""

    def __init__(self, opened: OpenLedger) -> None:
        self._opened = opened
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, handoff_id: str) -> None:
        """Starts asking about the last rejection of a handoff, where the policy names someone to ask."""
        self._running = [process for process in self._running if process.poll() is None]
        if not self._opened.settings.rules().policy.has_consultants:
            return
        call = ["-m", "remand.interfaces.cli.entry", "-C", self._opened.place.root]
        self._running.append(
            subprocess.Popen(
                [sys.executable, *call, "handoff", "consult", handoff_id],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=inherited_environment("REMAND_"),
                start_new_session=True,
            )
        )


def make_coordinator(opened: OpenLedger, call: CommandLineCall) -> Coordinator:
    """A coordinator that listens on the ledger's socket."""
    if not socket_folder():
        raise EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    opened.store.stay()
    path = socket_path(opened.store.value("id"))
    return Coordinator(
        opened.ledger, path, call, Consultations(opened).start, lambda: run_after_call(opened.place, opened)
    )
