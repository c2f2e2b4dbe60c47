"""How a run starts, ends and stops: its worktree, socket and prompt, its cost and fault, and the answer to its stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.requests import Acceptance
from remand.app.scheduler import status
from remand.app.scheduler.ledger_client import LedgerClient, accepted_task
from remand.app.scheduler.ports import (
    AgentLaunch,
    AgentLauncher,
    AgentLogs,
    AgentSockets,
    Bounds,
    CannotRun,
    ClaimSubmitter,
    Hosts,
    RunEnd,
    RunningAgent,
    SessionResult,
    StateFile,
    TaskWorktree,
    TaskWorktrees,
    WorktreeState,
)
from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.decisions.runs import describe_run_end
from remand.domain.decisions.stops import StopMeaning, StopState, stop_meaning
from remand.domain.events.event import Event
from remand.domain.events.work import GateRejected, How, Purpose, RunEnded
from remand.domain.gate.verdict import make_unstarted_verdict
from remand.domain.instant import Instant, seconds_between
from remand.domain.record import Record
from remand.domain.run import Run
from remand.domain.task import Claim, Status, Task
from remand.domain.text.visible import remove_invisible


class LastSigns:
    """Agents end with their scheduler: they lived as long as it said how it was doing, or they said something."""

    def __init__(self, file: StateFile, logs: AgentLogs) -> None:
        self._file = file
        self._logs = logs

    def last(self, run_id: str) -> Instant:
        """The last sign of a run; empty when that is not known."""
        found = status.decode_status(self._file.read() or b"")
        return max(found.tick_at, self._logs.last_written(run_id)) if found else ""


def lost_run_seconds(run: Run, sign: Instant, now: Instant, longest: float) -> float:
    """How long a run that was found lost has lasted: until its last sign, or until now, and no longer than it may."""
    until = min(sign or now, now)
    return round(min(max(seconds_between(run.started_at, until), 0.0), longest), 3)


class RunAssignment(Record, kw_only=True):
    """A run that the ledger knows, and that is to be begun."""

    run_id: str
    task: Task
    member: Member
    purpose: Purpose
    note: str = ""
    """What the agent is told before all else: why its last run was not the end."""
    is_trial: bool = False
    """It is begun to find out whether what was wrong still is: should it fail, the task has no part in that."""
    left: tuple[str, ...] = ()
    """What an earlier run left uncommitted in the workplace."""


class ActiveRun(NamedTuple):
    """A run that is under way."""

    assigned: RunAssignment
    workplace: TaskWorktree
    running: RunningAgent
    started_at: Instant


class RunEnvironment(NamedTuple):
    """What all runs have in common."""

    workplaces: TaskWorktrees
    doors: AgentSockets
    hosts: Hosts
    crew: AgentLauncher
    bounds: Callable[[], Bounds]
    environment: Callable[[], dict[str, str]]
    """What the scheduler's own environment hands on."""
    log: Callable[[str], str]
    """The file that a run's output is written to."""


RenderRunPrompt = Callable[[RunAssignment], str]
"""What an agent is told."""


