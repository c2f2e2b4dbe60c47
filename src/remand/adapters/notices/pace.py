"""How often the user is told: the first question at once, many questions in ever longer steps."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FIRST, LONGEST = 1.0, 300.0
QUIET = 1800.0
"""After so long without a notice, the next goes out at once again."""


class Pace:
    """Remembers in a file when the last notice went out, and how long the next has to wait."""

    def __init__(self, path: str) -> None:
        self._path = path

    def wait(self) -> None:
        """Returns when the next notice may go out."""
        at, step = self._last()
        left = at + step - time.time()
        if 0 < left <= LONGEST:
            time.sleep(left)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One at a time: two that told at once would tell the same."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def note(self) -> None:
        """Notes that one went out, or was tried to."""
        at, step = self._last()
        now = time.time()
        longer = FIRST if now - at > QUIET else min(max(step * 2, FIRST), LONGEST)
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with suppress(OSError), open(self._path, "w", encoding="ascii") as file:
            file.write(f"{now} {longer}")

    def _last(self) -> tuple[float, float]:
        try:
            with open(self._path, encoding="ascii") as file:
                at, step = map(float, file.read(100).split())
        except (OSError, ValueError):
            return 0.0, 0.0
        return at, step
