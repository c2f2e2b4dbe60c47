"""Runs the user's own commands, with a limit on time and output."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from remand.app.ports import Outcome

MAX_OUTPUT = 64 * 1024


class UserCommands:
    """Runs commands in a folder, without what tells an agent's environment from another."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> Outcome | None:
        """How the command answered what it was given; None when it could not be started or took too long."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
            asked.write(given)
            asked.seek(0)
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=asked,
                    stdout=said,
                    stderr=subprocess.DEVNULL,
                    cwd=self._folder,
                    env=kept,
                    start_new_session=True,
                )
            except OSError:
                return None
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None
            said.seek(0)
            return Outcome(status, said.read(MAX_OUTPUT).decode("utf-8", "replace"))
