"""The board: what the whole team is doing now, problems first. It is read often, so it reads little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.history.activity import ActivityEntry, latest_activity
from remand.app.inbox.decisions import decision_questions, pending_rejection
from remand.app.inbox.held_findings import HELD_KIND as HELD
from remand.app.inbox.held_findings import held_questions, tasks_with_held_findings
from remand.app.inbox.objections import objection_questions
from remand.app.inbox.questions import ALERT_KIND as ALERT
from remand.app.inbox.questions import Question, alert_questions, escalation_question
from remand.app.requests import Rules
from remand.app.scheduler.ports import SchedulerStatus, unstartable_by_status
from remand.domain.access.team import USER
from remand.domain.decisions.findings import open_findings, possible_settlers
from remand.domain.decisions.notices import open_alert
from remand.domain.events.event import Event
from remand.domain.gate.state import GATE_QUESTION
from remand.domain.instant import Instant, add_seconds, is_clock_ahead
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.task import TERMINAL, Status, Task
from remand.domain.text.words import format_count, single_line
from remand.ledger.store import TaskFilter, Transaction

SILENT_SECONDS = 60.0
"""After this long without a look at the ledger, the scheduler counts as stuck."""
MAX_CAUSE = 500
LEASE_WARNING_SHARE = 0.1


class BoardContext(NamedTuple):
    """What the board needs besides the ledger."""

    now: Instant
    rules: Rules = Rules()
    scheduler: SchedulerStatus | None = None
    is_scheduled: bool = False
    is_measured: Callable[[str], bool] = lambda _: False
    """Whether the gates of a task run in the background."""


class BoardAlert(Record, kw_only=True, omit_defaults=False):
    kind: str
    """`system`, `questions` or `task`."""
    text: str
    since: Instant = ""
    task_id: str = ""
    label: str = ""


def board_alerts(
    view: Transaction,
    around: BoardContext,
    active: Mapping[Status, Sequence[Task]],
    questions: Sequence[Question],
) -> tuple[BoardAlert, ...]:
    """All current problems, most severe first."""
    policy = around.rules.policy
    alerts = [
        *_scheduler_alerts(around),
        *_gate_alerts(questions),
        *_ledger_alerts(view, around),
        *_question_alerts(questions),
    ]
    for task in active[Status.CLAIMED]:
        alerts += _claim_alerts(task, policy, around.now)
    for status in (Status.CLAIMED, Status.PROVISIONAL, Status.REJECTED):
        for task in active[status]:
            rounds = len(task.standing_rounds)
            if rounds and rounds >= policy.escalate_after_reviews - 1:
                text = f"was rejected in {rounds} reviews; the next rejection goes to the user"
                alerts.append(_task_alert(task, text))
    for status in (Status.FAILED, Status.BLOCKED):
        for task in active[status]:
            text = f"is {task.status.value}, and only `remand task reopen` restores it"
            filed = task.rejections.last_rejection
            if status is Status.BLOCKED and filed and filed.is_pending:
                how = "appeals about its rejection" if filed.is_appealed else "rejected it"
                text = f"{filed.agent} {how}, and a director has to answer"
            alerts.append(_task_alert(task, text))
    return tuple(alerts)


def _scheduler_alerts(around: BoardContext) -> Iterator[BoardAlert]:
    status = around.scheduler
    if status is None:
        return
    if not around.is_scheduled:
        yield _system_alert("The scheduler ended unexpectedly; start it again.", status.tick_at)
        return
    for breach in status.breaker:
        until = f"; tried again at {breach.until[11:19]}" if breach.until else ""
        text = f"{breach.member} is not started" if breach.member else "Nothing is started"
        text += f" ({breach.cause}): {breach.message.rstrip('.')}{until}."
        yield _system_alert(text, breach.since)
    if status.forge:
        yield _system_alert(f"The forge: {status.forge}")
    if status.tick_at < add_seconds(around.now, -SILENT_SECONDS):
        yield _system_alert("The scheduler has stopped looking at the ledger.", status.tick_at)


def _gate_alerts(questions: Sequence[Question]) -> Iterator[BoardAlert]:
    """Broken gates, which keep tasks from being started."""
    for question in questions:
        if question.kind == GATE_QUESTION:
            why, _, _ = question.question.partition(" No agent is started")
            yield BoardAlert(
                kind="system", text=f"Nothing is started: {single_line(why, MAX_CAUSE)}", since=question.since
            )


def _system_alert(text: str, since: Instant = "") -> BoardAlert:
    return BoardAlert(kind="system", text=single_line(text), since=since)


def _ledger_alerts(view: Transaction, around: BoardContext) -> Iterator[BoardAlert]:
    """A wrong clock, unreadable files and an incomplete log: each blocks work."""
    if is_clock_ahead(view.head.clock, around.now, around.rules.policy.clock_skew_seconds):
        text = f"Nothing can be written: the latest event is from {view.head.clock}; `remand log repair` says what to do."
        yield _system_alert(text)
    problems = view.files.problems()
    if problems:
        many = f"{len(problems)} lines" if len(problems) > 1 else "One line"
        yield _system_alert(f"{many} of the event files cannot be read; `remand log verify` says which.")
    count = len(view.missing.faults()) + len(view.rewritten.every())
    if count:
        many = f"{count} findings" if count > 1 else "one finding"
        yield _system_alert(f"The log is incomplete ({many}); `remand log repair` says what to do.")


def _question_alerts(questions: Sequence[Question]) -> Iterator[BoardAlert]:
    """One alert for all questions in the user's inbox. Held work and gate alerts have alerts of their own."""
    open_questions = [question for question in questions if question.kind not in (HELD, ALERT)]
    if open_questions:
        many = f"{len(open_questions)} questions wait" if len(open_questions) > 1 else "One question waits"
        yield BoardAlert(kind="questions", text=f"{many} for the user.", since=open_questions[0].since)


