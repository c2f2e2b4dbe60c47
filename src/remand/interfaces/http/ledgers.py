"""The ledger that a server's calls use: the embedded one, for one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from remand.app.errors import LedgerReplaced
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation


class EmbeddedLedger:
    """The SQLite ledger of a repository. One thread at a time uses what is open; what takes long opens its own."""

    threads = 4

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._opened: OpenLedger | None = None

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[OpenLedger]:
        """The open ledger, for one call. It is opened again when its file was replaced."""
        if is_long:
            opened = open_at(self._place)
            try:
                yield opened
            finally:
                _close(opened)
            return
        with self._lock:
            try:
                opened = self._opened or open_at(self._place)
                self._opened = opened
                opened.store.require_same_file()
                yield opened
            except LedgerReplaced:
                self._close_shared()
                raise

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            self._close_shared()

    def _close_shared(self) -> None:
        if self._opened is not None:
            _close(self._opened)
            self._opened = None


def _close(opened: OpenLedger) -> None:
    opened.store.close()
    opened.ledger.close()
