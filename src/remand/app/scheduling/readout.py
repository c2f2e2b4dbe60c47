"""What work came to: what was rejected, by whom and why, what the user was asked, where tasks ended, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.evolve import evolve
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.run_steps import after
from remand.domain.runs import Spent
from remand.domain.task import Status, Task
from remand.domain.visible import visible

MAX_SAID = 300
AGENT, GATE, REVIEWER = "agent", "gate", "reviewer"
"""The three that say no: this task cannot be done, this is not done, not this and not by you."""
GATES = "the gates"


class No(Record, kw_only=True, omit_defaults=False):
    """One no."""

    at: Instant
    kind: str
    task_id: str
    label: str = ""
    by: str
    of: str
    """Who had the task, or whose work it was."""
    why: str
    outcome: str = ""
    """What came of it; empty while nothing has."""
    id: str = ""
    """The rejection's or the review's; a gate's has none."""


class Asked(Record, kw_only=True, omit_defaults=False):
    """One question to the user."""

    at: Instant
    task_id: str
    label: str
    why: str
    answer: str = ""
    """The option that was chosen; empty while the question is open."""


class Bill(Record, kw_only=True, omit_defaults=False):
    """What runs have cost. Turns, tokens and cost are what the hosts told."""

    name: str
    runs: int = 0
    faults: int = 0
    """Runs that ended with an error."""
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    """In US dollars."""


class Fate(Record, kw_only=True, omit_defaults=False):
    """Where one task stands."""

    task_id: str
    label: str
    title: str
    status: str
    author: str = ""
    """Whose work was handed in last."""
    bill: Bill


class Readout(Record, kw_only=True, omit_defaults=False):
    """All of it."""

    since: Instant
    statuses: dict[str, int]
    """How many tasks ended or stand where, in the order of a task's life."""
    noes: tuple[No, ...]
    questions: tuple[Asked, ...]
    agents: tuple[Bill, ...]
    tasks: tuple[Fate, ...]
    total: Bill


def readout(stories: Iterable[list[e.Event]], since: Instant = "") -> Readout:
    """The read-out of tasks, each given by its events in order; with `since` of what happened from then on."""
    count = _Count(since)
    for story in stories:
        count.add(story)
    return count.told()


def no_of(event: e.Event) -> No | None:
    """The no that an event is; None when it is none."""
    match event:
        case e.HandoffRejected() | e.HandoffRejectionInvalid() if event.rejection_id:  # none of a GoT tool
            told = (event.rejection.get("reason_type"), event.rejection.get("reason_summary"))
            why = ": ".join(str(part) for part in told if part)
            return _no(event, kind=AGENT, by=event.agent, of=event.agent, why=why, id=event.rejection_id)
        case e.GateRejected():
            return _no(event, kind=GATE, by=GATES, of=event.agent, why=event.because or _missed(event))
        case e.GateHeld():
            return _no(event, kind=GATE, by=GATES, of=event.agent, why=f"held: {_suspected(event)}")
        case e.ReviewRejected():
            why = "; ".join(map(_finding, filter(_is_blocking, event.findings)))
            return _no(event, kind=REVIEWER, by=event.reviewer, of=event.author, why=why, id=event.review_id)
        case _:
            return None


def _no(event: e.TaskEvent, *, why: str, **fields: str) -> No:
    return No(at=event.ts, task_id=event.task_id, why=_brief(why), **fields)


def _missed(event: e.GateRejected) -> str:
    standing = event.verdict.standing
    return "; ".join(gate.line.lstrip("- ") for gate in event.verdict.gates if gate.name in standing)


def _suspected(event: e.GateHeld) -> str:
    standing = event.verdict.standing
    found = [one for gate in event.verdict.gates if gate.name in standing for one in gate.findings]
    return "; ".join(dict.fromkeys(f"{one.path}: {one.code}" for one in found))


def _is_blocking(finding: e.Finding) -> bool:
    return finding.is_blocking


def _finding(finding: e.Finding) -> str:
    return f"{finding.path}:{finding.line}: {finding.text}" if finding.path else finding.text


