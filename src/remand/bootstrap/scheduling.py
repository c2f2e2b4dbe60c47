"""A scheduler for an opened ledger, with everything it starts and speaks through."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import NamedTuple

from remand.adapters.coordinator.beside import Beside, answers
from remand.adapters.measuring.submitting import CommandClaims
from remand.adapters.sandbox.agent_view import own_program
from remand.adapters.system.clock import RandomIds
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.hands import Threads
from remand.adapters.system.only import Only
from remand.adapters.system.run_logs import RunLogs
from remand.adapters.system.status_file import StatusFile
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.beginning import Beginning, Site
from remand.app.scheduling.books import Books
from remand.app.scheduling.briefs import Briefs
from remand.app.scheduling.chores import Chores
from remand.app.scheduling.ending import Ending
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Loop
from remand.app.scheduling.ports import Bounds, Crew, Doors, Look, Workplace, Workplaces
from remand.app.scheduling.reporting import Reporting
from remand.app.scheduling.scheduler import Scheduler
from remand.app.scheduling.settling import Settling, brought
from remand.app.scheduling.signs import Signs
from remand.bootstrap.chores import outside_chores
from remand.bootstrap.crew import make_crew
from remand.bootstrap.ledger import Opened
from remand.bootstrap.opinions import make_opinions
from remand.bootstrap.outfits import make_hosts
from remand.bootstrap.quick import reports_folder, socket_folder, socket_path
from remand.bootstrap.watching import status_file
from remand.bootstrap.workplaces import make_workplaces, workplaces_folder
from remand.config import RunSettings, inherited_environment

HANDS = 8
"""How many worktrees are prepared and processes started at once."""
PATIENT_HANDS = 8
"""How many done claims are measured at once."""
MODULE = "remand.interfaces.cli.outside"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""
PLAIN = "plain"
LOGS = "logs"
"""Where what agents say is kept, beside the worktrees."""


MakeDoors = Callable[[Callable[[Workplace], str], Callable[[Workplace], Look]], Doors]
"""Makes doors, given how commits are taken over and how a workplace is looked at."""


class Shift(NamedTuple):
    """A scheduler ready to go round."""

    loop: Loop
    crew: Crew
    beside: bool
    """A coordinator was started for it."""
    close: Callable[[], None]


class Making:
    """Puts a scheduler together for one ledger."""

    def __init__(self, opened: Opened, make_doors: MakeDoors) -> None:
        self._opened = opened
        self._make_doors = make_doors
        self._id = opened.store.value("id")
        self._folder = os.path.join(state_folder(), self._id)

    def make(self, tell: Callable[[str], None]) -> Shift:
        """The scheduler. There is one at a time; a coordinator is started beside it where none runs."""
        only = Only(os.path.join(self._folder, "scheduler.lock"))
        if not only.take():
            only.close()
            raise EnvironmentFault("A scheduler of this ledger is running already; see `remand top`.")
        settings = self._opened.settings
        crew = make_crew(self._run.sandbox)
        beside = self._coordinator()
        books = Books(
            self._opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex
        )
        workplaces = make_workplaces(self._opened.place, self._run.worktrees)
        doors = self._make_doors(partial(brought, books, workplaces), workplaces.look)
        loop = self._loop(books, crew, workplaces, doors, tell)

        def close() -> None:
            doors.end()
            status_file(self._id).clear()
            if beside is not None:
                beside.close()
            only.close()

        return Shift(loop, crew, beside is not None, close)

    def _loop(
        self, books: Books, crew: Crew, workplaces: Workplaces, doors: Doors, tell: Callable[[str], None]
    ) -> Loop:
        opened = self._opened
        opinions = make_opinions(opened, books)
        is_confined = crew.tier != PLAIN
        hosts = make_hosts(os.path.join(self._folder, "runs"), is_confined=is_confined)
        # In the sandbox every shell finds it; elsewhere a login shell may reset PATH.
        program = "" if is_confined else own_program()
        ending = Ending(books, workplaces, hosts, opinions.heard)
        site = Site(
            workplaces=workplaces,
            doors=doors,
            hosts=hosts,
            crew=crew,
            bounds=self._bounds,
            environment=self._handed_on,
            log=self._logs.path,
        )
        loop = Loop(opened.store.changes, tell)
        beginning = Beginning(site, books, Briefs(books, opinions.briefs, program).brief)
        floor = Floor(beginning, ending, Threads(HANDS), Threads(PATIENT_HANDS), wake=loop.wake)
        claims = CommandClaims(MODULE, opened.place.root, inherited_environment("REMAND_"))
        scheduler = Scheduler(
            books=books,
            floor=floor,
            workplaces=workplaces,
            ending=ending,
            settling=Settling(books, workplaces, claims, floor.has_measured),
            choosers=opinions.choosers,
            tier=crew.tier,
            longest=lambda: self._run.seconds,
            last_sign=Signs(status_file(self._id), self._logs).last,
        )
        reporting = self._reporting(floor, crew, loop)
        memory = StatusFile(os.path.join(self._folder, "breaker.json"))
        own = Chores(books, scheduler, floor).all(workplaces, self._logs, reporting, memory)
        reporting.chores = (*outside_chores(opened), *own)
        loop.look_after(scheduler, floor, reporting.chores)
        return loop

    def _reporting(self, floor: Floor, crew: Crew, loop: Loop) -> Reporting:
        return Reporting(
            floor=floor,
            crew=crew,
            loop=loop,
            logs=self._logs,
            file=status_file(self._id),
            now=self._opened.ledger.clock.now,
            pid=os.getpid(),
        )

    @cached_property
    def _logs(self) -> RunLogs:
        folder = os.path.join(self._folder, LOGS)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return RunLogs(folder)

    @property
    def _run(self) -> RunSettings:
        return self._opened.settings.settings().run

    def _bounds(self) -> Bounds:
        """What agents may use and reach, as the configuration has it now."""
        run, place = self._run, self._opened.place
        reports = reports_folder(self._id)
        with suppress(OSError):
            os.makedirs(
                reports, mode=0o700, exist_ok=True
            )  # what is not there when an agent starts it never sees
        return Bounds(
            seconds=run.seconds,
            has_network=run.has_network,
            read=(*run.read, reports),
            write=run.write,
            hide=(
                place.root,
                place.common_dir,
                state_folder(),
                runtime_folder(),
                workplaces_folder(place, run.worktrees),
            ),
        )

    def _handed_on(self) -> dict[str, str]:
        wanted = self._run.environment
        return {name: value for name, value in inherited_environment().items() if name in wanted}

    def _coordinator(self) -> Beside | None:
        """A coordinator of this scheduler's own, where none runs."""
        path = socket_path(self._id) if socket_folder() else ""
        if not path or answers(path):
            return None
        beside = Beside(MODULE, self._opened.place.root, inherited_environment("REMAND_"))
        if not beside.wait_for(path):
            beside.close()
            raise EnvironmentFault("The coordinator does not start. Try `remand serve --no-http` to see why.")
        return beside
