"""The demo: the story on a real repository."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from remand.app.errors import EnvironmentFault, UsageError
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, clean, console, table
from remand.interfaces.demo.stage import Stage
from remand.interfaces.demo.story import Story
from remand.interfaces.demo.telling import Broken

if TYPE_CHECKING:
    from rich.console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="play it in this folder, and leave it there")
    parser.add_argument(
        "--serve", action="store_true", help="show the dashboard afterwards (not in this version)"
    )


def _demo(context: Context) -> Result:
    if context.arguments.serve:
        raise UsageError("This version has no dashboard yet. Leave --serve out.")
    keep = context.arguments.keep
    folder = (
        os.path.join(context.surroundings.folder, keep) if keep else tempfile.mkdtemp(prefix="remand-demo-")
    )
    if keep and os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder} is not empty. Name a new folder.")
    os.makedirs(folder, exist_ok=True)
    heading, say = _narrators(context)
    stage = Stage(os.path.realpath(folder), say)
    started = time.monotonic()
    try:
        data = Story(stage, heading, say).tell()
    except Broken as broken:
        raise EnvironmentFault(
            f"The story went wrong, which it must not: {broken}. Kept in {folder}."
        ) from None
    finally:
        stage.close()
    seconds = time.monotonic() - started
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        data | {"seconds": round(seconds, 1), "folder": folder if keep else None}, _end(data, seconds, keep)
    )


def _narrators(context: Context) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """How a heading and a line are said: not at all when a program listens."""
    if context.call.is_json:
        return _silence, _silence
    here = context.surroundings
    out = console(
        here.stdout,
        is_terminal=here.is_terminal,
        width=here.width,
        has_color=not here.environment.get("NO_COLOR"),
    )

    def heading(text: str) -> None:
        out.print()
        out.print(f"● {text}", style="bold")

    def say(text: str) -> None:
        is_command = text.startswith("$ ")
        out.print(f"  {clean(text)}" if is_command else clean(text), style="cyan" if is_command else "")

    return heading, say


def _silence(_: str) -> None:
    """Says nothing."""


def _end(data: dict[str, Any], seconds: float, keep: str | None) -> Callable[[Console], None]:
    def show(out: Console) -> None:
        rows = [
            (row["task_id"], row["status"], row["agent"] or "", row["rejection_count"] or "", row["title"])
            for row in data["tasks"]
        ]
        table(("task", "status", "agent", "nos", "title"), rows, "")(out)
        out.print(f"{data['events']} events, every chain in order, {seconds:.0f} s.")
        out.print()
        out.print("Where to look next:")
        if keep:
            out.print(f"  cd {keep}/repository && remand task show '#42'   the whole story of one task")
            out.print(f"  cd {keep}/repository && remand log tail          the events themselves")
        else:
            out.print("  remand demo --keep DIR      play it again and keep the repository to look around in")
        out.print("  remand init                 set it up in your own repository")
        out.print("  remand explain              what every refusal means, and what to do about it")

    return show


COMMANDS = {"demo": Command(_arguments, _demo)}
