"""Decisions on runs (one at a time per task, within a budget), and the circuit breaker that stops new ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.access.team import Actor, Member, Role
from remand.domain.decisions.notices import ask_user
from remand.domain.events.event import Events
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.events.work import How, Purpose, RunEnded, RunStarted, TaskReturned
from remand.domain.evidence import shell_calls
from remand.domain.instant import add_seconds, seconds_between
from remand.domain.record import NamedTuple, Record
from remand.domain.refusals import Refused
from remand.domain.run import Run, add_run_cost
from remand.domain.task import TERMINAL, TRANSITIONS, Claim, Status, Task

MAX_DETAIL = 2000
_KEEPS_CLAIM = (How.STOPPED, How.LOST)
"""Ends of runs that continue with the next start of the scheduler."""


def begin_assigned_run(
    task: Task, claimed: TaskClaimed | HandoffAccepted, context: c.CommandContext
) -> RunStarted:
    """The run that starts with a claim."""
    command = context.command
    if not isinstance(command, c.AssignTask):
        raise TypeError(f"{type(command).__name__} assigns nothing")
    _require_run_id(task, command.run_id)
    return RunStarted(
        task_id=task.id,
        run_id=command.run_id,
        agent=claimed.agent,
        handoff_id=claimed.handoff_id,
        tier=command.tier,
    )


def start_run(task: Task, command: c.StartRun, context: c.CommandContext) -> Events:
    """Starts a run of an agent if permitted now."""
    agent = context.facts.team.target
    _require_run_id(task, command.run_id)
    if agent is None:
        raise Refused("bad_value", "Name the agent to start.")
    for run in task.runs:
        if run.purpose == command.purpose:
            raise Refused("already_running", f"{run.agent} is working on task {task.id} (run {run.id}).")
    started = RunStarted(
        task_id=task.id, run_id=command.run_id, agent=agent.name, purpose=command.purpose, tier=command.tier
    )
    match command.purpose:
        case Purpose.WORK:
            return (replace(started, handoff_id=_require_scheduler_claim(task, agent, context)),)
        case Purpose.REVIEW:
            return (replace(started, commit=_require_reviewable_commit(task, agent)),)
        case Purpose.DIRECT:
            _require_open_rejection(task, agent)
            return (started,)


def _require_run_id(task: Task, run_id: str) -> None:
    if ids.parse_run_id(run_id) != run_id:
        raise Refused("bad_value", f"{run_id[:80]!r} is not a run id.")
    if task.find_run(run_id) is not None:
        raise Refused("already_running", f"The run {run_id} of task {task.id} has already started.")


def _require_scheduler_claim(task: Task, agent: Actor, context: c.CommandContext) -> str:
    """The active claim that the scheduler made for the agent."""
    claim = task.claim
    if task.status != Status.CLAIMED or claim is None or claim.agent != agent.name or not claim.runner:
        raise Refused("not_yours", f"The scheduler did not assign task {task.id} to {agent.name}.")
    r.require_not_locked_out(task, agent.name, context.facts)
    if claim.lease_expires_at <= context.at:
        raise Refused("lease_lost", f"The lease of {agent.name} on task {task.id} has expired.")
    return claim.handoff_id


def _require_reviewable_commit(task: Task, agent: Actor) -> str:
    """The commit that waits for this reviewer."""
    r.require_reviewer(agent)
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused(
            "nothing_to_review", f"Task {task.id} is {task.status}; it has no submission that awaits review."
        )
    if agent.name in task.people.authors or agent.name in task.people.holders:
        raise Refused("own_work", f"{agent.name} worked on task {task.id} and cannot review it.")
    return task.submission.commit


def _require_open_rejection(task: Task, agent: Actor) -> None:
    if not agent.has(Role.DIRECTOR, Role.USER):
        raise Refused("not_authorised", f"{agent.name} is not a director on this team.")
    if (
        task.rejections.last_rejection is None
        or task.rejections.last_rejection.decision
        or task.status != Status.BLOCKED
    ):
        raise Refused("bad_transition", f"No rejection of task {task.id} awaits a decision.")
    r.require_disinterested(task, agent)


def end_run(task: Task, command: c.EndRun, context: c.CommandContext) -> Events:
    """Records the end of a run; an exhausted budget or repeated faults ask the user.

    A run that has already ended is unchanged.
    """
    run = task.find_run(command.run_id)
    if run is None:
        return ()
    ended = RunEnded(
        task_id=task.id,
        run_id=run.id,
        agent=run.agent,
        how=command.how,
        status=command.status,
        seconds=command.seconds,
        turns=command.turns,
        tokens=command.tokens,
        cost=command.cost,
        is_fault=_is_fault(task, run, command),
        is_systems=command.is_systems,
        # Of the started runs, only trial runs are charged to the system.
        is_trial=command.is_systems and command.how != How.NOT_STARTED,
        detail=command.detail[:MAX_DETAIL],
    )
    return (ended, *_follow_up_events(task, run, ended, command, context))


def _is_fault(task: Task, run: Run, command: c.EndRun) -> bool:
    """True if it ended with an error without fulfilling its purpose."""
    if command.how in (*_KEEPS_CLAIM, How.NOT_STARTED) or command.is_systems or command.is_answered:
        return False
    if run.purpose != Purpose.WORK:
        return True
    if command.how == How.EXHAUSTED or not _holds_task(task, run):
        return False
    return command.how != How.EXITED or command.status != 0


def _holds_task(task: Task, run: Run) -> bool:
    claim = task.claim
    return task.status == Status.CLAIMED and claim is not None and claim.handoff_id == run.handoff_id


def _follow_up_events(
    task: Task, run: Run, ended: RunEnded, command: c.EndRun, context: c.CommandContext
) -> Events:
    question = _budget_question(task, ended, context) or _failure_question(task, ended, context)
    gives_back = ended.is_fault or command.is_systems or command.how in (How.EXHAUSTED, How.NOT_STARTED)
    if question or not gives_back or not _holds_task(task, run) or run.purpose != Purpose.WORK:
        return question
    return (
        TaskReturned(
            task_id=task.id,
            handoff_id=run.handoff_id,
            agent=run.agent,
            reason=f"The run {describe_run_end(ended)}",
            has_work=command.has_work,
        ),
    )


def _budget_question(task: Task, ended: RunEnded, context: c.CommandContext) -> Events:
    """Asks the user when the budget is exhausted, except for submitted work and runs stopped by the scheduler."""
    over = context.facts.policy.budget.describe_overrun(add_run_cost(task.spent, ended))
    is_spared = task.status == Status.PROVISIONAL or ended.how == How.STOPPED
    if not over or is_spared or not _may_escalate(task):
        return ()
    return (ask_user(task, "budget", f"The budget of {task.label} is spent: {over}", context),)


def _failure_question(task: Task, ended: RunEnded, context: c.CommandContext) -> Events:
    """The question after runs that fail, or cannot start, repeatedly."""
    spent, most = add_run_cost(task.spent, ended), context.facts.policy.max_faults
    if not most or not _may_escalate(task):
        return ()
    if ended.is_fault and spent.faults >= most:
        return (
            ask_user(
                task,
                "runs",
                f"{spent.faults} runs in a row failed; the last one {describe_run_end(ended)}",
                context,
            ),
        )
    if spent.unbegun > task.spent.unbegun and spent.unbegun >= most:
        why = f"{spent.unbegun} runs in a row could not start; the last one {describe_run_end(ended)}"
        return (ask_user(task, "runs", why, context),)
    return ()


def _may_escalate(task: Task) -> bool:
    return task.status in TRANSITIONS["escalation.open"].sources and task.status not in TERMINAL


def end_lost_runs(task: Task, claim: Claim, context: c.CommandContext) -> tuple[Events, Events]:
    """The runs that are lost with an expired lease, and the question if they exhaust the budget.

    A run's scheduler renews its lease at half-time, so it was gone by then.
    """
    gone_at = add_seconds(claim.lease_expires_at, -context.facts.policy.lease_seconds / 2)
    ends: list[RunEnded] = []
    question: Events = ()
    for run in task.runs:
        if run.handoff_id != claim.handoff_id:
            continue
        seconds = max(seconds_between(run.started_at, gone_at), 0.0)
        ends.append(
            RunEnded(task_id=task.id, run_id=run.id, agent=run.agent, how=How.LOST, seconds=round(seconds, 3))
        )
        question = _budget_question(task, ends[-1], context)
        task = replace(task, spent=add_run_cost(task.spent, ends[-1]))
    return tuple(ends), question


def describe_run_end(ended: RunEnded) -> str:
    """How a run ended, as a clause following "the run"."""
    detail = f" ({ended.detail[:200]})" if ended.detail else ""
    match ended.how:
        case How.EXITED if not ended.status:
            return f"ended without a usable answer{detail}"
        case How.EXITED:
            return f"exited with status {ended.status}{detail}"
        case How.SIGNALLED:
            return f"was ended by signal {ended.status}{detail}"
        case How.TIMED_OUT:
            return f"ran out of time{detail}"
        case How.EXHAUSTED:
            return f"ran out of turns{detail}"
        case How.NOT_STARTED:
            return f"could not start: {ended.detail[:200]}" if ended.detail else "could not start"
        case _:
            return f"was {ended.how.replace('_', ' ')}{detail}"


BREAKER_THRESHOLD = 3
MEMBER_THRESHOLD = 2
FIRST_SECONDS = 30.0
LONGEST_SECONDS = 900.0


class Breach(NamedTuple):
    """A fault, since when it exists, and when one trial run is permitted."""

    scope: str
    message: str
    since: float
    until: float
    is_tried: bool = False
    """Whether a trial run is in progress."""
    seconds: float = FIRST_SECONDS


class BreakerSnapshot(Record, kw_only=True):
    failing: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """By scope, the failed tasks, each with the member whose run failed last."""
    breaches: tuple[Breach, ...] = ()


class FailureScope(NamedTuple):
    """What a failure is charged to, and how many failures open the breaker."""

    scope: str
    tasks: int = BREAKER_THRESHOLD
    """How many different tasks must fail without a success in between."""
    members: int = 1
    """How many different members must fail."""


class Breaker:
    """Counts failures by scope: a program, the disk, git. Times are seconds of any clock and are only compared.

    Thread-safe: each step is one lookup or one change in a table.
    """

    def __init__(self) -> None:
        self._failing: dict[str, dict[str, str]] = {}
        self._open: dict[str, Breach] = {}

    def allows(self, *scopes: str, now: float) -> bool:
        """True if no known fault prevents a run."""
        return all(now >= self._open[scope].until for scope in scopes if scope in self._open)

    def record_start(self, *scopes: str, now: float) -> None:
        """Records the start of a run; for an open scope it is the trial run.

        If it ends without a result, another trial is permitted after the same delay.
        """
        for scope in scopes:
            breach = self._open.get(scope)
            if breach is not None:
                self._open[scope] = breach._replace(is_tried=True, until=now + breach.seconds)

    def record_failure(
        self,
        charged: FailureScope | str,
        task_id: str,
        message: str,
        *,
        now: float,
        member: str = "",
        is_certain: bool = False,
    ) -> bool:
        """Records a failure; True if that opens the breaker. A certain fault needs no second failure."""
        scope, tasks, members = charged if isinstance(charged, FailureScope) else FailureScope(charged)
        failing = self._failing.setdefault(scope, {})
        failing[task_id] = member
        before = self._open.get(scope)
        is_enough = len(failing) >= tasks and len(set(failing.values())) >= members
        if before is None and not is_certain and not is_enough:
            return False
        seconds = min(before.seconds * 2, LONGEST_SECONDS) if before and before.is_tried else FIRST_SECONDS
        since = before.since if before else now
        self._open[scope] = Breach(scope, message, since, now + seconds, seconds=seconds)
        return before is None

    def record_success(self, *scopes: str) -> None:
        """Records a success, which closes the breaker."""
        for scope in scopes:
            self._failing.pop(scope, None)
            self._open.pop(scope, None)

    def keep_only(self, scopes: Collection[str]) -> None:
        """Forgets all other scopes, such as programs that nobody on the team uses any more."""
        for known in (self._failing, self._open):
            for scope in [one for one in known if one not in scopes]:
                known.pop(scope, None)

    def is_open(self, *scopes: str) -> bool:
        """True if a fault is known; a run that starts nevertheless is a trial."""
        return any(scope in self._open for scope in scopes)

    @property
    def is_closed(self) -> bool:
        """True if no fault is known."""
        return not self._open

    def snapshot(self) -> BreakerSnapshot:
        """Its state, for the next scheduler."""
        failing = {scope: dict(tasks) for scope, tasks in list(self._failing.items())}
        return BreakerSnapshot(failing=failing, breaches=self.breaches)

    def restore(self, snapshot: BreakerSnapshot, *, now: float) -> None:
        """Restores a saved state. Impossible times, as after a reboot, are dropped."""
        self._failing = {scope: dict(tasks) for scope, tasks in snapshot.failing.items()}
        for breach in snapshot.breaches:
            if breach.since <= now and breach.until <= now + LONGEST_SECONDS:
                self._open[breach.scope] = breach._replace(is_tried=False)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The current faults, oldest first."""
        breaches = list(self._open.values())
        return tuple(sorted(breaches, key=lambda breach: breach.since))


