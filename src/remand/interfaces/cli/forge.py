"""Commands around the forge where reviews are given."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec

from remand.app.forges.polling import Polled
from remand.bootstrap.forges import Forges
from remand.config import inherited_environment
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result

ENVIRONMENT = 3
SHOWN = 20


def _arguments(_: ArgumentParser) -> None:
    """Takes none."""


def _sync(context: Context) -> Result:
    polled = Forges(context.opened, inherited_environment()).poll()
    data: dict[str, Any] = msgspec.to_builtins(polled)
    if not polled.trouble:
        return Result(data, told(polled))
    data |= {"error": "environment", "message": polled.trouble}
    return Result(data, told(polled), code=ENVIRONMENT)


def told(polled: Polled) -> str:
    """What came of a poll, in a few lines."""
    rows = [f"{polled.trouble} Nothing is lost: the next poll asks again."] if polled.trouble else []
    if polled.requests or not polled.trouble:
        what = f"{polled.rejections} rejected, {polled.approvals} approved, {polled.noted} noted"
        asked = f"{polled.requests} requests, {polled.not_modified} not modified"
        seen = f"{polled.polled} pull requests, {polled.read} changed"
        rows.append(f"{seen}: {what}, {polled.ignored} by others ({asked})")
    waits = [f"  {one.task_id} waits for {one.text}" for one in polled.waits]
    more = len(waits) - SHOWN
    return "\n".join([*rows, *waits[:SHOWN], *([f"  and {more} more"] if more > 0 else [])])


COMMANDS = {"sync": Command(_arguments, _sync)}
