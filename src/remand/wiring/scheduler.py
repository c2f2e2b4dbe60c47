"""A scheduler for an open ledger: worktrees, agent launcher, reviewers, chores and the loop; who watches it; and a worker."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from remand.adapters.coordinator.agent_socket import CommandClaims
from remand.adapters.coordinator.server import SchedulerCoordinator
from remand.adapters.git import commits
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.remote import PACKS, BaseFetcher, SubmissionStore
from remand.adapters.git.repository import GitRepository
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.hosts.launcher import HostLauncher, find_words
from remand.adapters.hosts.table import guarded_files, server_files
from remand.adapters.sandbox.agent_launchers import own_program
from remand.adapters.sandbox.self_test import make_agent_launcher
from remand.adapters.server import client
from remand.adapters.server.scheduler_ledger import (
    ServerLedgerClient,
    ServerReviewRuns,
    fetch_commit,
    take_commit,
)
from remand.adapters.system import notice_channels, web_pages
from remand.adapters.system.background_runs import BackgroundRuns
from remand.adapters.system.executor import ThreadExecutor
from remand.adapters.system.folders import LedgerFolders, runtime_folder, socket_folder, state_folder
from remand.adapters.system.machine import RandomIds, SystemClock
from remand.adapters.system.scheduler_files import RunLogs, StatusFile, is_alive, lock_scheduler
from remand.app.gates import queued_work
from remand.app.gates.jobs import EVIDENCE_CHECK, GATE_RUN, Chore, JobHandler, JobQueue
from remand.app.ledger_watch import LedgerWatch
from remand.app.scheduler import chores
from remand.app.scheduler.agent_socket import SERVER_VARIABLES
from remand.app.scheduler.host_calls import HostedRuns
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import MakeAgentSockets
from remand.app.scheduler.review_runs import MAX_CHANGE, ReviewRuns, SubmittedChanges
from remand.app.scheduler.runs import (
    ReviewAgents,
    RunEnvironment,
    Workers,
    import_agent_commits,
    run_bounds,
)
from remand.app.scheduler.scheduler import SchedulerHandle
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.domain.record import NamedTuple
from remand.startup import AGENT_ENTRY_MODULE, ENTRY_MODULE
from remand.wiring import gates
from remand.wiring.after_call import after_call, notice_delivery
from remand.wiring.forges import forge_sync, forge_token
from remand.wiring.ledger import Gateway
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import folders_of

WORKERS = 8
"""How many worktrees are prepared and processes started at once, and how many done claims are measured at once."""


class SchedulerSite(NamedTuple):
    """Where a scheduler is: the ledger that it asks, and the clone that it works in."""

    ledger: LedgerClient
    settings: SettingsSource
    place: LedgerLocation
    folders: LedgerFolders
    worktrees: GitWorktrees
    claims: CommandClaims
    review_agents: ReviewAgents
    changes: Callable[[], int] = lambda: 0
    others: tuple[Chore, ...] = ()
    coordinator_environment: Mapping[str, str] | None = None
    """The environment for starting a coordinator; None if there is to be none."""


def build_scheduler(
    opened: OpenLedger, make_sockets: MakeAgentSockets, report: Callable[[str], None]
) -> SchedulerHandle:
    """The scheduler of a ledger on this machine. It starts a coordinator if none is running."""
    ledger, place = scheduler_ledger(opened), opened.place
    site = SchedulerSite(
        ledger,
        opened.settings,
        place,
        opened.folders,
        make_worktrees(place, opened.settings.settings().run.worktrees),
        CommandClaims(AGENT_ENTRY_MODULE, place.root, opened.process_environment),
        _review_runs(opened, ledger),
        opened.store.changes,
        _outside_chores(opened),
        opened.process_environment,
    )
    return _assemble(site, make_sockets, report)


def build_host_scheduler(
    server: client.ServerClient,
    place: LedgerLocation,
    make_sockets: MakeAgentSockets,
    report: Callable[[str], None],
) -> SchedulerHandle:
    """The scheduler of a host, which starts its own members on tasks of the server's ledger."""
    settings, folders = SettingsSource(GitRepository(place), place.root, place.common_dir), folders_of(place)
    store = SubmissionStore(place, os.path.join(folders.own, "submissions"), inherited_environment("REMAND_"))
    given = {name: value for name, value in inherited_environment().items() if name in SERVER_VARIABLES}
    ledger = ServerLedgerClient(server, settings.rules, SystemClock().now, RandomIds().hex)
    worktrees = make_worktrees(place, settings.settings().run.worktrees)
    worktrees.before = partial(take_commit, server, store)
    site = SchedulerSite(
        ledger,
        settings,
        place,
        folders,
        worktrees,
        CommandClaims(ENTRY_MODULE, place.root, inherited_environment("REMAND_") | given),
        ServerReviewRuns(ledger),
    )
    return _assemble(site, make_sockets, report)


def scheduler_ledger(opened: OpenLedger) -> LedgerClient:
    """An open ledger as a scheduler uses it."""
    settings = opened.settings
    return LedgerClient(
        opened.ledger, settings.rules, lambda: settings.settings().forge.home, RandomIds().hex
    )


def _review_runs(opened: OpenLedger, ledger: LedgerClient) -> ReviewRuns:
    return ReviewRuns(ledger, submitted_changes(opened, MAX_CHANGE), partial(secrets.token_hex, 16))


def hosted_runs(opened: OpenLedger) -> HostedRuns:
    """The server's part in the runs of hosts."""
    reviews = _review_runs(opened, scheduler_ledger(opened))
    return HostedRuns(reviews, opened.settings.run_seconds())


