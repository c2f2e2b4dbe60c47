"""The scheduler's loop: a look whenever something has changed, periodic chores, and the status file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec.structs import replace

from remand.app.errors import LedgerReplaced, RemandError
from remand.app.scheduler.active_runs import ActiveRuns
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import AgentLauncher, AgentLogs, StateFile, TaskWorktrees
from remand.app.scheduler.runs import ActiveRun
from remand.app.scheduler.scheduler import Scheduler
from remand.app.scheduler.status import (
    ActiveAgent,
    ActiveMeasurement,
    BreachStatus,
    SchedulerStatus,
    encode_status,
)
from remand.domain.instant import Instant, add_seconds
from remand.domain.run import BreakerSnapshot

WAIT_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""Leases end and backoffs pass without anybody writing anything."""


class Chore:
    """Something done now and then, one at a time, in a thread of its own: it may wait for a network."""

    def __init__(self, name: str, seconds: float, work: Callable[[], str]) -> None:
        self.name = name
        self.trouble = ""
        """What kept it from being done; empty when nothing did."""
        self._seconds = seconds
        self._work = work
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def start_if_due(self, now: float) -> None:
        """Begins it when its time has come and it is not under way."""
        if now >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = now + self._seconds
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def run_now(self) -> None:
        """Does it here and now."""
        self._next = time.monotonic() + self._seconds
        self._run()

    def wait(self, seconds: float) -> None:
        """Waits for the end of what is under way."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self.trouble = self._work()
        except (RemandError, OSError) as error:
            self.trouble = str(error)


class SchedulerLoop:
    """Goes round until it is told to stop and everybody has gone home."""

    def __init__(self, changes: Callable[[], int], tell: Callable[[str], None]) -> None:
        self._changes = changes
        self._tell = tell
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._seen, self._looked = -1, -LOOK_SECONDS
        self.trouble = ""
        """Why the last look failed; empty when it did not."""

    def attach(self, scheduler: Scheduler, floor: ActiveRuns, chores: Sequence[Chore]) -> None:
        """Says what is gone round with."""
        self._scheduler = scheduler
        self._floor = floor
        self._chores = chores

    @property
    def blocked_reason(self) -> str:
        """What kept it from beginning more when it looked last; empty when nothing did."""
        return self.trouble or self._scheduler.waiting

    @property
    def is_broken(self) -> bool:
        """True when something is wrong with the system."""
        return bool(self._floor.breaker.breaches) or self._scheduler.is_held

    def wake(self) -> None:
        """Has it look at once."""
        self._woken.set()

    def stop(self) -> None:
        """Asks it to end; may be called from a signal handler."""
        self._stopping.set()
        self._woken.set()

    def run(self, *, once: bool = False) -> None:
        """Goes round. `once`: what can be begun now is begun, and gone on with to its end."""
        self._scheduler.recover()
        for chore in self._chores if once else ():
            chore.run_now()
        try:
            self._run_until_done(once=once)
            for chore in self._chores if once else ():
                chore.run_now()
        finally:
            self._scheduler.stop()
            for chore in self._chores:
                chore.wait(1.0)

    def _run_until_done(self, *, once: bool) -> None:
        while True:
            is_stopping = self._stopping.is_set()
            if is_stopping:
                self._scheduler.stop()
            has_looked = self._tick_if_changed()
            if once and has_looked and not self._scheduler.has_begun:
                self._scheduler.stop_assigning()
            if (is_stopping or once) and self._is_over():
                break
            for chore in () if is_stopping else self._chores:
                chore.start_if_due(time.monotonic())
            self._woken.wait(WAIT_SECONDS)

    def _is_over(self) -> bool:
        """True when nothing is under way, and a look at everything finds nothing that could be."""
        if self._floor.is_empty:
            self._tick(is_whole=True)
        return self._floor.is_empty

    def _tick_if_changed(self) -> bool:
        """Looks when something has changed, and at everything once a second; True when it has looked."""
        now, changes = time.monotonic(), self._change_count()
        is_due = now - self._looked >= LOOK_SECONDS
        if not (is_due or changes != self._seen or self._woken.is_set()):
            return False
        self._woken.clear()
        self._tick(is_whole=is_due)
        self._seen, self._looked = changes, now if is_due else self._looked
        return True

    def _change_count(self) -> int:
        """The ledger's change counter; -1 while it cannot be read, which the next look says."""
        try:
            return self._changes()
        except LedgerReplaced:
            raise
        except (RemandError, OSError):
            return -1

    def _tick(self, *, is_whole: bool) -> None:
        """One look; what goes wrong with the ledger or the disk is said once and tried again."""
        trouble = ""
        try:
            self._scheduler.tick(is_whole=is_whole or bool(self.trouble))
        except LedgerReplaced:
            raise
        except (RemandError, OSError) as error:
            trouble = str(error)
        if trouble and trouble != self.trouble:
            self._tell(trouble)
        self.trouble = trouble


FRESH_SECONDS = 10.0
"""How old a status gets at most before it is written again, although nothing in it has changed."""


