"""Commands that change tasks."""

from __future__ import annotations

from argparse import ArgumentParser

from remand.app.asking import Accepted
from remand.domain import commands as c
from remand.domain.events import HandoffAccepted, TaskClaimed
from remand.domain.task import PRIORITIES
from remand.interfaces.cli.context import Command, Context, words
from remand.interfaces.cli.objections import with_objections
from remand.interfaces.cli.output import Result, facts
from remand.interfaces.cli.verdicts import claimed_result


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("title", help="what is to be done, in one line")
    _describing(parser)
    parser.add_argument("--alias", action="append", default=[], metavar="'#42'", help="a forge number")
    parser.add_argument("--depends-on", nargs="+", action="extend", default=[], metavar="ID")


def _describing(parser: ArgumentParser) -> None:
    parser.add_argument("--scope", metavar="TEXT", help="what belongs to it and what does not (@file, -)")
    parser.add_argument("--priority", choices=[priority.value for priority in PRIORITIES])
    parser.add_argument("--category")
    parser.add_argument("--skills", type=words, metavar="a,b", help="what an agent must be able to do")
    parser.add_argument("--branch")


def _add(context: Context) -> Result:
    options = context.arguments
    ask = c.AddTask(
        title=context.text(options.title),
        scope=context.text(options.scope),
        priority=options.priority or "medium",
        category=options.category or "",
        skills=options.skills or (),
        branch=options.branch or "",
        aliases=tuple(options.alias),
        depends_on=tuple(options.depends_on),
    )
    task = context.ask(ask, context.actor()).task
    return Result({"task_id": task.id}, f"added {task.id}")


def _edit_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--title")
    _describing(parser)
    parser.add_argument("--alias", action="append", metavar="'#42'", help="replaces the aliases")
    parser.add_argument("--pr", type=int, metavar="N")
    parser.add_argument("--depends-on", nargs="+", action="extend", default=[], metavar="ID")
    parser.add_argument("--drop-depends-on", nargs="+", action="extend", default=[], metavar="ID")


def _edit(context: Context) -> Result:
    options = context.arguments
    ask = c.EditTask(
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
    return _status(context.ask(ask, context.actor()))


def _status(answer: Accepted) -> Result:
    task = answer.task
    return Result({"task_id": task.id, "status": task.status}, f"{task.id} is {task.status}")


def _claim_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="")
    parser.add_argument("--agent")


def _claim(context: Context) -> Result:
    agent = context.agent()
    return claimed(context, context.ask(c.ClaimTask(agent=agent, task_id=context.arguments.id), agent))


def claimed(context: Context, answer: Accepted) -> Result:
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
    return with_objections(context, answer.task, data, facts(rows))


def _holding_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--agent")
    parser.add_argument("--handoff", default="", metavar="H", help="the claim this is meant for")
    parser.add_argument("--reason", default="", metavar="TEXT")


def _holding(kind: type[c.ClaimAsk]) -> Command:
    def run(context: Context) -> Result:
        options, agent = context.arguments, context.agent()
        handoff = options.handoff or context.surroundings.environment.get("REMAND_HANDOFF", "")
        ask = kind(task_id=options.id, agent=agent, handoff_id=handoff, reason=context.text(options.reason))
        return _status(context.ask(ask, agent))

    return Command(_holding_arguments, run)


def _wait_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--agent")
    parser.add_argument("--handoff", default="", metavar="H", help="the claim this is meant for")
    parser.add_argument("--for", dest="reason", required=True, metavar="TEXT", help="what is waited for")


def _submit_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--agent")
    parser.add_argument("--commit", required=True, metavar="SHA")
    parser.add_argument(
        "--branch", default="", help="the branch that has the commit, when it is not the task's"
    )
    parser.add_argument("--pr", type=int, default=0, metavar="N")
    parser.add_argument("--handoff", default="", metavar="H", help="the claim this is meant for")


def _submit(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    ask = c.SubmitTask(
        task_id=options.id,
        agent=agent,
        handoff_id=options.handoff or context.surroundings.environment.get("REMAND_HANDOFF", ""),
        commit=context.commit(options.commit),
        branch=options.branch or context.gateway.repository.branch(),
        is_branch_given=bool(options.branch),
        pr=options.pr,
    )
    return claimed_result(context, context.claim_done(ask, agent))


def _reason_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--reason", default="", metavar="TEXT")


def _cancel(context: Context) -> Result:
    options = context.arguments
    return _status(
        context.ask(c.CancelTask(task_id=options.id, reason=context.text(options.reason)), context.actor())
    )


def _reopen(context: Context) -> Result:
    options = context.arguments
    return _status(
        context.ask(c.ReopenTask(task_id=options.id, reason=context.text(options.reason)), context.actor())
    )


def _defer_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id")
    parser.add_argument("--until", nargs="+", required=True, metavar="ID", help="the tasks it waits for")
    parser.add_argument("--reason", default="", metavar="TEXT")


def _defer(context: Context) -> Result:
    options = context.arguments
    ask = c.DeferTask(task_id=options.id, waits_for=tuple(options.until), reason=context.text(options.reason))
    return _status(context.ask(ask, context.actor()))


COMMANDS = {
    "task add": Command(_add_arguments, _add),
    "task edit": Command(_edit_arguments, _edit),
    "task claim": Command(_claim_arguments, _claim),
    "task submit": Command(_submit_arguments, _submit),
    "task heartbeat": _holding(c.Heartbeat),
    "task release": _holding(c.ReleaseTask),
    "task continue": _holding(c.ContinueTask),
    "task fail": _holding(c.FailTask),
    "task wait": Command(_wait_arguments, _holding(c.WaitTask).run),
    "task cancel": Command(_reason_arguments, _cancel),
    "task reopen": Command(_reason_arguments, _reopen),
    "task defer": Command(_defer_arguments, _defer),
}
