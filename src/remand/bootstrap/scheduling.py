"""A scheduler for an opened ledger, with everything it starts and speaks through."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from remand.adapters.coordinator.beside import Beside, answers
from remand.adapters.measuring.submitting import CommandClaims
from remand.adapters.system.clock import RandomIds
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.hands import Threads
from remand.adapters.system.only import Only
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.beginning import Beginning, Site
from remand.app.scheduling.briefs import Briefs
from remand.app.scheduling.desk import Desk
from remand.app.scheduling.ending import Ending
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Loop
from remand.app.scheduling.ports import Bounds, Crew, Doors, Workplaces
from remand.app.scheduling.scheduler import Scheduler
from remand.app.scheduling.settling import Settling
from remand.bootstrap.chores import Chores
from remand.bootstrap.crew import make_crew
from remand.bootstrap.ledger import Opened
from remand.bootstrap.opinions import Opinions
from remand.bootstrap.outfits import make_hosts
from remand.bootstrap.quick import reports_folder, socket_folder, socket_path
from remand.bootstrap.watching import status_file
from remand.bootstrap.workplaces import make_workplaces, workplaces_folder
from remand.config import RunSettings, inherited_environment

HANDS = 12
"""How many worktrees are prepared, processes started and done claims measured at once."""
MODULE = "remand.interfaces.cli.entry"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""
PLAIN = "plain"


class Shift(NamedTuple):
    """A scheduler ready to go round."""

    loop: Loop
    crew: Crew
    beside: bool
    """A coordinator was started for it."""
    close: Callable[[], None]


class Making:
    """Puts a scheduler together for one ledger."""

    def __init__(self, opened: Opened, doors: Callable[[Workplaces], Doors]) -> None:
        self._opened = opened
        self._doors = doors
        self._id = opened.store.value("id")
        self._folder = os.path.join(state_folder(), self._id)

    def make(self, tell: Callable[[str], None]) -> Shift:
        """The scheduler. There is one at a time; a coordinator is started beside it where none runs."""
        only = Only(os.path.join(self._folder, "scheduler.lock"))
        if not only.take():
            only.close()
            raise EnvironmentFault("A scheduler of this ledger is running already; see `remand top`.")
        crew = make_crew(self._run.sandbox)
        beside = self._coordinator()
        workplaces = make_workplaces(self._opened.place, self._run.worktrees)
        doors = self._doors(workplaces)
        loop = self._loop(crew, workplaces, doors, tell)

        def close() -> None:
            doors.end()
            status_file(self._id).clear()
            if beside is not None:
                beside.close()
            only.close()

        return Shift(loop, crew, beside is not None, close)

    def _loop(self, crew: Crew, workplaces: Workplaces, doors: Doors, tell: Callable[[str], None]) -> Loop:
        opened, settings = self._opened, self._opened.settings
        os.makedirs(os.path.join(self._folder, "logs"), mode=0o700, exist_ok=True)
        desk = Desk(opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex)
        opinions = Opinions(opened, desk)
        hosts = make_hosts(os.path.join(self._folder, "runs"), is_confined=crew.tier != PLAIN)
        ending = Ending(desk, workplaces, hosts, opinions.heard)
        site = Site(
            workplaces=workplaces,
            doors=doors,
            hosts=hosts,
            crew=crew,
            bounds=self._bounds,
            environment=self._handed_on,
            log=lambda run_id: os.path.join(self._folder, "logs", f"{run_id}.log"),
        )
        loop = Loop(opened.store.changes, tell)
        floor = Floor(
            Beginning(site, desk, Briefs(desk, opinions.briefs).brief),
            ending,
            Threads(HANDS),
            wake=loop.wake,
        )
        scheduler = Scheduler(
            desk=desk,
            floor=floor,
            workplaces=workplaces,
            ending=ending,
            settling=Settling(
                desk, workplaces, CommandClaims(MODULE, opened.place.root, inherited_environment("REMAND_"))
            ),
            choosers=opinions.choosers,
            tier=crew.tier,
        )
        loop.look_after(scheduler, floor, Chores(opened, scheduler, floor, desk).all(workplaces, crew))
        return loop

    @property
    def _run(self) -> RunSettings:
        return self._opened.settings.settings().run

    def _bounds(self) -> Bounds:
        """What agents may use and reach, as the configuration has it now."""
        run, place = self._run, self._opened.place
        return Bounds(
            seconds=run.seconds,
            has_network=run.has_network,
            read=(*run.read, reports_folder(self._id)),
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
