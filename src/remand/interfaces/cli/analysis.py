"""The commands `analyze`, `simulate` and `graph`, with their results as tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from remand import config
from remand.app.analysis import rejection_analysis, work_report
from remand.app.analysis.graph import count_graph, read_graph
from remand.app.analysis.graph_export import FORMATS
from remand.app.analysis.rework import ReviewTally, Rework, read_rework
from remand.app.analysis.simulation import NOT_SIMULATED, Simulation, simulate
from remand.app.analysis.statistics import Cluster, Share
from remand.app.analysis.work_report import read_work_report
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import without_garbage_collection
from remand.domain.text.words import format_count
from remand.interfaces.cli import plot
from remand.interfaces.cli.context import PAGE, Context, argument, command
from remand.interfaces.cli.output import RawJson, Result, clean, one_line, table

if TYPE_CHECKING:
    from rich.console import Console


_SINCE = argument("--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone")


@command(
    "analyze rejections",
    _SINCE,
    argument("--by", choices=rejection_analysis.BREAKDOWNS, default="", help="add a table grouped by this"),
    argument("--plot", metavar="FILE", default="", help="write a chart to FILE.svg or FILE.png"),
)
def _rejections(context: Context) -> Result:
    options = context.arguments
    since = context.since()
    if options.plot:
        context.require_own_machine("--plot")
    file = os.path.join(context.origin.folder, options.plot) if options.plot else ""
    if file:
        plot.require_format(file)
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        found = rejection_analysis.ledger_cases(view, since)
        analysis = rejection_analysis.analyze(found, since)
        rows = rejection_analysis.break_down(found, options.by) if options.by else None
    if file:
        plot.draw(analysis, file)
    data: dict[str, Any] = msgspec.structs.asdict(analysis)
    data |= msgspec.structs.asdict(rows) if rows is not None else {}
    data |= {"plot": file} if file else {}
    return Result(RawJson(msgspec.json.encode(data).decode()), rejections_page(analysis, rows, file))


@command("analyze rework", _SINCE)
def _rework(context: Context) -> Result:
    since = context.since()
    opened = context.opened_ledger
    with without_garbage_collection(), opened.store.read() as view:
        found = read_rework(view, opened.ledger.clock.now(), since)
    return Result(RawJson(msgspec.json.encode(found).decode()), rework_page(found))


@command("analyze runs", _SINCE, *PAGE)
def _runs(context: Context) -> Result:
    since = context.since()
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        found = read_work_report(view, since)
    data = msgspec.json.encode(found).decode() if context.call.is_json else ""
    return Result(RawJson(data), runs_page(found, context.row_limit))


NOTE = "Each decision is repeated with the events recorded up to that time. The consequences of a different decision are not simulated."


@command(
    "simulate",
    argument("--policy", required=True, metavar="FILE", help="a remand.toml, or its [policy] table alone"),
    argument(
        "--since",
        default="",
        metavar="DATE",
        help="show only decisions from then on: a day or a time, local unless it has a zone",
    ),
    *PAGE,
)
def _simulate(context: Context) -> Result:
    name = context.arguments.policy
    try:
        policy = config.parse(context.text(name if name == "-" else f"@{name}"), source=name).policy
    except config.ConfigError as error:
        raise UsageError(f"{name}: {error}") from None
    since = context.since()
    with context.opened_ledger.store.read() as view:
        found = simulate(confirmed_events(view), policy, since)
    data = {
        "policy": {
            name: msgspec.to_builtins(value) for name, value in msgspec.structs.asdict(policy).items()
        },
        "events": found.events,
        "decisions": found.decisions,
        "differences": msgspec.to_builtins(found.differences),
        "summary": found.summary,
        "not_simulated": list(NOT_SIMULATED),
        "note": NOTE,
    }
    return Result(data, _render_simulation(found, context.row_limit))


def _render_simulation(found: Simulation, limit: int) -> Callable[[Console], None]:
    rows: list[tuple[Any, ...]] = [
        (
            difference.ts[:19],
            difference.task_id,
            difference.kind,
            difference.agent,
            difference.recorded,
            difference.simulated,
            difference.why,
        )
        for difference in found.differences
    ]
    columns = ("time", "task", "decided by", "agent", "recorded", "simulated", "why")
    list_them = table(columns, rows, "No decision would have differed.", wraps=True, limit=limit)
    counts = ", ".join(
        f"{kind} {row['different']} of {row['decisions']}" for kind, row in found.summary.items()
    )

    def show(out: Console) -> None:
        list_them(out)
        out.print(
            f"{len(found.differences)} of {found.decisions} decisions in {format_count(found.events, 'event')} would have been "
            f"different{f' ({counts})' if counts else ''}."
        )
        out.print(NOTE)

    return show


@command("graph stats")
def _stats(context: Context) -> Result:
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        data = count_graph(view)
    rows = [("nodes", data["nodes"]), *((f"  {name}", count) for name, count in data["by_node_type"].items())]
    rows += [
        ("edges", data["edges"]),
        *((f"  {name}", count) for name, count in data["by_edge_type"].items()),
    ]
    rows += [("conflicts", data["conflicts"])]
    return Result(data, table(("what", "count"), rows, ""))


@command(
    "graph export",
    argument(
        "--format", choices=list(FORMATS), default="mermaid", help="the format to write; mermaid by default"
    ),
    argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output"),
)
def _export(context: Context) -> Result:
    options = context.arguments
    if options.output:
        context.require_own_machine("--output")
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        graph = read_graph(view, {task.id: task.status.value for task in view.tasks.every()}).graph
    text = FORMATS[options.format](graph)
    if options.output:
        path = os.path.join(context.origin.folder, options.output)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None
        return Result({"format": options.format, "file": path}, f"written to {path}")
    data = RawJson(text) if options.format == "json" else {"format": options.format, "text": text}
    return Result(data, text.rstrip("\n"))


_TOP = 10
_TOP_OF_BREAKDOWN = 30
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

Show = Callable[["Console"], None]


def _page(headline: str, tables: Iterable[tuple[str, Show]], last: str = "") -> Show:
    """A headline, then each table under its title."""

    def show(out: Console) -> None:
        from rich.text import Text

        out.print(Text(headline))
        for title, shown in tables:
            out.print()
            out.print(Text(title, style="bold"))
            shown(out)
        if last:
            out.print(Text(last))

    return show


def rejections_page(
    analysis: rejection_analysis.Analysis, rows: rejection_analysis.Breakdown | None, file: str
) -> Show:
    """Everything, in the order of a reader's questions."""
    if not analysis.total_rejections:
        return _page(rejections_headline(analysis), ())
    own, tables = rows.by if rows else "", []
    if rows:
        title = _limited_title(f"By {own}", rows.rows_in_all, _TOP_OF_BREAKDOWN)
        counted = [
            row for row in rows.rows[:_TOP_OF_BREAKDOWN] if isinstance(row, rejection_analysis.RejectionRow)
        ]
        merged = [row for row in rows.rows[:_TOP_OF_BREAKDOWN] if isinstance(row, Cluster)]
        tables.append((title, _blockers(merged) if own == "blocker" else _count_table(own, counted)))
    if own != "reason":
        tables.append(("By reason", _count_table("reason", analysis.reasons)))
    if own != "agent":
        title = _limited_title("By agent", len(analysis.agents))
        tables.append((title, _count_table("agent", analysis.agents[:_TOP])))
    if own != "blocker" and analysis.blocker_clusters:
        title = _limited_title("Most common blockers", analysis.blocker_clusters_in_all)
        tables.append((title, _blockers(analysis.blocker_clusters[:_TOP])))
    tables.append(("Outcomes", _outcomes(analysis)))
    return _page(rejections_headline(analysis), tables, f"\nwrote {clean(file)}" if file else "")


