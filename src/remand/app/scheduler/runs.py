"""The blocking steps of a run (starting it, recording its end, answering its stop) and the threads for them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

from remand.app.errors import EnvironmentFault
from remand.app.requests import Acceptance
from remand.app.scheduler import ports
from remand.app.scheduler.ledger_client import LedgerClient, accepted_task
from remand.app.scheduler.ports import Bounds, CannotRun, Executor, RunEnd, SessionResult, TaskWorktree
from remand.app.tasks.queue import Load
from remand.config import RunSettings
from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.decisions.claims import StopMeaning, StopState, stop_meaning
from remand.domain.decisions.runs import describe_run_end
from remand.domain.events.event import Event
from remand.domain.events.work import GateRejected, How, Purpose, RunEnded
from remand.domain.gate.verdict import make_unstarted_verdict
from remand.domain.instant import Instant, seconds_between
from remand.domain.record import Record
from remand.domain.run import Run
from remand.domain.task import Claim, Status, Task
from remand.domain.text.words import remove_invisible

MAX_LEFT_FILES = 20
MAX_DETAIL = 500
MAX_SUBMISSIONS = 2
"""How often a submission that fails for technical reasons is attempted."""
MAX_NAMED = 10
FORGOTTEN_SECONDS = 600.0
"""How long past its time limit a run of another ledger or host is waited for."""
CODES_ENDING_RUN = ("gate_held", "gate_errored")
"""Refusals of a done claim after which the agent is not restarted."""


class RunAssignment(Record, kw_only=True):
    """A run that is recorded in the ledger and about to start."""

    run_id: str
    task: Task
    member: Member
    purpose: Purpose
    note: str = ""
    """The first part of the prompt: the reason for another run."""
    is_trial: bool = False
    """Whether it starts to test if a fault of the system persists; its failure is not charged to the task."""


class ActiveRun(NamedTuple):
    assignment: RunAssignment
    worktree: TaskWorktree
    process: ports.RunningAgent
    started_at: Instant


class EndedRun(NamedTuple):
    """A run whose end is recorded."""

    run: ActiveRun
    end: RunEnd
    task: Task | None
    """The task afterwards; None if the ledger refused the end."""
    fault: str = ""
    """How the run failed, in words; empty if it did not."""
    worktree_fault: CannotRun | None = None
    """Why its worktree cannot be used."""


class StopAnswer(NamedTuple):
    task: Task
    note: str | None = None
    """The message for the agent's next run; None if there is none now."""
    has_run_gates: bool = False


class ReviewAgents(Protocol):
    """Agents that review work or decide on rejections instead of people."""

    def choose(self, purpose: Purpose, task: Task, load: Load) -> Member | None:
        """The agent for a task; None if a person is needed."""

    def prompt(self, assignment: RunAssignment) -> str:
        """That agent's prompt. Raises `CannotRun`."""

    def apply_answer(self, run: ActiveRun, result: SessionResult) -> str:
        """Applies the agent's last message; returns why it has no effect, if so."""


class RunEnvironment(NamedTuple):
    """The ports and settings that all runs share."""

    worktrees: ports.TaskWorktrees
    sockets: ports.AgentSockets
    hosts: ports.Hosts
    launcher: ports.AgentLauncher
    claims: ports.ClaimSubmitter
    review_agents: ReviewAgents
    bounds: Callable[[], Bounds]
    environment: Callable[[], dict[str, str]]
    """The variables that the scheduler passes on from its own environment."""
    log: Callable[[str], str]
    """The file for a run's output."""
    program: str = ""
    """The path of our executable, for agents whose shells may not find it by name."""


