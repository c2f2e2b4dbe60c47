"""A task's runs: who is at work on it, what that has cost, and the circuit breaker that stops new ones."""

import math

import msgspec
from msgspec.structs import replace

from remand.domain.access.team import Member
from remand.domain.events.work import How, RunEnded
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple, Record

_SHORT_SECONDS = 600.0


class Run(Record, kw_only=True):
    """An agent's process that is at work on a task."""

    id: str
    agent: str
    purpose: str
    started_at: Instant
    handoff_id: str = ""
    """The claim it works under; empty when it reviews or directs."""
    tier: str = ""
    about: str = ""
    """The commit that it reviews, or the rejection that it decides."""
    session: str = ""
    """The ledger that began it: no other knows whether it is still alive."""


class RunCosts(Record, kw_only=True):
    """What a task's runs have cost so far."""

    runs: int = 0
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    """In US dollars."""
    faults: int = 0
    """Runs in a row that ended with an error."""
    unbegun: int = 0
    """Runs in a row that could not be begun. No agent had a part in them: they are no runs of its, and no faults."""
    last_fault: Instant = ""
    """When a run last failed, or could not be begun."""
    grants: int = 0
    """How often the user let the task continue after its budget was spent."""

    @property
    def failures(self) -> int:
        """How often in a row nothing came of a run, whoever had a part in it."""
        return self.faults + self.unbegun


class Budget(Record, kw_only=True):
    """What the runs of one task may cost before the user is asked; 0 is no limit."""

    runs: int = 0
    turns: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def describe_overrun(self, spent: RunCosts) -> str:
        """What was spent beyond the budget, in words; empty when nothing was. Each grant is one budget more."""
        times = 1 + spent.grants
        rows = (
            (spent.runs, self.runs, "{:.0f} runs"),
            (spent.turns, self.turns, "{:.0f} turns"),
            _time_row(spent.seconds, self.seconds),
            (spent.cost, self.cost, "${:.2f}"),
        )
        return ", ".join(
            f"{form.format(used)} of {form.format(most * times)}"
            for used, most, form in rows
            if most and used >= most * times
        )


def _time_row(used: float, most: float) -> tuple[float, float, str]:
    """Two times in the unit that suits the limit."""
    return (
        (used, most, "{:.0f} seconds") if most < _SHORT_SECONDS else (used / 60, most / 60, "{:.0f} minutes")
    )


_MAX_FIGURE = 1e12


def add_run_cost(spent: RunCosts, event: RunEnded) -> RunCosts:
    """Adds the cost of one run. Invalid figures count as 0; a run that never started is not counted."""
    has_begun = event.how != How.NOT_STARTED
    is_unbegun = not has_begun and not event.is_fault and not event.is_systems
    return RunCosts(
        runs=spent.runs + has_begun,
        turns=spent.turns + int(_valid_figure(event.turns)),
        tokens=spent.tokens + int(_valid_figure(event.tokens)),
        seconds=spent.seconds + _valid_figure(event.seconds),
        cost=spent.cost + _valid_figure(event.cost),
        faults=spent.faults + 1 if event.is_fault else _failures_after(spent.faults, event),
        unbegun=spent.unbegun + 1 if is_unbegun else _failures_after(spent.unbegun, event),
        last_fault=event.ts if event.is_fault or is_unbegun else spent.last_fault,
        grants=spent.grants,
    )


def _failures_after(failures: int, event: RunEnded) -> int:
    """A run that was ended from outside, or by the system, says nothing of the failures before it."""
    says_nothing = event.is_systems or event.how in (How.STOPPED, How.LOST, How.NOT_STARTED)
    return failures if says_nothing else 0


def grant_after_answer(spent: RunCosts, kind: str) -> RunCosts:
    """What the user's answer to a question about runs allows: another budget, another few tries."""
    match kind:
        case "budget":
            return replace(spent, grants=spent.grants + 1)
        case "runs":
            return replace(spent, faults=0, unbegun=0)
        case _:
            return spent


def _valid_figure(value: float) -> float:
    return min(float(value), _MAX_FIGURE) if math.isfinite(value) and value > 0 else 0.0


BREAKER_THRESHOLD = 3
FIRST_SECONDS = 30.0
LONGEST_SECONDS = 900.0


