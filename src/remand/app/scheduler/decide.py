"""Decides the next steps of the scheduler: pure functions of its view of the ledger and its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from remand.app.gates.known_results import BrokenGates
from remand.app.requests import Rules
from remand.app.scheduler.runs import ActiveRun
from remand.app.tasks.queue import (
    AgentPool,
    Load,
    agent_pool,
    is_suitable,
    max_waiting_reviews,
    rotate_after,
    startable_workers,
)
from remand.domain.access.team import Actor, Member, Team
from remand.domain.decisions.findings import open_findings
from remand.domain.events.event import Event
from remand.domain.events.work import How, Purpose, RunEnded
from remand.domain.instant import Instant, add_seconds
from remand.domain.task import Status, Task
from remand.domain.text.words import format_count

MAX_CANDIDATES = 500
"""How far down the queue the scheduler searches for a task for an agent."""
LINGER_SECONDS = 30.0
"""How long an agent may keep running after it has submitted its work."""
BACKOFF_SECONDS = 5.0
REVIEW_RUN_STATUS = {Purpose.REVIEW: Status.PROVISIONAL, Purpose.DIRECT: Status.BLOCKED}
"""The status in which a task needs a review or a director's decision."""


class WatchedRun(NamedTuple):
    """An active run with the current state of its task."""

    run: ActiveRun
    task: Task | None
    seconds_since_handover: float = 0.0
    """Seconds since the scheduler first saw that the agent submitted its work or rejected the task."""


class SchedulerView(NamedTuple):
    """The state on which one tick decides."""

    now: Instant
    session: str
    """The ledger's own session: claims of other sessions' agents are continued there."""
    rules: Rules
    runs: tuple[WatchedRun, ...] = ()
    tasks: tuple[Task, ...] = ()
    """The tasks to decide on: all that may need a step, or only those that changed."""
    busy: Collection[str] = ()
    """Tasks that a worker thread is processing."""
    is_stopping: bool = False


class StopAgent(NamedTuple):
    run: ActiveRun


class RenewLease(NamedTuple):
    task: Task


class AnswerStop(NamedTuple):
    """The agent's last run ended by itself, and that stop has not been answered."""

    task: Task
    member: Member


class ContinueWork(NamedTuple):
    task: Task
    member: Member


class StartReviewRun(NamedTuple):
    """An agent must review the task's submission or decide on its rejection; which one is chosen at the start."""

    task: Task
    purpose: Purpose


Action = StopAgent | RenewLease | AnswerStop | ContinueWork | StartReviewRun


def decide(view: SchedulerView) -> list[Action]:
    """The next step of every run and task in the view, in the order in which to take them."""
    actions: list[Action] = []
    renew_before = add_seconds(view.now, view.rules.policy.lease_seconds / 2)
    for watched in view.runs:
        if watched.task is None or not _is_needed(watched, watched.task):
            actions.append(StopAgent(watched.run))
        elif _needs_renewal(watched.task, renew_before):
            actions.append(RenewLease(watched.task))
    if view.is_stopping:
        return actions
    for task in view.tasks:
        step = _next_work_step(task, view, renew_before)
        actions += [step] if step is not None else []
    for purpose, status in REVIEW_RUN_STATUS.items():
        for task in view.tasks:
            is_free = not task.runs and task.id not in view.busy
            if task.status == status and is_free and not is_backing_off(task, view.now):
                actions.append(StartReviewRun(task, purpose))
    return actions


def _next_work_step(task: Task, view: SchedulerView, renew_before: Instant) -> Action | None:
    """The next step of a task that one of our agents holds without an active run."""
    claim = task.claim
    if claim is None or task.status != Status.CLAIMED or claim.runner != view.session:
        return None
    if task.runs or task.claims.waiting_for or open_findings(task):
        return None
    if task.id in view.busy:
        return RenewLease(task) if _needs_renewal(task, renew_before) else None
    member = startable_member(view.rules.team, claim.agent)
    if member is None:
        return None
    return AnswerStop(task, member) if claim.run_ended == How.EXITED else ContinueWork(task, member)


def has_handed_over(run: ActiveRun, task: Task) -> bool:
    """True if the agent has submitted its work or rejected the task; it may still finish its message."""
    claim = run.assignment.task.claim
    current = claim.handoff_id if claim else ""
    return current in {
        one.handoff_id for one in (task.submission, task.rejections.last_rejection) if one is not None
    }