def rejections_headline(analysis: rejection_analysis.Analysis) -> str:
    """The most important figures, in a sentence or two."""
    since = f" since {analysis.since[:19].replace('T', ' ')}" if analysis.since else ""
    total = analysis.total_rejections
    if not total:
        return f"No agent has rejected a task{since}."
    sentences = [
        f"{format_count(total, 'rejection')}{since}, {analysis.invalid_rejections:,} of them invalid.",
    ]
    if analysis.override_share.of:
        sentences.append(f"{percent(analysis.override_share)} of the answered rejections were overridden.")
    if analysis.unanswered:
        sentences.append(f"{analysis.unanswered:,} not answered yet.")
    sleep = analysis.time_to_unblock
    if sleep.woken:
        sentences.append(
            f"Deferred tasks resumed after {duration(sleep.median_seconds.value)} (median; 90 % within {duration(sleep.p90_seconds.value)})."
        )
    if sleep.still_waiting:
        sentences.append(f"{sleep.still_waiting:,} still deferred.")
    return " ".join(sentences)


def _limited_title(title: str, count: int, most: int = _TOP) -> str:
    return f"{title} (first {most} of {count:,})" if count > most else title


def _count_table(name: str, rows: Sequence[rejection_analysis.RejectionRow]) -> Show:
    cells = [
        (
            row.key,
            f"{row.rejections:,}",
            percent(row.overridden),
            percent(row.invalid),
            ", ".join(f"{kind.lower().replace('_', ' ')} {count:,}" for kind, count in row.decisions.items()),
        )
        for row in rows
    ]
    return table((name, "rejections", "overridden", "invalid", "answers"), cells, "None.")