def _assemble(
    site: SchedulerSite, make_sockets: MakeAgentSockets, report: Callable[[str], None]
) -> SchedulerHandle:
    """Builds the objects of a scheduler. Only one runs at a time."""
    settings, place, folders = site.settings, site.place, site.folders
    run, closing = settings.settings().run, ExitStack()
    closing.callback(os.close, lock_scheduler(folders.own))
    launcher = make_agent_launcher(run.sandbox)
    started = site.coordinator_environment if run.starts_coordinator and socket_folder() else None
    coordinator = SchedulerCoordinator(folders.socket, AGENT_ENTRY_MODULE, place.root, started)
    closing.callback(coordinator.close)
    coordinator.ensure()
    status, logs = StatusFile(folders.status), RunLogs(os.path.join(folders.own, "logs"), find_words)
    closing.callback(status.clear)
    ledger, worktrees = site.ledger, site.worktrees
    sockets = make_sockets(partial(import_agent_commits, ledger, worktrees), worktrees.inspect)
    closing.callback(sockets.end)
    hidden = (place.root, place.common_dir, state_folder(), runtime_folder(), worktrees.folder)
    is_confined = launcher.tier != "plain"
    surroundings = inherited_environment("REMAND_")
    hosts = HostLauncher(
        os.path.join(folders.own, "runs"), own_program(), os.path.expanduser("~"), surroundings, is_confined
    )
    hosts.sweep()
    environment = RunEnvironment(
        worktrees=worktrees,
        sockets=sockets,
        hosts=hosts,
        launcher=launcher,
        claims=site.claims,
        review_agents=site.review_agents,
        bounds=lambda: run_bounds(settings.settings().run, folders.reports, hidden),
        environment=lambda: settings.settings().run.agent_environment(inherited_environment()),
        log=logs.path,
        # In the sandbox every shell finds it; elsewhere a login shell may reset PATH.
        program="" if is_confined else own_program(),
    )
    return chores.make_scheduler(
        ledger,
        environment,
        chores.SchedulerFiles(status, StatusFile(os.path.join(folders.own, "breaker.json")), logs),
        workers=Workers(ThreadExecutor(WORKERS), ThreadExecutor(WORKERS)),
        worktrees=worktrees,
        max_seconds=settings.run_seconds,
        changes=site.changes,
        report=report,
        pid=os.getpid(),
        others=(*site.others, Chore("coordinator", run.interval_seconds, coordinator.ensure)),
        close=closing.close,
    )


def make_worktrees(place: LedgerLocation, named: str = "") -> GitWorktrees:
    """The task worktrees of a place's ledger, in the configured folder."""
    return GitWorktrees(
        place,
        folders_of(place).worktrees(place.root, named),
        base=SettingsSource(GitRepository(place), place.root, place.common_dir).base_branch(),
        written=(*guarded_files(), *server_files()),
        guarded=guarded_files(),
    )


def submitted_changes(opened: OpenLedger, longest: int = commits.LONGEST) -> SubmittedChanges:
    """The changes of submissions, each shortened to this many characters."""
    patches = commits.GitPatches(opened.place)
    return SubmittedChanges(opened.ledger, patches, lambda: opened.settings.rules().base, longest)


def make_watch(opened: OpenLedger, recent: int = 0) -> LedgerWatch:
    """Watches an open ledger; it first reports this much of the past."""
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
    """What is done with the outside, each on its own ledger, as it may wait long."""
    place, environment = opened.place, inherited_environment()
    for_people, for_forge = Gateway(place), Gateway(place)
    return chores.outside_chores(
        opened.settings.settings(),
        look_after_people=lambda: after_call(place, for_people.current_ledger()).run()[1],
        sync_forge=lambda: forge_sync(for_forge.current_ledger(), environment).sync().trouble,
    )


def make_handlers(
    opened: OpenLedger, queue: JobQueue, report: Callable[[str], None], labels: Sequence[str] = ()
) -> dict[str, JobHandler]:
    """The handlers of a ledger's jobs on this machine."""
    own, environment, settings = gates.make_gates(opened), inherited_environment(), opened.settings
    base = BaseFetcher(opened.place, settings.base_branch, environment)
    server, find_base = client.find_server(environment), lambda: settings.rules().base
    fetch = partial(fetch_commit, server, opened.submissions, find_base)
    source = queued_work.CommitSource(base.fetch_until, fetch)
    worker = queued_work.GateWorker(
        opened.ledger, settings.rules, source, own.worker_claims, own.labels, queue.is_current, report, labels
    )
    probes = queued_work.ProbeWorker(
        opened.ledger,
        settings.rules,
        source,
        opened.store.shared_data,
        commands=lambda: gates.make_probes(opened, settings.settings().gate_policy),
        pages=lambda: web_pages.HostPages(settings.settings().gate_policy.hosts),
    )
    return {GATE_RUN: worker.run, EVIDENCE_CHECK: probes.run}


def worker_chores(open_own: Callable[[], OpenLedger]) -> tuple[Chore, ...]:
    """What a worker does now and then, each on its own ledger."""
    opened, environment = open_own(), inherited_environment()
    settings = opened.settings.settings()
    has_token = bool(settings.forge.kind and forge_token(environment, settings.forge))
    return chores.worker_chores(
        LedgerClient(opened.ledger, opened.settings.rules, str, str),
        settings,
        drop_packs=partial(opened.store.shared_data.drop_of_ended_tasks, PACKS),
        open_notices=(lambda: notice_delivery(open_own()))
        if notice_channels.read_addresses().channels
        else None,
        open_forge=(lambda: forge_sync(open_own(), environment)) if has_token else None,
    )
