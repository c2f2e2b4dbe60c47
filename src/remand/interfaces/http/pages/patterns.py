"""Patterns in all rejections, reviews and runs; each chart has its table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from remand.app.analysis.rejection_analysis import (
    Analysis,
    RejectionOutcome,
    RejectionRow,
    analyze,
    ledger_cases,
)
from remand.app.analysis.rework import Rework, read_rework
from remand.app.analysis.statistics import Share
from remand.app.analysis.work_report import (
    AGENT,
    GATE,
    REVIEWER,
    WorkReport,
    read_work_report,
)
from remand.app.events.task_folds import without_garbage_collection
from remand.domain.record import NamedTuple
from remand.interfaces.cli.analysis import duration, percent, rejections_headline, runs_headline
from remand.interfaces.http.pages.charts import DayChart, bar_width, chart_days, chosen_period
from remand.interfaces.http.pages.page import PageQuery, WebPage

MAX_ROWS = 12
_NOES = ((AGENT, "by agents", "accent"), (GATE, "by gates", "warn"), (REVIEWER, "by reviewers", "bad"))


class BarRow(NamedTuple):
    """A table row with a bar: its label, its figures, and the bar's length."""

    label: str
    cells: tuple[str, ...]
    width: float
    tone: str = "accent"


class BarTable(NamedTuple):
    """A chart that is also a table."""

    title: str
    columns: tuple[str, ...]
    """The first labels the rows; the bar shows the second."""
    rows: tuple[BarRow, ...]
    total: int
    """The number of rows, of which only the first are shown."""
    none: str


class PatternsView(NamedTuple):
    days: str
    headlines: tuple[str, ...]
    chart: DayChart | None
    tables: tuple[BarTable, ...]


def read_patterns(query: PageQuery) -> PatternsView:
    """The results of `analyze` for all time or the chosen period."""
    days, since = chosen_period(query)
    with without_garbage_collection(), query.opened.store.read() as view:
        analysis = analyze(ledger_cases(view, since), since)
        report = read_work_report(view, since)
        rework = read_rework(view, query.now, since)
    return PatternsView(
        days=days,
        headlines=(runs_headline(report), rejections_headline(analysis)),
        chart=chart_days(tuple((label, tone) for _, label, tone in _NOES), _noes_by_day(report, since)),
        tables=(
            _rejections_table("Tasks rejected, by reason", "Reason", analysis.reasons),
            _rejections_table("Tasks rejected, by agent", "Agent", analysis.agents),
            _blockers_table(analysis),
            _outcomes_table(analysis),
            _rounds_table(rework),
            _stays_table(rework),
            _costs_table(report),
        ),
    )


def _noes_by_day(report: WorkReport, since: str) -> dict[str, list[int]]:
    """Rejections per day by who rejected."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in report.noes:
        if entry.at >= since:
            counts[entry.at[:10]][entry.kind] += 1
    return {day: [found[kind] for kind, _, _ in _NOES] for day, found in counts.items()}


def _table(
    title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, float, tuple[str, ...]]], none: str
) -> BarTable:
    """The first rows, each with the number that its bar shows."""
    found = list(rows)
    most = max((number for _, number, _ in found), default=0.0)
    shown = tuple(BarRow(label, cells, bar_width(number, most)) for label, number, cells in found[:MAX_ROWS])
    return BarTable(title, columns, shown, len(found), none)


def _rejections_table(title: str, name: str, rows: Iterable[RejectionRow]) -> BarTable:
    return _table(
        title,
        (name, "Rejections", "Overridden", "Invalid"),
        (
            (
                row.key.replace("_", " ").capitalize() if name == "Reason" else row.key,
                row.rejections,
                (f"{row.rejections:,}", percent(row.overridden), percent(row.invalid)),
            )
            for row in rows
        ),
        "No agent has rejected a task.",
    )


def _blockers_table(analysis: Analysis) -> BarTable:
    rows = [
        (one.example, float(one.count), (f"{one.count:,}", f"{one.tasks_in_all:,}"))
        for one in analysis.blocker_clusters
    ]
    table = _table("Most frequent blockers", ("Blocker", "Times", "Tasks"), rows, "No task was blocked.")
    return table._replace(total=analysis.blocker_clusters_in_all)


def _outcomes_table(analysis: Analysis) -> BarTable:
    """The outcomes of accepted and of overridden rejections."""
    answers = [analysis.outcomes[name] for name in ("accepted", "overridden")]
    rows = []
    for outcome in RejectionOutcome:
        shares = [answer.by_outcome.get(outcome.value) for answer in answers]
        number = sum(one.count for one in shares if one)
        if number:
            cells = (f"{number:,}", *map(_share_text, shares))
            rows.append((outcome.value.replace("_", " "), float(number), cells))
    columns = ("First outcome", "Rejections", "When accepted", "When overridden")
    return _table("Outcomes of answered rejections", columns, rows, "No rejection has been answered yet.")


def _share_text(share: Share | None) -> str:
    return f"{share.count:,} · {percent(share)}" if share is not None and share.count else "–"


def _rounds_table(rework: Rework) -> BarTable:
    rows = [(number, float(times), (f"{times:,}",)) for number, times in rework.cycles.items()]
    return _table("Rounds of review until done", ("Rounds", "Tasks"), rows, "No reviewed task is done yet.")


def _stays_table(rework: Rework) -> BarTable:
    rows = [
        (
            stay.status.replace("_", " "),
            stay.total_seconds,
            (duration(stay.total_seconds), duration(stay.median_seconds), f"{stay.times:,}"),
        )
        for stay in rework.time_in_status
    ]
    return _table(
        "Time in each status",
        ("Status", "Total", "Median", "Times"),
        rows,
        "No task has changed its status yet.",
    )


def _costs_table(report: WorkReport) -> BarTable:
    tasks = sorted(report.tasks, key=lambda task: (-task.bill.cost, -task.bill.seconds))
    rows = [
        (
            task.title or task.label,
            task.bill.cost,
            (f"${task.bill.cost:,.2f}", duration(task.bill.seconds), f"{task.bill.runs}", task.status),
        )
        for task in tasks
        if task.bill.runs
    ]
    return _table("Cost of tasks", ("Task", "Cost", "Time", "Runs", "Status"), rows, "No run has ended yet.")


PAGES = (
    WebPage(
        "/patterns",
        "patterns.html",
        "Patterns",
        "analyze rejections",
        read_patterns,
        nav="Patterns",
        key="p",
        is_long=True,
        is_live=False,
    ),
)
