"""Objections under keys that are not trusted, beside what a command says of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.errors import RemandError
from remand.app.objections import KeyObjections, TaskObjections, objections_of
from remand.domain.policy import IGNORE
from remand.domain.task import Task
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import Result, write_whole
from remand.ledger.problems import BadLine

if TYPE_CHECKING:
    from rich.console import Console

MOST_WARNED = 3
"""Of how many keys a command warns that does something else."""


def with_objections(
    context: Context, task: Task, data: dict[str, Any], show: Callable[[Console], None] | str
) -> Result:
    """What a command says of a task, with a warning where keys that are not trusted object to it.

    What was asked for is recorded by now, and does not fail for a warning that cannot be had.
    """
    try:
        found = _warned(context, task)
    except (RemandError, BadLine, OSError):
        found = TaskObjections()
    if not found.shown:
        return Result(data, show)
    rows = [f"warning: {text}" for text in objection_rows(found)]

    def with_warnings(out: Console) -> None:
        out.print(show) if isinstance(show, str) else show(out)
        for row in rows:
            write_whole(out, row)

    return Result(data | objection_data(found), with_warnings)


def _warned(context: Context, task: Task) -> TaskObjections:
    opened = context.gateway.opened
    with opened.store.read() as view:
        found = objections_of(view, task, most=MOST_WARNED)
    is_ignored = found.shown and opened.settings.rules().policy.unconfirmed_no == IGNORE
    return TaskObjections() if is_ignored else found


def objection_data(found: TaskObjections) -> dict[str, Any]:
    """Objections as plain data: those that are shown, and of how many keys there are more."""
    return {"objections": msgspec.to_builtins(found.shown), "more_objections": found.more}


def objection_rows(found: TaskObjections) -> list[str]:
    """Objections as people read them: one line for each key, and how many keys are left out."""
    rows = [_row(one) for one in found.shown]
    keys = "1 more key that is not trusted objects" if found.more == 1 else ""
    keys = f"{found.more} more keys that are not trusted object" if found.more > 1 else keys
    return [*rows, *([f"{keys} to it"] if keys else [])]


def _row(one: KeyObjections) -> str:
    if one.is_dismissed:
        return f"{one.text}. The user dismissed that."
    answer = f" The user dismisses it with: {one.dismiss}" if one.is_open else ""
    return f"{one.text}. It has no effect unless its key is trusted.{answer}"
