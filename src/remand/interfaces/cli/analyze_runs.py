"""What work came to, for people: one sentence, then every no, every question, who cost what, and where tasks ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from remand.app.scheduling.readout import AGENT, GATE, Bill, Fate, No, Readout
from remand.interfaces.cli.analyze_tables import duration
from remand.interfaces.cli.output import table

if TYPE_CHECKING:
    from rich.console import Console

_OPEN = "nothing yet"
_KINDS = {"agent": "agents to a task", "gate": "gates to work", "reviewer": "reviewers to work"}


def runs_page(found: Readout) -> Callable[[Console], None]:
    """Everything, in the order of a reader's questions."""

    def show(out: Console) -> None:
        from rich.text import Text

        out.print(Text(headline(found)))
        for title, shown in _tables(found) if found.tasks else ():
            out.print()
            out.print(Text(title, style="bold"))
            shown(out)

    return show


def headline(found: Readout) -> str:
    """What matters most, in a few sentences."""
    since = f" since {found.since[:19].replace('T', ' ')}" if found.since else ""
    if not found.tasks:
        return f"Nothing has happened{since}."
    ended = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    kinds = Counter(no.kind for no in found.noes)
    said = ", ".join(f"{kinds[kind]} by {text}" for kind, text in _KINDS.items() if kinds[kind])
    total = found.total
    return (
        f"{len(found.tasks):,} task{'s' * (len(found.tasks) != 1)}{since}: {ended}. {len(found.noes):,} times no{f': {said}' if said else ''}. "
        f"{total.runs:,} runs, {duration(total.seconds)} of agents' time{_priced(total)}."
    )


def _priced(bill: Bill) -> str:
    return f", {bill.turns:,} turns, ${bill.cost:,.2f}" if bill.turns or bill.cost else ""


def _tables(found: Readout) -> list[tuple[str, Callable[[Console], None]]]:
    asked = [(_short(one.label), one.answer or _OPEN, one.why) for one in found.questions]
    return [
        (
            "What was rejected",
            table(
                ("no by", "task", "whose work", "what came of it", "why"),
                list(map(_no_row, found.noes)),
                "Nothing was.",
                wraps=True,
            ),
        ),
        ("What the user was asked", table(("task", "answer", "why"), asked, "Nothing.", wraps=True)),
        (
            "What it cost",
            table(
                ("runs", "failed", "time", "turns", "tokens", "cost", "agent"),
                list(map(_bill_row, (*found.agents, found.total) if found.agents else ())),
                "No run has ended.",
            ),
        ),
        (
            "Where every task is",
            table(
                ("status", "runs", "time", "cost", "author", "task", "title"),
                list(map(_fate_row, found.tasks)),
                "",
                wraps=True,
            ),
        ),
    ]


def _no_row(no: No) -> tuple[object, ...]:
    by = no.by if no.kind == GATE else f"{no.kind} {no.by}"
    return (by, _short(no.label), "" if no.kind == AGENT else no.of, no.outcome or _OPEN, no.why)


def _bill_row(bill: Bill) -> tuple[object, ...]:
    figures = (bill.runs, bill.faults or "", duration(bill.seconds), bill.turns, f"{bill.tokens:,}")
    return (*figures, _money(bill.cost), bill.name)


def _fate_row(fate: Fate) -> tuple[object, ...]:
    bill = fate.bill
    return (
        *(fate.status, bill.runs, duration(bill.seconds), _money(bill.cost), fate.author),
        *(_short(fate.label), fate.title),
    )


def _short(label: str) -> str:
    return label.removeprefix("issue ").removeprefix("task ")


def _money(cost: float) -> str:
    return f"${cost:,.2f}" if cost else ""