class AgentRuns:
    """The blocking steps of runs. Each is called in a worker thread and returns its result."""

    def __init__(self, environment: RunEnvironment, ledger: LedgerClient) -> None:
        self._env = environment
        self._ledger = ledger
        self._failed_submissions: Counter[str] = Counter()
        """How often in a row a task's submission failed for technical reasons."""
        self._is_closed = False

    @property
    def tier(self) -> str:
        return self._env.launcher.tier

    def choose(self, purpose: Purpose, task: Task, load: Load) -> Member | None:
        return self._env.review_agents.choose(purpose, task, load)

    def close(self) -> None:
        """Stops answering stops and ends the measurements in progress."""
        self._is_closed = True
        self._env.claims.close()

    # ---------------------------------------------------------------------------------------- start

    def start(self, assignment: RunAssignment) -> ActiveRun:
        """Starts the process of a run. On `CannotRun`, `Refused`, `EnvironmentFault` or OSError it leaves nothing behind."""
        env, run_id, member = self._env, assignment.run_id, assignment.member
        worktree = self._prepare_worktree(assignment)
        prompt = self._prompt(assignment, worktree)
        bounds, claim = env.bounds(), assignment.task.claim
        try:
            config = env.hosts.launch_config(member.command, run_id, prompt)
            socket = env.sockets.open(run_id, member.name, assignment.task.id, worktree)
            # In a sandbox the socket alone identifies the agent; otherwise these variables do.
            identity = {
                "REMAND_ACTOR": member.name,
                "REMAND_TASK": assignment.task.id,
                "REMAND_HANDOFF": claim.handoff_id if claim and assignment.purpose == Purpose.WORK else "",
                "REMAND_SOCKET": socket,
            }
            process = env.launcher.start(
                ports.AgentLaunch(
                    run_id=run_id,
                    agent=member.name,
                    command=config.command,
                    prompt="" if config.has_prompt else prompt,
                    worktree=worktree,
                    socket=socket,
                    log=env.log(run_id),
                    environment={**env.environment(), **config.environment, **identity},
                    bounds=Bounds(
                        seconds=bounds.seconds,
                        has_network=bounds.has_network,
                        read=(*bounds.read, *config.read),
                        write=(*bounds.write, *config.write),
                        hide=bounds.hide,
                    ),
                    uncounted=partial(env.sockets.gate_seconds, run_id),
                )
            )
        except (CannotRun, EnvironmentFault, OSError):
            self._clean_up(run_id)
            raise
        return ActiveRun(assignment, worktree, process, self._ledger.now())

    def _prepare_worktree(self, assignment: RunAssignment) -> TaskWorktree:
        task, is_confined = assignment.task, self.tier != "plain"
        if assignment.purpose == Purpose.WORK:
            start = (task.claim.base if task.claim else "") or self._ledger.rules.base
            return self._env.worktrees.prepare(task.id, task_branch(task), start, is_confined=is_confined)
        commit = task.submission.commit if task.submission else self._ledger.rules.base
        # An earlier review's branch would be reused at the commit that was rejected then.
        branch = f"remand/{assignment.purpose}/{task.id}-{commit[:12]}"
        name = f"{task.id}-{assignment.purpose}"
        return self._env.worktrees.prepare(name, branch, commit, is_confined=is_confined)

    def _prompt(self, assignment: RunAssignment, worktree: TaskWorktree) -> str:
        """The prompt; it begins with the reason for another run."""
        if assignment.purpose != Purpose.WORK:
            return self._env.review_agents.prompt(assignment)
        text = self._ledger.prompt_for_agent(assignment.task.id, assignment.member.name)
        if self._env.program:
            text += f"\n\nIf your shell does not find `remand`, call it as {self._env.program}."
        if assignment.note:
            quoted = "\n".join(f"> {line}" for line in remove_invisible(assignment.note).splitlines())
            return f"## You stopped before the task was done\n\n{quoted}\n\n{text}"
        uncommitted: tuple[str, ...] = ()
        if assignment.task.spent.runs:
            with suppress(CannotRun):
                uncommitted = self._env.worktrees.inspect(worktree).uncommitted
        if not uncommitted:
            return text
        names = ", ".join(remove_invisible(name) for name in uncommitted[:MAX_LEFT_FILES])
        return f"{text}\n\n## What an earlier run left\n\nUncommitted in this worktree: {names}. Continue from there."

    def record_not_started(self, assignment: RunAssignment, fault: CannotRun, *, is_systems: bool) -> None:
        self._ledger.ask(
            c.EndRun(
                task_id=assignment.task.id,
                run_id=assignment.run_id,
                how=How.NOT_STARTED,
                detail=str(fault)[:MAX_DETAIL],
                is_systems=is_systems,
            )
        )

    def _clean_up(self, run_id: str) -> None:
        self._env.sockets.close(run_id)
        self._env.hosts.drop(run_id)

    # ---------------------------------------------------------------------------------------- end

    def end(self, run: ActiveRun, ended: RunEnd) -> EndedRun:
        """Records the end of a run and releases its socket and worktree. The ledger decides what follows."""
        self._clean_up(run.assignment.run_id)
        task, fault = self._record_end(run, ended)
        worktree_fault = None
        try:
            self._env.worktrees.restore_git_links(run.worktree)
            if run.assignment.purpose != Purpose.WORK:
                self._env.worktrees.remove(run.worktree.task_id, is_kept=False)
            elif task is not None and task.is_terminal:
                self._env.worktrees.remove(task.id)
        except CannotRun as error:
            worktree_fault = error
        return EndedRun(run, ended, task, fault, worktree_fault)

    def _record_end(self, run: ActiveRun, ended: RunEnd) -> tuple[Task | None, str]:
        """The task after a run's end, and the run's failure if it failed."""
        assignment = run.assignment
        result = self._env.hosts.parse_result(assignment.member.command, ended.output, ended.status)
        is_work = assignment.purpose == Purpose.WORK
        is_complete = ended.how == How.EXITED and not result.is_exhausted and not result.error
        unused = "" if is_work or not is_complete else self._env.review_agents.apply_answer(run, result)
        is_answered = not is_work and is_complete and not unused
        command = c.EndRun(
            task_id=assignment.task.id,
            run_id=assignment.run_id,
            how=How.EXHAUSTED if result.is_exhausted else How(ended.how),
            status=ended.status,
            seconds=round(ended.seconds, 3),
            turns=result.turns,
            tokens=result.tokens,
            cost=result.cost,
            detail=unused[:MAX_DETAIL] or _fault_detail(ended, result),
            has_work=is_work and self._has_work(run),
            is_answered=is_answered,
            is_systems=assignment.is_trial and not is_answered and not (is_complete and not ended.status),
        )
        answer = self._ledger.ask(command)
        events = answer.events if isinstance(answer, Acceptance) else ()
        failures = [
            event
            for event in events
            if isinstance(event, RunEnded) and (event.is_fault or command.is_systems)
        ]
        return accepted_task(answer), describe_run_end(failures[0]) if failures else ""

    def record_lost(self, task_id: str, run: Run, last_sign: Instant, max_seconds: float) -> None:
        """Records that a run ended together with the scheduler that started it.

        It counts as having lasted until its last sign of life, or until now if there is none, but no longer than the
        time limit.
        """
        now = self._ledger.now()
        lasted = seconds_between(run.started_at, min(last_sign or now, now))
        seconds = round(min(max(lasted, 0.0), max_seconds), 3)
        self._ledger.ask(c.EndRun(task_id=task_id, run_id=run.id, how=How.LOST, seconds=seconds))

    def _has_work(self, run: ActiveRun) -> bool:
        try:
            state = self._env.worktrees.inspect(run.worktree)
        except CannotRun:
            return False
        claim = run.assignment.task.claim
        return bool(state.uncommitted) or bool(state.head and claim and state.head != claim.base)

    # ---------------------------------------------------------------------------------------- stop

    def answer_stop(self, task: Task, worktree: TaskWorktree | None = None) -> StopAnswer:
        """Handles the stop of a task's agent: measures its work, or tells it what is missing.

        Without a worktree, an earlier scheduler saw the stop, or it could not be answered then. Raises `CannotRun`.
        """
        claim = task.claim
        if claim is None or stop_meaning(task, StopState()) in (StopMeaning.END, StopMeaning.WAIT):
            return StopAnswer(task)
        try:
            if worktree is None:
                worktree = self._env.worktrees.prepare(
                    task.id, task_branch(task), claim.base, is_confined=self.tier != "plain"
                )
            state = self._env.worktrees.inspect(worktree)
            meaning = stop_meaning(task, StopState(commit=state.head, uncommitted=state.uncommitted))
            if meaning == StopMeaning.UNCOMMITTED:
                return self._send_back(task, claim, _uncommitted_text(state.uncommitted))
            if meaning == StopMeaning.NOTHING_COMMITTED:
                no_commit = "You stopped, and there is no commit of yours on the branch yet."
                return self._send_back(task, claim, no_commit)
            commit = self._env.worktrees.import_commits(worktree)
        except CannotRun as fault:
            # The agent may have caused the git problem itself: it is told, and nobody else has to wait.
            if fault.cause != "git":
                raise
            return self._send_back(task, claim, f"Your work cannot be imported: {fault}")
        if _is_rejected_already(self._ledger.task_events(task.id), commit):
            return StopAnswer(task, note="")
        return self._submit(task, claim, worktree, commit)

    def _submit(self, task: Task, claim: Claim, worktree: TaskWorktree, commit: str) -> StopAnswer:
        """Makes the done claim. A failure to measure is recorded after the second attempt."""
        try:
            answer = self._env.claims.submit(worktree, claim.agent, commit)
        except CannotRun as fault:
            self._failed_submissions[task.id] += 1
            if self._is_closed or self._failed_submissions[task.id] < MAX_SUBMISSIONS:
                raise
            verdict = make_unstarted_verdict(commit, "", str(fault))
            self._ledger.ask(
                c.RecordVerdict(
                    task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id, verdict=verdict
                )
            )
            return StopAnswer(task)
        self._failed_submissions.pop(task.id, None)
        if not answer.refused or answer.refused in CODES_ENDING_RUN:
            return StopAnswer(task, has_run_gates=True)
        if answer.refused == "gate_rejected":
            return StopAnswer(task, note="", has_run_gates=True)
        return self._send_back(task, claim, answer.message)._replace(has_run_gates=True)

    def _send_back(self, task: Task, claim: Claim, text: str) -> StopAnswer:
        """Sends the agent back without measuring anything, until it has stopped like this too often in a row."""
        ends = [event for event in self._ledger.task_events(task.id) if isinstance(event, RunEnded)]
        # A run that did not end by itself is not a stop and does not count.
        if ends and ends[-1].how == How.EXITED:
            self._ledger.ask(
                c.CountIdleStop(
                    task_id=task.id, handoff_id=claim.handoff_id, key=ends[-1].run_id, reason=text
                )
            )
        after = self._ledger.task(task.id)
        is_escalated = after is not None and after.status == Status.ESCALATED
        return StopAnswer(task, None if is_escalated else text)


