"""Calls an installed hook as its host would: by a shell, in the project's folder, with a payload on its input."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress

from remand.adapters.hosts.setup import Setup

PROBE = "REMAND_HOOK_PROBE"
"""Set, it makes our hook answer with a block of its own and touch nothing."""
PROBE_TEXT = "remand hook probe"
PAYLOAD = (
    '{"hook_event_name": "Stop", "event_type": "Stop", "status": "completed", "stop_hook_active": false,'
    ' "session_id": "remand-probe", "sessionId": "remand-probe", "conversation_id": "remand-probe"}'
)
"""A stop in the words of every host."""
SECONDS = 30.0
MAX_OUTPUT = 64 * 1024


class Called:
    """How a called hook has answered."""

    __slots__ = ("code", "errors", "output")

    def __init__(self, code: int | None, output: str, errors: str) -> None:
        self.code = code
        """The exit code; None when the hook did not end in time."""
        self.output = output
        self.errors = errors


def call(setup: Setup, command: str, folder: str, seconds: float = SECONDS) -> Called:
    """Calls a hook with a stop that is none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
    environment[PROBE] = "1"
    if setup.project:
        environment[setup.project] = folder
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code = _ended(process, seconds)
        return Called(code, _start_of(output.fileno()), _start_of(errors.fileno()))


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a hook that has been given its payload; whatever it left running is ended."""
    with process:
        try:
            process.communicate(PAYLOAD.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode


def _start_of(file: int) -> str:
    return os.pread(file, MAX_OUTPUT, 0).decode("utf-8", "replace")


def codex_config() -> str:
    """What Codex's own settings say; empty when there are none."""
    home = os.environ.get("CODEX_HOME", "") or os.path.join(os.path.expanduser("~"), ".codex")
    try:
        with open(os.path.join(home, "config.toml"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