def _blockers(found: Sequence[Cluster]) -> Show:
    cells = [(f"{one.count:,}", f"{one.tasks_in_all:,}", one_line(one.example, 100)) for one in found]
    return table(("times", "tasks", "blocker"), cells, "No task was blocked.", wraps=True)


def _outcomes(analysis: rejection_analysis.Analysis) -> Show:
    answers = ("accepted", "overridden")
    cells = []
    for outcome in rejection_analysis.RejectionOutcome:
        shares = [analysis.outcomes[name].by_outcome.get(outcome.value) for name in answers]
        if any(one is not None and one.count for one in shares):
            cells.append((outcome.value.replace("_", " "), *map(_share_text, shares)))
    headers = [f"{name} ({analysis.outcomes[name].rejections:,})" for name in answers]
    return table(("first outcome", *headers), cells, "Nothing yet.")


def _share_text(one: Share | None) -> str:
    return f"{one.count:,} · {percent(one)}" if one is not None and one.count else ""


def percent(one: Share) -> str:
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


def rework_page(found: Rework) -> Show:
    """Everything, in the order of a reader's questions."""
    columns = ("reviewed", "rejected", "retracted", "rate", "name")
    cycles = [(times, number) for number, times in found.cycles.items()]
    stays = [
        (stay.times, duration(stay.median_seconds), duration(stay.total_seconds), stay.status)
        for stay in found.time_in_status
    ]
    tables = [
        ("Rejections by agent", table(columns, _tally_rows(found.by_agent), "Nobody's work was reviewed.")),
        ("Rejections by reviewer", table(columns, _tally_rows(found.by_reviewer), "Nobody reviewed.")),
        ("Review rounds until done", table(("tasks", "rounds"), cycles, "Nothing is done yet.")),
        ("Time in each status", table(("times", "median", "in all", "status"), stays, "No time has passed.")),
    ]
    return _page(_rework_headline(found), tables if found.reviewed_tasks else ())


def _rework_headline(found: Rework) -> str:
    since = f" since {found.since[:19].replace('T', ' ')}" if found.since else ""
    if not found.reviewed_tasks:
        return f"Nothing was reviewed{since}."
    return (
        f"Reviewed {format_count(found.reviewed_tasks, 'task')}{since}; {percent(found.rework_rate)} of them needed rework. "
        f"A done task took {found.mean_cycles:.2f} rounds of review. "
        f"{percent(found.false_rejection_rate)} of {format_count(found.rejections, 'rejection')} retracted."
    )


