"""Processes that continue in the background and are found again by name: runs of gates, and the one that sends notices."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from remand.adapters.system.files import claim_lock, is_locked

LOOK_AGAIN_SECONDS = 0.02
MAX_ERRORS = 1200


class BackgroundRuns:
    """Background runs by name. Each holds a lock while it is alive, so that nobody waits for one that was killed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], lock_variable: str = ""
    ) -> bool:
        """Starts a run in its own session, outside any project folder; False if a run of that name is already in progress.

        `lock_variable` gives the run the descriptor of its lock, which it may release before it ends.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        lock = claim_lock(self._path(name, "lock"))
        if lock < 0:
            return False
        os.set_inheritable(lock, True)
        own = {lock_variable: str(lock)} if lock_variable else {}
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
                    env={**environment, **own},
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(lock,),
                )
        finally:
            os.close(lock)
        return True

    def is_running(self, name: str) -> bool:
        """True while a run of that name is in progress."""
        return is_locked(self._path(name, "lock"))

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
