"""Commands that change tasks. Every agent calls these often, so the rest is loaded only where it is needed."""

from __future__ import annotations

from remand.app.requests import Acceptance
from remand.domain import commands as c
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.task import PRIORITIES
from remand.interfaces.cli.context import Context, argument, command, split_commas
from remand.interfaces.cli.output import NamedValues, Result
from remand.interfaces.cli.tasks import verdicts
from remand.interfaces.cli.tasks.objections import with_objections

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
    argument("--alias", action="append", default=[], metavar="'#42'", help="a forge number"),
    argument("--depends-on", nargs="+", action="extend", default=[], metavar="ID"),
)
def _add(context: Context) -> Result:
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
    )
    task = context.ask(request, context.actor()).task
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
def _edit(context: Context) -> Result:
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
    return _status_result(context.ask(request, context.actor()))


def _status_result(answer: Acceptance) -> Result:
    task = answer.task
    return Result({"task_id": task.id, "status": task.status}, f"{task.id} is {task.status}")


@command("task claim", argument("id", nargs="?", default=""), argument("--agent"))
def _claim(context: Context) -> Result:
    agent = context.agent()
    return claim_result(context, context.ask(c.ClaimTask(agent=agent, task_id=context.arguments.id), agent))


def claim_result(context: Context, answer: Acceptance) -> Result:
    """What an agent learns of the claim it was given."""
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
    argument("--handoff", default="", metavar="H", help="the handoff of the claim"),
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
def _change_claim(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = _CLAIM_COMMANDS[context.call.command](
        task_id=options.id, agent=agent, handoff_id=_handoff(context), reason=context.text(options.reason)
    )
    return _status_result(context.ask(request, agent))


def _handoff(context: Context) -> str:
    """The handoff under which the agent holds the task: as given, or that of its environment."""
    return context.arguments.handoff or context.origin.environment.get("REMAND_HANDOFF", "")


@command(
    "task submit",
    argument("id"),
    argument("--agent"),
    argument("--commit", required=True, metavar="SHA"),
    argument("--branch", default="", help="the branch that contains the commit, if it is not the task's"),
    argument("--pr", type=int, default=0, metavar="N"),
    argument("--handoff", default="", metavar="H", help="the handoff of the claim"),
)
def _submit(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = c.SubmitTask(
        task_id=options.id,
        agent=agent,
        handoff_id=_handoff(context),
        commit=context.commit(options.commit),
        branch=options.branch or context.gateway.repository.branch(),
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
