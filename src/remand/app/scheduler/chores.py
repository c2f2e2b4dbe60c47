"""A scheduler with its periodic work: writing its status, keeping the breaker's state, and cleaning up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec.structs import replace

from remand.app.forge.sync import ForgeSync
from remand.app.gates.jobs import Chore
from remand.app.notices import NoticeDelivery
from remand.app.scheduler import ports
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import AgentLauncher, AgentLogs, StateFile, WorktreeCleanup
from remand.app.scheduler.runs import FORGOTTEN_SECONDS, AgentRuns, RunEnvironment, Workers
from remand.app.scheduler.scheduler import Scheduler, SchedulerHandle
from remand.config import Settings
from remand.domain import commands as c
from remand.domain.decisions.runs import BreakerSnapshot
from remand.domain.instant import Instant, add_seconds
from remand.domain.record import NamedTuple
from remand.domain.task import Status

FRESH_SECONDS = 10.0
"""The longest time between two writes of an unchanged status."""
DUE_SECONDS = 2.0
PACK_SECONDS = 60.0
STATUS_SECONDS = 0.5
LOG_SECONDS = 600.0
STAFF_SECONDS = 15.0
TIDY_SECONDS = 3.0


class SchedulerFiles(NamedTuple):
    """The files of a running scheduler."""

    status: StateFile
    breaker: StateFile
    logs: AgentLogs


def last_sign(file: StateFile, logs: AgentLogs, run_id: str) -> Instant:
    """When a run whose scheduler was killed was last known to be alive; empty if unknown.

    The run was alive as long as the scheduler wrote its status or the agent wrote to its log.
    """
    status = ports.decode_status(file.read() or b"")
    return max(status.tick_at, logs.last_written(run_id)) if status else ""


class StatusWriter:
    """Writes the status when it changes, and periodically."""

    def __init__(
        self,
        scheduler: Scheduler,
        launcher: AgentLauncher,
        files: SchedulerFiles,
        now: Callable[[], Instant],
        pid: int,
    ) -> None:
        self._scheduler, self._launcher, self._files = scheduler, launcher, files
        self._now, self._pid = now, pid
        self._started_at = now()
        self._last: ports.SchedulerStatus | None = None
        self.chores: tuple[Chore, ...] = ()
        """Chores whose errors the status reports."""

    def write(self) -> str:
        """Writes the status file; returns the error if that fails."""
        current, last = self._status(), self._last
        is_stale = last is None or add_seconds(last.tick_at, FRESH_SECONDS) < current.tick_at
        if not is_stale and last is not None and replace(current, tick_at=last.tick_at) == last:
            return ""
        self._last = current
        return (
            ""
            if self._files.status.write(ports.encode_status(current))
            else "the status file cannot be written"
        )

    def _status(self) -> ports.SchedulerStatus:
        now, clock, scheduler = self._now(), self._scheduler.clock(), self._scheduler

        def instant(ticks: float) -> Instant:
            """The time of a clock reading, rounded to seconds so that it stays the same between looks."""
            return f"{add_seconds(now, ticks - clock)[:19]}.000000Z"

        troubles = dict.fromkeys(f"{chore.name}: {chore.trouble}" for chore in self.chores if chore.trouble)
        return ports.SchedulerStatus(
            pid=self._pid,
            started_at=self._started_at,
            tick_at=now,
            tier=self._launcher.tier,
            detail=self._launcher.detail,
            breaker=tuple(
                ports.BreachStatus(
                    cause=breach.scope,
                    message=breach.message,
                    since=instant(breach.since),
                    until=instant(breach.until),
                )
                for breach in scheduler.breaker.breaches
            ),
            waiting=scheduler.blocked_reason,
            forge="; ".join(troubles),
            agents=tuple(
                ports.ActiveAgent(
                    run_id=run.assignment.run_id,
                    task_id=run.assignment.task.id,
                    agent=run.assignment.member.name,
                    purpose=run.assignment.purpose,
                    started_at=run.started_at,
                    last_line=self._files.logs.last_line(run.assignment.run_id),
                )
                for run in scheduler.active_runs
            ),
            gates=tuple(
                ports.ActiveMeasurement(
                    task_id=job.task_id, agent=job.member.name, started_at=instant(job.since)
                )
                for job in scheduler.active_measurements
            ),
        )


class StaffCheck:
    """Asks the user about tasks that nobody can take, and ends forgotten runs of other ledgers."""

    def __init__(self, ledger: LedgerClient, runs: AgentRuns, max_seconds: Callable[[], float]) -> None:
        self._ledger = ledger
        self._runs = runs
        self._max_seconds = max_seconds
        self._checked: object = None

    def check(self) -> None:
        """Does both; queued tasks are checked when the team has changed."""
        self.end_forgotten_runs()
        for task in self._ledger.active_tasks(Status.FAILED):
            self._ledger.ask(c.CheckStaff(task_id=task.id))
        rules = self._ledger.rules
        current = (rules.team.members, rules.policy)
        if current != self._checked and rules.team.has_members:
            self.check_queue()
        self._checked = current

    def check_queue(self) -> None:
        """Asks the user about every waiting task that nobody on the team can take."""
        for task_id in self._ledger.ready_ids():
            self._ledger.ask(c.CheckStaff(task_id=task_id))

    def end_forgotten_runs(self) -> None:
        """Ends runs of other ledgers that have exceeded the time limit without an end from their scheduler."""
        session, max_seconds = self._ledger.session, self._max_seconds()
        for task in self._ledger.running_tasks():
            for run in task.runs:
                is_over = add_seconds(run.started_at, max_seconds + FORGOTTEN_SECONDS) < self._ledger.now()
                if run.session != session and is_over:
                    self._runs.record_lost(task.id, run, "", max_seconds)


class BreakerFile:
    """Stores the breaker's state for the next scheduler: a fault does not disappear with a restart."""

    def __init__(self, scheduler: Scheduler, file: StateFile) -> None:
        self._breaker = scheduler.breaker
        self._file = file
        with suppress(msgspec.MsgspecError):
            snapshot = msgspec.json.decode(file.read() or b"{}", type=BreakerSnapshot)
            self._breaker.restore(snapshot, now=scheduler.clock())
        self._last = self._breaker.snapshot()

    def write(self) -> str:
        snapshot = self._breaker.snapshot()
        if snapshot == self._last:
            return ""
        self._last = snapshot
        return (
            "" if self._file.write(msgspec.json.encode(snapshot)) else "the breaker's file cannot be written"
        )


