"""The runs that are active: started and ended in other threads, with a breaker for failures of the system."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import CannotRun, Executor, RunEnd
from remand.app.scheduler.runs import ActiveRun, RunAssignment, RunEnder, RunStarter
from remand.app.tasks.staff import Load
from remand.domain.access.team import Member
from remand.domain.events.work import How, Purpose
from remand.domain.refusals import Refused
from remand.domain.run import Breaker
from remand.domain.task import Task

RETRY_SECONDS = 1.0
MAX_STARTING = 8
"""How many runs are begun at once; more would only wait for one another."""
SYSTEM_CAUSES = ("disk", "sandbox", "door")
"""Causes that are the system's beyond doubt: no second task has to fail to know."""

RunFinished = Callable[[ActiveRun, Task | None], None]
"""What is done when a run has ended and stands in the ledger as ended."""


class ActiveRuns:
    """Every run that this process has begun. Its methods may be called from any thread."""

    def __init__(
        self,
        beginning: RunStarter,
        ending: RunEnder,
        hands: Executor,
        patient_hands: Executor,
        *,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._beginning = beginning
        self._ending = ending
        self._hands = hands
        self._patient_hands = patient_hands
        """For what takes minutes, so that nobody has to wait for it to be begun or ended."""
        self._wake = wake
        self.clock = clock
        self._mine = threading.RLock()
        self._at_work: dict[str, ActiveRun] = {}
        self._being_begun: dict[str, RunAssignment] = {}
        self._busy: Counter[tuple[str, str]] = Counter()
        """What is being done, by task and member."""
        self._unnoted: dict[str, Callable[[], None]] = {}
        """Ends that the ledger could not take yet, by run."""
        self._again_at = 0.0
        self._heard: set[str] = set()
        """The runs of which it was told that they have ended."""
        self._freed: set[str] = set()
        self._measuring: dict[tuple[str, str], float] = {}
        self._is_closing = False
        self.breaker = Breaker()

    def start_run(self, assigned: RunAssignment) -> None:
        """Has a run begun that the ledger knows."""
        scopes = _member_scopes(assigned.member)
        assigned = replace(assigned, is_trial=self.breaker.is_open(*scopes))
        self.breaker.record_start(*scopes, now=self.clock())
        with self._mine:
            self._being_begun[assigned.run_id] = assigned
        self.run_in_background(assigned.task.id, partial(self._start, assigned), assigned.member)

    def collect_ended(self, finished: RunFinished, *, is_whole: bool = True) -> None:
        """Takes in the runs that have ended: those that were heard of, or, looking at all of them, whichever have."""
        with self._mine:
            heard, self._heard = self._heard, set()
            names = list(self._at_work) if is_whole else [name for name in heard if name in self._at_work]
            for name in names:
                work = self._at_work[name]
                ended = work.running.poll()
                if ended is not None:
                    del self._at_work[name]
                    self._record_with_retry(work.assigned, partial(self._end, work, ended, finished))
            if self._unnoted and self.clock() >= self._again_at:
                again, self._unnoted = self._unnoted, {}
                for note in again.values():
                    note()

    def _note_ended(self, run_id: str) -> None:
        """Is told that a run has ended."""
        with self._mine:
            self._heard.add(run_id)
        self._wake()

    def _record_with_retry(self, assigned: RunAssignment, note: Callable[[], None]) -> None:
        """Has an end noted; as long as the ledger cannot take it, again and again."""
        self.run_in_background(assigned.task.id, partial(self._try_record, assigned, note), assigned.member)

    def _try_record(self, assigned: RunAssignment, note: Callable[[], None]) -> None:
        try:
            note()
        except (EnvironmentFault, OSError):
            with self._mine:
                self._again_at = self.clock() + RETRY_SECONDS
                self._unnoted[assigned.run_id] = partial(self._record_with_retry, assigned, note)
            raise

    def close(self) -> None:
        """Asks every agent to end; one that is just being begun ends as soon as it is there."""
        with self._mine:
            self._is_closing = True
            for work in self._at_work.values():
                work.running.stop()

    def may_start(self, member: Member) -> bool:
        """False while something is wrong with what the member needs."""
        return self.breaker.is_closed or self.breaker.allows(*_member_scopes(member), now=self.clock())

    def is_busy(self, task_id: str) -> bool:
        """True while something is being done about a task."""
        with self._mine:
            return any(task == task_id for task, _ in self._busy)

    def note_gates_ran(self, agent: str) -> None:
        """Notes that the gates could be run on somebody's work."""
        self.breaker.record_success(f"gates of {agent}")

    def is_taken(self, task_id: str) -> bool:
        """True while somebody is at work on a task, or something is being done about it."""
        with self._mine:
            return any(work.assigned.task.id == task_id for work in self._at_work.values()) or self.is_busy(
                task_id
            )

    def take_finished_tasks(self) -> set[str]:
        """The tasks about which something was done since this was last asked."""
        with self._mine:
            freed, self._freed = self._freed, set()
            return freed

    @property
    def is_empty(self) -> bool:
        """True when nothing is under way, and nothing was done that has not been looked at since."""
        with self._mine:
            return not (self._at_work or self._being_begun or self._busy or self._freed)

    @property
    def has_max_starting(self) -> bool:
        """True when as many runs are being begun as can be at once."""
        with self._mine:
            return len(self._being_begun) >= MAX_STARTING

    @property
    def active_runs(self) -> list[ActiveRun]:
        """The runs that are under way."""
        with self._mine:
            return list(self._at_work.values())

    def has_other_workers(self, task_id: str) -> bool:
        """True while somebody works on another task, or such work is measured."""
        with self._mine:
            runs = (*(work.assigned for work in self._at_work.values()), *self._being_begun.values())
            tasks = {run.task.id for run in runs if run.purpose == Purpose.WORK}
            return bool((tasks | {task for task, _ in self._measuring}) - {task_id})

    @property
    def active_measurements(self) -> dict[tuple[str, str], float]:
        """The tasks whose end is being answered, each with its agent, and since when by the clock."""
        with self._mine:
            return dict(self._measuring)

    @property
    def load(self) -> Load:
        """How many tasks each member has in hand: those whose end is being answered are still its own."""
        with self._mine:
            runs = (*(work.assigned for work in self._at_work.values()), *self._being_begun.values())
            pairs = {(run.task.id, run.member.name) for run in runs} | self._busy.keys()
            return Load(Counter(name for _, name in pairs))

    def run_in_background(
        self, task_id: str, work: Callable[[], None], member: Member, *, is_long: bool = False
    ) -> None:
        """Has something done about a member's task in another thread; until it is, the task is busy."""
        with self._mine:
            self._busy[task_id, member.name] += 1
            if is_long:
                self._measuring[task_id, member.name] = self.clock()
        hands = self._patient_hands if is_long else self._hands
        hands.execute(partial(self._run_work, task_id, work, member))

    def _run_work(self, task_id: str, work: Callable[[], None], member: Member) -> None:
        try:
            work()
        except (CannotRun, EnvironmentFault, OSError) as error:
            cause = error.cause if isinstance(error, CannotRun) else "system"
            scope, is_certain = _failure_scope(cause, member), cause in SYSTEM_CAUSES
            self.breaker.record_failure(scope, task_id, str(error), now=self.clock(), is_certain=is_certain)
        finally:
            with self._mine:
                self._busy[task_id, member.name] -= 1
                self._busy += Counter()
                self._freed.add(task_id)
                if not self._busy[task_id, member.name]:
                    self._measuring.pop((task_id, member.name), None)
            self._wake()

    def _start(self, assigned: RunAssignment) -> None:
        try:
            work = self._beginning.start(assigned)
        except (CannotRun, Refused, EnvironmentFault, OSError) as error:
            fault = error if isinstance(error, CannotRun) else CannotRun("system", str(error))
            self._record_with_retry(assigned, partial(self._record_not_started, assigned, fault))
            return
        finally:
            with self._mine:
                self._being_begun.pop(assigned.run_id, None)
        self.breaker.record_success(
            *SYSTEM_CAUSES,
            *(_failure_scope(cause, assigned.member) for cause in ("git", "system", "program")),
        )
        with self._mine:
            self._at_work[assigned.run_id] = work
            if self._is_closing:
                work.running.stop()
        work.running.notify_end(partial(self._note_ended, assigned.run_id))

    def _record_not_started(self, assigned: RunAssignment, fault: CannotRun) -> None:
        is_systems = fault.cause in (*SYSTEM_CAUSES, "program")
        is_nobodys = is_systems or assigned.is_trial
        self._ending.record_not_started(assigned.task.id, assigned.run_id, fault, is_systems=is_nobodys)
        scope = _failure_scope(fault.cause, assigned.member)
        self.breaker.record_failure(
            scope, assigned.task.id, str(fault), now=self.clock(), is_certain=is_systems
        )

    def _end(self, work: ActiveRun, ended: RunEnd, finished: RunFinished) -> None:
        assigned = work.assigned
        self._beginning.clean_up(assigned.run_id)
        after, fault = self._ending.record_end(work, ended)
        if fault:
            told = f"A run of {assigned.member.command[0]} {fault}"
            self.breaker.record_failure(
                _program_scope(assigned.member), assigned.task.id, told, now=self.clock()
            )
        elif ended.how == How.EXITED:
            self.breaker.record_success(_program_scope(assigned.member))
        finished(work, after)


def _program_scope(member: Member) -> str:
    """What a program's own failures are charged to."""
    return f"command {member.command[0]}"


def _failure_scope(cause: str, member: Member) -> str:
    """What a failure is charged to: the machine, or a program, or else nobody but the one whose work it was.

    What an agent leaves behind can be in git's or the gates' way. No other has to wait for that.
    """
    if cause in SYSTEM_CAUSES:
        return cause
    return f"program {member.command[0]}" if cause == "program" else f"{cause} of {member.name}"


def _member_scopes(member: Member) -> tuple[str, ...]:
    others = ("program", "git", "gates", "system")
    return (*SYSTEM_CAUSES, _program_scope(member), *(_failure_scope(cause, member) for cause in others))
