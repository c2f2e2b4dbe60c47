"""Reports on work: rejections, questions, the state of tasks, and what runs cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from msgspec.structs import replace

from remand.app.events.task_folds import task_lines, told_events
from remand.domain.events.event import Event, TaskEvent, event_names
from remand.domain.events.reviews import (
    EscalationAnswered,
    EscalationOpened,
    ReviewRejected,
    ReviewRetracted,
    TaskReassigned,
)
from remand.domain.events.tasks import (
    HandoffAccepted,
    HandoffRejected,
    HandoffRejectionInvalid,
    LeaseExpired,
    RejectionAnswered,
    TaskCancelled,
    TaskClaimed,
)
from remand.domain.events.work import GateHeld, GatePassed, GateRejected, RunEnded, RunStarted
from remand.domain.evolve import evolve
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.run import RunCosts, add_run_cost
from remand.domain.task import Status, Task
from remand.domain.text.words import flatten
from remand.ledger import codec
from remand.ledger.store import TaskOutline, Transaction

MAX_SAID = 300
AGENT, GATE, REVIEWER = "agent", "gate", "reviewer"
"""The three who reject: the agent (cannot be done), the gate (not done), the reviewer (not like this, not by you)."""
GATES = "the gates"


class RejectionEntry(Record, kw_only=True, omit_defaults=False):
    at: Instant
    kind: str
    task_id: str
    label: str = ""
    by: str
    of: str
    """The task's holder, or the author of the work."""
    why: str
    outcome: str = ""
    """The outcome; empty while there is none."""
    id: str = ""
    """The id of the rejection or review; a gate's rejection has none."""


class AskedQuestion(Record, kw_only=True, omit_defaults=False):
    at: Instant
    task_id: str
    label: str
    why: str
    answer: str = ""
    """The chosen option; empty while the question is open."""


class RunCost(Record, kw_only=True, omit_defaults=False):
    """The cost of runs. Turns, tokens and cost are as reported by the hosts."""

    name: str
    runs: int = 0
    faults: int = 0
    """Runs that ended with an error."""
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    """In US dollars."""


class TaskReport(Record, kw_only=True, omit_defaults=False):
    """The state of one task."""

    task_id: str
    label: str
    title: str
    status: str
    author: str = ""
    """The author of the last submission."""
    bill: RunCost


class WorkReport(Record, kw_only=True, omit_defaults=False):
    since: Instant
    statuses: dict[str, int]
    """The number of tasks per status, in the order of a task's life."""
    noes: tuple[RejectionEntry, ...]
    questions: tuple[AskedQuestion, ...]
    agents: tuple[RunCost, ...]
    tasks: tuple[TaskReport, ...]
    total: RunCost


def build_work_report(histories: Iterable[list[Event]], since: Instant = "") -> WorkReport:
    """A report on tasks given by their events in order; with `since`, on what happened from then on."""
    count = _WorkCount(since)
    for history in histories:
        count.add(history)
    return count.result()


def read_work_report(view: Transaction, since: Instant = "") -> WorkReport:
    """The report on all tasks of a ledger.

    Without `since`, only the relevant events of a task are read, and the rest comes from its state.
    """
    count = _WorkCount(since)
    left = {task.id: task for task in view.task_lists.pages.outlines()}
    for task_id, lines in task_lines(view):
        task = left.pop(task_id, None)
        if task is None:
            continue
        names = codec.line_names(lines)
        if since or _ENDED_WITH_LEASE.issubset(names):  # only the fold knows which runs ended with a lease
            count.add(told_events(view, lines))
        elif _NOTABLE_NAMES.isdisjoint(names):
            count.add([], task)
        else:
            count.add(told_events(view, lines, _relevant_names(frozenset(names))), task)
    for task in left.values():
        count.add([], task)
    return count.result()


def rejection_entry(event: Event) -> RejectionEntry | None:
    """The rejection that an event records; None if it records none."""
    match event:
        case HandoffRejected() | HandoffRejectionInvalid() if (
            event.rejection_id
        ):  # excludes those of GoT tools
            parts = (event.rejection.get("reason_type"), event.rejection.get("reason_summary"))
            why = ": ".join(str(part) for part in parts if part)
            return _entry(event, kind=AGENT, by=event.agent, of=event.agent, why=why, id=event.rejection_id)
        case GateRejected() | GateHeld():
            blocking = [gate for gate in event.verdict.gates if gate.name in event.verdict.blocking_gates]
            if isinstance(event, GateHeld):
                found = (f"{finding.path}: {finding.code}" for gate in blocking for finding in gate.findings)
                why = f"held: {'; '.join(dict.fromkeys(found))}"
            else:
                why = event.because or "; ".join(gate.line.lstrip("- ") for gate in blocking)
            return _entry(event, kind=GATE, by=GATES, of=event.agent, why=why)
        case ReviewRejected():
            why = "; ".join(
                f"{finding.path}:{finding.line}: {finding.text}" if finding.path else finding.text
                for finding in event.findings
                if finding.is_blocking
            )
            return _entry(
                event, kind=REVIEWER, by=event.reviewer, of=event.author, why=why, id=event.review_id
            )
        case _:
            return None


def _entry(event: TaskEvent, *, why: str, **fields: str) -> RejectionEntry:
    return RejectionEntry(at=event.ts, task_id=event.task_id, why=_shorten(why), **fields)


