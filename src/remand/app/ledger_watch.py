"""Watches a ledger: the board, and the events since the last look."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from remand.app.board import Board, BoardContext, read_board
from remand.app.errors import RemandError
from remand.app.history.activity import ActivityEntry, ActivityFollower
from remand.app.ledger import Ledger
from remand.app.requests import Rules
from remand.app.scheduler import ports as scheduling
from remand.app.scheduler.ports import SchedulerStatus
from remand.domain.instant import Instant
from remand.ledger.store import Transaction


class WatchedStore(Protocol):
    """A store in a file that other processes write and may replace."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a view."""

    def file_identity(self) -> str:
        """Distinguishes the file from one that replaces it."""

    def changes(self) -> int:
        """A number that differs after every change."""

    def require_same_file(self) -> None:
        """Raises if another file has replaced it."""


class StatusRecord(Protocol):
    """The scheduler's status file."""

    def read(self) -> bytes | None:
        """The last status; None if there is none."""

    def mark(self) -> object:
        """A value that differs after every change."""


class LedgerWatch:
    """A ledger that is polled, and read when it has changed."""

    def __init__(
        self,
        ledger: Ledger,
        store: WatchedStore,
        rules: Callable[[], Rules],
        status: StatusRecord,
        *,
        is_measured: Callable[[str], bool],
        is_alive: Callable[[int], bool],
        recent: int = 0,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._rules = rules
        self._status = status
        self._is_measured = is_measured
        self._is_alive = is_alive
        self._follower = ActivityFollower(recent)
        self._last_mark: tuple[object, ...] = ()

    def now(self) -> Instant:
        return self._ledger.clock.now()

    def has_changed(self) -> bool:
        """True if the ledger or the scheduler's status has changed since the board was last read."""
        try:
            return self.mark() != self._last_mark
        except RemandError:
            return True

    def mark(self) -> tuple[object, ...]:
        """A value that differs after every change of the ledger or the scheduler's status; cheap to compute."""
        return (self._store.file_identity(), self._store.changes(), self._status.mark())

    def board(self, focus: str = "", *, is_thorough: bool = False) -> Board:
        """The current board. With `is_thorough`, files from git or other tools are read in first."""
        self._store.require_same_file()
        if is_thorough:
            self._ledger.refresh()
        self._last_mark = self.mark()
        scheduler = self.scheduler()
        around = BoardContext(
            now=self.now(),
            rules=self._rules(),
            scheduler=scheduler,
            is_scheduled=scheduler is not None and self._is_alive(scheduler.pid),
            is_measured=self._is_measured,
        )
        with self._store.read() as view:
            return read_board(view, around, focus)

    def scheduler(self) -> SchedulerStatus | None:
        """The scheduler's last status; None if there is none or it is unreadable."""
        content = self._status.read()
        return None if content is None else scheduling.decode_status(content)

    def news(self) -> tuple[ActivityEntry, ...]:
        """The events since the last call; on the first call, as many past ones as requested."""
        self._store.require_same_file()
        self._last_mark = self.mark()
        with self._store.read() as view:
            return self._follower.news(view)