class Breach(NamedTuple):
    """What is wrong, since when, and when one run is let through to try."""

    scope: str
    message: str
    since: float
    until: float
    is_tried: bool = False
    """One run is on its way to find out."""
    seconds: float = FIRST_SECONDS


class BreakerSnapshot(Record, kw_only=True):
    failing: dict[str, list[str]] = msgspec.field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()


class Breaker:
    """Counts failures by scope: a program, the disk, git. Times are any clock's seconds, and only compared.

    Several threads may use it: each step is one look at, or one change of, a table.
    """

    def __init__(self, threshold: int = BREAKER_THRESHOLD) -> None:
        self._threshold = threshold
        self._failing: dict[str, set[str]] = {}
        self._open: dict[str, Breach] = {}

    def allows(self, *scopes: str, now: float) -> bool:
        """True when no known fault prevents a run."""
        return all(now >= self._open[scope].until for scope in scopes if scope in self._open)

    def record_start(self, *scopes: str, now: float) -> None:
        """Records that a run starts; of a scope that is open, it is the one that finds out.

        Should it end without having found out anything, another is let through after the same while.
        """
        for scope in scopes:
            breach = self._open.get(scope)
            if breach is not None:
                self._open[scope] = breach._replace(is_tried=True, until=now + breach.seconds)

    def record_failure(
        self, scope: str, task_id: str, message: str, *, now: float, is_certain: bool = False
    ) -> bool:
        """Records a failure; True when that opens the breaker. A certain one needs no second."""
        failing = self._failing.setdefault(scope, set())
        failing.add(task_id)
        before = self._open.get(scope)
        if before is None and not is_certain and len(failing) < self._threshold:
            return False
        seconds = min(before.seconds * 2, LONGEST_SECONDS) if before and before.is_tried else FIRST_SECONDS
        since = before.since if before else now
        self._open[scope] = Breach(scope, message, since, now + seconds, seconds=seconds)
        return before is None

    def record_success(self, *scopes: str) -> None:
        """Records a success: what was wrong is not wrong any more."""
        for scope in scopes:
            self._failing.pop(scope, None)
            self._open.pop(scope, None)

    def is_open(self, *scopes: str) -> bool:
        """True when a fault is known: a run that starts all the same is let through to try."""
        return any(scope in self._open for scope in scopes)

    @property
    def is_closed(self) -> bool:
        """True when no fault is known."""
        return not self._open

    def snapshot(self) -> BreakerSnapshot:
        """All it knows, for the next to continue with."""
        failing = {scope: sorted(tasks) for scope, tasks in list(self._failing.items())}
        return BreakerSnapshot(failing=failing, breaches=self.breaches)

    def restore(self, kept: BreakerSnapshot, *, now: float) -> None:
        """Restores what another breaker saved. Impossible times, as after a restart of the machine, are left out."""
        self._failing = {scope: set(tasks) for scope, tasks in kept.failing.items()}
        for breach in kept.breaches:
            if breach.since <= now and breach.until <= now + LONGEST_SECONDS:
                self._open[breach.scope] = breach._replace(is_tried=False)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """What is wrong now, the oldest first."""
        found = list(self._open.values())
        return tuple(sorted(found, key=lambda breach: breach.since))


SYSTEM_CAUSES = ("disk", "sandbox", "socket")
"""Causes that are the system's beyond doubt: no second task has to fail to know."""


def program_scope(member: Member) -> str:
    """What a program's own failures are charged to."""
    return f"command {member.command[0]}"


def failure_scope(cause: str, member: Member) -> str:
    """What a failure is charged to: the machine, or a program, or else nobody but the one whose work it was.

    What an agent leaves behind can be in git's or the gates' way. No other has to wait for that.
    """
    if cause in SYSTEM_CAUSES:
        return cause
    return f"program {member.command[0]}" if cause == "program" else f"{cause} of {member.name}"


def member_scopes(member: Member) -> tuple[str, ...]:
    """Every scope whose failures keep the member from being started."""
    causes = (*SYSTEM_CAUSES, "program", "git", "gates", "system")
    return (program_scope(member), *(failure_scope(cause, member) for cause in causes))
