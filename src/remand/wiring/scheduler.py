"""A scheduler for an open ledger: worktrees, agent launcher, reviewers, chores and the loop."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import NamedTuple

from remand.adapters.coordinator.server import CoordinatorProcess, is_listening
from remand.adapters.gates.claims import CommandClaims
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitRepository
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.sandbox.file_view import own_program
from remand.adapters.system.clock import RandomIds
from remand.adapters.system.executor import ThreadExecutor
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.scheduler_files import ProcessLock, RunLogs, StatusFile
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.active_runs import ActiveRuns
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.loop import Chore, SchedulerChores, SchedulerLoop, StatusWriter
from remand.app.scheduler.ports import (
    AgentLauncher,
    AgentSockets,
    Bounds,
    TaskWorktree,
    TaskWorktrees,
    WorktreeState,
)
from remand.app.scheduler.review_runs import ReviewRuns
from remand.app.scheduler.runs import (
    LastSigns,
    RunEnder,
    RunEnvironment,
    RunPrompts,
    RunStarter,
    RunStops,
    import_agent_commits,
)
from remand.app.scheduler.scheduler import Scheduler
from remand.config import RunSettings, inherited_environment
from remand.domain.reviewer.change import SubmittedChange
from remand.domain.task import Submission, Task
from remand.wiring import forges
from remand.wiring.hosts.registry import guarded_files, server_files
from remand.wiring.ledger import open_at
from remand.wiring.machine import make_agent_launcher, make_launch_configs
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.reminders import run_after_call
from remand.wiring.settings import SettingsSource
from remand.wiring.startup import ledger_id, reports_folder, socket_folder, socket_path
from remand.wiring.submissions import changed_since, submitted_change
from remand.wiring.watch import status_file

LONGEST_CHANGE = 200_000
"""How many characters of a change a reviewer is shown at once; the rest it looks up."""
MARK_BYTES = 16


def make_agent_opinions(opened: OpenLedger, books: LedgerClient) -> ReviewRuns:
    """What is asked of agents in place of people, for one ledger."""
    return ReviewRuns(books, _SubmissionChanges(opened), lambda: secrets.token_hex(MARK_BYTES))


class _SubmissionChanges:
    """What submissions change, by the ledger's own repository."""

    def __init__(self, opened: OpenLedger) -> None:
        self._opened = opened

    def submission_change(self, task: Task, submission: Submission) -> SubmittedChange:
        """What a submission changes."""
        return submitted_change(self._opened, task, submission, longest=LONGEST_CHANGE)

    def since(self, task: Task, commit: str) -> dict[str, tuple[str, ...]]:
        """The files that are different since earlier rejections."""
        return changed_since(self._opened, task, commit)


def worktrees_folder(place: LedgerLocation, folder: str = "") -> str:
    """Where the worktrees of tasks are: in the named folder, seen from the main worktree, or out of everybody's way.

    Several clones may name the same folder, so that each ledger has one of its own in it.
    """
    if folder:
        return os.path.join(place.root, os.path.expanduser(folder), ledger_id(place))
    return os.path.join(state_folder(), ledger_id(place), "worktrees")


def make_worktrees(place: LedgerLocation, folder: str = "") -> TaskWorktrees:
    """The workplaces of a place's ledger."""
    settings = SettingsSource(GitRepository(place))
    base = settings.settings().base or settings.base()
    return GitWorktrees(
        place,
        worktrees_folder(place, folder),
        base=base,
        ours=(*guarded_files(), *server_files()),
        guarded=guarded_files(),
    )


def outside_chores(opened: OpenLedger) -> tuple[Chore, ...]:
    """What is done with the outside: the forge, where there is one, and people."""
    settings = opened.settings.settings()
    people = Chore("people", settings.run.interval_seconds, _ChoreLedger(opened).update_people)
    if not settings.forge.kind:
        return (people,)
    return (Chore("forge", settings.run.interval_seconds, _ChoreLedger(opened).sync_forge), people)


class _ChoreLedger:
    """The ledger as a chore sees it that may wait long: opened once more, for it alone, when it is first needed."""

    def __init__(self, opened: OpenLedger) -> None:
        self._place = opened.place
        self._found: OpenLedger | None = None

    @property
    def _current(self) -> OpenLedger:
        self._found = forges.reopen_if_replaced(self._found) if self._found else open_at(self._place)
        return self._found

    def sync_forge(self) -> str:
        """Polls reviews, and does on the forge what policy says; gives what is in the way."""
        return forges.Forges(self._current, inherited_environment()).sync().trouble

    def update_people(self) -> str:
        """Brings the files for people in step, and has the user told of open questions."""
        opened = self._current
        return run_after_call(opened.place, opened)[1]


