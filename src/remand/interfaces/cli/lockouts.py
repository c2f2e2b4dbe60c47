"""Commands about lockouts: who is locked out, why, and the user's unlock."""

from __future__ import annotations

from argparse import ArgumentParser

import msgspec

from remand.app.lockouts import explained, lockouts
from remand.app.people import People
from remand.domain import commands as c
from remand.domain import events as e
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, table
from remand.interfaces.cli.task_views import find_task

_COLUMNS = ("task", "agent", "by", "since", "reason")


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _list(context: Context) -> Result:
    with context.opened.store.read() as view:
        rows = lockouts(view)
    cells = [(row.label, row.agent, row.reviewer, row.since[:19], row.reason) for row in rows]
    return Result(msgspec.to_builtins(rows), table(_COLUMNS, cells, "Nobody is locked out."))


def _unlock_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("agent")
    parser.add_argument("--task", required=True, metavar="TASK")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="kept on record (@file, -)")
    parser.add_argument("--guidance", metavar="TEXT", help="what the agent should know (@file, -)")


def _unlock(context: Context) -> Result:
    options = context.arguments
    ask = c.Unlock(
        task_id=options.task,
        agent=options.agent,
        reason=context.text(options.reason),
        guidance=context.text(options.guidance),
    )
    answer = context.ask(ask, context.actor())
    task = answer.task
    cleared = next((event for event in answer.events if isinstance(event, e.LockoutCleared)), None)
    agent = cleared.agent if cleared else options.agent
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "agent": agent,
        "locked_out": [lockout.agent for lockout in task.active_lockouts],
    }
    return Result(data, f"{agent} may work on {task.label} again")


def _why_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("agent")
    parser.add_argument("--task", default="", metavar="TASK")


def _why(context: Context) -> Result:
    options = context.arguments
    task_id = find_task(context, options.task)[0].id if options.task else ""
    team = context.opened.settings.rules().team
    with context.opened.store.read() as view:
        agent = People(view, team).name(options.agent)
        found = explained(view, team, agent, task_id)
    text = "\n".join(one.why for one in found) or f"{agent} is not locked out of any task."
    data = {
        "agent": agent,
        "locked_out": any(one.is_locked_out for one in found),
        "why": text,
        "tasks": msgspec.to_builtins(found),
    }
    return Result(data, text)


COMMANDS = {
    "lockout list": Command(_nothing, _list),
    "unlock": Command(_unlock_arguments, _unlock),
    "why": Command(_why_arguments, _why),
}
