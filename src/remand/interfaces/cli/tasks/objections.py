"""Objections under keys that are not trusted, beside what a command says of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from remand.app.errors import RemandError
from remand.app.inbox import objections
from remand.domain.policy import IGNORE
from remand.domain.task import Task
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import Result, write_unwrapped
from remand.ledger.problems import BadLine
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from remand.app.inbox.objections import TaskObjections

MOST_WARNED = 3
"""Of how many keys a command warns that does something else."""


def with_objections(
    context: Context, task: Task, data: dict[str, Any], show: Callable[[Console], None] | str
) -> Result:
    """What a command says of a task, with a warning where keys that are not trusted object to it.

    The command has done its work by now, and does not fail because a warning cannot be read.
    """
    found = None
    try:
        opened = context.gateway.opened_ledger
        with opened.store.read() as view:
            if view.objections.keys(task.id) and opened.settings.rules().policy.unconfirmed_no != IGNORE:
                found = objections.task_objections(view, task, most=MOST_WARNED)
    except (RemandError, BadLine, OSError):
        pass
    if found is None or not found.shown:
        return Result(data, show)
    rows = [f"warning: {text}" for text in objection_rows(found)]

    def with_warnings(out: Console) -> None:
        out.print(show) if isinstance(show, str) else show(out)
        for row in rows:
            write_unwrapped(out, row)

    return Result(data | objection_data(found), with_warnings)


def objection_data(found: TaskObjections) -> dict[str, Any]:
    """Objections as plain data: those that are shown, and how many keys are left out."""
    return {"objections": msgspec.to_builtins(found.shown), "more_objections": found.more}


def objection_rows(found: TaskObjections) -> list[str]:
    """Objections as people read them: one line for each key, and how many keys are left out."""
    rows = []
    for objection in found.shown:
        if objection.is_dismissed:
            rows.append(f"{objection.text}. The user dismissed that.")
        else:
            answer = f" The user dismisses it with: {objection.dismiss}" if objection.is_open else ""
            rows.append(f"{objection.text}. It has no effect unless its key is trusted.{answer}")
    if found.more == 1:
        rows.append("1 more key that is not trusted objects to it")
    elif found.more:
        rows.append(f"{found.more} more keys that are not trusted object to it")
    return rows
