"""The board: what the whole team is doing now, with what goes wrong first. Read often, so it reads little."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from remand.app.alerts import alert_questions
from remand.app.decisions import undecided, waiting
from remand.app.escalations import Question, question_of
from remand.app.happenings import Happening, latest
from remand.app.held import held_questions, held_tasks
from remand.app.objections import objection_questions
from remand.app.rebuild import story
from remand.app.scheduling.status import SchedulerStatus
from remand.app.troubles import Around, Trouble, troubles
from remand.domain.events import Event
from remand.domain.holds import open_findings, settlers
from remand.domain.instant import Instant
from remand.domain.notices import open_alert
from remand.domain.record import Record
from remand.domain.roles import USER, Team
from remand.domain.runs import Run
from remand.domain.task import Status, Task
from remand.ledger.store import Transaction

MOST = 200
"""How many tasks of one status are read."""
WITH_STORY = 20
"""Of how many questions it is told what was tried."""
RECENT = 15


class AtWork(Record, kw_only=True, omit_defaults=False):
    """Somebody at work on a task: the agent that holds it, or a run that reviews or directs it."""

    task_id: str
    label: str
    title: str
    agent: str
    purpose: str
    since: Instant
    lease_until: Instant = ""
    attempt: int = 0
    gate_rejections: int = 0
    """How often the gates rejected the work under this claim."""
    waits_for: str = ""
    """What it waits for outside."""
    run_id: str = ""
    """The scheduler's run; empty when it was not started by one."""
    tier: str = ""
    last_line: str = ""
    is_measured: bool = False
    """Its gates are running."""


class Waiting(Record, kw_only=True, omit_defaults=False):
    """A task that waits for somebody: held or handed in for a reviewer, sent back for another agent."""

    task_id: str
    label: str
    title: str
    status: str
    whom: tuple[str, ...] = ()
    """For whom by name; nobody when anybody will do."""
    since: Instant = ""
    author: str = ""
    rejection_count: int = 0
    pr: int = 0


class GatesRunning(Record, kw_only=True, omit_defaults=False):
    """Gates that measure a done claim."""

    task_id: str
    label: str
    agent: str
    since: Instant = ""


