"""What was learned from rejections, for people: one sentence, then a few tables, the most important first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from remand.app.patterns.analysis import Analysis, Breakdown, Row
from remand.app.patterns.cases import Outcome
from remand.app.patterns.clusters import Cluster
from remand.app.patterns.intervals import Share
from remand.interfaces.cli.output import clean, one_line, table

if TYPE_CHECKING:
    from rich.console import Console

_TOP = 10
_TOP_OF_BREAKDOWN = 30
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

Show = Callable[["Console"], None]


def page(analysis: Analysis, rows: Breakdown | None, file: str) -> Show:
    """Everything, in the order of a reader's questions."""

    def show(out: Console) -> None:
        from rich.text import Text

        out.print(Text(headline(analysis)))
        if not analysis.total_rejections:
            return
        for title, shown in _tables(analysis, rows):
            out.print()
            out.print(Text(title, style="bold"))
            shown(out)
        if file:
            out.print(Text(f"\ndrawn into {clean(file)}"))

    return show


def headline(analysis: Analysis) -> str:
    """What matters most, in a sentence or two."""
    since = f" since {analysis.since[:19].replace('T', ' ')}" if analysis.since else ""
    total = analysis.total_rejections
    if not total:
        return f"No agent has rejected a task{since}."
    said = [
        f"{total:,} rejection{'s' * (total != 1)}{since}, {analysis.invalid_rejections:,} of them invalid.",
        f"{percent(analysis.override_share)} of the answered ones were overridden.",
    ]
    if analysis.unanswered:
        said.append(f"{analysis.unanswered:,} wait for an answer.")
    sleep = analysis.time_to_unblock
    if sleep.woken:
        said.append(
            f"A deferred task woke after {duration(sleep.median_seconds.value)} (median; nine in ten within "
            f"{duration(sleep.p90_seconds.value)})."
        )
    if sleep.still_waiting:
        said.append(f"{sleep.still_waiting:,} still sleep.")
    return " ".join(said)


def _tables(analysis: Analysis, rows: Breakdown | None) -> list[tuple[str, Show]]:
    own = rows.by if rows else ""
    found = [_breakdown(rows)] if rows else []
    if own != "reason":
        found.append(("By reason", _counted("reason", analysis.reasons)))
    if own != "agent":
        found.append((_titled("By agent", len(analysis.agents)), _counted("agent", analysis.agents[:_TOP])))
    if own != "blocker" and analysis.blocker_clusters:
        title = _titled("What blocked most", analysis.blocker_clusters_in_all)
        found.append((title, _blockers(analysis.blocker_clusters[:_TOP])))
    found.append(("What came of it", _outcomes(analysis)))
    return found


def _titled(title: str, count: int, most: int = _TOP) -> str:
    return f"{title}, the first {most} of {count:,}" if count > most else title


def _breakdown(found: Breakdown) -> tuple[str, Show]:
    title = _titled(f"By {found.by}", found.rows_in_all, _TOP_OF_BREAKDOWN)
    counted = [row for row in found.rows[:_TOP_OF_BREAKDOWN] if isinstance(row, Row)]
    merged = [row for row in found.rows[:_TOP_OF_BREAKDOWN] if isinstance(row, Cluster)]
    return title, _blockers(merged) if found.by == "blocker" else _counted(found.by, counted)


def _counted(name: str, rows: Sequence[Row]) -> Show:
    cells = [
        (row.key, f"{row.rejections:,}", percent(row.overridden), percent(row.invalid), _decided(row))
        for row in rows
    ]
    return table((name, "rejections", "overridden", "invalid", "answers"), cells, "None.")


def _decided(row: Row) -> str:
    return ", ".join(f"{name.lower().replace('_', ' ')} {count:,}" for name, count in row.decisions.items())


def _blockers(found: Sequence[Cluster]) -> Show:
    cells = [(f"{one.count:,}", f"{one.tasks_in_all:,}", one_line(one.example, 100)) for one in found]
    return table(("times", "tasks", "blocker"), cells, "Nothing blocked a task.", wraps=True)


def _outcomes(analysis: Analysis) -> Show:
    answers = ("accepted", "overridden")
    cells = []
    for outcome in Outcome:
        shares = [analysis.outcomes[name].by_outcome.get(outcome.value) for name in answers]
        if any(one is not None and one.count for one in shares):
            cells.append((outcome.value.replace("_", " "), *map(_counted_share, shares)))
    headers = [f"{name} ({analysis.outcomes[name].rejections:,})" for name in answers]
    return table(("first outcome", *headers), cells, "Nothing yet.")


def _counted_share(one: Share | None) -> str:
    return f"{one.count:,} · {percent(one)}" if one is not None and one.count else ""


def percent(one: Share) -> str:
    """A share with its interval."""
    if one.rate is None or one.interval is None:
        return "–"
    low, high = one.interval
    return f"{one.rate:.0%} ({low * 100:.0f}–{high * 100:.0f} %)".replace("%", " %", 1)


def duration(seconds: float | None) -> str:
    """A time in its two largest units."""
    left = round(seconds or 0)
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"
