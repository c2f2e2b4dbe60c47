"""The command that tells what another policy would have decided."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand import config
from remand.app.errors import UsageError
from remand.app.signatures import confirmed_events
from remand.app.simulate import NOT_SIMULATED, Simulation, simulate
from remand.domain.policy import Policy
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, table

if TYPE_CHECKING:
    from rich.console import Console

NOTE = (
    "Each decision is taken again on what had really happened by then. "
    "What would have followed from a different one is not made up."
)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--policy", required=True, metavar="FILE", help="a remand.toml, or its [policy] table alone"
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="DATE",
        help="tell only what was decided from then on: a day or a time, local unless it has a zone",
    )


def _simulate(context: Context) -> Result:
    policy = _policy(context)
    since = context.since()
    with context.opened.store.read() as view:
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
    return Result(data, _shown(found))


def _policy(context: Context) -> Policy:
    name = context.arguments.policy
    text = context.text(name if name == "-" else f"@{name}")
    try:
        return config.parse(text, source=name).policy
    except config.ConfigError as error:
        raise UsageError(f"{name}: {error}") from None


def _shown(found: Simulation) -> Callable[[Console], None]:
    rows: list[tuple[Any, ...]] = [
        (one.ts[:19], one.task_id, one.kind, one.agent, one.recorded, one.simulated, one.why)
        for one in found.differences
    ]
    columns = ("time", "task", "decided by", "agent", "recorded", "simulated", "why")
    list_them = table(columns, rows, "No decision would have been different.", wraps=True)
    counts = ", ".join(
        f"{kind} {row['different']} of {row['decisions']}" for kind, row in found.summary.items()
    )

    def show(out: Console) -> None:
        list_them(out)
        out.print(
            f"{len(found.differences)} of {found.decisions} decisions in {found.events} events would have been "
            f"different{f' ({counts})' if counts else ''}."
        )
        out.print(NOTE)

    return show


COMMANDS = {"simulate": Command(_arguments, _simulate)}