def outcome(no: No, event: e.Event) -> str:
    """What an event of the same task, after a no, makes of it; empty when it does not concern it."""
    match event:
        case e.EscalationOpened():
            return "the user was asked"
        case e.TaskCancelled():
            return "the task was cancelled"
        case _:
            return _own_outcome(no, event)


def _own_outcome(no: No, event: e.Event) -> str:
    """What an event makes of a no of its kind."""
    match no.kind, event:
        case "agent", e.RejectionAnswered() if event.rejection_id == no.id:
            target = event.decision.reassign_to
            return f"{event.decision.decision_type}{f', on to {target}' if target not in ('', no.by) else ''}"
        case "gate", e.GatePassed():
            return f"{event.agent} mended it"
        case "reviewer", e.TaskReassigned():
            return f"on to {event.target}"
        case "reviewer", e.TaskClaimed() | e.HandoffAccepted():
            return f"{event.agent} went on"
        case "reviewer", e.ReviewRetracted() if event.review_id == no.id:
            return "taken back"
        case _:
            return ""


class _Count:
    """What is counted while the tasks pass by."""

    def __init__(self, since: Instant) -> None:
        self._since = since
        self._noes: list[No] = []
        self._questions: list[Asked] = []
        self._fates: list[Fate] = []
        self._agents: dict[str, _Sum] = {}
        self._total = _Sum("all")

    def add(self, story: list[e.Event]) -> None:
        task: Task | None = None
        noes: list[No] = []
        questions: list[Asked] = []
        own = _Sum("")
        for event in story:
            before, task = task, evolve(task, event)
            if event.ts < self._since or task is None:
                continue
            noes = [_after(no, event) for no in noes]
            no = no_of(event)
            noes += [no] if no else []
            questions = _questions(questions, event)
            if isinstance(event, e.RunEnded) and before is not None and before.run(event.run_id):
                for each in (own, self._total, self._agents.setdefault(event.agent, _Sum(event.agent))):
                    each.add(event)
        if task is not None and story[-1].ts >= self._since:
            self._noes += [replace(no, label=task.label) for no in noes]
            self._questions += [replace(one, label=task.label) for one in questions]
            self._fates.append(_fate(task, own))

    def told(self) -> Readout:
        counted = Counter(fate.status for fate in self._fates)
        return Readout(
            since=self._since,
            statuses={status.value: counted[status.value] for status in Status if counted[status.value]},
            noes=tuple(sorted(self._noes, key=lambda no: (no.at, no.task_id))),
            questions=tuple(sorted(self._questions, key=lambda one: (one.at, one.task_id))),
            agents=tuple(self._agents[name].bill() for name in sorted(self._agents)),
            tasks=tuple(sorted(self._fates, key=lambda fate: fate.task_id)),
            total=self._total.bill(),
        )


class _Sum:
    """Runs, added up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spent = Spent()
        self._faults = 0

    def add(self, event: e.RunEnded) -> None:
        self._spent = after(self._spent, event)
        self._faults += event.is_fault

    def bill(self) -> Bill:
        spent = self._spent
        return Bill(
            name=self._name,
            runs=spent.runs,
            faults=self._faults,
            seconds=round(spent.seconds, 3),
            turns=spent.turns,
            tokens=spent.tokens,
            cost=round(spent.cost, 6),
        )


def _fate(task: Task, own: _Sum) -> Fate:
    return Fate(
        task_id=task.id,
        label=task.label,
        title=task.title,
        status=task.status.value,
        author=task.submission.agent if task.submission else "",
        bill=own.bill(),
    )


def _after(no: No, event: e.Event) -> No:
    """A no with what came of it: the first thing that did, unless it is taken back."""
    if no.outcome and not isinstance(event, e.ReviewRetracted):
        return no
    return replace(no, outcome=outcome(no, event) or no.outcome)


def _questions(known: list[Asked], event: e.Event) -> list[Asked]:
    match event:
        case e.EscalationOpened():
            why = _brief(event.reason)
            return [*known, Asked(at=event.ts, task_id=event.task_id, label="", why=why)]
        case e.EscalationAnswered():
            return [one if one.answer else replace(one, answer=event.option) for one in known]
        case _:
            return known


def _brief(text: str) -> str:
    return " ".join(visible(text).split())[:MAX_SAID]
