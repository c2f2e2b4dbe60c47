"""What reviews cost, for people: one sentence, then who is rejected, who rejects, and where tasks spend their time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from remand.app.patterns.rework import Rework, Tally
from remand.interfaces.cli.analyze_tables import duration, percent
from remand.interfaces.cli.output import clean, table

if TYPE_CHECKING:
    from rich.console import Console


def rework_page(found: Rework) -> Callable[[Console], None]:
    """Everything, in the order of a reader's questions."""

    def show(out: Console) -> None:
        from rich.text import Text

        out.print(Text(_headline(found)))
        if not found.reviewed_tasks:
            return
        for title, shown in _tables(found):
            out.print()
            out.print(Text(title, style="bold"))
            shown(out)

    return show


def _headline(found: Rework) -> str:
    since = f" since {found.since[:19].replace('T', ' ')}" if found.since else ""
    if not found.reviewed_tasks:
        return f"Nothing was reviewed{since}."
    return (
        f"{found.reviewed_tasks:,} tasks were reviewed{since}; {percent(found.rework_rate)} of them needed rework. "
        f"A task that is done took {found.mean_cycles:.2f} rounds of review. "
        f"{percent(found.false_rejection_rate)} of {found.rejections:,} rejections were retracted."
    )


def _tables(found: Rework) -> list[tuple[str, Callable[[Console], None]]]:
    columns = ("reviewed", "rejected", "retracted", "rate", "name")
    cycles = [(times, number) for number, times in found.cycles.items()]
    stays = [
        (stay.times, duration(stay.median_seconds), duration(stay.total_seconds), stay.status)
        for stay in found.time_in_status
    ]
    return [
        ("Rejected, by agent", table(columns, _rows(found.by_agent), "Nobody's work was reviewed.")),
        ("Rejecting, by reviewer", table(columns, _rows(found.by_reviewer), "Nobody reviewed.")),
        ("Rounds of review until done", table(("tasks", "rounds"), cycles, "Nothing is done yet.")),
        ("Time in each status", table(("times", "median", "in all", "status"), stays, "No time has passed.")),
    ]


def _rows(tallies: Iterable[Tally]) -> list[tuple[object, ...]]:
    by_rate = sorted(tallies, key=lambda one: (-(one.rate.rate or 0.0), one.name))
    return [
        (one.reviewed, one.rejected, one.retracted, percent(one.rate), clean(one.name)) for one in by_rate
    ]
