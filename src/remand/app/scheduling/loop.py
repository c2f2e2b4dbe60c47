"""The scheduler's day: looks whenever something has changed, and does its chores in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from remand.app.errors import LedgerReplaced, RemandError
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.scheduler import Scheduler

GLANCE_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""Leases end and backoffs pass without anybody writing anything."""


class Chore:
    """Something done now and then, one at a time, in a thread of its own: it may wait for a network."""

    def __init__(self, name: str, seconds: float, work: Callable[[], str]) -> None:
        self.name = name
        self.trouble = ""
        """What kept it from being done; empty when nothing did."""
        self._seconds = seconds
        self._work = work
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def begin_if_due(self, now: float) -> None:
        """Begins it when its time has come and it is not under way."""
        if now >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = now + self._seconds
            self._thread = threading.Thread(target=self._do, name=self.name, daemon=True)
            self._thread.start()

    def do(self) -> None:
        """Does it here and now."""
        self._next = time.monotonic() + self._seconds
        self._do()

    def wait(self, seconds: float) -> None:
        """Waits for the end of what is under way."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _do(self) -> None:
        try:
            self.trouble = self._work()
        except (RemandError, OSError) as error:
            self.trouble = str(error)


class Loop:
    """Goes round until it is told to stop and everybody has gone home."""

    def __init__(self, changes: Callable[[], int], tell: Callable[[str], None]) -> None:
        self._changes = changes
        self._tell = tell
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._seen, self._looked = -1, -LOOK_SECONDS
        self.trouble = ""
        """Why the last look failed; empty when it did not."""

    def look_after(self, scheduler: Scheduler, floor: Floor, chores: Sequence[Chore]) -> None:
        """Says what is gone round with."""
        self._scheduler = scheduler
        self._floor = floor
        self._chores = chores

    @property
    def kept_from(self) -> str:
        """What kept it from beginning more when it looked last; empty when nothing did."""
        return self.trouble or self._scheduler.waiting

    @property
    def is_broken(self) -> bool:
        """True when something is wrong with the system."""
        return bool(self._floor.breaker.breaches) or self._scheduler.is_held

    def wake(self) -> None:
        """Has it look at once."""
        self._woken.set()

    def stop(self) -> None:
        """Asks it to end; may be called from a signal handler."""
        self._stopping.set()
        self._woken.set()

    def run(self, *, once: bool = False) -> None:
        """Goes round. `once`: what can be begun now is begun, and gone on with to its end."""
        self._scheduler.recover()
        for chore in self._chores if once else ():
            chore.do()
        try:
            self._go_round(once=once)
            for chore in self._chores if once else ():
                chore.do()
        finally:
            self._scheduler.stop()
            for chore in self._chores:
                chore.wait(1.0)

    def _go_round(self, *, once: bool) -> None:
        while True:
            is_stopping = self._stopping.is_set()
            if is_stopping:
                self._scheduler.stop()
            has_looked = self._look_if_there_is_news()
            if once and has_looked and not self._scheduler.has_begun:
                self._scheduler.take_nothing_new()
            if (is_stopping or once) and self._is_over():
                break
            for chore in () if is_stopping else self._chores:
                chore.begin_if_due(time.monotonic())
            self._woken.wait(GLANCE_SECONDS)

    def _is_over(self) -> bool:
        """True when nothing is under way, and a look at everything finds nothing that could be."""
        if self._floor.is_empty:
            self._look(is_whole=True)
        return self._floor.is_empty

    def _look_if_there_is_news(self) -> bool:
        """Looks when something has changed, and at everything once a second; True when it has looked."""
        now, changes = time.monotonic(), self._count()
        is_due = now - self._looked >= LOOK_SECONDS
        if not (is_due or changes != self._seen or self._woken.is_set()):
            return False
        self._woken.clear()
        self._look(is_whole=is_due)
        self._seen, self._looked = changes, now if is_due else self._looked
        return True

    def _count(self) -> int:
        """The ledger's change counter; -1 while it cannot be read, which the next look says."""
        try:
            return self._changes()
        except LedgerReplaced:
            raise
        except (RemandError, OSError):
            return -1

    def _look(self, *, is_whole: bool) -> None:
        """One look; what goes wrong with the ledger or the disk is said once and tried again."""
        trouble = ""
        try:
            self._scheduler.tick(is_whole=is_whole or bool(self.trouble))
        except LedgerReplaced:
            raise
        except (RemandError, OSError) as error:
            trouble = str(error)
        if trouble and trouble != self.trouble:
            self._tell(trouble)
        self.trouble = trouble
