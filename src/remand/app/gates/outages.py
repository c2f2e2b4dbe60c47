"""Gates that cannot be measured, as the whole ledger knows them, and what follows once they can be again."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.gates.outages import broken_gates, measured_gates
from remand.domain.gates.verdict import Verdict
from remand.domain.roles import THE_COORDINATOR
from remand.domain.task import Task
from remand.ledger.store import Transaction


class BrokenGates(NamedTuple):
    """The gates that are broken, and the tasks that carry the questions about gates."""

    broken: frozenset[str] = frozenset()
    questions: tuple[Task, ...] = ()
    """With the question open, whether its gates are still broken or not."""

    @property
    def asked(self) -> tuple[Task, ...]:
        """The questions that hold: until they are answered nothing is started."""
        return tuple(task for task in self.questions if self.broken & set(task.gates_asked_about))

    @property
    def outdated(self) -> tuple[Task, ...]:
        """The questions that nobody has to answer any more, as their gates have other rules now."""
        return tuple(task for task in self.questions if not self.broken & set(task.gates_asked_about))

    @property
    def is_on_trial(self) -> bool:
        """True when the user had a broken gate tried again, and it was not measured since."""
        return bool(self.broken) and not self.asked

    @property
    def reason(self) -> str:
        """Why nothing is started, in one line; empty when no question holds."""
        gates = sorted({gate for task in self.asked for gate in task.gates_asked_about})
        names = ", ".join(f"`{gate}`" for gate in gates)
        many = "The gates" if len(gates) > 1 else "The gate"
        causes = (one.text for task in self.asked for one in task.gating.outages if one.gate in gates)
        cause = next(causes, "") or "no cause is known"
        return f"{many} {names} cannot be measured: {cause}; `remand inbox` asks what to do" if gates else ""


def find_broken_gates(view: Transaction, policy: str) -> BrokenGates:
    """The gates that are broken by the rules of now."""
    tasks = view.tasks.with_outages()
    outages = [outage for task in tasks for outage in task.gating.outages]
    questions = tuple(task for task in tasks if task.gates_asked_about)
    return BrokenGates(broken_gates(outages, policy), questions)


def note_measured(ledger: Ledger, verdict: Verdict) -> None:
    """Notes for every task that gates were measured which could not be for it; the questions about them are closed."""
    note_gates(ledger, measured_gates(verdict))


def note_gates(ledger: Ledger, gates: Collection[str]) -> None:
    """The same by the gates' names."""
    with ledger.store.read() as view:
        tasks = [
            task.id
            for task in view.tasks.with_outages()
            if task.gates_asked_about or any(outage.gate in gates for outage in task.gating.outages)
        ]
    if tasks:
        names = tuple(sorted(gates))
        ledger.ask_all_as(THE_COORDINATOR, [c.NoteGatesMeasured(task_id=name, gates=names) for name in tasks])