class Board(Record, kw_only=True, omit_defaults=False):
    """What the team is doing at one moment."""

    at: Instant
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """How many tasks there are of each status."""
    ready: int = 0
    """How many of them could be claimed."""
    troubles: tuple[Trouble, ...] = ()
    questions: tuple[Question, ...] = ()
    at_work: tuple[AtWork, ...] = ()
    gates: tuple[GatesRunning, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    happenings: tuple[Happening, ...] = ()
    """What has happened last, the newest first."""
    scheduler: SchedulerStatus | None = None
    is_scheduled: bool = False
    """The scheduler is there, and not only what it has left behind."""


def board(view: Transaction, around: Around, focus: str = "") -> Board:
    """The board as the ledger has it. `focus` names a question whose whole story is told, however many there are."""
    active = {
        status: view.tasks.active(status, MOST)
        for status in (Status.CLAIMED, Status.PROVISIONAL, Status.REJECTED, Status.FAILED, Status.BLOCKED)
    }
    questions = _questions(view, around, active, focus)
    gates = _gates(view, active[Status.CLAIMED], around)
    at_work = _at_work(view, active[Status.CLAIMED], around, {one.task_id for one in gates})
    return Board(
        at=around.now,
        counts=_counts(view.tasks.counts()),
        ready=len(view.queue.ready()),
        troubles=troubles(view, around, active, questions),
        questions=questions,
        at_work=at_work,
        gates=gates,
        waiting=_waiting(active, around),
        happenings=latest(view, RECENT),
        scheduler=around.scheduler,
        is_scheduled=around.is_scheduled,
    )


def _counts(found: Mapping[str, int]) -> dict[str, int]:
    """The counts in the order of a task's life."""
    return {status.value: found[status.value] for status in Status if found.get(status.value)}


def _questions(
    view: Transaction, around: Around, active: Mapping[Status, list[Task]], focus: str
) -> tuple[Question, ...]:
    """What waits for the user or alerts them, the oldest first; what was tried is read for a few of them."""
    blocked = active[Status.BLOCKED]
    alerted = list(filter(open_alert, active[Status.CLAIMED]))
    asked = [(task.escalation, task) for task in view.tasks.escalated() if task.escalation]
    asked = sorted(asked, key=lambda pair: (pair[0].opened_at, pair[1].id))[:MOST]
    told = {task.id for _, task in asked[:WITH_STORY]}
    told |= {task.id for escalation, task in asked if escalation.id == focus}
    told |= {task.id for task in filter(waiting, blocked[:WITH_STORY])}
    told |= {task.id for task in blocked if task.filed and task.filed.rejection_id == focus}
    told |= {task.id for task in held_tasks(view)[:WITH_STORY]} | {focus.partition("/")[0]}
    told |= {task.id for task in alerted[:WITH_STORY]}

    def events_of(name: str) -> Iterable[Event]:
        return story(view, name) if name in told else ()

    found: list[Question] = [question_of(view, around.rules.team, task, events_of) for _, task in asked]
    found += undecided(view, around.rules, blocked, events_of)
    team = around.rules.team
    found += held_questions(view, team, events_of, team.actor(USER))
    found += alert_questions(view, team, alerted, events_of)
    found.sort(key=lambda one: (not one.since, one.since, one.task_id))
    return (*found, *objection_questions(view, around.rules.policy))


def _at_work(view: Transaction, held: list[Task], around: Around, measured: set[str]) -> tuple[AtWork, ...]:
    """Whoever is at work, the longest first."""
    lines = {one.run_id: one.last_line for one in around.scheduler.agents} if around.scheduler else {}
    found = [_holder(task, lines, is_measured=task.id in measured) for task in held if task.claim]
    known = {one.run_id for one in found}
    found += [
        _runner(task, run, lines) for task in view.tasks.running() for run in task.runs if run.id not in known
    ]
    return tuple(sorted(found, key=lambda one: (one.since, one.task_id)))


def _holder(task: Task, lines: Mapping[str, str], *, is_measured: bool) -> AtWork:
    claim = task.claim
    if claim is None:
        raise AssertionError(f"nobody holds {task.id}")
    run = next((one for one in task.runs if one.handoff_id == claim.handoff_id), None)
    is_current = task.gating.handoff_id == claim.handoff_id
    return AtWork(
        task_id=task.id,
        label=task.label,
        title=task.title,
        agent=claim.agent,
        purpose="work",
        since=claim.claimed_at,
        lease_until=claim.lease_expires_at,
        attempt=task.attempt_count,
        gate_rejections=task.gating.count if is_current else 0,
        waits_for=_waits_for(task),
        run_id=run.id if run else "",
        tier=run.tier if run else "",
        last_line=lines.get(run.id, "") if run else "",
        is_measured=is_measured,
    )


def _waits_for(task: Task) -> str:
    """What the holder of a task waits for: something outside, or a reviewer's word on what the gates found."""
    return task.waiting_for or ("a reviewer's word on findings" if open_findings(task) else "")


def _runner(task: Task, run: Run, lines: Mapping[str, str]) -> AtWork:
    return AtWork(
        task_id=task.id,
        label=task.label,
        title=task.title,
        agent=run.agent,
        purpose=run.purpose,
        since=run.started_at,
        run_id=run.id,
        tier=run.tier,
        last_line=lines.get(run.id, ""),
    )


def _gates(view: Transaction, held: list[Task], around: Around) -> tuple[GatesRunning, ...]:
    """The gates that run: by the scheduler's own hand, or in the background."""
    found: dict[str, GatesRunning] = {}
    for one in around.scheduler.gates if around.scheduler and around.is_scheduled else ():
        task = view.tasks.get(one.task_id)
        label = task.label if task else one.task_id
        found[one.task_id] = GatesRunning(
            task_id=one.task_id, label=label, agent=one.agent, since=one.started_at
        )
    for task in held:
        if task.claim and task.id not in found and around.is_measured(task.id):
            found[task.id] = GatesRunning(task_id=task.id, label=task.label, agent=task.claim.agent)
    return tuple(found.values())


def _waiting(active: Mapping[Status, list[Task]], around: Around) -> tuple[Waiting, ...]:
    """What waits for somebody: held work, then for a review, the longest first, then for another agent."""
    held = [_for_settling(task, around.rules.team) for task in filter(open_findings, active[Status.CLAIMED])]
    handed_in = [_for_review(task) for task in active[Status.PROVISIONAL]]
    sent_back = [_for_rework(task, around.now) for task in active[Status.REJECTED]]
    return (*held, *sorted(handed_in, key=lambda one: (one.since, one.task_id)), *sent_back)


def _for_settling(task: Task, team: Team) -> Waiting:
    return Waiting(
        task_id=task.id,
        label=task.label,
        title=task.title,
        status="held",
        whom=settlers(task, team),
        author=task.claim.agent if task.claim else "",
        rejection_count=task.rejection_count,
        pr=task.gating.pr or task.pr,
    )


def _for_review(task: Task) -> Waiting:
    submission = task.submission
    return Waiting(
        task_id=task.id,
        label=task.label,
        title=task.title,
        status=task.status.value,
        whom=task.requested,
        since=submission.at if submission else "",
        author=submission.agent if submission else "",
        rejection_count=task.rejection_count,
        pr=task.pr,
    )


def _for_rework(task: Task, now: Instant) -> Waiting:
    reserved = task.reserved_for(now)
    return Waiting(
        task_id=task.id,
        label=task.label,
        title=task.title,
        status=task.status.value,
        whom=(reserved.target,) if reserved else (),
        author=task.submission.agent if task.submission else "",
        rejection_count=task.rejection_count,
        pr=task.pr,
    )
