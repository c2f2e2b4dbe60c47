"""A scheduler for an open ledger: worktrees, agent launcher, reviewers, chores and the loop; and who watches it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from remand.adapters.coordinator.server import SchedulerCoordinator
from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.gates.claims import CommandClaims
from remand.adapters.git import commits
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitRepository
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.hosts.launcher import HostLauncher, LauncherSettings, find_words
from remand.adapters.hosts.table import guarded_files, server_files
from remand.adapters.sandbox.agent_launchers import own_program
from remand.adapters.sandbox.self_test import make_agent_launcher
from remand.adapters.system.clock import RandomIds
from remand.adapters.system.executor import ThreadExecutor
from remand.adapters.system.files import require_lock
from remand.adapters.system.folders import runtime_folder, socket_folder, state_folder
from remand.adapters.system.scheduler_files import RunLogs, StatusFile, is_alive
from remand.app.gates.jobs import Chore
from remand.app.ledger_watch import LedgerWatch
from remand.app.scheduler import chores
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import MakeAgentSockets
from remand.app.scheduler.review_runs import MAX_CHANGE, ReviewRuns, SubmittedChanges
from remand.app.scheduler.runs import AgentRuns, RunEnvironment, Workers, import_agent_commits, run_bounds
from remand.app.scheduler.scheduler import Scheduler, SchedulerHandle
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.wiring.after_call import after_call
from remand.wiring.forges import forge_sync
from remand.wiring.ledger import Gateway
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import folders_of

WORKERS = 8
"""How many worktrees are prepared and processes started at once, and how many done claims are measured at once."""
MODULE = "remand.interfaces.cli.agent_socket.runner"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""


def build_scheduler(
    opened: OpenLedger, make_sockets: MakeAgentSockets, report: Callable[[str], None]
) -> SchedulerHandle:
    """The scheduler. There is one at a time; a coordinator is started with it where none runs."""
    settings, place, folders = opened.settings, opened.place, opened.folders
    run, environment = settings.settings().run, inherited_environment("REMAND_")
    closing = ExitStack()
    os.makedirs(folders.own, mode=0o700, exist_ok=True)
    lock = require_lock(
        os.path.join(folders.own, "scheduler.lock"),
        "A scheduler of this ledger is already running; see `remand top`.",
    )
    closing.callback(os.close, lock)
    launcher = make_agent_launcher(run.sandbox)
    socket = folders.socket if socket_folder() and run.coordinator == "auto" else ""
    coordinator = SchedulerCoordinator(socket, MODULE, place.root, environment)
    closing.callback(coordinator.close)
    coordinator.ensure()
    status, logs = StatusFile(folders.status), RunLogs(os.path.join(folders.own, "logs"), find_words)
    closing.callback(status.clear)
    ledger = LedgerClient(
        opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex
    )
    worktrees = make_worktrees(place, run.worktrees)
    sockets = make_sockets(partial(import_agent_commits, ledger, worktrees), worktrees.inspect)
    closing.callback(sockets.end)
    hidden = (place.root, place.common_dir, state_folder(), runtime_folder(), worktrees.folder)
    is_confined = launcher.tier != "plain"
    hosts = HostLauncher(
        LauncherSettings(
            folder=os.path.join(folders.own, "runs"),
            program=own_program(),
            home=os.path.expanduser("~"),
            surroundings=environment,
            is_confined=is_confined,
        )
    )
    hosts.sweep()
    runs = AgentRuns(
        RunEnvironment(
            worktrees=worktrees,
            sockets=sockets,
            hosts=hosts,
            launcher=launcher,
            claims=CommandClaims(MODULE, place.root, environment),
            opinions=ReviewRuns(
                ledger, submitted_changes(opened, MAX_CHANGE), partial(secrets.token_hex, 16)
            ),
            bounds=lambda: run_bounds(settings.settings().run, folders.reports, hidden),
            environment=lambda: settings.settings().run.agent_environment(inherited_environment()),
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
        workers=Workers(ThreadExecutor(WORKERS), ThreadExecutor(WORKERS)),
        max_seconds=max_seconds,
        last_sign=partial(chores.last_sign, status, logs),
        changes=opened.store.changes,
        report=report,
    )
    made = chores.make_chores(
        scheduler,
        ledger,
        chores.StaffCheck(ledger, runs, max_seconds),
        launcher=launcher,
        worktrees=worktrees,
        logs=logs,
        status_file=status,
        breaker_file=StatusFile(os.path.join(folders.own, "breaker.json")),
        pid=os.getpid(),
        others=(*_outside_chores(opened), Chore("coordinator", run.interval_seconds, coordinator.ensure)),
    )
    return SchedulerHandle(scheduler, made, launcher, closing.close)


def make_worktrees(place: LedgerLocation, named: str = "") -> GitWorktrees:
    """The task worktrees of a place's ledger, in the folder that the configuration names."""
    return GitWorktrees(
        place,
        folders_of(place).worktrees(place.root, named),
        base=SettingsSource(GitRepository(place), place.root, place.common_dir).base_branch(),
        ours=(*guarded_files(), *server_files()),
        guarded=guarded_files(),
    )


def submitted_changes(opened: OpenLedger, longest: int = commits.LONGEST) -> SubmittedChanges:
    """What submissions change, each shown in so many characters at most."""
    patches = commits.GitPatches(opened.place)
    return SubmittedChanges(opened.ledger, patches, lambda: opened.settings.rules().base, longest)


def make_watch(opened: OpenLedger, recent: int = 0) -> LedgerWatch:
    """Looks at an open ledger; it first tells so much of the past."""
    return LedgerWatch(
        opened.ledger,
        opened.store,
        opened.settings.rules,
        StatusFile(opened.folders.status),
        is_measured=BackgroundRuns(opened.folders.gate_runs).is_running,
        is_alive=is_alive,
        recent=recent,
    )


def _outside_chores(opened: OpenLedger) -> tuple[Chore, ...]:
    """What is done with the outside, each on a ledger of its own, as it may wait long: people, and the forge if any."""
    settings, place = opened.settings.settings(), opened.place
    for_people, for_forge = Gateway(place), Gateway(place)
    seconds = settings.run.interval_seconds
    people = Chore("people", seconds, lambda: after_call(place, for_people.current_ledger()).run()[1])
    forge = Chore(
        "forge",
        seconds,
        lambda: forge_sync(for_forge.current_ledger(), inherited_environment()).sync().trouble,
    )
    return (forge, people) if settings.forge.kind else (people,)