def _claim_alerts(task: Task, policy: Policy, now: Instant) -> Iterator[BoardAlert]:
    """Alerts about a holder that is silent, or that the gates reject repeatedly."""
    claim, gates = task.claim, task.gates
    if claim is None:
        return
    if claim.lease_expires_at <= now:
        yield _task_alert(task, f"{claim.agent}'s lease has ended", claim.lease_expires_at)
    elif claim.lease_expires_at < add_seconds(now, LEASE_WARNING_SHARE * policy.lease_seconds):
        yield _task_alert(task, f"{claim.agent}'s lease ends at {claim.lease_expires_at[11:19]}")
    is_current = gates.handoff_id == claim.handoff_id
    if is_current and gates.progress.count >= policy.alert_after_gates:
        yield _task_alert(
            task, f"the gates rejected {claim.agent}'s work {format_count(gates.progress.count, 'time')}"
        )
    if task.spent.faults:
        runs = f"{task.spent.faults} runs" if task.spent.faults > 1 else "run"
        yield _task_alert(task, f"its last {runs} failed", task.spent.last_fault)
    if open_findings(task):
        yield _task_alert(task, f"findings in {claim.agent}'s work wait for a reviewer")


def _task_alert(task: Task, text: str, since: Instant = "") -> BoardAlert:
    return BoardAlert(kind="task", text=single_line(text), since=since, task_id=task.id, label=task.label)


class ListedTask(Record, kw_only=True, omit_defaults=False):
    """A task as in `task list --json`."""

    task_id: str
    title: str
    status: str
    priority: str
    agent: str | None
    """Its holder, or the author of the submission under review."""
    branch: str | None
    alias: str | None
    pr: int | None
    rejection_count: int
    gate_rejection_count: int
    attempt_count: int
    held: tuple[str, ...]
    """The findings that wait for a person."""


class TaskPage(Record, kw_only=True, omit_defaults=False):
    """One page of the task list."""

    rows: tuple[ListedTask, ...]
    after: str
    """The cursor of the next page; empty after the last one."""
    counts: dict[str, int]
    """The number of tasks of each status, regardless of the filter."""