def rejection_outcome(no: RejectionEntry, event: Event) -> str:
    """The effect of a later event of the same task on a rejection; empty if there is none."""
    match no.kind, event:
        case _, EscalationOpened():
            return "the user was asked"
        case _, TaskCancelled():
            return "the task was cancelled"
        case "agent", RejectionAnswered() if event.rejection_id == no.id:
            target = event.decision.reassign_to
            return f"{event.decision.decision_type}{f', on to {target}' if target not in ('', no.by) else ''}"
        case "gate", GatePassed():
            return f"{event.agent} fixed it"
        case "reviewer", TaskReassigned():
            return f"on to {event.target}"
        case "reviewer", TaskClaimed() | HandoffAccepted():
            return f"{event.agent} continued"
        case "reviewer", ReviewRetracted() if event.review_id == no.id:
            return "taken back"
        case _:
            return ""


_NOTABLE: Mapping[type[Event], tuple[type[Event], ...]] = {
    HandoffRejected: (RejectionAnswered,),
    HandoffRejectionInvalid: (RejectionAnswered,),
    GateRejected: (GatePassed,),
    GateHeld: (GatePassed,),
    ReviewRejected: (TaskReassigned, TaskClaimed, HandoffAccepted, ReviewRetracted),
    EscalationOpened: (EscalationAnswered,),
    RunEnded: (RunStarted,),
}
"""The events that a report tells, each with those that say what followed. Without one, only a task's state is reported."""
_NOTABLE_NAMES = codec.encoded_names(event_names(*_NOTABLE) | {""})
"""Their names; the empty one is that of any line that does not begin as ours do."""
_ENDED_WITH_LEASE = codec.encoded_names(event_names(RunEnded, LeaseExpired))


@cache
def _relevant_names(names: frozenset[bytes]) -> frozenset[str]:
    """The names of the events to read of a task whose lines have these names."""
    told = [kind for kind in _NOTABLE if not names.isdisjoint(codec.encoded_names(event_names(kind) | {""}))]
    return event_names(TaskCancelled, *told, *(later for kind in told for later in _NOTABLE[kind]))


class _WorkCount:
    def __init__(self, since: Instant) -> None:
        self._since = since
        self._noes: list[RejectionEntry] = []
        self._questions: list[AskedQuestion] = []
        self._reports: list[TaskReport] = []
        self._agents: dict[str, _RunTotals] = {}
        self._total = _RunTotals("all")

    def add(self, history: list[Event], known: TaskOutline | None = None) -> None:
        """Counts a task by all its events; or by the relevant ones and its state, without expired leases."""
        task: Task | TaskOutline | None = known
        folded: Task | None = None
        runs = set[str]()
        noes: list[RejectionEntry] = []
        questions: list[AskedQuestion] = []
        own = _RunTotals("")
        for event in history:
            if known is None:
                runs = {run.id for run in folded.runs} if folded else runs
                task = folded = evolve(folded, event)
            elif isinstance(event, RunStarted):
                runs.add(event.run_id)
            if task is None or event.ts < max(self._since, task.details.created_at):
                continue
            noes = [_with_outcome(no, event) for no in noes]
            no = rejection_entry(event)
            noes += [no] if no else []
            questions = _with_question(questions, event)
            if isinstance(event, RunEnded) and event.run_id in runs:
                runs.remove(event.run_id)
                for each in (own, self._total, self._agents.setdefault(event.agent, _RunTotals(event.agent))):
                    each.add(event)
        if task is not None and (known or history[-1].ts >= self._since):
            self._noes += [replace(no, label=task.label) for no in noes]
            self._questions += [replace(one, label=task.label) for one in questions]
            self._reports.append(
                TaskReport(
                    task_id=task.id,
                    label=task.label,
                    title=task.title,
                    status=task.status.value,
                    author=task.submission.agent if task.submission else "",
                    bill=own.cost(),
                )
            )

    def result(self) -> WorkReport:
        counted = Counter(report.status for report in self._reports)
        return WorkReport(
            since=self._since,
            statuses={status.value: counted[status.value] for status in Status if counted[status.value]},
            noes=tuple(sorted(self._noes, key=lambda no: (no.at, no.task_id))),
            questions=tuple(sorted(self._questions, key=lambda one: (one.at, one.task_id))),
            agents=tuple(self._agents[name].cost() for name in sorted(self._agents)),
            tasks=tuple(sorted(self._reports, key=lambda report: report.task_id)),
            total=self._total.cost(),
        )


_NOTHING = RunCosts()
_NO_COST = RunCost(name="")
"""The bill of a task without runs: most tasks of a large ledger have this one."""


class _RunTotals:
    def __init__(self, name: str) -> None:
        self._name = name
        self._spent = _NOTHING
        self._faults = 0

    def add(self, event: RunEnded) -> None:
        self._spent = add_run_cost(self._spent, event)
        self._faults += event.is_fault

    def cost(self) -> RunCost:
        spent = self._spent
        if spent is _NOTHING and not self._faults and not self._name:
            return _NO_COST
        return RunCost(
            name=self._name,
            runs=spent.runs,
            faults=self._faults,
            seconds=round(spent.seconds, 3),
            turns=spent.turns,
            tokens=spent.tokens,
            cost=round(spent.cost, 6),
        )


def _with_outcome(no: RejectionEntry, event: Event) -> RejectionEntry:
    """A rejection with its first outcome, unless that is retracted."""
    if no.outcome and not isinstance(event, ReviewRetracted):
        return no
    return replace(no, outcome=rejection_outcome(no, event) or no.outcome)


def _with_question(known: list[AskedQuestion], event: Event) -> list[AskedQuestion]:
    match event:
        case EscalationOpened():
            why = _shorten(event.reason)
            return [*known, AskedQuestion(at=event.ts, task_id=event.task_id, label="", why=why)]
        case EscalationAnswered():
            return [one if one.answer else replace(one, answer=event.option) for one in known]
        case _:
            return known


def _shorten(text: str) -> str:
    return flatten(text)[:MAX_SAID]
