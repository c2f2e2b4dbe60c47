"""The user's commands that advise on rejections and decide them."""

from __future__ import annotations

import subprocess
import sys

from remand.adapters.system.commands import UserCommands
from remand.app.directing import Directing
from remand.bootstrap.ledger import Opened
from remand.config import inherited_environment


def directing(opened: Opened, *, is_users_own: bool) -> Directing:
    """Adviser and director of an open ledger, as its policy names them."""
    commands = UserCommands(opened.place.root, is_users_own=is_users_own)
    return Directing(opened.ledger, commands, opened.settings.rules().policy)


class Consultations:
    """Lets a process of its own ask the user's commands about each rejection, so that nobody waits for them."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self, handoff_id: str) -> None:
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