SYSTEM_CAUSES = ("disk", "sandbox", "socket")
"""Causes that are certainly the system's: one failure suffices."""


def program_scope(member: Member) -> str:
    """The scope of a program's own failures, however the member's command starts it."""
    return f"command {shell_calls.find_program(member.command)}"


def run_scope(member: Member) -> str:
    """The scope of failed runs that do not implicate the program."""
    return f"runs of {member.name}"


def charge_run(member: Member, workers: Iterable[Member]) -> tuple[FailureScope, ...]:
    """The scope of a failed run.

    If others can be started, a member is set aside before it fails more tasks that they could do; a program that
    another member uses as well is blamed only after failures of two members.
    """
    program = program_scope(member)
    others = [one for one in workers if one.name != member.name]
    if not others:
        return (FailureScope(program),)
    is_shared = any(program_scope(one) == program for one in others)
    return (
        FailureScope(program, members=2 if is_shared else 1),
        FailureScope(run_scope(member), tasks=MEMBER_THRESHOLD),
    )


def failure_scope(cause: str, member: Member) -> str:
    """The scope of a failure: the machine, a program, or only the member whose work it was.

    An agent's leftovers can cause failures of git or the gates, which must not affect others.
    """
    if cause in SYSTEM_CAUSES:
        return cause
    return f"program {member.command[0]}" if cause == "program" else f"{cause} of {member.name}"


def own_scopes(member: Member) -> tuple[str, ...]:
    """The scopes whose failures prevent only this member from being started."""
    causes = ("program", "git", "gates", "system")
    return (program_scope(member), run_scope(member), *(failure_scope(cause, member) for cause in causes))


def member_scopes(member: Member) -> tuple[str, ...]:
    """All scopes whose failures prevent the member from being started."""
    return (*own_scopes(member), *SYSTEM_CAUSES)


def unstartable_members(
    members: Iterable[Member], faults: Mapping[str, str], missing: Collection[str]
) -> dict[str, str]:
    """The members that cannot be started and why, from open scopes and missing programs."""
    found = {}
    for member in members:
        if not member.command:
            continue
        faulty = [faults[scope] for scope in own_scopes(member) if scope in faults]
        if member.command[0] in missing:
            faulty.insert(0, f"its program `{member.command[0]}` was not found")
        if faulty:
            found[member.name] = faulty[0]
    return found
