"""Runs the user's commands with limits on time and output, and slow work in threads."""

from __future__ import annotations

import os
import pwd
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from remand.app.ports import CommandOutcome

MAX_OUTPUT = 64 * 1024
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOK_SECONDS = 0.05
_PLAIN = ("LANG", "LC_ALL", "TZ")


class UserCommands:
    """Runs commands in a folder. If an agent started this process, its environment does not decide what is run."""

    def __init__(self, folder: str, *, is_users_own: bool) -> None:
        self._folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
        self._environment = own if is_users_own else _plain()

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> CommandOutcome | None:
        with tempfile.TemporaryFile() as input_file:
            input_file.write(given)
            input_file.seek(0)
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=input_file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=self._folder,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError:
                return None
        with process:
            output = _read_output(process, time.monotonic() + seconds)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if output is None:
                return None
            return CommandOutcome(process.wait(), output.decode("utf-8", "replace"))


def _read_output(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """A process's complete output; None if it takes too long or prints too much."""
    output = b""
    with selectors.DefaultSelector() as selector:
        if process.stdout is None:
            return None
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) <= MAX_OUTPUT and time.monotonic() < deadline:
            has_ended = process.poll() is not None
            if selector.select(0.0 if has_ended else LOOK_SECONDS):
                part = os.read(process.stdout.fileno(), 1 << 16)
                output += part
                has_ended = has_ended or not part
                if part:
                    continue
            if has_ended:
                return output if _has_ended(process, deadline) else None
    return None


def _has_ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _plain() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PLAIN if name in os.environ}
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:  # As in containers that assign any user.
        return environment | {"PATH": SYSTEM_PATH, "HOME": "/"}
    return environment | {
        "PATH": SYSTEM_PATH,
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
    }


class ThreadExecutor:
    """A few threads that live as long as the process, because what they start may end with its thread."""

    def __init__(self, many: int) -> None:
        self._pool = ThreadPoolExecutor(many, thread_name_prefix="hand")

    def execute(self, work: Callable[[], None]) -> None:
        """Runs it as soon as a thread is free."""
        self._pool.submit(work).add_done_callback(_print_fault)


def _print_fault(future: Future[None]) -> None:
    """Prints an unexpected error for the user to see; the other threads continue."""
    fault = future.exception()
    if fault is not None:
        sys.stderr.write("".join(traceback.format_exception(fault)))
