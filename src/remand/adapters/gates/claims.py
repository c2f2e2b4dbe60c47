"""Done claims that the scheduler makes for agents whose session has ended, by our own command line in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from remand.app.scheduler.ports import CannotRun, ClaimAnswer, TaskWorktree

SECONDS = 6 * 3600.0
_MAX_SAID = 2000
_REFUSED = 1
_decode = msgspec.json.Decoder(dict).decode
BOUND = """
import ctypes, os, runpy, sys
libc = ctypes.CDLL(None)
if hasattr(libc, "prctl"):
    libc.prctl(1, ctypes.c_ulong(9))
if os.getppid() == int(sys.argv[1]):
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module that is ended with the process that started it, however that ends, where the system can do so."""


class CommandClaims:
    """Calls `remand task submit` as the agent, with nothing of the agent's environment.

    It is called in the repository itself: the worktree is the agent's to write, its `.git` and `.got` with it, and
    would say which repository, which ledger and which rules it belongs to.
    """

    def __init__(self, module: str, root: str, environment: Mapping[str, str]) -> None:
        self._module = module
        self._root = root
        self._environment = dict(environment)
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        """Claims that a task is done at a commit."""
        command = (
            *(sys.executable, "-P", "-c", BOUND, str(os.getpid()), self._module, "--json"),
            *("-C", self._root),
            *("task", "submit", worktree.task_id, f"--agent={agent}", f"--commit={commit}"),
            f"--branch={worktree.branch}",
        )
        identity = {"REMAND_TASK": worktree.task_id, "REMAND_ACTOR": agent}
        try:
            return _parse_answer(self._run(command, identity))
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRun("gates", f"The gates could not run: {error}") from None

    def close(self) -> None:
        """Ends what is being measured; nothing is measured any more."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                _kill(process)

    def _run(self, command: tuple[str, ...], identity: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        with self._lock:
            if self._is_closed:
                raise CannotRun("gates", "The scheduler is stopping, so no more gates run.")
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=self._environment | identity,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._processes.add(process)
        with process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise
            finally:
                with self._lock:
                    self._processes.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _parse_answer(ended: subprocess.CompletedProcess[bytes]) -> ClaimAnswer:
    if ended.returncode == 0:
        return ClaimAnswer()
    said = ended.stderr.decode("utf-8", "replace").strip()[-_MAX_SAID:]
    if ended.returncode == _REFUSED:
        with suppress(msgspec.MsgspecError):
            told = _decode(ended.stdout)
            return ClaimAnswer(str(told.get("refused") or "refused"), str(told.get("message") or said))
    raise CannotRun("gates", f"A done claim could not be measured: {said or f'exit {ended.returncode}'}")