class RunStarter:
    """Begins runs. Whatever goes wrong is a `CannotRun`, and leaves nothing behind."""

    def __init__(self, site: RunEnvironment, books: LedgerClient, brief: RenderRunPrompt) -> None:
        self._site = site
        self._books = books
        self._brief = brief

    def start(self, assigned: RunAssignment) -> ActiveRun:
        """Starts the process of a run."""
        site, run_id = self._site, assigned.run_id
        workplace = self._prepare_worktree(assigned)
        prompt = self._brief(replace(assigned, left=self._uncommitted_files(assigned, workplace)))
        bounds = site.bounds()
        try:
            fitted = site.hosts.launch_config(assigned.member.command, run_id, prompt)
            door = site.doors.open(run_id, assigned.member.name, assigned.task.id, workplace)
            running = site.crew.start(
                AgentLaunch(
                    run_id=run_id,
                    agent=assigned.member.name,
                    command=fitted.command,
                    prompt="" if fitted.has_prompt else prompt,
                    workplace=workplace,
                    door=door,
                    log=site.log(run_id),
                    environment={
                        **site.environment(),
                        **fitted.environment,
                        **self._identity(assigned, door),
                    },
                    bounds=Bounds(
                        seconds=bounds.seconds,
                        has_network=bounds.has_network,
                        read=(*bounds.read, *fitted.read),
                        write=(*bounds.write, *fitted.write),
                        hide=bounds.hide,
                    ),
                )
            )
        except (CannotRun, EnvironmentFault, OSError):
            self.clean_up(run_id)
            raise
        return ActiveRun(assigned, workplace, running, self._books.now())

    def _uncommitted_files(self, assigned: RunAssignment, workplace: TaskWorktree) -> tuple[str, ...]:
        """What there is to go on from besides commits; what cannot be looked at is not told."""
        if assigned.purpose != Purpose.WORK or assigned.note or not assigned.task.spent.runs:
            return ()
        with suppress(CannotRun):
            return self._site.workplaces.inspect(workplace).uncommitted
        return ()

    def clean_up(self, run_id: str) -> None:
        """Takes down what was put up for a run."""
        self._site.doors.close(run_id)
        self._site.hosts.drop(run_id)

    def _prepare_worktree(self, assigned: RunAssignment) -> TaskWorktree:
        task, is_confined = assigned.task, self._site.crew.tier != "plain"
        if assigned.purpose == Purpose.WORK:
            start = (task.claim.base if task.claim else "") or self._books.rules.base
            return self._site.workplaces.prepare(
                task.id, task.branch or task_branch(task), start, is_confined=is_confined
            )
        commit = task.submission.commit if task.submission else self._books.rules.base
        place = f"{task.id}-{assigned.purpose}"
        # A branch of an earlier review would be taken as it is, at the commit that was rejected then.
        branch = f"remand/{assigned.purpose}/{task.id}-{commit[:12]}"
        return self._site.workplaces.prepare(place, branch, commit, is_confined=is_confined)

    @staticmethod
    def _identity(assigned: RunAssignment, door: str) -> dict[str, str]:
        """Who the agent is. Behind its own door nothing of it is asked for; without a sandbox it is how it is known."""
        claim = assigned.task.claim
        return {
            "REMAND_ACTOR": assigned.member.name,
            "REMAND_TASK": assigned.task.id,
            "REMAND_HANDOFF": claim.handoff_id if claim and assigned.purpose == Purpose.WORK else "",
            "REMAND_SOCKET": door,
        }


def task_branch(task: Task) -> str:
    """The branch that a task without one is worked on."""
    return f"remand/{task.id}"


MAX_LEFT_FILES = 20


class RunPrompts:
    """The prompt of a run: of one that works its task, of others what the one who asks them has to say."""

    def __init__(
        self, books: LedgerClient, of_others: dict[Purpose, RenderRunPrompt], program: str = ""
    ) -> None:
        """`program` is the path of our own executable, for agents whose shells may not find it by its name."""
        self._books = books
        self._of_others = of_others
        self._calling = f"\n\nIf your shell does not find `remand`, call it as {program}." if program else ""

    def prompt_for(self, assigned: RunAssignment) -> str:
        """What is told. Why the last run was not the end comes first."""
        other = self._of_others.get(assigned.purpose)
        if other is not None:
            return other(assigned)
        text = self._books.prompt_for_agent(assigned.task.id, assigned.member.name) + self._calling
        if assigned.left:
            names = ", ".join(remove_invisible(name) for name in assigned.left[:MAX_LEFT_FILES])
            return f"{text}\n\n## What an earlier run left\n\nUncommitted in this worktree: {names}. Go on from there."
        if not assigned.note:
            return text
        quoted = "\n".join(f"> {line}" for line in remove_invisible(assigned.note).splitlines())
        return f"## You stopped before the task was done\n\n{quoted}\n\n{text}"


MAX_DETAIL = 500

ApplyOpinion = Callable[[ActiveRun, SessionResult], str]
"""Makes a reviewer's or director's words count; gives why they do not, should that be so."""


