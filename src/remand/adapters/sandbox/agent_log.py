"""The file that what an agent says is written to."""

from __future__ import annotations

import os
from contextlib import suppress

from remand.adapters.sandbox.output import LEFT_OUT

HEAD = 1 << 19
TAIL = 1 << 16


class AgentLog:
    """Written as it comes up to a size; of what follows the end is kept, and written last.

    A log that cannot be written, as on a full disk, is cut short: the agent goes on.
    """

    def __init__(self, path: str, *, head: int = HEAD, tail: int = TAIL) -> None:
        self._path = path
        self._room = head
        self._tail_size = tail
        self._tail = bytearray()
        self._is_cut = False
        if path:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))

    def add(self, part: bytes) -> None:
        """Takes the next bytes in."""
        if not self._path:
            return
        head, rest = part[: self._room], part[self._room :]
        self._room -= len(head)
        self._append(head)
        self._tail += rest
        if len(self._tail) > 2 * self._tail_size:
            self._is_cut = True
            del self._tail[: -self._tail_size]

    def close(self) -> None:
        """Writes what was kept for the end."""
        is_cut = self._is_cut or len(self._tail) > self._tail_size
        self._append((LEFT_OUT if is_cut else b"") + self._tail[-self._tail_size :])
        self._tail.clear()

    def _append(self, part: bytes) -> None:
        if part:
            # Opened anew each time: hundreds of agents would hold as many files open.
            with suppress(OSError):
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                try:
                    os.write(descriptor, part)
                finally:
                    os.close(descriptor)
