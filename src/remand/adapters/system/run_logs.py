"""What agents say, one file a run in one folder."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

from remand.domain.instant import Instant, instant
from remand.domain.visible import visible

MANY = 1000
MAX_LINE = 2000


class RunLogs:
    """The files, which whoever started the agents writes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, int], str]] = {}
        """What was read last of each run, and how large and old its file was then."""

    def path(self, run_id: str) -> str:
        """The file of a run."""
        return os.path.join(self._folder, f"{run_id}.log")

    def last_line(self, run_id: str) -> str:
        """What a run said last, as far as it can be told at a glance. It is read when there is more than before."""
        try:
            status = os.stat(self.path(run_id))
            mark = (status.st_size, status.st_mtime_ns)
            known = self._read.get(run_id)
            if known is None or known[0] != mark:
                self._read[run_id] = known = (mark, _last_line(self.path(run_id)))
        except OSError:
            return ""
        return known[1]

    def last_written(self, run_id: str) -> Instant:
        """When a run last said something; empty when it never did."""
        try:
            return instant(datetime.fromtimestamp(os.stat(self.path(run_id)).st_mtime, UTC))
        except (OSError, OverflowError, ValueError):
            return ""

    def thin_out(self) -> None:
        """Removes the logs of the oldest runs, their names being in order."""
        self._read.clear()
        for name in sorted(os.listdir(self._folder))[:-MANY]:
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))


def _last_line(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_LINE))
        said = file.read(MAX_LINE).decode("utf-8", "replace").split("\n")
    return next((visible(line).strip() for line in reversed(said) if line.strip()), "")