def _tally_rows(tallies: Iterable[ReviewTally]) -> list[tuple[object, ...]]:
    by_rate = sorted(tallies, key=lambda one: (-(one.rate.rate or 0.0), one.name))
    return [
        (one.reviewed, one.rejected, one.retracted, percent(one.rate), clean(one.name)) for one in by_rate
    ]


_NO_OUTCOME = "nothing yet"
_KINDS = {"agent": "agents", "gate": "gates", "reviewer": "reviewers"}


def runs_page(found: work_report.WorkReport, limit: int = 0) -> Show:
    """Everything, in the order of a reader's questions; only the latest rows of long lists, and the most expensive tasks."""
    rejections = [
        (
            entry.by if entry.kind == work_report.GATE else f"{entry.kind} {entry.by}",
            _short(entry.label),
            "" if entry.kind == work_report.AGENT else entry.of,
            entry.outcome or _NO_OUTCOME,
            entry.why,
        )
        for entry in found.noes[-limit:]
    ]
    asked = [
        (_short(question.label), question.answer or _NO_OUTCOME, question.why)
        for question in found.questions[-limit:]
    ]
    costs = [
        (
            cost.runs,
            cost.faults or "",
            duration(cost.seconds),
            cost.turns,
            f"{cost.tokens:,}",
            _money(cost.cost),
            cost.name,
        )
        for cost in ((*found.agents, found.total) if found.agents else ())
    ]
    tasks = [
        (
            task.status,
            task.bill.runs,
            duration(task.bill.seconds),
            _money(task.bill.cost),
            task.author,
            _short(task.label),
            task.title,
        )
        for task in sorted(found.tasks, key=lambda task: -task.bill.cost)[: limit or None]
    ]
    headers = ("rejected by", "task", "work of", "outcome", "reason")
    tables = [
        (
            "Rejections",
            table(
                headers,
                rejections,
                "Nothing was.",
                wraps=True,
                shows_last=True,
                left_out=len(found.noes) - len(rejections),
            ),
        ),
        (
            "Questions to the user",
            table(
                ("task", "answer", "why"),
                asked,
                "Nothing.",
                wraps=True,
                shows_last=True,
                left_out=len(found.questions) - len(asked),
            ),
        ),
        (
            "Cost",
            table(("runs", "failed", "time", "turns", "tokens", "cost", "agent"), costs, "No run has ended."),
        ),
        (
            "Tasks",
            table(
                ("status", "runs", "time", "cost", "author", "task", "title"),
                tasks,
                "",
                wraps=True,
                left_out=len(found.tasks) - len(tasks),
            ),
        ),
    ]
    return _page(runs_headline(found), tables if found.tasks else ())


def runs_headline(found: work_report.WorkReport) -> str:
    """The most important figures, in a few sentences."""
    since = f" since {found.since[:19].replace('T', ' ')}" if found.since else ""
    if not found.tasks:
        return f"Nothing has happened{since}."
    ended = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    kinds = Counter(no.kind for no in found.noes)
    by_kind = ", ".join(f"{kinds[kind]} by {text}" for kind, text in _KINDS.items() if kinds[kind])
    total = found.total
    price = f", {format_count(total.turns, 'turn')}, ${total.cost:,.2f}" if total.turns or total.cost else ""
    return (
        f"{format_count(len(found.tasks), 'task')}{since}: {ended}. {format_count(len(found.noes), 'rejection')}{f': {by_kind}' if by_kind else ''}. "
        f"{format_count(total.runs, 'run')}, {duration(total.seconds)} of agents' time{price}."
    )


def _short(label: str) -> str:
    return label.removeprefix("issue ").removeprefix("task ")


def _money(cost: float) -> str:
    return f"${cost:,.2f}" if cost else ""
