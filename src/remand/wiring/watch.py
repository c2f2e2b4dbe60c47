"""A ledger that is looked at repeatedly: the board, and what has happened since."""

from __future__ import annotations

import os

from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.system.folders import state_folder
from remand.adapters.system.scheduler_files import StatusFile, is_alive
from remand.app.board import Board, BoardContext, read_board
from remand.app.errors import RemandError
from remand.app.history.activity import ActivityEntry, ActivityFollower
from remand.app.scheduler import status as scheduling
from remand.app.scheduler.status import SchedulerStatus
from remand.domain.instant import Instant
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import gates_folder


def status_file(ledger_id: str) -> StatusFile:
    """Where the scheduler of a ledger says how it is doing."""
    return StatusFile(os.path.join(state_folder(), ledger_id, scheduling.STATUS_FILE))


class LedgerWatch:
    """A ledger that is looked at again and again, and read when something has changed."""

    def __init__(self, opened: OpenLedger, recent: int = 0) -> None:
        self._opened = opened
        ledger_id = opened.store.value("id")
        self._status = status_file(ledger_id)
        self._runs = BackgroundRuns(os.path.join(gates_folder(ledger_id), "runs"))
        self._follower = ActivityFollower(recent)
        self._seen: tuple[object, ...] = ()

    def now(self) -> Instant:
        """What time it is."""
        return self._opened.ledger.clock.now()

    def has_changed(self) -> bool:
        """True when the ledger or the scheduler's word is another than when the board was last read."""
        try:
            return self._mark() != self._seen
        except RemandError:
            return True

    def _mark(self) -> tuple[object, ...]:
        store = self._opened.store
        return (store.file_identity(), store.changes(), self._status.mark())

    def board(self, focus: str = "", *, is_thorough: bool = False) -> Board:
        """The board as it is. Thoroughly: what git or another tool has brought is read in first."""
        self._opened.store.require_same_file()
        if is_thorough:
            self._opened.ledger.refresh()
        self._seen = self._mark()
        scheduler = self.scheduler()
        around = BoardContext(
            now=self.now(),
            rules=self._opened.settings.rules(),
            scheduler=scheduler,
            is_scheduled=scheduler is not None and is_alive(scheduler.pid),
            is_measured=self._runs.is_running,
        )
        with self._opened.store.read() as view:
            return read_board(view, around, focus)

    def scheduler(self) -> SchedulerStatus | None:
        """What the scheduler said last of itself; None when there is none, or what it said cannot be read."""
        content = self._status.read()
        return None if content is None else scheduling.decode_status(content)

    def news(self) -> tuple[ActivityEntry, ...]:
        """What has happened since it was last asked; the first time, as much of the past as was asked for."""
        self._opened.store.require_same_file()
        self._seen = self._mark()
        with self._opened.store.read() as view:
            return self._follower.news(view)
