"""What a scheduler does between its looks: the forge, what is due, people, places nobody needs, and its own status."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module

import msgspec
from msgspec.structs import replace

from remand.adapters.system.folders import state_folder
from remand.adapters.system.status_file import StatusFile
from remand.app.scheduling.beginning import AtWork
from remand.app.scheduling.books import Books
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Chore, Loop
from remand.app.scheduling.ports import Crew, Workplaces
from remand.app.scheduling.scheduler import Scheduler
from remand.app.scheduling.status import AgentAtWork, Breach, Measurement, SchedulerStatus, written
from remand.bootstrap.ledger import Opened, open_at
from remand.bootstrap.reminding import look_after
from remand.bootstrap.watching import status_file
from remand.bootstrap.workplaces import workplaces_folder
from remand.config import inherited_environment
from remand.domain.breaker import Kept
from remand.domain.instant import Instant, plus
from remand.domain.visible import visible

DUE_SECONDS = 2.0
STATUS_SECONDS = 0.5
FRESH_SECONDS = 10.0
LOG_SECONDS = 600.0
MANY_LOGS = 1000
MAX_LINE = 2000
LOGS = "logs"
"""Where what agents say is kept, beside the worktrees."""
STAFF_SECONDS = 15.0
TIDY_SECONDS = 3.0


class Chores:
    """What one scheduler has to do besides; what waits for others has a ledger opened for it alone."""

    def __init__(self, opened: Opened, scheduler: Scheduler, floor: Floor, books: Books) -> None:
        self._opened = opened
        self._scheduler = scheduler
        self._floor = floor
        self._books = books

    def all(self, workplaces: Workplaces, crew: Crew, loop: Loop) -> tuple[Chore, ...]:
        """Every chore, the forge's where there is one."""
        opened, settings = self._opened, self._opened.settings.settings()
        folder = os.path.join(state_folder(), opened.store.value("id"), LOGS)
        report = _Report(opened, self._floor, crew, loop)
        chores: tuple[Chore, ...] = (
            Chore("due", DUE_SECONDS, _quietly(self._books.settle_due)),
            Chore("people", settings.run.interval_seconds, _Own(opened).tell_people),
            Chore("staff", STAFF_SECONDS, _Staff(opened, self._books, self._scheduler).check),
            Chore("places", TIDY_SECONDS, _Places(opened, self._books, workplaces).tidy),
            Chore("logs", LOG_SECONDS, lambda: _thinned_out(folder)),
            Chore("status", STATUS_SECONDS, report.write),
            Chore("breaker", STATUS_SECONDS, _Memory(opened, self._floor).keep),
        )
        if settings.forge.kind:
            forge = Chore("forge", settings.run.interval_seconds, _Own(opened).ask_the_forge)
            chores = (forge, *chores)
        report.chores = chores
        return chores


class _Own:
    """The ledger as a chore sees it that may wait long: opened once more, for it alone, when it is first needed."""

    def __init__(self, opened: Opened) -> None:
        self._place = opened.place
        self._found: Opened | None = None

    @property
    def _opened(self) -> Opened:
        forges = import_module("remand.bootstrap.forges")
        self._found = forges.still_open(self._found) if self._found else open_at(self._place)
        return self._found

    def ask_the_forge(self) -> str:
        """Polls reviews, and does on the forge what policy says; gives what is in the way."""
        forges = import_module("remand.bootstrap.forges").Forges(self._opened, inherited_environment())
        return str(forges.sync().trouble)

    def tell_people(self) -> str:
        """Brings the files for people in step, and has the user told of open questions."""
        opened = self._opened
        return look_after(opened.place, opened)[1]


class _Staff:
    """Looks after tasks that nobody is left for, when the team has changed, and after runs that nobody ends any more."""

    def __init__(self, opened: Opened, books: Books, scheduler: Scheduler) -> None:
        self._opened = opened
        self._books = books
        self._scheduler = scheduler
        self._seen: object = None

    def check(self) -> str:
        """Asks the user about the tasks, and ends the runs."""
        self._scheduler.end_forgotten(self._opened.settings.settings().run.seconds)
        rules = self._books.rules
        now = (rules.team.members, rules.policy)
        if now != self._seen and rules.team.has_members:
            self._scheduler.check_staff()
        self._seen = now
        return ""


