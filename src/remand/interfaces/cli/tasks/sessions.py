"""The verdicts on sessions that hold no task, as people and programs are shown them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from remand.app.events.signatures import confirmed_events
from remand.domain.events import work
from remand.domain.events.event import event_names
from remand.domain.gate.verdict import PASSING
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import Result, table
from remand.interfaces.hook.session import open_session_ledger
from remand.ledger.order import order_key
from remand.wiring.startup import folders_of

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("time", "host", "verdict", "session", "says")


def session_rows(context: Context) -> list[dict[str, Any]]:
    """Every verdict on a session, in the order of time."""
    if not os.path.isdir(folders_of(context.place).session_ledger):
        return []
    with open_session_ledger(context.place).store.read() as view:
        events = sorted(confirmed_events(view, event_names(work.SessionMeasured)), key=order_key)
        titles = {task.id: task.title for task in view.tasks.every()}
    return [_row(event, titles) for event in events if isinstance(event, work.SessionMeasured)]


def session_history(context: Context) -> Result:
    """What gates said of sessions."""
    rows = session_rows(context)
    return Result(rows, session_table(rows, context.row_limit))


def session_list(context: Context) -> Result:
    """The sessions, each with its last verdict."""
    last = {row["session_id"]: row for row in session_rows(context)}
    counts: dict[str, int] = {}
    for row in session_rows(context):
        counts[row["session_id"]] = counts.get(row["session_id"], 0) + 1
    rows = [row | {"verdicts": counts[name]} for name, row in last.items()]
    return Result(rows, session_table(rows, context.row_limit))


def _row(event: work.SessionMeasured, titles: dict[str, str]) -> dict[str, Any]:
    verdict = event.verdict
    lines = [gate.line.removeprefix("- ") for gate in verdict.gates if gate.name in verdict.blocking_gates]
    lines = lines or [gate.line.removeprefix("- ") for gate in verdict.gates if gate.status in PASSING]
    return {
        "ts": event.ts,
        "session_id": event.task_id,
        "title": titles.get(event.task_id, ""),
        "host": event.host,
        "status": verdict.status.value,
        "is_own": event.is_own,
        "is_partial": bool(event.left_out),
        "left_out": list(event.left_out),
        "tree": verdict.tree,
        "says": "; ".join(lines) + ("; partly measured" if event.left_out else ""),
        "report": verdict.report_name or None,
    }


def session_table(rows: list[dict[str, Any]], limit: int = 0) -> Callable[[Console], None]:
    """Verdicts as a table."""
    cells = [
        (
            row["ts"][5:16].replace("T", " "),
            row["host"],
            row["status"] if row["is_own"] else f"{row['status']}, not its own",
            row["title"],
            row["says"],
        )
        for row in rows
    ]
    return table(_COLUMNS, cells, "No session has been measured yet.", limit=limit, shows_last=True)