def run_bounds(run: RunSettings, reports: str, hidden: tuple[str, ...]) -> Bounds:
    """The resources agents may use and reach by configuration; gate reports are included, hidden paths excluded."""
    with suppress(OSError):
        # An agent never sees what does not exist when it starts.
        os.makedirs(reports, mode=0o700, exist_ok=True)
    return Bounds(
        seconds=run.seconds,
        has_network=run.has_network,
        read=(*run.read, reports),
        write=run.write,
        hide=hidden,
    )


def task_branch(task: Task) -> str:
    return task.branch or f"remand/{task.id}"


def _fault_detail(ended: RunEnd, result: SessionResult) -> str:
    """The last line about the error, or the agent's last line; empty if there is neither.

    A host's other output does not explain an end that we caused.
    """
    if ended.how == How.EXITED and not ended.status and not result.error:
        return ""
    is_its_own = ended.how in (How.EXITED, How.SIGNALLED)
    found = result.error or (ended.errors if is_its_own else "") or result.text
    lines = [line for line in remove_invisible(found).splitlines() if line.strip()]
    lines = lines or [line for line in ended.output.splitlines() if line.strip() and not line.startswith("{")]
    return remove_invisible(lines[-1]).strip()[:MAX_DETAIL] if lines else ""


def _is_rejected_already(events: Sequence[Event], commit: str) -> bool:
    """True if the gates have rejected the commit since the last run: that stop is answered and not counted again."""
    found = (event for event in reversed(events) if isinstance(event, GateRejected | RunEnded))
    last = next(found, None)
    return isinstance(last, GateRejected) and last.verdict.commit == commit


