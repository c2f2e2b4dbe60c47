"""Runs our own command line for an agent, outside of its sandbox, and ends it when its door has closed for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from remand.adapters.coordinator.visitors import Answered

ENDED: Answered = (3, b"", b"remand: this was ended, as the run it belongs to is over.\n")


class Outside:
    """Processes of our own by the run they belong to. Nothing of an agent's chooses what is run, where, or with what.

    A call is handed over on standard input: the system takes no argument of more than 128 KiB. The folder is not
    where modules are looked for.
    """

    def __init__(self, module: str, folder: str, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-P", "-m", module]
        self._folder = folder
        self._environment = dict(environment)
        self._processes: dict[str, set[subprocess.Popen[bytes]]] = {}
        self._ended: set[str] = set()
        self._lock = threading.Lock()

    def run(self, run_id: str, frame: bytes, seconds: float) -> Answered:
        """Runs a call to its end; one that takes longer is ended."""
        with self._lock:
            if run_id in self._ended:
                return ENDED
            own = self._processes.setdefault(run_id, set())
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
            own.add(process)
        with process:
            try:
                output, errors = process.communicate(frame, seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                return 3, b"", f"remand: this took longer than {seconds:.0f} s and was ended.\n".encode()
            finally:
                with self._lock:
                    own.discard(process)
        return (process.returncode, output, errors) if process.returncode >= 0 else ENDED

    def end(self, run_id: str) -> None:
        """Ends what still goes on for a run, and lets nothing begin any more."""
        with self._lock:
            self._ended.add(run_id)
            for process in self._processes.pop(run_id, set()):
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
