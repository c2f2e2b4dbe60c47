"""The command that lists what agents really ran."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand.bootstrap.witness import journal_reader
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, clean, table
from remand.interfaces.cli.task_views import find_task

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("time", "agent", "host", "exit", "told twice", "what was run")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--agent", default="", help="only what this agent ran")
    parser.add_argument(
        "--transcripts", action="store_true", help="look whether the hosts' own transcripts tell the same"
    )


def _journal(context: Context) -> Result:
    options = context.arguments
    task, _ = find_task(context, options.id)
    journal = journal_reader(context.opened.store.value("id"))
    kept = journal.kept(task.id)
    runs = [run for run in kept.uses if options.agent in ("", run.agent)]
    rows = [msgspec.structs.asdict(run) for run in runs]
    if options.transcripts:
        for run, row in zip(runs, rows, strict=True):
            row["is_seconded"] = journal.told(run) is not None
    data = {
        "task_id": task.id,
        "runs": rows,
        "is_chained": kept.is_chained,
        "problems": list(kept.problems),
    }
    return Result(data, _shown(data))


def _shown(data: dict[str, Any]) -> Callable[[Console], None]:
    cells = [
        (
            row["ts"][:19],
            row["agent"],
            row["host"],
            "" if row["exit_status"] is None else row["exit_status"],
            {True: "yes", False: "no"}.get(row.get("is_seconded"), ""),
            row["command"] or " ".join((row["tool"], *row["paths"])),
        )
        for row in data["runs"]
    ]
    nothing = "Nothing was run on this task that a hook has seen. `remand init --hosts` installs the hooks."

    def show(out: Console) -> None:
        from rich.text import Text

        table(_COLUMNS, cells, nothing)(out)
        for problem in data["problems"]:
            out.print(Text(clean(f"the journal: {problem}"), style="red"))

    return show


COMMANDS = {"journal": Command(_arguments, _journal)}
