"""What a scheduler does between its looks: the forge, what is due, people, places nobody needs, and its own status."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from remand.app.scheduling.desk import Desk
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Chore
from remand.app.scheduling.ports import Crew, Workplaces
from remand.app.scheduling.scheduler import Scheduler
from remand.app.scheduling.status import AgentAtWork, Breach, SchedulerStatus, written
from remand.bootstrap.ledger import Opened, open_at
from remand.bootstrap.reminding import look_after
from remand.bootstrap.watching import status_file
from remand.bootstrap.workplaces import workplaces_folder
from remand.config import inherited_environment
from remand.domain.instant import plus

DUE_SECONDS = 2.0
STATUS_SECONDS = 0.5
STAFF_SECONDS = 15.0
TIDY_SECONDS = 3.0


class Chores:
    """What one scheduler has to do besides; what waits for others has a ledger opened for it alone."""

    def __init__(self, opened: Opened, scheduler: Scheduler, floor: Floor, desk: Desk) -> None:
        self._opened = opened
        self._scheduler = scheduler
        self._floor = floor
        self._desk = desk

    def all(self, workplaces: Workplaces, crew: Crew) -> tuple[Chore, ...]:
        """Every chore, the forge's where there is one."""
        opened, settings = self._opened, self._opened.settings.settings()
        forge = Chore("forge", settings.run.interval_seconds, _Own(opened).ask_the_forge)
        report = _Report(opened, self._scheduler, self._floor, crew, forge)
        return (
            *((forge,) if settings.forge.kind else ()),
            Chore("due", DUE_SECONDS, _quietly(self._desk.settle_due)),
            Chore("people", settings.run.interval_seconds, _Own(opened).tell_people),
            Chore("staff", STAFF_SECONDS, _Staff(self._desk, self._scheduler).check),
            Chore("places", TIDY_SECONDS, _Places(opened, self._desk, workplaces).tidy),
            Chore("status", STATUS_SECONDS, report.write),
        )


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
    """Looks after tasks that nobody is left for, whenever the team or what holds for it has changed."""

    def __init__(self, desk: Desk, scheduler: Scheduler) -> None:
        self._desk = desk
        self._scheduler = scheduler
        self._seen: object = None

    def check(self) -> str:
        """Asks the user about them."""
        rules = self._desk.rules
        now = (rules.team.members, rules.policy)
        if now != self._seen and rules.team.has_members:
            self._scheduler.check_staff()
        self._seen = now
        return ""


class _Places:
    """Takes down the worktrees of tasks that have ended."""

    def __init__(self, opened: Opened, desk: Desk, workplaces: Workplaces) -> None:
        run = opened.settings.settings().run
        self._folder = workplaces_folder(opened.place, run.worktrees)
        self._desk = desk
        self._workplaces = workplaces

    def tidy(self) -> str:
        """Retires what belongs to ended tasks."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return ""
        for name in names:
            task = self._desk.task(name)
            if task is not None and task.is_terminal and not task.runs:
                self._workplaces.retire(name)
        return ""


class _Report:
    """Writes down how the scheduler is doing, for whoever looks on."""

    def __init__(self, opened: Opened, scheduler: Scheduler, floor: Floor, crew: Crew, forge: Chore) -> None:
        self._opened = opened
        self._scheduler = scheduler
        self._floor = floor
        self._crew = crew
        self._forge = forge
        self._file = status_file(opened.store.value("id"))
        self._started_at = opened.ledger.clock.now()

    def write(self) -> str:
        """Puts the status where it is looked for."""
        return "" if self._file.write(written(self._status())) else "the status file cannot be written"

    def _status(self) -> SchedulerStatus:
        now, ticking = self._opened.ledger.clock.now(), self._floor.clock()
        return SchedulerStatus(
            pid=os.getpid(),
            started_at=self._started_at,
            tick_at=now,
            tier=self._crew.tier,
            detail=self._crew.detail,
            breaker=tuple(
                Breach(
                    cause=breach.scope,
                    message=breach.message,
                    since=plus(now, breach.since - ticking),
                    until=plus(now, breach.until - ticking),
                )
                for breach in self._floor.breaker.breaches
            ),
            waiting=self._scheduler.waiting,
            forge=self._forge.trouble,
            agents=tuple(
                AgentAtWork(
                    run_id=work.assigned.run_id,
                    task_id=work.assigned.task.id,
                    agent=work.assigned.member.name,
                    purpose=work.assigned.purpose,
                    started_at=work.started_at,
                )
                for work in self._floor.at_work
            ),
        )


def _quietly(work: Callable[[], None]) -> Callable[[], str]:
    def done() -> str:
        work()
        return ""

    return done
