"""Gate runs that continue in the background and are found again by name, and the done claims that a scheduler starts this way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from remand.adapters.system.files import acquire_lock, lock_handle
from remand.app.scheduler.ports import CannotRun, ClaimAnswer, TaskWorktree

LOOK_AGAIN_SECONDS = 0.02
MAX_ERRORS = 1200


class BackgroundRuns:
    """Background runs by name. Each holds a lock while it is alive, so that nobody waits for one that was killed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Starts a run in its own session, outside any project folder; False if a run of that name is already in progress."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        lock = acquire_lock(self._path(name, "lock"))
        if lock < 0:
            return False
        os.set_inheritable(lock, True)
        try:
            with (
                open(self._path(name, "out"), "wb") as output,
                open(self._path(name, "errors"), "wb") as errors,
            ):
                subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=dict(environment),
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(lock,),
                )
        finally:
            os.close(lock)
        return True

    def is_running(self, name: str) -> bool:
        """True while a run of that name is in progress."""
        try:
            lock = os.open(self._path(name, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not lock_handle(lock, is_shared=True, waits=False)
        finally:
            os.close(lock)

    def wait(self, name: str, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self.is_running(name):
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_AGAIN_SECONDS)
        return True

    def take(self, name: str) -> bytes | None:
        path = self._path(name, "out")
        try:
            with open(path, "rb") as file:
                said = file.read()
        except OSError:
            return None
        with suppress(OSError):
            os.unlink(path)
        return said or None

    def errors(self, name: str, most: int = MAX_ERRORS) -> str:
        """The end of what the last run of that name wrote to standard error."""
        try:
            with open(self._path(name, "errors"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _path(self, name: str, kind: str) -> str:
        return os.path.join(self._folder, f"{sha256(name.encode()).hexdigest()[:32]}.{kind}")


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
"""Runs a module in a process that is killed when its parent dies for any reason, where the system supports that."""


class CommandClaims:
    """Calls `remand task submit` as the agent, without anything from the agent's environment.

    It runs in the repository itself: the agent can write to its worktree, including `.git` and `.got`, and could
    thereby choose the repository, the ledger and the rules.
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
        """Kills the running claims and refuses further ones."""
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