def remove_ended_worktrees(ledger: LedgerClient, worktrees: WorktreeCleanup) -> None:
    for name in worktrees.names():
        task = ledger.task(name)
        if task is not None and task.is_terminal and not task.runs:
            worktrees.remove(name)


def outside_chores(
    settings: Settings, *, look_after_people: Callable[[], str], sync_forge: Callable[[], str]
) -> tuple[Chore, ...]:
    """The chores that involve people and, if there is one, the forge."""
    seconds = settings.run.interval_seconds
    people = Chore("people", seconds, look_after_people)
    return (Chore("forge", seconds, sync_forge), people) if settings.forge.kind else (people,)


def worker_chores(
    ledger: LedgerClient,
    settings: Settings,
    *,
    drop_packs: Callable[[], None],
    open_notices: Callable[[], NoticeDelivery] | None,
    open_forge: Callable[[], ForgeSync] | None,
) -> tuple[Chore, ...]:
    """A worker's chores: notices and the forge, as far as its host has the channels and the token."""
    seconds = settings.run.interval_seconds
    chores = [Chore("due", DUE_SECONDS, ledger.settle_due), Chore("packs", PACK_SECONDS, drop_packs)]
    if open_notices:
        notices = open_notices()
        chores.append(Chore("notices", seconds, lambda: "; ".join(notices.deliver().problems)))
    if open_forge and settings.forge.kind:
        forge = open_forge()
        chores.append(Chore("forge", seconds, lambda: forge.sync().trouble))
    return tuple(chores)


def make_chores(
    scheduler: Scheduler,
    ledger: LedgerClient,
    staff: StaffCheck,
    *,
    launcher: AgentLauncher,
    worktrees: WorktreeCleanup,
    files: SchedulerFiles,
    pid: int,
    others: Sequence[Chore] = (),
) -> tuple[Chore, ...]:
    """All chores of a scheduler: the given ones and its own. The status reports their errors."""
    writer = StatusWriter(scheduler, launcher, files, ledger.now, pid)
    writer.chores = (
        *others,
        Chore("due", DUE_SECONDS, ledger.settle_due),
        Chore("staff", STAFF_SECONDS, staff.check),
        Chore("places", TIDY_SECONDS, partial(remove_ended_worktrees, ledger, worktrees)),
        Chore("logs", LOG_SECONDS, files.logs.thin_out),
        Chore("status", STATUS_SECONDS, writer.write),
        Chore("breaker", STATUS_SECONDS, BreakerFile(scheduler, files.breaker).write),
    )
    return writer.chores


def make_scheduler(
    ledger: LedgerClient,
    environment: RunEnvironment,
    files: SchedulerFiles,
    *,
    workers: Workers,
    worktrees: WorktreeCleanup,
    max_seconds: Callable[[], float],
    changes: Callable[[], int],
    report: Callable[[str], None],
    pid: int,
    others: Sequence[Chore],
    close: Callable[[], None],
) -> SchedulerHandle:
    """A scheduler with its chores, ready to run. `max_seconds` is the time limit of a run."""
    runs = AgentRuns(environment, ledger)
    scheduler = Scheduler(
        ledger=ledger,
        runs=runs,
        worktrees=worktrees,
        workers=workers,
        max_seconds=max_seconds,
        last_sign=partial(last_sign, files.status, files.logs),
        changes=changes,
        report=report,
    )
    chores = make_chores(
        scheduler,
        ledger,
        StaffCheck(ledger, runs, max_seconds),
        launcher=environment.launcher,
        worktrees=worktrees,
        files=files,
        pid=pid,
        others=others,
    )
    return SchedulerHandle(scheduler, chores, environment.launcher, close)