class _Places:
    """Takes down the worktrees of tasks that have ended."""

    def __init__(self, opened: Opened, books: Books, workplaces: Workplaces) -> None:
        run = opened.settings.settings().run
        self._folder = workplaces_folder(opened.place, run.worktrees)
        self._books = books
        self._workplaces = workplaces

    def tidy(self) -> str:
        """Retires what belongs to ended tasks."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return ""
        for name in names:
            task = self._books.task(name)
            if task is not None and task.is_terminal and not task.runs:
                self._workplaces.retire(name)
        return ""


class _Report:
    """Writes down how the scheduler is doing, for whoever looks on: when that has changed, and now and then."""

    def __init__(self, opened: Opened, floor: Floor, crew: Crew, loop: Loop) -> None:
        self._clock = opened.ledger.clock
        self._floor = floor
        self._crew = crew
        self._loop = loop
        self._file = status_file(opened.store.value("id"))
        self._started_at = self._clock.now()
        self._last: SchedulerStatus | None = None
        self.chores: tuple[Chore, ...] = ()

    def write(self) -> str:
        """Puts the status where it is looked for."""
        status, last = self._status(), self._last
        is_stale = last is None or plus(last.tick_at, FRESH_SECONDS) < status.tick_at
        if not is_stale and last is not None and replace(status, tick_at=last.tick_at) == last:
            return ""
        self._last = status
        return "" if self._file.write(written(status)) else "the status file cannot be written"

    def _status(self) -> SchedulerStatus:
        now = self._clock.now()
        since = partial(self._instant, now, self._floor.clock())
        troubles = dict.fromkeys(f"{one.name}: {one.trouble}" for one in self.chores if one.trouble)
        return SchedulerStatus(
            pid=os.getpid(),
            started_at=self._started_at,
            tick_at=now,
            tier=self._crew.tier,
            detail=self._crew.detail,
            breaker=tuple(
                Breach(cause=one.scope, message=one.message, since=since(one.since), until=since(one.until))
                for one in self._floor.breaker.breaches
            ),
            waiting=self._loop.kept_from,
            forge="; ".join(troubles),
            agents=tuple(map(_shown, self._floor.at_work)),
            gates=tuple(
                Measurement(task_id=task, agent=agent, started_at=since(begun))
                for (task, agent), begun in self._floor.measuring.items()
            ),
        )

    @staticmethod
    def _instant(now: Instant, ticking: float, ticked: float) -> Instant:
        """When the scheduler's own clock showed something, to the second: it is told again and again."""
        return f"{plus(now, ticked - ticking)[:19]}.000000Z"


class _Memory:
    """What the breaker knows, for the scheduler after this one: what is wrong stays wrong, also from call to call."""

    def __init__(self, opened: Opened, floor: Floor) -> None:
        self._breaker = floor.breaker
        self._file = StatusFile(os.path.join(state_folder(), opened.store.value("id"), "breaker.json"))
        with suppress(msgspec.MsgspecError):
            kept = msgspec.json.decode(self._file.read() or b"{}", type=Kept)
            self._breaker.go_on_with(kept, now=floor.clock())
        self._last = self._breaker.kept()

    def keep(self) -> str:
        """Writes it down when it has changed."""
        kept = self._breaker.kept()
        if kept == self._last:
            return ""
        self._last = kept
        return "" if self._file.write(msgspec.json.encode(kept)) else "the breaker's file cannot be written"


def _shown(work: AtWork) -> AgentAtWork:
    return AgentAtWork(
        run_id=work.assigned.run_id,
        task_id=work.assigned.task.id,
        agent=work.assigned.member.name,
        purpose=work.assigned.purpose,
        started_at=work.started_at,
        last_line=_last_line(work.log),
    )


def _last_line(path: str) -> str:
    """What an agent said last, as far as it can be told at a glance."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_LINE))
            said = file.read(MAX_LINE).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((visible(line).strip() for line in reversed(said) if line.strip()), "")


def _thinned_out(folder: str) -> str:
    """Removes the logs of the oldest runs, their names being in order."""
    for name in sorted(os.listdir(folder))[:-MANY_LOGS]:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))
    return ""


def _quietly(work: Callable[[], None]) -> Callable[[], str]:
    def done() -> str:
        work()
        return ""

    return done
