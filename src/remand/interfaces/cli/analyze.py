"""Commands that learn from the ledger."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

import msgspec

from remand.app.patterns.analysis import BREAKDOWNS, Analysis, Breakdown, analyze, breakdown, ledger_cases
from remand.app.patterns.rework import rework
from remand.app.rebuild import story, uncollected
from remand.app.scheduling.readout import readout
from remand.interfaces.cli import analyze_plot
from remand.interfaces.cli.analyze_rework import rework_page
from remand.interfaces.cli.analyze_runs import runs_page
from remand.interfaces.cli.analyze_tables import page
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import RawJson, Result


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone"
    )
    parser.add_argument("--by", choices=BREAKDOWNS, default="", help="one more table, by one of these")
    parser.add_argument(
        "--plot", metavar="FILE", default="", help="draw it into a file: FILE.svg or FILE.png"
    )


def _rejections(context: Context) -> Result:
    options = context.arguments
    since = context.since()
    file = os.path.join(context.surroundings.folder, options.plot) if options.plot else ""
    if file:
        analyze_plot.require_format(file)
    with uncollected(), context.opened.store.read() as view:
        found = ledger_cases(view, since)
        analysis = analyze(found, since)
        rows = breakdown(found, options.by) if options.by else None
    if file:
        analyze_plot.draw(analysis, file)
    data = {"plot": file} if file else {}
    return Result(_document(analysis, rows, data), page(analysis, rows, file))


def _since_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone"
    )


def _rework(context: Context) -> Result:
    since = context.since()
    opened = context.opened
    with uncollected(), opened.store.read() as view:
        stories = (story(view, task.id) for task in view.tasks.every())
        found = rework(stories, opened.ledger.clock.now(), since)
    return Result(RawJson(msgspec.json.encode(found).decode()), rework_page(found))


def _runs(context: Context) -> Result:
    since = context.since()
    with uncollected(), context.opened.store.read() as view:
        found = readout((story(view, task.id) for task in view.tasks.every()), since)
    return Result(RawJson(msgspec.json.encode(found).decode()), runs_page(found))


def _document(analysis: Analysis, rows: Breakdown | None, more: dict[str, str]) -> RawJson:
    fields: dict[str, Any] = msgspec.structs.asdict(analysis)
    if rows is not None:
        fields |= msgspec.structs.asdict(rows)
    return RawJson(msgspec.json.encode(fields | more).decode())


COMMANDS = {
    "analyze rejections": Command(_arguments, _rejections),
    "analyze rework": Command(_since_arguments, _rework),
    "analyze runs": Command(_since_arguments, _runs),
}
