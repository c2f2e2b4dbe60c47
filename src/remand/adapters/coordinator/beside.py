"""A coordinator started beside a scheduler, and ended with it: it stops when its standard input is closed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

from remand.adapters.coordinator.client import Connection, Lost

START_SECONDS = 60.0
END_SECONDS = 10.0


def answers(path: str) -> bool:
    """True when somebody listens at a socket, and it is not only left over."""
    try:
        Connection(path).close()
    except Lost:
        return False
    return True


class Beside:
    """The process, as long as it is wanted. Killed with -9, a scheduler closes its end all the same."""

    def __init__(self, module: str, folder: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, "-C", folder, "serve", "--no-http", "--until-closed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        """True while it runs."""
        return self._process.poll() is None

    def wait_for(self, path: str) -> bool:
        """Waits for its socket; False when it ended first, or takes too long."""
        until = time.monotonic() + START_SECONDS
        while not answers(path):
            if not self.is_alive or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """Lets it end, and makes it when it stays."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
