"""Commands that change tasks, and their warnings.

Agents call these often, so everything else is loaded only if needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from remand.app.errors import RemandError
from remand.app.inbox import objections
from remand.app.requests import Acceptance
from remand.domain import commands as c
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.policy import IGNORE
from remand.domain.task import PRIORITIES, Task
from remand.interfaces.cli.context import Context, Steps, argument, command, split_commas
from remand.interfaces.cli.output import NamedValues, Result, write_unwrapped
from remand.interfaces.cli.tasks import verdicts
from remand.ledger.problems import BadLine
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from remand.app.inbox.objections import TaskObjections

_DESCRIPTION = (
    argument("--scope", metavar="TEXT", help="what is in scope and what is not (@file, -)"),
    argument("--priority", choices=[priority.value for priority in PRIORITIES]),
    argument("--category"),
    argument("--skills", type=split_commas, metavar="a,b", help="skills that an agent must have"),
    argument("--branch"),
)


@command(
    "task add",
    argument("title", help="the work to do, in one line"),
    *_DESCRIPTION,
    argument("--alias", action="append", default=[], metavar="'#42'", help="an issue or pull request number"),
    argument("--depends-on", nargs="+", action="extend", default=[], metavar="ID"),
    argument(
        "--must-pass",
        nargs="+",
        action="extend",
        default=[],
        metavar="TEST",
        help="tests that prove the work, as `tests/test_x.py::test_y`; `*` stands for any part of a name",
    ),
)
def _add(context: Context) -> Steps[Result]:
    options = context.arguments
    request = c.AddTask(
        title=context.text(options.title),
        scope=context.text(options.scope),
        priority=options.priority or "medium",
        category=options.category or "",
        skills=options.skills or (),
        branch=options.branch or "",
        aliases=tuple(options.alias),
        depends_on=tuple(options.depends_on),
        must_pass=tuple(options.must_pass),
    )
    task = (yield from context.ask_by_step(request, context.actor())).task
    return Result({"task_id": task.id}, f"added {task.id}")


@command(
    "task edit",
    argument("id"),
    argument("--title"),
    *_DESCRIPTION,
    argument("--alias", action="append", metavar="'#42'", help="replace the aliases"),
    argument("--pr", type=int, metavar="N"),
    argument("--depends-on", nargs="+", action="extend", default=[], metavar="ID"),
    argument("--drop-depends-on", nargs="+", action="extend", default=[], metavar="ID"),
)
def _edit(context: Context) -> Steps[Result]:
    options = context.arguments
    request = c.EditTask(
        task_id=options.id,
        title=options.title,
        scope=None if options.scope is None else context.text(options.scope),
        priority=options.priority,
        category=options.category,
        skills=options.skills,
        branch=options.branch,
        aliases=None if options.alias is None else tuple(options.alias),
        pr=options.pr,
        depends_on=tuple(options.depends_on),
        drop_depends_on=tuple(options.drop_depends_on),
    )
    return _status_result((yield from context.ask_by_step(request, context.actor())))


def _status_result(answer: Acceptance) -> Result:
    task = answer.task
    return Result({"task_id": task.id, "status": task.status}, f"{task.id} is {task.status}")


@command("task claim", argument("id", nargs="?", default=""), argument("--agent"))
def _claim(context: Context) -> Steps[Result]:
    agent = context.agent()
    request = c.ClaimTask(agent=agent, task_id=context.arguments.id)
    return claim_result(context, (yield from context.ask_by_step(request, agent)))


def claim_result(context: Context, answer: Acceptance) -> Result:
    """The answer to a claim."""
    event = next(event for event in answer.events if isinstance(event, TaskClaimed | HandoffAccepted))
    data = {
        "task_id": event.task_id,
        "handoff_id": event.handoff_id,
        "branch": event.branch or None,
        "lease_expires_at": event.lease_expires_at,
        "attempt": event.attempt,
        "epoch": event.epoch,
        "title": answer.task.title,
    }
    rows = [(name.replace("_", " "), value) for name, value in data.items()]
    return with_objections(context, answer.task, data, NamedValues(rows))


_CLAIM_COMMANDS: dict[str, type[c.ClaimCommand]] = {
    "task heartbeat": c.Heartbeat,
    "task release": c.ReleaseTask,
    "task continue": c.ContinueTask,
    "task fail": c.FailTask,
    "task wait": c.WaitTask,
}
_CLAIM = (
    argument("id"),
    argument("--agent"),
    argument(
        "--handoff", default="", metavar="H", help="the handoff id of the claim; by default $REMAND_HANDOFF"
    ),
)
_REASON = argument("--reason", default="", metavar="TEXT")


@command("task heartbeat", *_CLAIM, _REASON)
@command("task release", *_CLAIM, _REASON)
@command("task continue", *_CLAIM, _REASON)
@command("task fail", *_CLAIM, _REASON)
@command(
    "task wait",
    *_CLAIM,
    argument("--for", dest="reason", required=True, metavar="TEXT", help="what to wait for"),
)
def _change_claim(context: Context) -> Steps[Result]:
    options, agent = context.arguments, context.agent()
    request = _CLAIM_COMMANDS[context.call.command](
        task_id=options.id, agent=agent, handoff_id=_handoff(context), reason=context.text(options.reason)
    )
    return _status_result((yield from context.ask_by_step(request, agent)))


def _handoff(context: Context) -> str:
    """The handoff under which the agent holds the task: as given, or from its environment."""
    return context.arguments.handoff or context.origin.environment.get("REMAND_HANDOFF", "")


@command(
    "task submit",
    argument("id"),
    argument("--agent"),
    argument("--commit", required=True, metavar="SHA"),
    argument("--branch", default="", help="the branch that contains the commit, if it is not the task's"),
    argument("--pr", type=int, default=0, metavar="N"),
    argument(
        "--handoff", default="", metavar="H", help="the handoff id of the claim; by default $REMAND_HANDOFF"
    ),
)
def _submit(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = c.SubmitTask(
        task_id=options.id,
        agent=agent,
        handoff_id=_handoff(context),
        commit=context.commit(options.commit),
        branch=options.branch or context.branch,
        is_branch_given=bool(options.branch),
        pr=options.pr,
    )
    return verdicts.done_claim_result(context, context.claim_done(request, agent))


@command("task cancel", argument("id"), _REASON)
def _cancel(context: Context) -> Result:
    options = context.arguments
    request = c.CancelTask(task_id=options.id, reason=context.text(options.reason))
    return _status_result(context.ask(request, context.actor()))


@command("task reopen", argument("id"), _REASON)
def _reopen(context: Context) -> Result:
    options = context.arguments
    request = c.ReopenTask(task_id=options.id, reason=context.text(options.reason))
    return _status_result(context.ask(request, context.actor()))


@command(
    "task defer",
    argument("id"),
    argument("--until", nargs="+", required=True, metavar="ID", help="the tasks to wait for"),
    argument("--reason", default="", metavar="TEXT"),
)
def _defer(context: Context) -> Result:
    options = context.arguments
    request = c.DeferTask(
        task_id=options.id, waits_for=tuple(options.until), reason=context.text(options.reason)
    )
    return _status_result(context.ask(request, context.actor()))


MOST_WARNED = 3
"""How many keys a command warns about."""


def with_objections(
    context: Context, task: Task, data: dict[str, Any], show: Callable[[Console], None] | str
) -> Result:
    """The result of a command on a task, with a warning if untrusted keys object to it.

    The command has already done its work, so it does not fail if a warning cannot be read.
    """
    task_objections = None
    try:
        opened = context.gateway.opened_ledger
        if not opened.store.may_have_objections:
            return Result(data, show)
        with opened.store.read() as view:
            if view.objections.keys(task.id) and opened.settings.rules().policy.unconfirmed_no != IGNORE:
                task_objections = objections.task_objections(view, task, most=MOST_WARNED)
    except (RemandError, BadLine, OSError):
        pass
    if task_objections is None or not task_objections.shown:
        return Result(data, show)
    rows = [f"warning: {text}" for text in objection_rows(task_objections)]

    def with_warnings(out: Console) -> None:
        out.print(show) if isinstance(show, str) else show(out)
        for row in rows:
            write_unwrapped(out, row)

    return Result(data | objection_data(task_objections), with_warnings)


def objection_data(found: TaskObjections) -> dict[str, Any]:
    """Objections as plain data: those that are shown, and how many keys are left out."""
    return {"objections": msgspec.to_builtins(found.shown), "more_objections": found.more}


def objection_rows(found: TaskObjections) -> list[str]:
    """Objections as text: one line for each key, and how many keys are left out."""
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
