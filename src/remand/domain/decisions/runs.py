"""What may be decided about runs: one at a time on a task, within a budget; faults of the system do not count against the task."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.notices import ask_user
from remand.domain.events.event import Events
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.events.work import How, Purpose, RunEnded, RunStarted, TaskReturned
from remand.domain.instant import add_seconds, seconds_between
from remand.domain.refusals import Refused
from remand.domain.run import Run, add_run_cost
from remand.domain.task import TERMINAL, TRANSITIONS, Claim, Status, Task

MAX_DETAIL = 2000
_KEEPS_CLAIM = (How.STOPPED, How.LOST)
"""How a run ends that goes on with the next start of the scheduler."""


def begin_assigned_run(
    task: Task, claimed: TaskClaimed | HandoffAccepted, context: c.CommandContext
) -> RunStarted:
    """The run that begins with a claim."""
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
    """Begins a run of an agent that may have one now."""
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
    """The claim that the scheduler made for the agent, and that holds."""
    claim = task.claim
    if task.status != Status.CLAIMED or claim is None or claim.agent != agent.name or not claim.runner:
        raise Refused("not_yours", f"The scheduler did not assign task {task.id} to {agent.name}.")
    r.require_not_locked_out(task, agent.name, context.facts)
    if claim.lease_expires_at <= context.at:
        raise Refused("lease_lost", f"The lease of {agent.name} on task {task.id} has expired.")
    return claim.handoff_id


def _require_reviewable_commit(task: Task, agent: Actor) -> str:
    """The commit that awaits this reviewer's word."""
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
    """Notes the end of a run, and what follows: a budget that is spent, or faults that do not stop, ask the user.

    A run that ended before changes nothing.
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
        # Of the runs that began, only those let through to try are the system's.
        is_trial=command.is_systems and command.how != How.NOT_STARTED,
        detail=command.detail[:MAX_DETAIL],
    )
    return (ended, *_follow_up_events(task, run, ended, command, context))


def _is_fault(task: Task, run: Run, command: c.EndRun) -> bool:
    """True when it ended with an error and left undone what it was for."""
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
    """Asks the user when the budget is spent, except for submitted work and for runs that the scheduler stopped."""
    over = context.facts.policy.budget.describe_overrun(add_run_cost(task.spent, ended))
    is_spared = task.status == Status.PROVISIONAL or ended.how == How.STOPPED
    if not over or is_spared or not _may_escalate(task):
        return ()
    return (ask_user(task, "budget", f"The budget of {task.label} is spent: {over}", context),)


def _failure_question(task: Task, ended: RunEnded, context: c.CommandContext) -> Events:
    """The question that comes of runs that fail, or cannot be begun, again and again."""
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
    """The runs that are lost with a lease that nobody renewed, and the question should the budget be spent with them.

    Whoever watches over a run renews its lease once half of it has passed. By then it was gone.
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
    """How a run ended, as a clause that follows "the run"."""
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