StatusGroups = Sequence[Sequence[Status]]
BOARD_ORDER: StatusGroups = tuple(
    (status,)
    for status in (
        *(
            Status.REJECTED,
            Status.ESCALATED,
            Status.BLOCKED,
            Status.FAILED,
            Status.CLAIMED,
            Status.PROVISIONAL,
        ),
        *(Status.NEEDS_CONTINUATION, Status.INCOMING, Status.DEFERRED, Status.DECOMPOSED),
        *sorted(TERMINAL),
    )
)
"""The columns of a board: rejected and escalated tasks first, ended tasks last."""
OPEN_FIRST: StatusGroups = (tuple(status for status in Status if status not in TERMINAL), sorted(TERMINAL))
"""The order in which people see the list."""
BY_ID: StatusGroups = ((),)


def read_task_page(
    view: Transaction, wanted: TaskFilter, *, limit: int = 50, after: str = "", order: StatusGroups = BY_ID
) -> TaskPage:
    """One page of the matching tasks, read from indexes: the cost of a page does not grow with the ledger.

    They are sorted by id; with another `order`, such as `BOARD_ORDER` (rejected first), by its groups of statuses and
    then by id. Pass the `after` of one page to get the next, with the same filter and order. A column of a board is a
    page with one status; `counts` has the size of each column. `limit=-1` returns all.

        with opened.store.read() as view:
            page = read_task_page(view, TaskFilter(statuses=("rejected",), text="roof"), limit=20)

    A search for a rare text scans the texts of all tasks, without reading the tasks.
    """
    most = limit + 1 if limit >= 0 else -1
    number, _, name = after.rpartition(" ")
    start = int(number[:4]) if number.isascii() and number.isdigit() else 0
    found: list[tuple[int, Task]] = []
    for place, group in enumerate(order):
        left = most - len(found) if most >= 0 else -1
        statuses = tuple(one.value for one in group if not wanted.statuses or one.value in wanted.statuses)
        if left and place >= start and (statuses or not group):
            some = msgspec.structs.replace(wanted, statuses=statuses) if group else wanted
            tasks = view.task_lists.pages.page(some, left, name if place == start else "")
            found += [(place, task) for task in tasks]
    page = found if limit < 0 else found[:limit]
    last = f"{page[-1][0]} {page[-1][1].id}" if len(page) < len(found) else ""
    rows = tuple(task_list_row(task) for _, task in page)
    return TaskPage(
        rows=rows, after=last.removeprefix("0 ") if order is BY_ID else last, counts=dict(view.queue.counts())
    )


def task_list_row(task: Task) -> ListedTask:
    """A task as lists show it."""
    agent = {
        Status.CLAIMED: task.claim.agent if task.claim else None,
        Status.PROVISIONAL: task.submission.agent if task.submission else None,
    }.get(task.status)
    return ListedTask(
        task_id=task.id,
        title=task.title,
        status=task.status.value,
        priority=task.details.priority,
        agent=agent,
        branch=task.branch or None,
        alias=next(iter(task.details.aliases), None),
        pr=task.pr or None,
        rejection_count=task.reviews.rejection_count,
        gate_rejection_count=task.gates.rejection_count,
        attempt_count=task.claims.attempt_count,
        held=open_findings(task),
    )


MAX_TASKS = 200
"""How many tasks of each status are read."""
MAX_WITH_HISTORY = 20
"""For how many questions the task's history is read."""
RECENT = 15


class ActiveWork(Record, kw_only=True, omit_defaults=False):
    """Work in progress on a task by its holder, or by a run that reviews or directs it."""

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
    """The external condition it waits for."""
    run_id: str = ""
    """The scheduler's run; empty if it was started otherwise."""
    tier: str = ""
    last_line: str = ""
    is_measured: bool = False
    """Whether its gates are running."""