class RunEnder:
    """Notes ends in the ledger. What follows from them the ledger decides."""

    def __init__(
        self, books: LedgerClient, workplaces: TaskWorktrees, hosts: Hosts, opinion: ApplyOpinion
    ) -> None:
        self._books = books
        self._workplaces = workplaces
        self._hosts = hosts
        self._opinion = opinion

    def record_end(self, work: ActiveRun, ended: RunEnd) -> tuple[Task | None, str]:
        """Notes the end of a run; gives the task after it, and how the run failed if it did, in words."""
        said = self._hosts.parse_result(work.assigned.member.command, ended.output, ended.status)
        is_work = work.assigned.purpose == Purpose.WORK
        unheard = "" if is_work or not _is_complete(ended, said) else self._opinion(work, said)
        is_answered = not is_work and _is_complete(ended, said) and not unheard
        ask = c.EndRun(
            task_id=work.assigned.task.id,
            run_id=work.assigned.run_id,
            how=How.EXHAUSTED if said.is_exhausted else How(ended.how),
            status=ended.status,
            seconds=round(ended.seconds, 3),
            turns=said.turns,
            tokens=said.tokens,
            cost=said.cost,
            detail=unheard[:MAX_DETAIL] or _fault_detail(ended, said),
            has_work=is_work and self._has_work(work),
            is_answered=is_answered,
            is_systems=work.assigned.is_trial and not is_answered and not _is_clean(ended, said),
        )
        answer = self._books.ask(ask)
        events = answer.events if isinstance(answer, Acceptance) else ()
        has_failed = [one for one in events if isinstance(one, RunEnded) and (one.is_fault or ask.is_systems)]
        fault = describe_run_end(has_failed[0]) if has_failed else ""
        return accepted_task(answer), fault

    def record_not_started(self, task_id: str, run_id: str, fault: CannotRun, *, is_systems: bool) -> None:
        """Notes that a run could not be begun."""
        self._books.ask(
            c.EndRun(
                task_id=task_id,
                run_id=run_id,
                how=How.NOT_STARTED,
                detail=str(fault)[:MAX_DETAIL],
                is_systems=is_systems,
            )
        )

    def record_lost(self, task_id: str, run: Run, sign: Instant, longest: float) -> None:
        """Notes that a run ended with the scheduler that had begun it, some time after its last sign of life."""
        seconds = lost_run_seconds(run, sign, self._books.now(), longest)
        self._books.ask(c.EndRun(task_id=task_id, run_id=run.id, how=How.LOST, seconds=seconds))

    def _has_work(self, work: ActiveRun) -> bool:
        try:
            look = self._workplaces.inspect(work.workplace)
        except CannotRun:
            return False
        claim = work.assigned.task.claim
        return bool(look.uncommitted) or bool(look.head and claim and look.head != claim.base)


def _is_complete(ended: RunEnd, told: SessionResult) -> bool:
    return ended.how == How.EXITED and not told.is_exhausted and not told.error


def _is_clean(ended: RunEnd, told: SessionResult) -> bool:
    return _is_complete(ended, told) and not ended.status


def _fault_detail(ended: RunEnd, told: SessionResult) -> str:
    """The last thing that was said of what went wrong; nothing when nothing did."""
    if ended.how == How.EXITED and not ended.status and not told.error:
        return ""
    lines = remove_invisible(told.error or ended.errors or ended.output).strip().splitlines()
    return lines[-1][:MAX_DETAIL] if lines else ""


MAX_SUBMISSIONS = 2
"""How often work is submitted that cannot be."""
MAX_NAMED = 10
CODES_ENDING_RUN = ("gate_held", "gate_errored")
"""Answers to a done claim after which the agent is not started again."""


