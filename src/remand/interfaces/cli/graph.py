"""Commands on the graph."""

from __future__ import annotations

import os
from argparse import ArgumentParser

from remand.app.errors import EnvironmentFault
from remand.app.graph import GraphView, fold_graph, stats
from remand.app.graph_export import FORMATS
from remand.app.signatures import confirmed_events
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import RawJson, Result, table


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _view(context: Context) -> GraphView:
    with context.opened.store.read() as view:
        statuses = {task.id: task.status.value for task in view.tasks.every()}
        return fold_graph(confirmed_events(view), statuses)


def _stats(context: Context) -> Result:
    data = stats(_view(context))
    rows = [("nodes", data["nodes"]), *((f"  {name}", count) for name, count in data["by_node_type"].items())]
    rows += [
        ("edges", data["edges"]),
        *((f"  {name}", count) for name, count in data["by_edge_type"].items()),
    ]
    rows += [("conflicts", data["conflicts"])]
    return Result(data, table(("what", "count"), rows, ""))


def _export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--format", choices=list(FORMATS), default="mermaid")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output")


def _export(context: Context) -> Result:
    options = context.arguments
    text = FORMATS[options.format](_view(context).graph)
    if options.output:
        path = os.path.join(context.surroundings.folder, options.output)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None
        return Result({"format": options.format, "file": path}, f"written to {path}")
    data = RawJson(text) if options.format == "json" else {"format": options.format, "text": text}
    return Result(data, text.rstrip("\n"))


COMMANDS = {
    "graph stats": Command(_nothing, _stats),
    "graph export": Command(_export_arguments, _export),
}
