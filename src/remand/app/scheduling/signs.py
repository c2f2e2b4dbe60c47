"""When something was last heard of the runs that a scheduler before this one had begun."""

from __future__ import annotations

from remand.app.scheduling import status
from remand.app.scheduling.ports import KeptFile, Logs
from remand.domain.instant import Instant, seconds_from
from remand.domain.runs import Run


class Signs:
    """Agents end with their scheduler: they lived as long as it said how it was doing, or they said something."""

    def __init__(self, file: KeptFile, logs: Logs) -> None:
        self._file = file
        self._logs = logs

    def last(self, run_id: str) -> Instant:
        """The last sign of a run; empty when that is not known."""
        found = status.read(self._file.read() or b"")
        return max(found.tick_at, self._logs.last_written(run_id)) if found else ""


def seconds_lost(run: Run, sign: Instant, now: Instant, longest: float) -> float:
    """How long a run that was found lost has lasted: until its last sign, or until now, and no longer than it may."""
    until = min(sign or now, now)
    return round(min(max(seconds_from(run.started_at, until), 0.0), longest), 3)
