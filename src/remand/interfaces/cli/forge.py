"""Commands around the forge, where issues and reviews come from and pull requests go to."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec

from remand.app.errors import EnvironmentFault
from remand.app.forges.polling import Polled
from remand.app.forges.ports import ForgeFault
from remand.bootstrap.forges import Forges, Synced
from remand.config import inherited_environment
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result

ENVIRONMENT = 3
SHOWN = 20


def _sync_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="try again what was given up on the forge")


def _sync(context: Context) -> Result:
    synced = Forges(context.opened, inherited_environment()).sync(is_again=context.arguments.again)
    data: dict[str, Any] = msgspec.to_builtins(synced.polled)
    data |= {"imported": msgspec.to_builtins(synced.imported), "acted": msgspec.to_builtins(synced.acted)}
    text = "\n".join(filter(None, (told(synced.polled), *_done(synced))))
    if not synced.trouble:
        return Result(data, text)
    data |= {"error": "environment", "message": synced.trouble}
    return Result(data, text, code=ENVIRONMENT)


def _done(synced: Synced) -> list[str]:
    """What was done on the forge, and what could not be."""
    acted = synced.acted
    rows = [
        f"  {one.task_id}: {one.text}{' (it was so already)' if one.is_found else ''}" for one in acted.done
    ]
    rows += [f"  {one.task_id} waits for {one.text}" for one in acted.waits]
    rows += [f"  {one.alias} is {one.task_id}: {one.title}" for one in synced.imported.imported]
    if acted.trouble and acted.trouble != synced.polled.trouble:
        rows.append(f"Nothing could be done on the forge: {acted.trouble}")
    return rows


def _import_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--label", default="", metavar="L", help="the label of issues that become tasks")
    parser.add_argument("--dry-run", action="store_true", help="only show which would")


def _import(context: Context) -> Result:
    options = context.arguments
    forges = Forges(context.opened, inherited_environment())
    try:
        found = forges.bring_in(options.label, is_dry=options.dry_run)
    except ForgeFault as fault:
        raise EnvironmentFault(str(fault)) from None
    verb = "would become" if options.dry_run else "is now"
    rows = [f"{one.alias} {verb} {one.task_id}: {one.title}" for one in found.imported]
    rows += [f"{one.alias} was left out: {one.why}" for one in found.skipped]
    rows.append(f"{len(found.imported)} imported, {len(found.known)} known, {len(found.skipped)} left out")
    return Result(msgspec.to_builtins(found), "\n".join(rows))


def told(polled: Polled) -> str:
    """What came of a poll, in a few lines."""
    rows = [f"{polled.trouble} Nothing is lost: the next poll asks again."] if polled.trouble else []
    if polled.requests or not polled.trouble:
        what = (
            f"{polled.rejections} rejected, {polled.approvals} approved, "
            f"{polled.comments} comments added, {polled.noted} not counted"
        )
        asked = f"{polled.requests} requests, {polled.not_modified} not modified"
        seen = f"{polled.polled} pull requests, {polled.read} changed"
        rows.append(f"{seen}: {what}, {polled.ignored} by others ({asked})")
    waits = [f"  {one.task_id}: {one.text}" for one in polled.not_counted]
    waits += [f"  {one.task_id} waits for {one.text}" for one in polled.waits]
    more = len(waits) - SHOWN
    return "\n".join([*rows, *waits[:SHOWN], *([f"  and {more} more"] if more > 0 else [])])


COMMANDS = {
    "sync": Command(_sync_arguments, _sync),
    "task import": Command(_import_arguments, _import),
}
