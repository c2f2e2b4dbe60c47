"""Report files: what tools write for us to read, and the full reports that people read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MAX_REPORT = 128 << 20
KEPT = 200


class FileReports:
    """Reports in a folder of ours, and short-lived ones in the system's."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def folder(self) -> Iterator[str]:
        """An empty folder for one run of a tool, gone afterwards."""
        from tempfile import TemporaryDirectory  # loaded when something is measured

        with TemporaryDirectory(prefix="remand-report-", ignore_cleanup_errors=True) as path:
            yield path

    def read(self, path: str) -> bytes | None:
        """What a tool has written there: a plain file of a bearable size, else None."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_REPORT:
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(MAX_REPORT)

    def write(self, name: str, content: str) -> str:
        """Keeps a full report and returns its name; empty when it cannot be kept."""
        path = os.path.join(self._folder, f"{name}.md")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room()
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
        except OSError:
            return ""
        return name

    def _make_room(self) -> None:
        paths = [entry.path for entry in os.scandir(self._folder) if entry.name.endswith(".md")]
        for path in sorted(paths, key=os.path.getmtime)[:-KEPT]:
            with suppress(OSError):
                os.unlink(path)
