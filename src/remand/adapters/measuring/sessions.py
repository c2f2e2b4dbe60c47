"""What is remembered of host sessions: small files outside every repository."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256

ONE_STOP_SECONDS = 60.0


class Sessions:
    """Counts and marks by task and session. What cannot be written counts as the first time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def count(self, task_id: str, session: str, key: str = "") -> int:
        """One more stop that was sent back, and how many that makes; a stop that is told again is the same."""
        path = self._path("nudges", task_id, session)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="utf-8", errors="replace") as file:
                file.seek(0)
                known = file.read().splitlines()
                if not key or key not in known:
                    known.append(key)
                    file.write(f"{key}\n")
        except OSError:
            return 1
        return len(known)

    def forget(self, task_id: str, session: str) -> None:
        """Starts counting anew: something was measured."""
        with suppress(OSError):
            os.unlink(self._path("nudges", task_id, session))

    def occurrence(self, task_id: str, firing: str) -> int:
        """The how-manieth stop this is of those that look alike; two hooks of one stop come close together."""
        path = self._path("firing", task_id, firing)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="ascii", errors="replace") as file:
                file.seek(0)
                times = [float(word) for word in file.read().split()]
                if not times or time.time() - times[-1] > ONE_STOP_SECONDS:
                    file.write(f"{time.time():.3f} ")
                    return len(times) + 1
        except (OSError, ValueError):
            return 1
        return len(times)

    def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
        """True for the first stop of a kind, and whenever that very stop is told again."""
        path = self._path(kind, task_id, session)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write(key)
        except FileExistsError:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(300) == key
        except OSError:
            return True
        return True

    def is_due(self, kind: str, task_id: str, session: str, seconds: float) -> bool:
        """True when something was last done so long ago that it is to be done again; notes that it now is."""
        path = self._path(kind, task_id, session)
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime < seconds:
                return False
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "wb"):
                os.utime(path)
        return True

    def _path(self, kind: str, task_id: str, session: str) -> str:
        return os.path.join(
            self._folder, f"{kind}-{sha256(f'{task_id} {session}'.encode()).hexdigest()[:24]}"
        )