def _is_needed(watched: WatchedRun, task: Task) -> bool:
    assignment = watched.run.assignment
    if assignment.purpose in REVIEW_RUN_STATUS:
        return task.status == REVIEW_RUN_STATUS[assignment.purpose]
    current = assignment.task.claim.handoff_id if assignment.task.claim else ""
    if task.claim is not None and task.claim.handoff_id == current:
        return True
    return has_handed_over(watched.run, task) and watched.seconds_since_handover < LINGER_SECONDS


def _needs_renewal(task: Task, renew_before: Instant) -> bool:
    return task.claim is not None and task.claim.lease_expires_at < renew_before


def is_backing_off(task: Task, now: Instant) -> bool:
    """True for some time after failed runs of the task; longer after each failure."""
    if not task.spent.failures:
        return False
    seconds = BACKOFF_SECONDS * 2 ** min(task.spent.failures - 1, 6)
    return add_seconds(task.spent.last_fault, seconds) > now


def failed_agents(events: Sequence[Event]) -> set[str]:
    """The agents of the last consecutive failed runs of a task."""
    found: set[str] = set()
    for event in reversed(events):
        if isinstance(event, RunEnded) and event.how in (How.EXITED, How.EXHAUSTED) and not event.is_fault:
            break
        if isinstance(event, RunEnded) and event.is_fault:
            found.add(event.agent)
    return found


def is_left_to_others(faults: int, max_faults: int, others: Sequence[Member], load: Load) -> bool:
    """True if a task should wait for members whose runs of it have not failed, rather than go to one whose run has.

    Free members come first. The last attempt before the user is asked also waits for a busy one: only then is it
    certain that the task fails, and not its agent.
    """
    is_last = max_faults > 0 and faults + 1 >= max_faults
    return bool(others) and (is_last or any(load.free_capacity(one) > 0 for one in others))


def startable_member(team: Team, name: str) -> Member | None:
    """The member with that name, if it can be started."""
    return next((one for one in team.members if one.command and name in (one.name, *one.aliases)), None)


class Assignments(NamedTuple):
    """The members to receive a task, in order."""

    members: tuple[Member, ...] = ()
    max_new: int = 0
    """How many new tasks may start before too many are on their way to review."""


def decide_assignments(
    rules: Rules, load: Load, waiting_for_review: int, last: str, allows: Callable[[Member], bool]
) -> Assignments:
    """One task for each free agent: those with the most free capacity first, in turn after the last one served."""
    limit = max_waiting_reviews(rules.team, rules.policy.max_waiting_reviews)
    free = [one for one in rotate_after(startable_workers(rules.team), last) if load.free_capacity(one) > 0]
    members = tuple(sorted(filter(allows, free), key=load.free_capacity, reverse=True))
    return Assignments(members, limit - waiting_for_review - load.total)


def review_backlog(rules: Rules, waiting_for_review: int) -> str:
    """Why no new work starts until something is reviewed; empty if few enough submissions await review."""
    limit = max_waiting_reviews(rules.team, rules.policy.max_waiting_reviews)
    if waiting_for_review < limit:
        return ""
    verb = "awaits" if waiting_for_review == 1 else "await"
    return f"{format_count(waiting_for_review, 'submission')} {verb} review (limit {limit}); no new work starts until some are reviewed"


def may_work(gates: BrokenGates, working: Collection[str], task_id: str = "") -> bool:
    """False while the user is asked about a broken gate; while one is on trial, True for one task at a time.

    A done claim may need any gate, whatever it changes. Reviews continue, as they need none.
    """
    if gates.open_questions:
        return False
    return not gates.is_on_trial or not set(working) - {task_id}


class CandidateTasks:
    """Yields each task once; tasks read for one agent are not read again for the next."""

    def __init__(self, tasks: Iterator[Task], most: int = MAX_CANDIDATES) -> None:
        self._all = tasks
        self._rest = islice(tasks, most)
        self._passed: list[tuple[AgentPool, Task]] = []

    def take(
        self, agent: Actor, *, has_team: bool, may_have: Callable[[Task], bool] = lambda _: True
    ) -> Task | None:
        """The first task suitable for an agent; None if there is none within the search limit."""
        for candidate in self._in_order():
            pool, task = candidate
            if is_suitable(pool, agent, has_team) and may_have(task):
                self._passed.remove(candidate)
                return task
        return None

    @property
    def is_empty(self) -> bool:
        if not self._passed:
            next(self._in_order(), None)
        return not self._passed and not self.has_more

    @cached_property
    def has_more(self) -> bool:
        """True if there are tasks beyond the search limit. Call it last."""
        return next(self._all, None) is not None

    def _in_order(self) -> Iterator[tuple[AgentPool, Task]]:
        yield from tuple(self._passed)
        for task in self._rest:
            self._passed.append((agent_pool(task), task))
            yield self._passed[-1]