def _uncommitted_text(paths: tuple[str, ...]) -> str:
    names = ", ".join(paths[:MAX_NAMED])
    more = len(paths) - MAX_NAMED
    return f"You stopped with uncommitted changes: {names}{f' and {more} more' if more > 0 else ''}. Commit them."


def import_agent_commits(ledger: LedgerClient, worktrees: ports.TaskWorktrees, worktree: TaskWorktree) -> str:
    """Imports an agent's commits while it holds the task; submitted work remains unchanged."""
    task = ledger.task(worktree.task_id)
    if task is None or task.status != Status.CLAIMED:
        raise CannotRun(
            "git", f"Task {worktree.task_id} is no longer held; no more commits are imported for it."
        )
    return worktrees.import_commits(worktree)


class NotStarted(NamedTuple):
    """A run that could not start; `is_recorded` says whether the ledger knows."""

    assignment: RunAssignment
    fault: CannotRun
    is_recorded: bool = False


RunJobResult = ActiveRun | NotStarted | EndedRun | StopAnswer | CannotRun | EnvironmentFault | OSError | None
"""The result of a job; None after an unexpected error, which the executor reports."""


@dataclass(frozen=True, slots=True, eq=False)
class RunJob:
    """Blocking work in a worker thread. Its task is busy until its result is handled."""

    task_id: str
    member: Member
    work: Callable[[], RunJobResult]
    since: float = 0.0
    """When it was submitted, on the scheduler's clock."""
    starts: RunAssignment | None = None
    """The run to start."""
    is_slow: bool = False
    """Whether it measures a done claim, which takes minutes."""
    is_retried: bool = False
    """Whether it is repeated until the ledger accepts what it records."""


