"""The scheduler: reads the ledger, decides on each task's next step, starts runs, and finishes those that ended."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from remand.app.errors import EnvironmentFault, LedgerReplaced, RemandError
from remand.app.gates.jobs import Chore
from remand.app.gates.known_results import BrokenGates
from remand.app.scheduler import decide as d
from remand.app.scheduler.ledger_client import LedgerClient, accepted_task
from remand.app.scheduler.ports import AgentLauncher, CannotRun, TaskWorktree, WorktreeCleanup
from remand.app.scheduler.runs import (
    ActiveRun,
    AgentRuns,
    EndedRun,
    NotStarted,
    RunAssignment,
    RunJob,
    RunJobResult,
    StopAnswer,
    Workers,
)
from remand.app.tasks.queue import Load, agent_pool, is_suitable, startable_workers
from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.decisions.runs import (
    SYSTEM_CAUSES,
    Breaker,
    charge_run,
    failure_scope,
    member_scopes,
    program_scope,
    run_scope,
)
from remand.domain.events.work import How, Purpose
from remand.domain.evidence.shell_calls import find_program
from remand.domain.instant import Instant
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task

WAIT_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""Leases and backoffs end without any write, so everything is checked once a second."""
RETRY_SECONDS = 1.0
MAX_STARTING = 8
"""How many runs start at once; more would only compete."""


