"""The commands `analyze`, `simulate` and `graph`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand import config
from remand.app.analysis.rejection_analysis import (
    BREAKDOWNS,
    Analysis,
    Breakdown,
    analyze,
    break_down,
    ledger_cases,
)
from remand.app.analysis.simulation import NOT_SIMULATED, Simulation, simulate
from remand.app.analysis.work_report import build_work_report, measure_rework
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import task_events, without_garbage_collection
from remand.app.graph import GraphView, fold_graph, graph_stats
from remand.app.graph_export import FORMATS
from remand.domain.policy import Policy
from remand.domain.text.words import format_count
from remand.interfaces.cli.analysis import plot
from remand.interfaces.cli.analysis.tables import rejections_page, rework_page, runs_page
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import RawJson, Result, table

if TYPE_CHECKING:
    from rich.console import Console


@command(
    "analyze rejections",
    argument("--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone"),
    argument("--by", choices=BREAKDOWNS, default="", help="add a table grouped by this"),
    argument("--plot", metavar="FILE", default="", help="write a chart to FILE.svg or FILE.png"),
)
def _rejections(context: Context) -> Result:
    options = context.arguments
    since = context.since()
    file = os.path.join(context.origin.folder, options.plot) if options.plot else ""
    if file:
        plot.require_format(file)
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        found = ledger_cases(view, since)
        analysis = analyze(found, since)
        rows = break_down(found, options.by) if options.by else None
    if file:
        plot.draw(analysis, file)
    data = {"plot": file} if file else {}
    return Result(_document(analysis, rows, data), rejections_page(analysis, rows, file))


_SINCE = (
    argument("--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone"),
)


@command("analyze rework", *_SINCE)
def _rework(context: Context) -> Result:
    since = context.since()
    opened = context.opened_ledger
    with without_garbage_collection(), opened.store.read() as view:
        stories = (task_events(view, task.id) for task in view.tasks.every())
        found = measure_rework(stories, opened.ledger.clock.now(), since)
    return Result(RawJson(msgspec.json.encode(found).decode()), rework_page(found))


@command("analyze runs", *_SINCE)
def _runs(context: Context) -> Result:
    since = context.since()
    with without_garbage_collection(), context.opened_ledger.store.read() as view:
        found = build_work_report((task_events(view, task.id) for task in view.tasks.every()), since)
    return Result(RawJson(msgspec.json.encode(found).decode()), runs_page(found))


def _document(analysis: Analysis, rows: Breakdown | None, more: dict[str, str]) -> RawJson:
    fields: dict[str, Any] = msgspec.structs.asdict(analysis)
    if rows is not None:
        fields |= msgspec.structs.asdict(rows)
    return RawJson(msgspec.json.encode(fields | more).decode())


NOTE = "Each decision is made again from the events recorded up to that time. What a different decision would have led to is not simulated."


@command(
    "simulate",
    argument("--policy", required=True, metavar="FILE", help="a remand.toml, or its [policy] table alone"),
    argument(
        "--since",
        default="",
        metavar="DATE",
        help="show only decisions from then on: a day or a time, local unless it has a zone",
    ),
)
def _simulate(context: Context) -> Result:
    policy = _policy(context)
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
    return Result(data, _render_simulation(found))


def _policy(context: Context) -> Policy:
    name = context.arguments.policy
    text = context.text(name if name == "-" else f"@{name}")
    try:
        return config.parse(text, source=name).policy
    except config.ConfigError as error:
        raise UsageError(f"{name}: {error}") from None


def _render_simulation(found: Simulation) -> Callable[[Console], None]:
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
    list_them = table(columns, rows, "No decision would have differed.", wraps=True)
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


def _view(context: Context) -> GraphView:
    with context.opened_ledger.store.read() as view:
        statuses = {task.id: task.status.value for task in view.tasks.every()}
        return fold_graph(confirmed_events(view), statuses)


@command("graph stats")
def _stats(context: Context) -> Result:
    data = graph_stats(_view(context))
    rows = [("nodes", data["nodes"]), *((f"  {name}", count) for name, count in data["by_node_type"].items())]
    rows += [
        ("edges", data["edges"]),
        *((f"  {name}", count) for name, count in data["by_edge_type"].items()),
    ]
    rows += [("conflicts", data["conflicts"])]
    return Result(data, table(("what", "count"), rows, ""))


@command(
    "graph export",
    argument("--format", choices=list(FORMATS), default="mermaid"),
    argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output"),
)
def _export(context: Context) -> Result:
    options = context.arguments
    text = FORMATS[options.format](_view(context).graph)
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