WORKERS = 8
"""How many worktrees are prepared and processes started at once."""
SLOW_WORKERS = 8
"""How many done claims are measured at once."""
MODULE = "remand.interfaces.cli.agent_socket.runner"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""
PLAIN = "plain"
LOGS = "logs"
"""Where what agents say is kept, beside the worktrees."""


MakeAgentSockets = Callable[
    [Callable[[TaskWorktree], str], Callable[[TaskWorktree], WorktreeState]], AgentSockets
]
"""Makes doors, given how commits are taken over and how a workplace is looked at."""


class SchedulerHandle(NamedTuple):
    """A scheduler ready to go round."""

    loop: SchedulerLoop
    crew: AgentLauncher
    beside: bool
    """A coordinator was started for it."""
    close: Callable[[], None]


class SchedulerBuilder:
    """Puts a scheduler together for one ledger."""

    def __init__(self, opened: OpenLedger, make_doors: MakeAgentSockets) -> None:
        self._opened = opened
        self._make_doors = make_doors
        self._id = opened.store.value("id")
        self._folder = os.path.join(state_folder(), self._id)

    def build(self, tell: Callable[[str], None]) -> SchedulerHandle:
        """The scheduler. There is one at a time; a coordinator is started beside it where none runs."""
        only = ProcessLock(os.path.join(self._folder, "scheduler.lock"))
        if not only.take():
            only.close()
            raise EnvironmentFault("A scheduler of this ledger is already running; see `remand top`.")
        settings = self._opened.settings
        crew = make_agent_launcher(self._run.sandbox)
        beside = self._coordinator()
        books = LedgerClient(
            self._opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex
        )
        workplaces = make_worktrees(self._opened.place, self._run.worktrees)
        doors = self._make_doors(partial(import_agent_commits, books, workplaces), workplaces.inspect)
        loop = self._loop(books, crew, workplaces, doors, tell)

        def close() -> None:
            doors.end()
            status_file(self._id).clear()
            if beside is not None:
                beside.close()
            only.close()

        return SchedulerHandle(loop, crew, beside is not None, close)

    def _loop(
        self,
        books: LedgerClient,
        crew: AgentLauncher,
        workplaces: TaskWorktrees,
        doors: AgentSockets,
        tell: Callable[[str], None],
    ) -> SchedulerLoop:
        opened = self._opened
        opinions = make_agent_opinions(opened, books)
        is_confined = crew.tier != PLAIN
        hosts = make_launch_configs(os.path.join(self._folder, "runs"), is_confined=is_confined)
        # In the sandbox every shell finds it; elsewhere a login shell may reset PATH.
        program = "" if is_confined else own_program()
        ending = RunEnder(books, workplaces, hosts, opinions.apply_answer)
        site = RunEnvironment(
            workplaces=workplaces,
            doors=doors,
            hosts=hosts,
            crew=crew,
            bounds=self._bounds,
            environment=self._agent_environment,
            log=self._logs.path,
        )
        loop = SchedulerLoop(opened.store.changes, tell)
        beginning = RunStarter(site, books, RunPrompts(books, opinions.briefs, program).prompt_for)
        floor = ActiveRuns(
            beginning, ending, ThreadExecutor(WORKERS), ThreadExecutor(SLOW_WORKERS), wake=loop.wake
        )
        claims = CommandClaims(MODULE, opened.place.root, inherited_environment("REMAND_"))
        scheduler = Scheduler(
            books=books,
            floor=floor,
            workplaces=workplaces,
            ending=ending,
            settling=RunStops(books, workplaces, claims, floor.note_gates_ran),
            choosers=opinions.choosers,
            tier=crew.tier,
            longest=lambda: self._run.seconds,
            last_sign=LastSigns(status_file(self._id), self._logs).last,
        )
        reporting = self._status_report(floor, crew, loop)
        memory = StatusFile(os.path.join(self._folder, "breaker.json"))
        own = SchedulerChores(books, scheduler, floor).build(workplaces, self._logs, reporting, memory)
        reporting.chores = (*outside_chores(opened), *own)
        loop.attach(scheduler, floor, reporting.chores)
        return loop

    def _status_report(self, floor: ActiveRuns, crew: AgentLauncher, loop: SchedulerLoop) -> StatusWriter:
        return StatusWriter(
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
                worktrees_folder(place, run.worktrees),
            ),
        )

    def _agent_environment(self) -> dict[str, str]:
        wanted = self._run.environment
        return {name: value for name, value in inherited_environment().items() if name in wanted}

    def _coordinator(self) -> CoordinatorProcess | None:
        """A coordinator of this scheduler's own, where none runs."""
        path = socket_path(self._id) if socket_folder() else ""
        if not path or is_listening(path):
            return None
        beside = CoordinatorProcess(MODULE, self._opened.place.root, inherited_environment("REMAND_"))
        if not beside.wait_for(path):
            beside.close()
            raise EnvironmentFault("The coordinator does not start. Try `remand serve --no-http` to see why.")
        return beside