class Workers:
    """Runs jobs in threads. Only the loop's thread calls this, except for `note_process_end`."""

    def __init__(self, executor: Executor, slow_executor: Executor) -> None:
        """`slow_executor` takes jobs of minutes, so that no start or end waits for them."""
        self._executor = executor
        self._slow_executor = slow_executor
        self._inbox: SimpleQueue[str | tuple[RunJob, RunJobResult]] = SimpleQueue()
        self._jobs: dict[RunJob, None] = {}
        self.woken = threading.Event()
        """Set while the queue is not empty."""

    @property
    def jobs(self) -> list[RunJob]:
        """Jobs whose results have not been handled. The copy is atomic, so any thread may call this."""
        return list(self._jobs)

    @property
    def is_idle(self) -> bool:
        """True if no job is running and the queue is empty."""
        return not self._jobs and self._inbox.empty()

    def submit(self, job: RunJob) -> None:
        self._jobs[job] = None
        (self._slow_executor if job.is_slow else self._executor).execute(partial(self._work, job))

    def _work(self, job: RunJob) -> None:
        result: RunJobResult = None
        try:
            result = job.work()
        except (CannotRun, EnvironmentFault, OSError) as error:
            result = error
        finally:
            self._inbox.put((job, result))
            self.woken.set()

    def note_process_end(self, run_id: str) -> None:
        """Called by the thread that sees a run's process end."""
        self._inbox.put(run_id)
        self.woken.set()

    def results(self) -> Iterator[str | tuple[RunJob, RunJobResult]]:
        """Empties the queue: ids of runs whose process has ended, and results of jobs."""
        while True:
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return
            if not isinstance(item, str):
                del self._jobs[item[0]]
            yield item
