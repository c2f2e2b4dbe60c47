"""What may be decided about runs: one at a time on a task, bounded by a budget, their faults nobody's blame."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import ids
from remand.domain import rules as r
from remand.domain.instant import plus, seconds_from
from remand.domain.questions import opened
from remand.domain.refusals import Refused
from remand.domain.roles import REVIEWERS, Actor, Role
from remand.domain.run_steps import after
from remand.domain.runs import Run
from remand.domain.task import TERMINAL, TRANSITIONS, Claim, Status, Task

Events = tuple[e.Event, ...]
MAX_DETAIL = 2000
_KEEPS_CLAIM = (e.How.STOPPED, e.How.LOST)
"""How a run ends that goes on with the next start of the scheduler."""


def begun(task: Task, claimed: e.TaskClaimed | e.HandoffAccepted, command: c.Command) -> e.RunStarted:
    """The run that begins with a claim."""
    ask = command.ask
    if not isinstance(ask, c.AssignTask):
        raise TypeError(f"{type(ask).__name__} assigns nothing")
    _require_run_id(task, ask.run_id)
    return e.RunStarted(
        task_id=task.id, run_id=ask.run_id, agent=claimed.agent, handoff_id=claimed.handoff_id, tier=ask.tier
    )


def start(task: Task, ask: c.StartRun, command: c.Command) -> Events:
    """Begins a run of an agent that may have one now."""
    agent = command.facts.target
    _require_run_id(task, ask.run_id)
    if agent is None:
        raise Refused("bad_value", "Say which agent is to be started.")
    for run in task.runs:
        if run.purpose == ask.purpose:
            raise Refused("already_running", f"{run.agent} is at work on task {task.id} (run {run.id}).")
    started = e.RunStarted(
        task_id=task.id, run_id=ask.run_id, agent=agent.name, purpose=ask.purpose, tier=ask.tier
    )
    match ask.purpose:
        case e.Purpose.WORK:
            return (replace(started, handoff_id=_own_claim(task, agent, command)),)
        case e.Purpose.REVIEW:
            return (replace(started, commit=_reviewable(task, agent)),)
        case e.Purpose.DIRECT:
            _require_question(task, agent)
            return (started,)


def _require_run_id(task: Task, run_id: str) -> None:
    if ids.run_id(run_id) != run_id:
        raise Refused("bad_value", f"{run_id[:80]!r} is no run's id.")
    if task.run(run_id) is not None:
        raise Refused("already_running", f"The run {run_id} of task {task.id} is under way already.")


def _own_claim(task: Task, agent: Actor, command: c.Command) -> str:
    """The claim that the scheduler made for the agent, and that holds."""
    claim = task.claim
    if task.status != Status.CLAIMED or claim is None or claim.agent != agent.name or not claim.runner:
        raise Refused("not_yours", f"{agent.name} was not given task {task.id} by the scheduler.")
    r.require_not_locked_out(task, agent.name, command.facts)
    if claim.lease_expires_at <= command.at:
        raise Refused("lease_lost", f"The lease of {agent.name} on task {task.id} ran out.")
    return claim.handoff_id


def _reviewable(task: Task, agent: Actor) -> str:
    """The commit that awaits this reviewer's word."""
    if not agent.has(*REVIEWERS):
        raise Refused("not_authorised", f"{agent.name} is no reviewer of this team.")
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    if agent.name in task.authors or agent.name in task.holders:
        raise Refused("own_work", f"{agent.name} worked on task {task.id} and cannot review it.")
    return task.submission.commit


def _require_question(task: Task, agent: Actor) -> None:
    if not agent.has(Role.DIRECTOR, Role.USER):
        raise Refused("not_authorised", f"{agent.name} is no director of this team.")
    if task.filed is None or task.filed.decision or task.status != Status.BLOCKED:
        raise Refused("bad_transition", f"No rejection of task {task.id} waits for a decision.")
    r.require_disinterested(task, agent)


def end(task: Task, ask: c.EndRun, command: c.Command) -> Events:
    """Notes the end of a run, and what follows: a budget that is spent, or faults that do not stop, ask the user.

    A run that ended before changes nothing.
    """
    run = task.run(ask.run_id)
    if run is None:
        return ()
    ended = e.RunEnded(
        task_id=task.id,
        run_id=run.id,
        agent=run.agent,
        how=ask.how,
        status=ask.status,
        seconds=ask.seconds,
        turns=ask.turns,
        tokens=ask.tokens,
        cost=ask.cost,
        is_fault=_is_fault(task, run, ask),
        is_systems=ask.is_systems,
        detail=ask.detail[:MAX_DETAIL],
    )
    return (ended, *_what_follows(task, run, ended, ask, command))


