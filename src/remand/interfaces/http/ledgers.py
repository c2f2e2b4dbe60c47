"""The ledger behind a server's calls (embedded or PostgreSQL), and how its requests are committed in groups."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from remand.app.errors import LedgerReplaced
from remand.app.group_commit import GroupCommit
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Answer, Request
from remand.ledger.store import LedgerHead
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation


class EmbeddedLedger:
    """The SQLite ledger of a repository. One thread at a time uses the shared connection; long calls open their own."""

    threads = 16

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._opened: OpenLedger | None = None

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[OpenLedger]:
        """The open ledger, for one call. It is reopened if its file was replaced."""
        if is_long:
            opened = open_at(self._place, store_url="")
            try:
                yield opened
            finally:
                opened.close()
            return
        with self._lock:
            opened = self._opened = self._opened or self._open()
            try:
                opened.store.require_same_file()
                yield opened
            except LedgerReplaced:
                if self._opened is opened:
                    self._close_shared()
                raise

    def _open(self) -> OpenLedger:
        opened = open_at(self._place, store_url="")
        commit = GroupCommit(_LockedLedger(opened.ledger, self._lock))

        def ask(request: Request) -> Answer:
            # The calling thread holds the lock; it is released while the answer is made durable.
            self._lock.release()
            try:
                return commit.ask(request)
            finally:
                self._lock.acquire()

        opened.ledger.answer_in_group = ask
        return opened

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._close_shared()

    def _close_shared(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class _LockedLedger:
    """A ledger whose tables are used by one thread at a time. Its event files are synced without the lock."""

    def __init__(self, ledger: Ledger, lock: threading.Lock) -> None:
        self._ledger = ledger
        self._lock = lock
        self.sync: Callable[[LedgerHead], None] = ledger.sync

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> UnsyncedAnswers:
        with self._lock:
            return self._ledger.decide_all(requests, on_decided)

    def update_files(self) -> None:
        with self._lock:
            self._ledger.update_files()


class TeamLedger:
    """A PostgreSQL ledger, which many threads use concurrently."""

    threads = 32

    def __init__(self, place: LedgerLocation, url: str) -> None:
        self._opened = open_at(place, store_url=url)
        self._opened.ledger.answer_in_group = GroupCommit(self._opened.ledger).ask

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[OpenLedger]:  # noqa: ARG002 - all calls use the same
        """The open ledger, for one call."""
        yield self._opened

    def close(self) -> None:
        """Closes its connections."""
        self._opened.close()