class RunStops:
    """Answers stops by what is in the workplace. How often an agent stopped with nothing to show stands in the ledger."""

    def __init__(
        self,
        books: LedgerClient,
        workplaces: TaskWorktrees,
        claims: ClaimSubmitter,
        measured: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._books = books
        self._workplaces = workplaces
        self._claims = claims
        self._measured = measured
        """Told whose work was measured, whatever came of it."""
        self._faults: Counter[str] = Counter()
        """How often in a row a task's work could not be submitted."""
        self._is_closed = False

    def resolve(self, task: Task, workplace: TaskWorktree) -> str | None:
        """What the agent is to be told in its next run; None when there is to be none now."""
        claim = task.claim
        if claim is None or stop_meaning(task, StopState()) in (StopMeaning.END, StopMeaning.WAIT):
            return None
        try:
            look = self._workplaces.inspect(workplace)
            meaning = stop_meaning(task, StopState(commit=look.head, uncommitted=look.uncommitted))
            if meaning == StopMeaning.UNCOMMITTED:
                return self._send_back(task, _uncommitted_text(look))
            if meaning == StopMeaning.NOTHING_COMMITTED:
                return self._send_back(
                    task, "You stopped, and there is no commit of yours on the branch yet."
                )
            commit = self._workplaces.import_commits(workplace)
        except CannotRun as fault:
            return self.send_back_for_git_fault(task, fault)
        if _is_rejected_already(self._books.task_events(task.id), commit):
            return ""
        try:
            answer = self._claims.submit(workplace, claim.agent, commit)
        except CannotRun as fault:
            self._note_unmeasured(task, claim, commit, fault)
            return None
        self._faults.pop(task.id, None)
        self._measured(claim.agent)
        if not answer.refused or answer.refused in CODES_ENDING_RUN:
            return None
        if answer.refused == "gate_rejected":
            return ""
        return self._send_back(task, answer.message)

    def send_back_for_git_fault(self, task: Task, fault: CannotRun) -> str | None:
        """What is in the way may be of the agent's own making: it is told, and no other has to wait for it."""
        if fault.cause != "git":
            raise fault
        return self._send_back(task, f"Your work cannot be imported: {fault}")

    def _note_unmeasured(self, task: Task, claim: Claim, commit: str, fault: CannotRun) -> None:
        """Notes that nothing could be measured, once that was tried twice; before, and at the end, it is tried again."""
        self._faults[task.id] += 1
        if self._is_closed or self._faults[task.id] < MAX_SUBMISSIONS:
            raise fault
        verdict = make_unstarted_verdict(commit, "", str(fault))
        ask = c.RecordVerdict(
            task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id, verdict=verdict
        )
        self._books.ask(ask)

    def close(self) -> None:
        """Answers no more: what is being measured is ended."""
        self._is_closed = True
        self._claims.close()

    def _send_back(self, task: Task, text: str) -> str | None:
        """Sends the agent back with nothing measured, until it has stopped so too often in a row."""
        claim = task.claim
        if claim is None:
            return None
        stopped = _last_exit(self._books.task_events(task.id))
        if stopped:
            self._books.ask(
                c.CountIdleStop(task_id=task.id, handoff_id=claim.handoff_id, key=stopped, reason=text)
            )
        after = self._books.task(task.id)
        return None if after is not None and after.status == Status.ESCALATED else text


def _is_rejected_already(story: Sequence[Event], commit: str) -> bool:
    """True when the gates have rejected the commit since the last run: that stop is answered, and not counted again."""
    found = (one for one in reversed(story) if isinstance(one, GateRejected | RunEnded))
    last = next(found, None)
    return isinstance(last, GateRejected) and last.verdict.commit == commit


def _last_exit(story: Sequence[Event]) -> str:
    """The last run, as the name of its stop; empty when it did not end of its own accord, which is no stop."""
    last = next((one for one in reversed(story) if isinstance(one, RunEnded)), None)
    return last.run_id if last is not None and last.how == How.EXITED else ""


def _uncommitted_text(look: WorktreeState) -> str:
    names = ", ".join(look.uncommitted[:MAX_NAMED])
    more = len(look.uncommitted) - MAX_NAMED
    return f"You stopped with uncommitted changes: {names}{f' and {more} more' if more > 0 else ''}. Commit them."


def import_agent_commits(books: LedgerClient, workplaces: TaskWorktrees, workplace: TaskWorktree) -> str:
    """Takes over what an agent has committed, as long as the task is its own: what was handed in stays as it is."""
    task = books.task(workplace.task_id)
    if task is None or task.status != Status.CLAIMED:
        raise CannotRun(
            "git", f"Task {workplace.task_id} is no longer held; no more commits are imported for it."
        )
    return workplaces.import_commits(workplace)