class WaitingTask(Record, kw_only=True, omit_defaults=False):
    """A task that waits for somebody: held, submitted for review, or sent back for another agent."""

    task_id: str
    label: str
    title: str
    status: str
    whom: tuple[str, ...] = ()
    """The names it waits for; empty if anybody can take it."""
    since: Instant = ""
    author: str = ""
    rejection_count: int = 0
    pr: int = 0


class RunningGates(Record, kw_only=True, omit_defaults=False):
    """Gates that are measuring a done claim."""

    task_id: str
    label: str
    agent: str
    since: Instant = ""


class Board(Record, kw_only=True, omit_defaults=False):
    """What the team is doing at one moment."""

    at: Instant
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of tasks of each status."""
    ready: int = 0
    """How many tasks can be claimed."""
    troubles: tuple[BoardAlert, ...] = ()
    questions: tuple[Question, ...] = ()
    at_work: tuple[ActiveWork, ...] = ()
    gates: tuple[RunningGates, ...] = ()
    waiting: tuple[WaitingTask, ...] = ()
    happenings: tuple[ActivityEntry, ...] = ()
    """The latest events, newest first."""
    scheduler: SchedulerStatus | None = None
    is_scheduled: bool = False
    """Whether a scheduler is running; an old status file does not count."""


def read_board(view: Transaction, around: BoardContext, focus: str = "") -> Board:
    """Reads the board. `focus` names a question whose history is always included."""
    active = {
        status: view.task_lists.with_status(status, MAX_TASKS)
        for status in (Status.CLAIMED, Status.PROVISIONAL, Status.REJECTED, Status.FAILED, Status.BLOCKED)
    }
    questions = _inbox_questions(view, around, active, focus)
    gates = _running_gates(view, active[Status.CLAIMED], around)
    counts = view.queue.counts()
    at_work = _active_work(view, active[Status.CLAIMED], around, {gate.task_id for gate in gates})
    return Board(
        at=around.now,
        counts={status.value: counts[status.value] for status in Status if counts.get(status.value)},
        ready=view.queue.count(),
        troubles=board_alerts(view, around, active, questions),
        questions=questions,
        at_work=at_work,
        gates=gates,
        waiting=_waiting_tasks(active, around),
        happenings=latest_activity(view, RECENT),
        scheduler=around.scheduler,
        is_scheduled=around.is_scheduled,
    )


def _inbox_questions(
    view: Transaction, around: BoardContext, active: Mapping[Status, list[Task]], focus: str
) -> tuple[Question, ...]:
    """Questions for the user, oldest first; earlier attempts are read for a few of them."""
    blocked = active[Status.BLOCKED]
    alerted = list(filter(open_alert, active[Status.CLAIMED]))
    waiting = view.task_lists.pages.waiting_tasks()
    pairs = [
        (task.inbox.escalation, task)
        for task in waiting
        if task.status is Status.ESCALATED and task.inbox.escalation
    ]
    pairs = sorted(pairs, key=lambda pair: (pair[0].opened_at, pair[1].id))[:MAX_TASKS]
    tasks = tasks_with_held_findings(view, waiting)
    few = slice(MAX_WITH_HISTORY)
    with_history = {task.id for _, task in pairs[few]} | {focus.partition("/")[0]}
    with_history |= {task.id for escalation, task in pairs if escalation.id == focus}
    with_history |= {task.id for task in filter(pending_rejection, blocked[few])}
    with_history |= {
        task.id
        for task in blocked
        if task.rejections.last_rejection and task.rejections.last_rejection.rejection_id == focus
    }
    with_history |= {task.id for task in (*tasks[few], *alerted[few])}

    def events_of(name: str) -> Iterable[Event]:
        return task_events(view, name, beside=with_history) if name in with_history else ()

    status = around.scheduler if around.is_scheduled else None
    unable = unstartable_by_status(status, around.rules.team.members)
    questions: list[Question] = [
        escalation_question(view, around.rules.team, task, events_of, unable) for _, task in pairs
    ]
    questions += decision_questions(view, around.rules, blocked, events_of, unable)
    team = around.rules.team
    questions += held_questions(view, team, events_of, team.actor(USER), tasks)
    questions += alert_questions(view, team, alerted, events_of, unable)
    questions.sort(key=lambda one: (not one.since, one.since, one.task_id))
    return (*questions, *objection_questions(view, around.rules.policy))


def _active_work(
    view: Transaction, tasks: list[Task], around: BoardContext, measured: set[str]
) -> tuple[ActiveWork, ...]:
    """Work in progress, longest first."""
    lines = {agent.run_id: agent.last_line for agent in around.scheduler.agents} if around.scheduler else {}
    works = [_work_of_holder(task, lines, is_measured=task.id in measured) for task in tasks if task.claim]
    known = {one.run_id for one in works}
    works += [
        ActiveWork(
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
        for task in view.task_lists.running_tasks()
        for run in task.runs
        if run.id not in known
    ]
    return tuple(sorted(works, key=lambda work: (work.since, work.task_id)))


def _work_of_holder(task: Task, lines: Mapping[str, str], *, is_measured: bool) -> ActiveWork:
    claim = task.claim
    if claim is None:
        raise AssertionError(f"nobody holds {task.id}")
    run = next((run for run in task.runs if run.handoff_id == claim.handoff_id), None)
    is_current = task.gates.handoff_id == claim.handoff_id
    return ActiveWork(
        task_id=task.id,
        label=task.label,
        title=task.title,
        agent=claim.agent,
        purpose="work",
        since=claim.claimed_at,
        lease_until=claim.lease_expires_at,
        attempt=task.claims.attempt_count,
        gate_rejections=task.gates.progress.count if is_current else 0,
        waits_for=task.claims.waiting_for
        or ("a reviewer's decision on findings" if open_findings(task) else ""),
        run_id=run.id if run else "",
        tier=run.tier if run else "",
        last_line=lines.get(run.id, "") if run else "",
        is_measured=is_measured,
    )


def _running_gates(view: Transaction, tasks: list[Task], around: BoardContext) -> tuple[RunningGates, ...]:
    """Running gates, started by the scheduler or in the background."""
    found: dict[str, RunningGates] = {}
    for gate in around.scheduler.gates if around.scheduler and around.is_scheduled else ():
        task = view.tasks.get(gate.task_id)
        label = task.label if task else gate.task_id
        found[gate.task_id] = RunningGates(
            task_id=gate.task_id, label=label, agent=gate.agent, since=gate.started_at
        )
    for task in tasks:
        if task.claim and task.id not in found and around.is_measured(task.id):
            found[task.id] = RunningGates(task_id=task.id, label=task.label, agent=task.claim.agent)
    return tuple(found.values())


def _waiting_tasks(active: Mapping[Status, list[Task]], around: BoardContext) -> tuple[WaitingTask, ...]:
    """Waiting tasks: held work, then submissions under review (longest first), then tasks for another agent."""

    def waiting_task(task: Task, whom: tuple[str, ...], author: str, **more: Any) -> WaitingTask:
        fields = {"status": task.status.value, "pr": task.pr} | more
        return WaitingTask(
            task_id=task.id,
            label=task.label,
            title=task.title,
            whom=whom,
            author=author,
            rejection_count=task.reviews.rejection_count,
            **fields,
        )

    tasks = [
        waiting_task(
            task,
            possible_settlers(task, around.rules.team),
            task.claim.agent if task.claim else "",
            status="held",
            pr=task.gates.pr or task.pr,
        )
        for task in filter(open_findings, active[Status.CLAIMED])
    ]
    submitted = [
        waiting_task(task, task.reviews.requested, work.agent if work else "", since=work.at if work else "")
        for task in active[Status.PROVISIONAL]
        for work in [task.submission]
    ]
    tasks += sorted(submitted, key=lambda row: (row.since, row.task_id))
    for task in active[Status.REJECTED]:
        reserved = task.reserved_for(around.now)
        author = task.submission.agent if task.submission else ""
        tasks.append(waiting_task(task, (reserved.target,) if reserved else (), author))
    return tuple(tasks)