class Scheduler:
    """One thread runs the loop and alone changes this state; worker threads put their results into one queue."""

    def __init__(
        self,
        *,
        ledger: LedgerClient,
        runs: AgentRuns,
        worktrees: WorktreeCleanup,
        workers: Workers,
        max_seconds: Callable[[], float],
        last_sign: Callable[[str], Instant],
        changes: Callable[[], int] = lambda: 0,
        report: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._worktrees = worktrees
        self._workers = workers
        self._max_seconds = max_seconds
        """The current time limit of a run."""
        self._last_sign = last_sign
        """The time of a run's last output; empty if unknown."""
        self._changes = changes
        self._report = report
        self.clock = clock
        self.breaker = Breaker()
        self.trouble = ""
        """Why the last tick failed; empty if it did not."""
        self._last_reason = ""
        """The reason that the last tick found."""
        self._active: dict[str, ActiveRun] = {}
        self._retries: list[RunJob] = []
        self._retry_at = 0.0
        self._ended_processes: set[str] = set()
        self._touched: set[str] = set()
        """Tasks for which a job has ended since the last tick."""
        self._handed_over: dict[str, float] = {}
        """When the scheduler first saw that the agent of a run had submitted its work."""
        self._gates = BrokenGates()
        self._last_assigned = ""
        self._refused: set[tuple[str, str]] = set()
        """Assignments that the rules refused, until the task is next given to anybody."""
        self._max_new = 0
        """How many more new tasks may start before too many are on their way to review."""
        self._reason = ""
        """Why nothing starts, as found during this tick."""
        self._session = ""
        self._takes_new = True
        self._has_started = False
        """Whether the last tick assigned a task, or would have if fewer runs were starting."""
        self._stopping = threading.Event()
        self._seen_changes, self._looked_at = -1, -LOOK_SECONDS

    # ---------------------------------------------------------------------------------------- the loop

    def run(self, chores: Sequence[Chore] = (), *, once: bool = False) -> None:
        """Runs until it is stopped and every agent has ended. With `once`, it starts what can start now and finishes it."""
        self.recover()
        for chore in chores if once else ():
            chore.run_now()
        try:
            while True:
                is_stopping = self._stopping.is_set()
                has_looked = self._tick_if_changed()
                if once and has_looked and not self._has_started:
                    self._takes_new = False
                if (is_stopping or once) and self._is_done():
                    break
                for chore in () if is_stopping else chores:
                    chore.start_if_due(time.monotonic())
                self._workers.woken.wait(WAIT_SECONDS)
            for chore in chores if once else ():
                chore.run_now()
        finally:
            self.stop()
            self._end_agents()
            for chore in chores:
                chore.wait(1.0)

    def stop(self) -> None:
        """Asks the loop to end; may be called from a signal handler."""
        self._stopping.set()
        self._workers.woken.set()

    def recover(self) -> None:
        """Recovers from the previous scheduler: records its runs as lost, and removes worktrees that nobody needs."""
        self._session = self._ledger.session
        self._ledger.skip_news()
        for task in self._ledger.running_tasks():
            for run in task.runs:
                if run.session == self._session:
                    self._runs.record_lost(task.id, run, self._last_sign(run.id), self._max_seconds())
        self._worktrees.remove_others(self._ledger.open_tasks())

    def tick(self, *, is_whole: bool = True) -> None:
        """Takes the next step of everything, or only of what changed since the last tick."""
        if self._stopping.is_set():
            self._end_agents()
        changed = self._ledger.changed_tasks() | self._touched
        self._touched = set()
        self._finish(is_whole=is_whole)
        view = self._read_view(None if is_whole else changed)
        self._has_started = False
        if not self.breaker.is_closed:
            members = self._ledger.rules.team.members
            self.breaker.keep_only({scope for one in members if one.command for scope in member_scopes(one)})
        if not view.is_stopping:
            self._gates = self._ledger.broken_gates()
            self._reason = self._gates.reason
        for action in d.decide(view):
            self._perform(action)
        if self._takes_new and not view.is_stopping:
            self._assign_tasks()
        self._last_reason = self._reason
        self._handle_results()

    def _tick_if_changed(self) -> bool:
        """Ticks after a change, and over everything once a second; True if there was a change."""
        now = time.monotonic()
        try:
            changes = self._changes()
        except LedgerReplaced:
            raise
        except (RemandError, OSError):
            changes = -1  # the tick itself meets and reports the error
        is_due = now - self._looked_at >= LOOK_SECONDS
        if not (is_due or changes != self._seen_changes or self._workers.woken.is_set()):
            return False
        self._workers.woken.clear()
        self._try_tick(is_whole=is_due)
        self._seen_changes, self._looked_at = changes, now if is_due else self._looked_at
        return True

    def _try_tick(self, *, is_whole: bool) -> None:
        """One tick; errors of the ledger or the disk are reported once, and the tick is retried."""
        trouble = ""
        try:
            self.tick(is_whole=is_whole or bool(self.trouble))
        except LedgerReplaced:
            raise
        except (RemandError, OSError) as error:
            trouble = str(error)
        if trouble and trouble != self.trouble:
            self._report(trouble)
        self.trouble = trouble

    def _is_done(self) -> bool:
        """True if nothing is in progress and nothing could be started."""
        if self.is_idle:
            self._try_tick(is_whole=True)
        return self.is_idle

    # ---------------------------------------------------------------------------------------- view

    def _read_view(self, changed: set[str] | None) -> d.SchedulerView:
        """The current tasks and runs: all, or those of changed tasks."""
        if changed is None:
            statuses = (Status.CLAIMED, *d.REVIEW_RUN_STATUS.values())
            tasks = [task for status in statuses for task in self._ledger.active_tasks(status)]
        else:
            tasks = [task for task in map(self._ledger.task, changed) if task is not None]
        known = {task.id: task for task in tasks}
        watched = []
        for run in self.active_runs:
            task_id = run.assignment.task.id
            if changed is None or task_id in changed:
                watched.append(self._watch(run, known.get(task_id) or self._ledger.task(task_id)))
        return d.SchedulerView(
            now=self._ledger.now(),
            session=self._session,
            rules=self._ledger.rules,
            runs=tuple(watched),
            tasks=tuple(tasks),
            busy={job.task_id for job in self._workers.jobs},
            is_stopping=self._stopping.is_set(),
        )

    def _watch(self, run: ActiveRun, task: Task | None) -> d.WatchedRun:
        if task is None or not d.has_handed_over(run, task):
            return d.WatchedRun(run, task)
        since = self._handed_over.setdefault(run.assignment.run_id, self.clock())
        return d.WatchedRun(run, task, self.clock() - since)

    # ---------------------------------------------------------------------------------------- start

    def _perform(self, action: d.Action) -> None:
        match action:
            case d.StopAgent(run):
                run.process.stop()
            case d.RenewLease(task):
                self._ledger.renew_lease(task)
            case d.AnswerStop(task, member):
                if self._may_start(member) and self._may_work(task.id):
                    self._answer_stop(task, member)
            case d.ContinueWork(task, member):
                if self._may_start(member) and self._may_work(task.id):
                    self._start_run(task, member, Purpose.WORK)
            case d.StartReviewRun(task, purpose):
                chosen = self._runs.choose(purpose, task, self.load)
                if chosen is not None and self._may_start(chosen):
                    self._start_run(task, chosen, purpose)

    def _answer_stop(self, task: Task, member: Member, worktree: TaskWorktree | None = None) -> None:
        work = partial(self._runs.answer_stop, task, worktree)
        self._workers.submit(RunJob(task.id, member, work, since=self.clock(), is_slow=True))

    def _start_run(self, task: Task, member: Member, purpose: Purpose, note: str = "") -> None:
        run_id = self._ledger.new_run_id()
        after = accepted_task(
            self._ledger.ask(
                c.StartRun(
                    task_id=task.id,
                    agent=member.name,
                    run_id=run_id,
                    purpose=purpose,
                    tier=self._runs.tier,
                )
            )
        )
        if after is not None:
            self._start_process(run_id, after, member, purpose, note)

    def _assign_tasks(self) -> None:
        """Assigns the next suitable tasks to free agents."""
        rules, waiting_for_review = self._ledger.rules, self._ledger.waiting_for_review()
        self._reason = d.review_backlog(rules, waiting_for_review) or self._reason
        members, self._max_new = d.decide_assignments(
            rules, self.load, waiting_for_review, self._last_assigned, self._may_start
        )
        candidates = d.CandidateTasks(self._candidate_tasks() if members else iter(()))
        for member in members:
            if candidates.is_empty:
                return
            if sum(job.starts is not None for job in self._workers.jobs) >= MAX_STARTING:
                self._has_started = True
                return
            if not self._may_work():
                return
            if self._may_start(member):
                self._assign_first(member, candidates)

    def _candidate_tasks(self) -> Iterator[Task]:
        """The claimable tasks; new ones come last and are omitted when too many submissions await review."""
        now = self._ledger.now()
        for task in self._ledger.ready_tasks():
            if self._max_new <= 0 and task.status == Status.INCOMING:
                return
            if self._may_assign(task, now):
                yield task

    def _may_assign(self, task: Task, now: Instant) -> bool:
        is_taken = task.runs or any(run.assignment.task.id == task.id for run in self._active.values())
        return (
            not is_taken
            and all(job.task_id != task.id for job in self._workers.jobs)
            and not d.is_backing_off(task, now)
        )

    def _assign_first(self, member: Member, candidates: d.CandidateTasks) -> None:
        """Assigns a member the first task that the rules allow; the queue does not know all rules."""
        actor = self._ledger.rules.team.actor(member.name)
        assign = partial(self._assign_task, member)
        if candidates.take(actor, has_team=True, may_have=assign) is None and candidates.has_more:
            first = self._ledger.first_for(actor, has_team=True)
            if first is not None and self._may_assign(first, self._ledger.now()):
                assign(first)

    def _may_take(self, member: Member, task: Task) -> bool:
        """False if a run of the member has failed the task and other members may take it."""
        if not task.spent.faults or self.breaker.is_open(*member_scopes(member)):
            return True  # a trial run costs the task nothing
        failed = d.failed_agents(self._ledger.task_events(task.id))
        if member.name not in failed:
            return True
        rules, pool = self._ledger.rules, agent_pool(task)
        others = [
            one
            for one in startable_workers(rules.team)
            if one.name not in failed
            and (task.id, one.name) not in self._refused
            and is_suitable(pool, rules.team.actor(one.name), has_team=True)
            and self._is_allowed(one)
        ]
        return not d.is_left_to_others(task.spent.faults, rules.policy.max_faults, others, self.load)

    def _assign_task(self, member: Member, task: Task) -> bool:
        if (self._max_new <= 0 and task.status == Status.INCOMING) or not self._may_take(member, task):
            return False
        run_id = self._ledger.new_run_id()
        answer = self._ledger.ask(
            c.AssignTask(agent=member.name, run_id=run_id, task_id=task.id, tier=self._runs.tier)
        )
        if isinstance(answer, Refused):
            self._refused.add((task.id, member.name))
            return False
        self._refused = {one for one in self._refused if one[0] != task.id}
        self._last_assigned, self._has_started = member.name, True
        self._max_new -= 1
        self._start_process(run_id, answer.task, member, Purpose.WORK)
        return True

    def _start_process(
        self, run_id: str, task: Task, member: Member, purpose: Purpose, note: str = ""
    ) -> None:
        """Starts the process of a recorded run in a worker thread."""
        scopes = member_scopes(member)
        assignment = RunAssignment(
            run_id=run_id,
            task=task,
            member=member,
            purpose=purpose,
            note=note,
            is_trial=self.breaker.is_open(*scopes),
        )
        self.breaker.record_start(*scopes, now=self.clock())
        self._workers.submit(RunJob(task.id, member, partial(self._try_start, assignment), starts=assignment))

    def _try_start(self, assignment: RunAssignment) -> ActiveRun | NotStarted:
        try:
            return self._runs.start(assignment)
        except CannotRun as fault:
            return NotStarted(assignment, fault)
        except (Refused, EnvironmentFault, OSError) as error:
            return NotStarted(assignment, CannotRun("system", str(error)))

    def _may_start(self, member: Member) -> bool:
        """False while something that the member needs is broken, which is then the reason for waiting.

        Called before each start: an open breaker permits one trial run, which may have been the previous start.
        """
        if self._is_allowed(member):
            return True
        self._reason = "; ".join(dict.fromkeys(breach.message for breach in self.breaker.breaches))
        return False

    def _is_allowed(self, member: Member) -> bool:
        return self.breaker.is_closed or self.breaker.allows(*member_scopes(member), now=self.clock())

    def _may_work(self, task_id: str = "") -> bool:
        """False while a broken gate keeps work from starting: see `decide.may_work`."""
        runs = (
            *(run.assignment for run in self._active.values()),
            *(job.starts for job in self._workers.jobs),
        )
        working = {run.task.id for run in runs if run is not None and run.purpose == Purpose.WORK}
        measured = {job.task_id for job in self._workers.jobs if job.is_slow}
        return d.may_work(self._gates, working | measured, task_id)

    # ---------------------------------------------------------------------------------------- finish

    def _finish(self, *, is_whole: bool) -> None:
        """Handles the results of worker threads and records the ends of processes."""
        self._handle_results()
        names = (
            list(self._active)
            if is_whole
            else [name for name in self._ended_processes if name in self._active]
        )
        self._ended_processes.clear()
        for name in names:
            run = self._active[name]
            ended = run.process.poll()
            if ended is not None:
                del self._active[name]
                work = partial(self._runs.end, run, ended)
                self._workers.submit(
                    RunJob(run.assignment.task.id, run.assignment.member, work, is_retried=True)
                )
        if self._retries and self.clock() >= self._retry_at:
            retries, self._retries = self._retries, []
            for job in retries:
                self._workers.submit(job)
        self._handle_results()

    def _handle_results(self) -> None:
        for item in self._workers.results():
            if isinstance(item, str):
                self._ended_processes.add(item)
            else:
                self._touched.add(item[0].task_id)
                self._handle(*item)

    def _handle(self, job: RunJob, result: RunJobResult) -> None:
        member = job.member
        match result:
            case ActiveRun():
                run_id = result.assignment.run_id
                causes = (*SYSTEM_CAUSES, "git", "system", "program")
                self.breaker.record_success(*(failure_scope(cause, member) for cause in causes))
                self._active[run_id] = result
                if self._stopping.is_set():
                    result.process.stop()
                result.process.notify_end(partial(self._workers.note_process_end, run_id))
            case NotStarted():
                self._handle_failed_start(job, result)
            case EndedRun():
                self._handle_end(job, result)
            case StopAnswer():
                if result.has_run_gates:
                    self.breaker.record_success(failure_scope("gates", member))
                self._continue_after_stop(result)
            case CannotRun():
                self._record_failure(job, result.cause, str(result), is_certain=result.cause in SYSTEM_CAUSES)
            case EnvironmentFault() | OSError():
                self._record_failure(job, "system", str(result))
                if job.is_retried:
                    self._retry_at = self.clock() + RETRY_SECONDS
                    self._retries.append(job)
            case None:
                pass

    def _handle_failed_start(self, job: RunJob, result: NotStarted) -> None:
        """Records that a run could not start, and then counts it as a failure of the responsible part."""
        assignment, fault, is_recorded = result
        is_systems = fault.cause in (*SYSTEM_CAUSES, "program")
        if is_recorded:
            self._record_failure(job, fault.cause, str(fault), is_certain=is_systems)
            return

        def record() -> NotStarted:
            is_nobodys = is_systems or assignment.is_trial
            self._runs.record_not_started(assignment, fault, is_systems=is_nobodys)
            return result._replace(is_recorded=True)

        self._workers.submit(RunJob(job.task_id, job.member, record, is_retried=True))

    def _handle_end(self, job: RunJob, ended: EndedRun) -> None:
        """Answers the stop of a run whose end is recorded."""
        assignment, task = ended.run.assignment, ended.task
        self._handed_over.pop(assignment.run_id, None)
        member = assignment.member
        if ended.fault:
            message = f"A run of {find_program(member.command)} {ended.fault}"
            for scope in charge_run(member, startable_workers(self._ledger.rules.team)):
                self.breaker.record_failure(scope, job.task_id, message, now=self.clock(), member=member.name)
        elif ended.end.how == How.EXITED:
            self.breaker.record_success(program_scope(member), run_scope(member))
        if ended.worktree_fault is not None:
            self._handle(job, ended.worktree_fault)
            return
        if assignment.purpose != Purpose.WORK or task is None or task.is_terminal or task.claim is None:
            return
        if task.claim.run_ended == How.EXITED:
            self._answer_stop(task, member, ended.run.worktree)

    def _continue_after_stop(self, answer: StopAnswer) -> None:
        """Restarts the agent with the message for it, if there is one."""
        claim = answer.task.claim
        member = d.startable_member(self._ledger.rules.team, claim.agent) if claim else None
        current = self._ledger.task(answer.task.id)
        if answer.note is None or member is None or current is None or self._stopping.is_set():
            return
        self._gates = self._ledger.broken_gates()
        if self._may_start(member) and self._may_work(current.id):
            self._start_run(current, member, Purpose.WORK, answer.note)

    def _record_failure(self, job: RunJob, cause: str, message: str, *, is_certain: bool = False) -> None:
        scope = failure_scope(cause, job.member)
        self.breaker.record_failure(scope, job.task_id, message, now=self.clock(), is_certain=is_certain)

    def _end_agents(self) -> None:
        """Asks every agent to end; one that is just starting ends once it has started."""
        for run in self._active.values():
            run.process.stop()
        self._runs.close()

    # ---------------------------------------------------------------------------------------- what others ask

    @property
    def blocked_reason(self) -> str:
        """Why it did not start more in the last tick; empty if nothing prevented it."""
        return self.trouble or self._last_reason

    @property
    def is_broken(self) -> bool:
        """True if something is wrong with the system."""
        return bool(self.breaker.breaches) or bool(self._gates.open_questions)

    @property
    def is_idle(self) -> bool:
        """True if nothing is in progress and every result has been handled."""
        return not (self._active or self._touched) and self._workers.is_idle

    @property
    def active_runs(self) -> list[ActiveRun]:
        """The active runs. The copy is atomic, so any thread may call this."""
        return list(self._active.values())

    @property
    def active_measurements(self) -> list[RunJob]:
        """The done claims being measured."""
        return [job for job in self._workers.jobs if job.is_slow]

    @property
    def load(self) -> Load:
        """How many tasks each member works on, including those whose end is being handled."""
        runs = {(run.assignment.task.id, run.assignment.member.name) for run in self._active.values()}
        return Load(
            Counter(name for _, name in runs | {(job.task_id, job.member.name) for job in self._workers.jobs})
        )


class SchedulerHandle(NamedTuple):
    """A scheduler that is ready to run."""

    scheduler: Scheduler
    chores: tuple[Chore, ...]
    launcher: AgentLauncher
    close: Callable[[], None]