def _is_fault(task: Task, run: Run, ask: c.EndRun) -> bool:
    """True when it ended with an error and left undone what it was for."""
    if ask.how in (*_KEEPS_CLAIM, e.How.NOT_STARTED) or ask.is_systems or ask.is_answered:
        return False
    if run.purpose != e.Purpose.WORK:
        return True
    if ask.how == e.How.EXHAUSTED or not _holds(task, run):
        return False
    return ask.how != e.How.EXITED or ask.status != 0


def _holds(task: Task, run: Run) -> bool:
    claim = task.claim
    return task.status == Status.CLAIMED and claim is not None and claim.handoff_id == run.handoff_id


def _what_follows(task: Task, run: Run, ended: e.RunEnded, ask: c.EndRun, command: c.Command) -> Events:
    question = _overdrawn(task, ended, command) or _failing(task, ended, command)
    gives_back = ended.is_fault or ask.is_systems or ask.how in (e.How.EXHAUSTED, e.How.NOT_STARTED)
    if question or not gives_back or not _holds(task, run) or run.purpose != e.Purpose.WORK:
        return question
    return (
        e.TaskReturned(
            task_id=task.id,
            handoff_id=run.handoff_id,
            agent=run.agent,
            reason=f"The run ended: {told(ended)}",
            has_work=ask.has_work,
        ),
    )


def _overdrawn(task: Task, ended: e.RunEnded, command: c.Command) -> Events:
    """The question that a spent budget is. Work that was handed in is looked at, and who was told to stop goes on."""
    over = command.facts.budget.overdrawn(after(task.spent, ended))
    is_spared = task.status == Status.PROVISIONAL or ended.how == e.How.STOPPED
    if not over or is_spared or not _may_ask(task):
        return ()
    return (opened(task, "budget", f"The budget of {task.label} is spent: {over}", command),)


def _failing(task: Task, ended: e.RunEnded, command: c.Command) -> Events:
    """The question that comes of runs that fail, or cannot be begun, again and again."""
    spent, most = after(task.spent, ended), command.facts.max_faults
    if not most or not _may_ask(task):
        return ()
    if ended.is_fault and spent.faults >= most:
        return (opened(task, "runs", f"{spent.faults} runs in a row failed, last {told(ended)}", command),)
    if spent.unbegun > task.spent.unbegun and spent.unbegun >= most:
        why = f"{spent.unbegun} runs in a row could not be begun, the last {told(ended)}"
        return (opened(task, "runs", why, command),)
    return ()


def _may_ask(task: Task) -> bool:
    return task.status in TRANSITIONS["escalation.open"].sources and task.status not in TERMINAL


def lost(task: Task, claim: Claim, command: c.Command) -> tuple[Events, Events]:
    """The runs that are lost with a lease that nobody renewed, and the question should the budget be spent with them.

    Whoever watches over a run renews its lease once half of it has passed. By then it was gone.
    """
    gone_at = plus(claim.lease_expires_at, -command.facts.lease_seconds / 2)
    ends: list[e.RunEnded] = []
    question: Events = ()
    for run in task.runs:
        if run.handoff_id != claim.handoff_id:
            continue
        seconds = max(seconds_from(run.started_at, gone_at), 0.0)
        ends.append(
            e.RunEnded(
                task_id=task.id, run_id=run.id, agent=run.agent, how=e.How.LOST, seconds=round(seconds, 3)
            )
        )
        question = _overdrawn(task, ends[-1], command)
        task = replace(task, spent=after(task.spent, ends[-1]))
    return tuple(ends), question


def told(ended: e.RunEnded) -> str:
    """How a run ended, in words that follow on "it ended"."""
    detail = f" ({ended.detail[:200]})" if ended.detail else ""
    match ended.how:
        case e.How.EXITED if not ended.status:
            return f"without an answer that counts{detail}"
        case e.How.EXITED:
            return f"with exit status {ended.status}{detail}"
        case e.How.SIGNALLED:
            return f"by signal {ended.status}{detail}"
        case e.How.TIMED_OUT:
            return f"as its time was up{detail}"
        case e.How.EXHAUSTED:
            return f"out of turns{detail}"
        case _:
            return f"as it was {ended.how.replace('_', ' ')}{detail}"
