"""A task's runs: who is at work on it, and what that has cost."""

from __future__ import annotations

from remand.domain.instant import Instant
from remand.domain.record import Record

_BRIEF = 600.0


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


class Spent(Record, kw_only=True):
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
    """How often the user let the task go on after its budget was spent."""

    @property
    def failures(self) -> int:
        """How often in a row nothing came of a run, whoever had a part in it."""
        return self.faults + self.unbegun


class Budget(Record, kw_only=True):
    """What the runs of one task may cost before the user is asked; 0 is no bound."""

    runs: int = 0
    turns: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def overdrawn(self, spent: Spent) -> str:
        """What was spent beyond the budget, in words; empty when nothing was. Each grant is one budget more."""
        times = 1 + spent.grants
        rows = (
            (spent.runs, self.runs, "{:.0f} runs"),
            (spent.turns, self.turns, "{:.0f} turns"),
            _timed(spent.seconds, self.seconds),
            (spent.cost, self.cost, "${:.2f}"),
        )
        return ", ".join(
            f"{form.format(used)} of {form.format(most * times)}"
            for used, most, form in rows
            if most and used >= most * times
        )


def _timed(used: float, most: float) -> tuple[float, float, str]:
    """Two times in the unit that suits the bound."""
    return (used, most, "{:.0f} seconds") if most < _BRIEF else (used / 60, most / 60, "{:.0f} minutes")
