"""What follows from events of runs."""

from __future__ import annotations

import math

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.runs import Run, Spent
from remand.domain.steps import advance, conflict
from remand.domain.task import Status, Task

MAX_RUNS = 50
_MANY = 1e12


def started(task: Task, event: e.RunStarted) -> Task:
    """The agent is at work. Two ledgers may have started one; both are kept in sight until they end."""
    if task.run(event.run_id) is not None:
        return conflict(task, event, f"the run {event.run_id} was under way already")
    run = Run(
        id=event.run_id,
        agent=event.agent,
        purpose=event.purpose,
        started_at=event.ts,
        handoff_id=event.handoff_id,
        tier=event.tier,
        about=event.commit or _question(task, event),
        session=event.meta.session,
    )
    claim = task.claim
    if claim is not None and event.purpose == e.Purpose.WORK and claim.handoff_id == event.handoff_id:
        claim = replace(claim, runner=event.meta.session, run_ended="")
    return replace(task, runs=(*task.runs, run)[-MAX_RUNS:], claim=claim)


def _question(task: Task, event: e.RunStarted) -> str:
    """The rejection that waits for a director."""
    return task.filed.rejection_id if task.filed and event.purpose == e.Purpose.DIRECT else ""


def ended(task: Task, event: e.RunEnded) -> Task:
    """What the run has cost is the task's, whoever it was. Two ledgers may find the same run lost."""
    run = task.run(event.run_id)
    if run is None and event.how == e.How.LOST:
        return task
    if run is None:
        return conflict(task, event, f"the run {event.run_id} was not under way at that time")
    left = tuple(one for one in task.runs if one.id != event.run_id)
    task = replace(task, runs=left, spent=after(task.spent, event))
    claim = task.claim
    if claim is None or run.handoff_id != claim.handoff_id:
        return task
    has_begun = event.how != e.How.NOT_STARTED
    is_no_attempt = not has_begun and not claim.has_run
    return replace(
        task,
        claim=replace(claim, run_ended=event.how, has_run=claim.has_run or has_begun),
        attempt_count=max(task.attempt_count - is_no_attempt, 0),
    )


def returned(task: Task, event: e.TaskReturned) -> Task:
    """Back to its queue; what was begun is gone on with before what is new."""
    if event.has_work and task.queue == Status.INCOMING:
        task = replace(task, queue=Status.NEEDS_CONTINUATION)
    return advance(task, event, claim=None, waiting_for="")


def after(spent: Spent, event: e.RunEnded) -> Spent:
    """What is spent after one more run; figures that are none count as nothing, and one that never began is none."""
    has_begun = event.how != e.How.NOT_STARTED
    is_unbegun = not has_begun and not event.is_fault and not event.is_systems
    return Spent(
        runs=spent.runs + has_begun,
        turns=spent.turns + int(_figure(event.turns)),
        tokens=spent.tokens + int(_figure(event.tokens)),
        seconds=spent.seconds + _figure(event.seconds),
        cost=spent.cost + _figure(event.cost),
        faults=spent.faults + 1 if event.is_fault else _kept(spent.faults, event),
        unbegun=spent.unbegun + 1 if is_unbegun else _kept(spent.unbegun, event),
        last_fault=event.ts if event.is_fault or is_unbegun else spent.last_fault,
        grants=spent.grants,
    )


def _kept(failures: int, event: e.RunEnded) -> int:
    """A run that was ended from outside, or by the system, says nothing of the failures before it."""
    says_nothing = event.is_systems or event.how in (e.How.STOPPED, e.How.LOST, e.How.NOT_STARTED)
    return failures if says_nothing else 0


def granted(spent: Spent, kind: str) -> Spent:
    """What the user's answer to a question about runs allows: another budget, another few tries."""
    match kind:
        case "budget":
            return replace(spent, grants=spent.grants + 1)
        case "runs":
            return replace(spent, faults=0, unbegun=0)
        case _:
            return spent


def _figure(value: float) -> float:
    return min(float(value), _MANY) if math.isfinite(value) and value > 0 else 0.0
