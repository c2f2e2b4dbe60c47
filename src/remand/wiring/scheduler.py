"""A scheduler for an open ledger: worktrees, agent launcher, reviewers, chores and the loop."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from remand.adapters.coordinator.server import CoordinatorProcess, is_listening
from remand.adapters.gates.claims import CommandClaims
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitRepository
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.sandbox.agent_launchers import own_program
from remand.adapters.sandbox.self_test import make_agent_launcher
from remand.adapters.system.clock import RandomIds
from remand.adapters.system.executor import ThreadExecutor
from remand.adapters.system.files import acquire_lock
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.scheduler_files import RunLogs, StatusFile
from remand.app.errors import EnvironmentFault
from remand.app.scheduler import chores
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import AgentLauncher, AgentSockets, Bounds, TaskWorktree, WorktreeState
from remand.app.scheduler.review_runs import ReviewRuns
from remand.app.scheduler.runs import AgentRuns, RunEnvironment, import_agent_commits
from remand.app.scheduler.scheduler import Chore, Scheduler
from remand.app.scheduler.workers import Workers
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.wiring import forges
from remand.wiring.hosts import guarded_files, server_files
from remand.wiring.ledger import open_at, reopen_if_replaced
from remand.wiring.machine import make_launch_configs
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.reminders import run_after_call
from remand.wiring.startup import ledger_id, reports_folder, socket_folder, socket_path
from remand.wiring.submissions import make_submitted_changes
from remand.wiring.watch import status_file

MAX_CHANGE = 200_000
"""How many characters of a change a reviewer is shown at once; the rest it looks up."""
MARK_BYTES = 16
WORKERS = 8
"""How many worktrees are prepared and processes started at once."""
SLOW_WORKERS = 8
"""How many done claims are measured at once."""
MODULE = "remand.interfaces.cli.agent_socket.runner"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""

MakeAgentSockets = Callable[
    [Callable[[TaskWorktree], str], Callable[[TaskWorktree], WorktreeState]], AgentSockets
]
"""Makes agent sockets, given how commits are imported and how a worktree is inspected."""


class SchedulerHandle(NamedTuple):
    """A scheduler that is ready to run."""

    scheduler: Scheduler
    chores: tuple[Chore, ...]
    launcher: AgentLauncher
    close: Callable[[], None]


def build_scheduler(
    opened: OpenLedger, make_sockets: MakeAgentSockets, report: Callable[[str], None]
) -> SchedulerHandle:
    """The scheduler. There is one at a time; a coordinator is started with it where none runs."""
    settings, place, id_ = opened.settings, opened.place, opened.store.value("id")
    folder = os.path.join(state_folder(), id_)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = acquire_lock(os.path.join(folder, "scheduler.lock"))
    if lock < 0:
        raise EnvironmentFault("A scheduler of this ledger is already running; see `remand top`.")
    launcher = make_agent_launcher(settings.settings().run.sandbox)
    is_confined = launcher.tier != "plain"
    coordinator = _start_coordinator(opened, id_)
    ledger = LedgerClient(
        opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex
    )
    worktrees = make_worktrees(place, settings.settings().run.worktrees)
    sockets = make_sockets(partial(import_agent_commits, ledger, worktrees), worktrees.inspect)
    logs = RunLogs(os.path.join(folder, "logs"))
    status = status_file(id_)
    runs = AgentRuns(
        RunEnvironment(
            worktrees=worktrees,
            sockets=sockets,
            hosts=make_launch_configs(os.path.join(folder, "runs"), is_confined=is_confined),
            launcher=launcher,
            claims=CommandClaims(MODULE, place.root, inherited_environment("REMAND_")),
            opinions=ReviewRuns(
                ledger, make_submitted_changes(opened, MAX_CHANGE), lambda: secrets.token_hex(MARK_BYTES)
            ),
            bounds=partial(_bounds, opened, id_),
            environment=partial(_agent_environment, opened),
            log=logs.path,
            # In the sandbox every shell finds it; elsewhere a login shell may reset PATH.
            program="" if is_confined else own_program(),
        ),
        ledger,
    )

    def max_seconds() -> float:
        return settings.settings().run.seconds

    scheduler = Scheduler(
        ledger=ledger,
        runs=runs,
        worktrees=worktrees,
        workers=Workers(ThreadExecutor(WORKERS), ThreadExecutor(SLOW_WORKERS)),
        max_seconds=max_seconds,
        last_sign=partial(chores.last_sign, status, logs),
        changes=opened.store.changes,
        report=report,
    )
    writer = chores.StatusWriter(
        scheduler, launcher=launcher, logs=logs, file=status, now=opened.ledger.clock.now, pid=os.getpid()
    )
    breaker = chores.BreakerFile(scheduler, StatusFile(os.path.join(folder, "breaker.json")))
    staff = chores.StaffCheck(ledger, runs, max_seconds)
    writer.chores = (
        *_outside_chores(opened),
        *chores.make_chores(
            ledger, staff=staff, worktrees=worktrees, logs=logs, writer=writer, breaker=breaker
        ),
    )

    def close() -> None:
        sockets.end()
        status.clear()
        if coordinator is not None:
            coordinator.close()
        os.close(lock)

    return SchedulerHandle(scheduler, writer.chores, launcher, close)


def worktrees_folder(place: LedgerLocation, folder: str = "") -> str:
    """Where the worktrees of tasks are: in the named folder, seen from the main worktree, or in the state folder.

    Several clones may name the same folder, so that each ledger has one of its own in it.
    """
    if folder:
        return os.path.join(place.root, os.path.expanduser(folder), ledger_id(place))
    return os.path.join(state_folder(), ledger_id(place), "worktrees")


def make_worktrees(place: LedgerLocation, folder: str = "") -> GitWorktrees:
    """The task worktrees of a place's ledger."""
    settings = SettingsSource(GitRepository(place), place.root, place.common_dir)
    return GitWorktrees(
        place,
        worktrees_folder(place, folder),
        base=settings.base_branch(),
        ours=(*guarded_files(), *server_files()),
        guarded=guarded_files(),
    )


