"""Reports on work: rejections, questions, rework, time in each status, and what runs cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from msgspec.structs import replace

from remand.app.analysis.statistics import Share, wilson_share
from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import TELLING, task_events
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, TaskEvent, event_names
from remand.domain.events.reviews import (
    EscalationAnswered,
    EscalationOpened,
    ReviewApproved,
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
from remand.domain.instant import Instant, seconds_between
from remand.domain.record import Record
from remand.domain.run import RunCosts, add_run_cost
from remand.domain.task import Status, Task
from remand.domain.text.words import flatten
from remand.ledger.store import Transaction


class ReviewTally(Record, kw_only=True):
    """The number of an agent's submissions or a reviewer's reviews, and of standing rejections among them."""

    name: str
    reviewed: int
    rejected: int
    retracted: int
    rate: Share


class StatusDuration(Record, kw_only=True):
    """How long tasks stayed in a status, per visit."""

    status: str
    times: int
    median_seconds: float
    total_seconds: float


class Rework(Record, kw_only=True):
    """All figures on reviews, from the events alone."""

    since: Instant
    reviewed_tasks: int
    """Tasks with approved or rejected work."""
    done_tasks: int
    reworked_tasks: int
    """Reviewed tasks with a standing rejection."""
    rework_rate: Share
    cycles: dict[str, int]
    """The number of done tasks by number of review rounds."""
    mean_cycles: float
    rejections: int
    retracted: int
    false_rejection_rate: Share
    """The share of retracted rejections."""
    by_agent: tuple[ReviewTally, ...]
    by_reviewer: tuple[ReviewTally, ...]
    time_in_status: tuple[StatusDuration, ...]


def read_rework(view: Transaction, now: Instant, since: Instant = "") -> Rework:
    """The figures for all tasks of a ledger. Lease renewals change no task and are not read."""
    return measure_rework((task_events(view, task.id, TELLING) for task in view.tasks.every()), now, since)


def measure_rework(histories: Iterable[list[Event]], now: Instant, since: Instant = "") -> Rework:
    """The figures for tasks given by their events in order; with `since`, only for what happened from then on."""
    count = _ReworkCount(since)
    for history in histories:
        count.add(history, now)
    return count.result()


class _ReworkCount:
    def __init__(self, since: Instant) -> None:
        self._since = since
        self._done = self._reworked = self._tasks = 0
        self._cycles: Counter[int] = Counter()
        self._agents: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._reviewers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._stays: defaultdict[Status, list[float]] = defaultdict(list)

    def add(self, history: list[Event], now: Instant) -> None:
        task: Task | None = None
        began: Instant = ""
        for event in history:
            before, task = task, evolve(task, event)
            if task is None:
                continue
            if before is None or before.status != task.status:
                self._stay(before, began, event.ts)
                began = event.ts
            if event.ts >= self._since and before is not None:
                self._review(event, before, task)
        if task is not None:
            self._stay(None if task.is_terminal else task, began, now)
            reviews = (event for event in history if isinstance(event, ReviewApproved | ReviewRejected))
            if any(event.ts >= self._since for event in reviews):
                self._tasks += 1
                self._reworked += bool(task.standing_rounds)
                if task.status == Status.DONE:
                    self._done += 1
                    self._cycles[len(task.standing_rounds) + 1] += 1

    def _stay(self, task: Task | None, began: Instant, ended: Instant) -> None:
        if task is not None and ended > max(began, self._since):
            self._stays[task.status].append(seconds_between(max(began, self._since), ended))

    def _review(self, event: Event, before: Task, after: Task) -> None:
        """Counts an effective review for the author and for the reviewer."""
        author = before.submission.agent if before.submission else ""
        match event:
            case ReviewApproved() if after.status == Status.DONE != before.status:
                self._agents[author]["approved"] += 1
                self._reviewers[event.reviewer]["approved"] += 1
            case ReviewRejected() if len(after.reviews.rounds) > len(before.reviews.rounds):
                self._agents[author]["rejected"] += 1
                self._reviewers[event.reviewer]["rejected"] += 1
            case ReviewRejected() if after.reviews.feedback > before.reviews.feedback:
                self._reviewers[event.reviewer]["rejected"] += 1
            case ReviewRetracted() if after.reviews.rounds != before.reviews.rounds:
                self._reviewers[event.reviewer]["retracted"] += 1
                if len(after.standing_rounds) < len(before.standing_rounds):
                    rounds = (
                        review_round
                        for review_round in before.reviews.rounds
                        if event.review_id in {own.id for own in review_round.reviews}
                    )
                    self._agents[next(rounds).agent]["retracted"] += 1
            case _:
                return

    def result(self) -> Rework:
        by_reviewer = tuple(_review_tallies(self._reviewers))
        by_agent = tuple(_review_tallies(self._agents, counts_retracted=False))
        retracted = sum(one.retracted for one in by_reviewer)
        rejections = max(retracted, sum(counts["rejected"] for counts in self._reviewers.values()))
        cycles = sum(number * times for number, times in self._cycles.items())
        return Rework(
            since=self._since,
            reviewed_tasks=self._tasks,
            done_tasks=self._done,
            reworked_tasks=self._reworked,
            rework_rate=wilson_share(self._reworked, self._tasks),
            cycles={str(number): self._cycles[number] for number in sorted(self._cycles)},
            mean_cycles=cycles / self._done if self._done else 0.0,
            rejections=rejections,
            retracted=retracted,
            false_rejection_rate=wilson_share(retracted, rejections),
            by_agent=by_agent,
            by_reviewer=by_reviewer,
            time_in_status=tuple(_status_durations(self._stays)),
        )


def _review_tallies(
    counted: dict[str, Counter[str]], *, counts_retracted: bool = True
) -> Iterator[ReviewTally]:
    """By name. Retracted reviews still count for their reviewer; for an agent, each submission counts once by its standing result."""
    for name in sorted(counted):
        counts = counted[name]
        rejected = max(0, counts["rejected"] - counts["retracted"])
        reviewed = counts["approved"] + (counts["rejected"] if counts_retracted else rejected)
        yield ReviewTally(
            name=name,
            reviewed=reviewed,
            rejected=rejected,
            retracted=counts["retracted"],
            rate=wilson_share(rejected, reviewed),
        )


def _status_durations(stays: dict[Status, list[float]]) -> Iterator[StatusDuration]:
    for status in Status:
        if status in stays:
            seconds = stays[status]
            yield StatusDuration(
                status=status,
                times=len(seconds),
                median_seconds=median(seconds),
                total_seconds=sum(seconds),
            )


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

    Without `since`, only the relevant events of a task are read, and its status comes from its state.
    """
    count = _WorkCount(since)
    if since:
        return build_work_report((task_events(view, task.id) for task in view.tasks.every()), since)
    notable = {event_task_id(event) for event in confirmed_events(view, _NOTABLE)}
    for task in view.tasks.every():
        history = task_events(view, task.id, _RELEVANT) if task.id in notable else []
        kinds = {type(event) for event in history}
        if {RunEnded, LeaseExpired} <= kinds:  # only the fold knows which runs ended with a lease
            count.add(task_events(view, task.id))
        else:
            count.add(history, task)
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


_NOTABLE = event_names(
    HandoffRejected,
    HandoffRejectionInvalid,
    GateRejected,
    GateHeld,
    ReviewRejected,
    EscalationOpened,
    RunEnded,
)
"""The events without which only a task's status is reported."""
_RELEVANT = _NOTABLE | event_names(
    *(EscalationAnswered, TaskCancelled, RejectionAnswered, GatePassed, TaskReassigned, TaskClaimed),
    *(HandoffAccepted, ReviewRetracted, RunStarted, LeaseExpired),
)


class _WorkCount:
    def __init__(self, since: Instant) -> None:
        self._since = since
        self._noes: list[RejectionEntry] = []
        self._questions: list[AskedQuestion] = []
        self._reports: list[TaskReport] = []
        self._agents: dict[str, _RunTotals] = {}
        self._total = _RunTotals("all")

    def add(self, history: list[Event], known: Task | None = None) -> None:
        """Counts a task by all its events; or by the relevant ones and its state, without expired leases."""
        task, runs = known, set[str]()
        noes: list[RejectionEntry] = []
        questions: list[AskedQuestion] = []
        own = _RunTotals("")
        for event in history:
            if known is None:
                runs = {run.id for run in task.runs} if task else runs
                task = evolve(task, event)
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
