"""`remand demo`: runs the demo scenario, prints its summary, and serves its dashboard on request."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.analysis.work_report import WorkReport
from remand.app.errors import EnvironmentFault, UsageError
from remand.domain.text.words import format_count
from remand.interfaces.cli.analysis import runs_page
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import RawJson, Result, as_json, clean, console, one_line
from remand.interfaces.demo.environment import (
    QUOTED,
    DemoDashboard,
    DemoEnvironment,
    DemoFailure,
    DemoLine,
    DemoPrinter,
)
from remand.interfaces.demo.scenario import Scenario

if TYPE_CHECKING:
    from rich.console import Console


_NEXT_STEPS = (
    "remand init                 set it up in your own repository",
    "remand run                  start your agents: a member of the team with a `command` is one",
    "remand explain              what every refusal means, and what to do about it",
)
_TITLE = 26
_LEAST, _MOST = 40, 300
"""The least width of a line's text, and the longest text that is shown."""
_KINDS = {
    "agent": ("✗", "AGENT NO", "yellow"),
    "gate": ("✗", "GATE NO", "red"),
    "reviewer": ("✗", "REVIEWER NO", "magenta"),
    "asked": ("?", "YOUR DECISION", "bold cyan"),
    "done": ("✓", "DONE", "green"),
    "cancelled": ("–", "CANCELLED", "green"),
}
"""The mark of each kind of line."""


@command(
    "demo",
    argument("--keep", metavar="DIR", help="run it in this folder, and keep the folder"),
    argument(
        "--serve", action="store_true", help="open the dashboard afterwards, with one question to answer"
    ),
)
def _demo(context: Context) -> Result:
    keep = context.arguments.keep
    folder = os.path.join(context.origin.folder, keep) if keep else tempfile.mkdtemp(prefix="remand-demo-")
    if keep and os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder} is not empty. Name a new folder.")
    os.makedirs(folder, exist_ok=True)
    started = time.monotonic()
    voice = _make_printer(context)
    try:
        with _environment(os.path.realpath(folder), voice) as stage:
            data = Scenario(stage, voice).run()
            seconds = round(time.monotonic() - started, 1)
            summary = data | {"seconds": seconds, "folder": folder if keep else None}
            result = Result(summary, _render_summary(summary, keep))
            return _serve_dashboard(context, stage, result) if context.arguments.serve else result
    except DemoFailure as broken:
        keep = folder
        raise EnvironmentFault(f"The demo failed: {broken}. Its files are in {folder}.") from None
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(folder: str, voice: DemoPrinter) -> Iterator[DemoEnvironment]:
    """The environment of the demo. Ending this process ends everything that it started."""
    stage = DemoEnvironment(folder, voice.say)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield stage
    finally:
        stage.close()
        signal.signal(signal.SIGTERM, before)


def _serve_dashboard(context: Context, stage: DemoEnvironment, result: Result) -> Result:
    """Shows the summary, and then the dashboard until the user interrupts it."""
    if not context.call.is_json and callable(result.show):
        result.show(_console(context))
    stage.ask_the_user()
    with suppress(KeyboardInterrupt), stage.dashboard() as dashboard:
        _announce(context, result.data, dashboard)
        dashboard.process.wait()
    return Result(RawJson(""), "Stopped.")


def _announce(context: Context, summary: dict[str, Any], dashboard: DemoDashboard) -> None:
    """Prints the dashboard's address; on a terminal it opens the browser."""
    if context.call.is_json:
        document = summary | {"url": dashboard.url, "login_url": dashboard.login_url}
        context.origin.stdout.write(f"{as_json(document)}\n")
        context.origin.stdout.flush()
        return
    context.write_line(f"Dashboard: {dashboard.login_url} (this link works once; Ctrl-C stops the server)")
    if context.origin.is_terminal:
        webbrowser.open(dashboard.login_url)


def _console(context: Context) -> Console:
    here = context.origin
    return console(
        here.stdout,
        is_terminal=here.is_terminal,
        width=here.width,
        has_color=not here.environment.get("NO_COLOR"),
    )


def _make_printer(context: Context) -> DemoPrinter:
    """The printer of lines; silent with `--json`."""
    if context.call.is_json:
        return DemoPrinter(*[lambda _: None] * 3)
    here, out = context.origin, _console(context)

    def heading(text: str) -> None:
        out.print()
        out.print(f"● {text}", style="bold")

    def say(text: str) -> None:
        is_command = text.startswith("$ ")
        out.print(f"  {clean(text)}" if is_command else clean(text), style="cyan" if is_command else "")

    def tell(line: DemoLine) -> None:
        if line.text.startswith(QUOTED):
            out.print(f"      {clean(line.text)}", style="dim")
            return
        mark, tag, style = _KINDS.get(line.kind, (" ", line.who, ""))
        head = f"  {mark} {one_line(line.title, _TITLE):<{_TITLE}} {tag:<13} "
        width = max(_LEAST, out.width - len(head)) if here.is_terminal else _MOST
        # Whose no it is stands before the text, unless that is clear.
        text = f"{line.who}: {line.text}" if line.kind in ("agent", "reviewer") else line.text
        first, *more = wrap(one_line(text, _MOST), width) or [""]
        out.print(f"{head}{first}", style=style)
        for rest in more:
            out.print(f"{'':<{len(head)}}{rest}", style=style)

    return DemoPrinter(heading, say, tell)


def _render_summary(data: dict[str, Any], keep: str | None) -> Callable[[Console], None]:
    report = msgspec.convert(data, WorkReport)
    looks = [
        "remand demo --serve         run it again and view it in the browser",
        "remand demo --keep DIR      run it again and keep the repository",
    ]
    if keep:
        looks = [
            f"cd {keep}/repository && remand task show '#43'   the full history of one task",
            f"cd {keep}/repository && remand analyze runs      this report again",
        ]

    def show(out: Console) -> None:
        out.print()
        out.print("● The report: remand analyze runs", style="bold")
        runs_page(report)(out)
        out.print("Turns, tokens and cost are scripted. Times are real.")
        out.print(
            f"{format_count(data['events'], 'event')}, every chain intact, {data['seconds']:.0f} s in total."
        )
        out.print()
        out.print("Where to look next:")
        for line in (*looks, *_NEXT_STEPS):
            out.print(f"  {line}")

    return show
