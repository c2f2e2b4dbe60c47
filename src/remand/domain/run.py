"""A task's runs and their cost."""

import math

from msgspec.structs import replace

from remand.domain.events.work import How, RunEnded
from remand.domain.instant import Instant
from remand.domain.record import Record

_SHORT_SECONDS = 600.0


class Run(Record, kw_only=True):
    """An agent's process working on a task."""

    id: str
    agent: str
    purpose: str
    started_at: Instant
    handoff_id: str = ""
    """The claim it works under; empty for reviewers and directors."""
    tier: str = ""
    about: str = ""
    """The commit under review, or the rejection to decide."""
    session: str = ""
    """The ledger that started it; no other knows whether it is still alive."""


class RunCosts(Record, kw_only=True):
    """What a task's runs have cost so far."""

    runs: int = 0
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    """In US dollars."""
    faults: int = 0
    """Consecutive runs that ended with an error."""
    unbegun: int = 0
    """Consecutive runs that could not start. No agent was involved: they are neither runs nor faults of one."""
    last_fault: Instant = ""
    """When a run last failed or could not start."""
    grants: int = 0
    """How often the user extended the exhausted budget."""

    @property
    def failures(self) -> int:
        """The number of consecutive runs without result, for any cause."""
        return self.faults + self.unbegun


class Budget(Record, kw_only=True):
    """What the runs of one task may cost before the user is asked; 0 is no limit."""

    runs: int = 0
    turns: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def describe_overrun(self, spent: RunCosts) -> str:
        """What was spent beyond the budget, in words; empty if within it. Each grant adds one budget."""
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
    """A run ended from outside, or by the system, does not affect the count of failures."""
    says_nothing = event.is_systems or event.how in (How.STOPPED, How.LOST, How.NOT_STARTED)
    return failures if says_nothing else 0


def grant_after_answer(spent: RunCosts, kind: str) -> RunCosts:
    """The user's answer to a question about runs grants another budget or more attempts."""
    match kind:
        case "budget":
            return replace(spent, grants=spent.grants + 1)
        case "runs":
            return replace(spent, faults=0, unbegun=0)
        case _:
            return spent


def _valid_figure(value: float) -> float:
    return min(float(value), _MAX_FIGURE) if math.isfinite(value) and value > 0 else 0.0