class StatusWriter:
    """Writes the status when it has changed, and now and then."""

    def __init__(
        self,
        *,
        floor: ActiveRuns,
        crew: AgentLauncher,
        loop: SchedulerLoop,
        logs: AgentLogs,
        file: StateFile,
        now: Callable[[], Instant],
        pid: int,
    ) -> None:
        self._floor = floor
        self._crew = crew
        self._loop = loop
        self._logs = logs
        self._file = file
        self._now = now
        self._pid = pid
        self._started_at = now()
        self._last: SchedulerStatus | None = None
        self.chores: tuple[Chore, ...] = ()
        """Whose troubles are told."""

    def write(self) -> str:
        """Puts the status where it is looked for; gives what kept it from that."""
        status, last = self._status(), self._last
        is_stale = last is None or add_seconds(last.tick_at, FRESH_SECONDS) < status.tick_at
        if not is_stale and last is not None and replace(status, tick_at=last.tick_at) == last:
            return ""
        self._last = status
        return "" if self._file.write(encode_status(status)) else "the status file cannot be written"

    def _status(self) -> SchedulerStatus:
        now = self._now()
        since = partial(_instant_of_tick, now, self._floor.clock())
        troubles = dict.fromkeys(f"{one.name}: {one.trouble}" for one in self.chores if one.trouble)
        return SchedulerStatus(
            pid=self._pid,
            started_at=self._started_at,
            tick_at=now,
            tier=self._crew.tier,
            detail=self._crew.detail,
            breaker=tuple(
                BreachStatus(
                    cause=one.scope, message=one.message, since=since(one.since), until=since(one.until)
                )
                for one in self._floor.breaker.breaches
            ),
            waiting=self._loop.blocked_reason,
            forge="; ".join(troubles),
            agents=tuple(map(self._active_agent, self._floor.active_runs)),
            gates=tuple(
                ActiveMeasurement(task_id=task, agent=agent, started_at=since(begun))
                for (task, agent), begun in self._floor.active_measurements.items()
            ),
        )

    def _active_agent(self, work: ActiveRun) -> ActiveAgent:
        run = work.assigned
        return ActiveAgent(
            run_id=run.run_id,
            task_id=run.task.id,
            agent=run.member.name,
            purpose=run.purpose,
            started_at=work.started_at,
            last_line=self._logs.last_line(run.run_id),
        )


def _instant_of_tick(now: Instant, ticking: float, ticked: float) -> Instant:
    """When the scheduler's own clock showed something, to the second: it is told again and again."""
    return f"{add_seconds(now, ticked - ticking)[:19]}.000000Z"


DUE_SECONDS = 2.0
STATUS_SECONDS = 0.5
LOG_SECONDS = 600.0
STAFF_SECONDS = 15.0
TIDY_SECONDS = 3.0


class SchedulerChores:
    """The chores that a scheduler needs nobody else for."""

    def __init__(self, books: LedgerClient, scheduler: Scheduler, floor: ActiveRuns) -> None:
        self._books = books
        self._scheduler = scheduler
        self._floor = floor

    def build(
        self, workplaces: TaskWorktrees, logs: AgentLogs, reporting: StatusWriter, memory: StateFile
    ) -> tuple[Chore, ...]:
        """Every one of them."""
        return (
            Chore("due", DUE_SECONDS, _without_result(self._books.settle_due)),
            Chore("staff", STAFF_SECONDS, _without_result(_StaffCheck(self._books, self._scheduler).check)),
            Chore(
                "places",
                TIDY_SECONDS,
                _without_result(_WorktreeCleanup(self._books, workplaces).remove_ended),
            ),
            Chore("logs", LOG_SECONDS, _without_result(logs.thin_out)),
            Chore("status", STATUS_SECONDS, reporting.write),
            Chore("breaker", STATUS_SECONDS, _BreakerFile(self._floor, memory).write),
        )


class _StaffCheck:
    """Looks after tasks that nobody is left for, when the team has changed or an agent has given up, and after forgotten runs."""

    def __init__(self, books: LedgerClient, scheduler: Scheduler) -> None:
        self._books = books
        self._scheduler = scheduler
        self._seen: object = None

    def check(self) -> None:
        """Asks the user about the tasks, and ends the runs."""
        self._scheduler.end_forgotten_runs()
        self._scheduler.check_given_up()
        rules = self._books.rules
        now = (rules.team.members, rules.policy)
        if now != self._seen and rules.team.has_members:
            self._scheduler.check_staff()
        self._seen = now


class _WorktreeCleanup:
    """Takes down the worktrees of tasks that have ended."""

    def __init__(self, books: LedgerClient, workplaces: TaskWorktrees) -> None:
        self._books = books
        self._workplaces = workplaces

    def remove_ended(self) -> None:
        """Retires what belongs to ended tasks."""
        for name in self._workplaces.names():
            task = self._books.task(name)
            if task is not None and task.is_terminal and not task.runs:
                self._workplaces.remove(name)


class _BreakerFile:
    """What the breaker knows, for the scheduler after this one: what is wrong stays wrong, also from call to call."""

    def __init__(self, floor: ActiveRuns, file: StateFile) -> None:
        self._breaker = floor.breaker
        self._file = file
        with suppress(msgspec.MsgspecError):
            kept = msgspec.json.decode(file.read() or b"{}", type=BreakerSnapshot)
            self._breaker.restore(kept, now=floor.clock())
        self._last = self._breaker.snapshot()

    def write(self) -> str:
        """Writes it down when it has changed."""
        kept = self._breaker.snapshot()
        if kept == self._last:
            return ""
        self._last = kept
        return "" if self._file.write(msgspec.json.encode(kept)) else "the breaker's file cannot be written"


def _without_result(work: Callable[[], None]) -> Callable[[], str]:
    def run_work() -> str:
        work()
        return ""

    return run_work
