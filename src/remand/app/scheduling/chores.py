"""What a scheduler does between its looks: what is due, nobody left, places nobody needs, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from remand.app.scheduling.books import Books
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Chore
from remand.app.scheduling.ports import KeptFile, Logs, Workplaces
from remand.app.scheduling.reporting import Reporting
from remand.app.scheduling.scheduler import Scheduler
from remand.domain.breaker import Kept

DUE_SECONDS = 2.0
STATUS_SECONDS = 0.5
LOG_SECONDS = 600.0
STAFF_SECONDS = 15.0
TIDY_SECONDS = 3.0


class Chores:
    """The chores that a scheduler needs nobody else for."""

    def __init__(self, books: Books, scheduler: Scheduler, floor: Floor) -> None:
        self._books = books
        self._scheduler = scheduler
        self._floor = floor

    def all(
        self, workplaces: Workplaces, logs: Logs, reporting: Reporting, memory: KeptFile
    ) -> tuple[Chore, ...]:
        """Every one of them."""
        return (
            Chore("due", DUE_SECONDS, _quietly(self._books.settle_due)),
            Chore("staff", STAFF_SECONDS, _quietly(_Staff(self._books, self._scheduler).check)),
            Chore("places", TIDY_SECONDS, _quietly(_Places(self._books, workplaces).tidy)),
            Chore("logs", LOG_SECONDS, _quietly(logs.thin_out)),
            Chore("status", STATUS_SECONDS, reporting.write),
            Chore("breaker", STATUS_SECONDS, _Memory(self._floor, memory).keep),
        )


class _Staff:
    """Looks after tasks that nobody is left for, when the team has changed or an agent has given up, and after forgotten runs."""

    def __init__(self, books: Books, scheduler: Scheduler) -> None:
        self._books = books
        self._scheduler = scheduler
        self._seen: object = None

    def check(self) -> None:
        """Asks the user about the tasks, and ends the runs."""
        self._scheduler.end_forgotten()
        self._scheduler.check_given_up()
        rules = self._books.rules
        now = (rules.team.members, rules.policy)
        if now != self._seen and rules.team.has_members:
            self._scheduler.check_staff()
        self._seen = now


class _Places:
    """Takes down the worktrees of tasks that have ended."""

    def __init__(self, books: Books, workplaces: Workplaces) -> None:
        self._books = books
        self._workplaces = workplaces

    def tidy(self) -> None:
        """Retires what belongs to ended tasks."""
        for name in self._workplaces.names():
            task = self._books.task(name)
            if task is not None and task.is_terminal and not task.runs:
                self._workplaces.retire(name)


class _Memory:
    """What the breaker knows, for the scheduler after this one: what is wrong stays wrong, also from call to call."""

    def __init__(self, floor: Floor, file: KeptFile) -> None:
        self._breaker = floor.breaker
        self._file = file
        with suppress(msgspec.MsgspecError):
            kept = msgspec.json.decode(file.read() or b"{}", type=Kept)
            self._breaker.go_on_with(kept, now=floor.clock())
        self._last = self._breaker.kept()

    def keep(self) -> str:
        """Writes it down when it has changed."""
        kept = self._breaker.kept()
        if kept == self._last:
            return ""
        self._last = kept
        return "" if self._file.write(msgspec.json.encode(kept)) else "the breaker's file cannot be written"


def _quietly(work: Callable[[], None]) -> Callable[[], str]:
    def done() -> str:
        work()
        return ""

    return done
