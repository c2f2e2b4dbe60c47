"""A lock that one process holds for as long as it lives, however that ends."""

from __future__ import annotations

import fcntl
import os


class Only:
    """Held by the first who takes it; the kernel lets it go with the process."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        """True when nobody else holds it; it is this process's from then on."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Lets it go."""
        os.close(self._handle)