def _outside_chores(opened: OpenLedger) -> tuple[Chore, ...]:
    """What is done with the outside: the forge, where there is one, and people."""
    settings = opened.settings.settings()
    seconds = settings.run.interval_seconds
    people = Chore("people", seconds, _ChoreLedger(opened.place).update_people)
    if not settings.forge.kind:
        return (people,)
    return (Chore("forge", seconds, _ChoreLedger(opened.place).sync_forge), people)


class _ChoreLedger:
    """The ledger of a chore that may wait long: opened once more, for it alone, when it is first needed."""

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place
        self._opened: OpenLedger | None = None

    def _open(self) -> OpenLedger:
        self._opened = reopen_if_replaced(self._opened) if self._opened else open_at(self._place)
        return self._opened

    def sync_forge(self) -> str:
        """Polls reviews, and does on the forge what policy says; returns what is in the way."""
        return forges.forge_sync(self._open(), inherited_environment()).sync().trouble

    def update_people(self) -> str:
        """Updates the files for people, and notifies the user of open questions."""
        return run_after_call(self._place, self._open())[1]


def _bounds(opened: OpenLedger, id_: str) -> Bounds:
    """What agents may use and reach, as the configuration has it now."""
    run, place = opened.settings.settings().run, opened.place
    reports = reports_folder(id_)
    with suppress(OSError):
        # What does not exist when an agent starts it never sees.
        os.makedirs(reports, mode=0o700, exist_ok=True)
    worktrees = worktrees_folder(place, run.worktrees)
    return Bounds(
        seconds=run.seconds,
        has_network=run.has_network,
        read=(*run.read, reports),
        write=run.write,
        hide=(place.root, place.common_dir, state_folder(), runtime_folder(), worktrees),
    )


def _agent_environment(opened: OpenLedger) -> dict[str, str]:
    wanted = opened.settings.settings().run.environment
    return {name: value for name, value in inherited_environment().items() if name in wanted}


def _start_coordinator(opened: OpenLedger, id_: str) -> CoordinatorProcess | None:
    """A coordinator of this scheduler's own, where none runs."""
    path = socket_path(id_) if socket_folder() else ""
    if not path or is_listening(path):
        return None
    coordinator = CoordinatorProcess(MODULE, opened.place.root, inherited_environment("REMAND_"))
    if not coordinator.wait_for(path):
        coordinator.close()
        raise EnvironmentFault("The coordinator does not start. Try `remand serve --no-http` to see why.")
    return coordinator
