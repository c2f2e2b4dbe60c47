"""Commands that give a task to another agent, or to the user."""

from __future__ import annotations

from argparse import ArgumentParser

from remand.domain import commands as c
from remand.domain import events as e
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result
from remand.interfaces.cli.reviews import asked


def _reassign_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--to", required=True, metavar="AGENT")
    parser.add_argument(
        "--from", dest="source", default="", metavar="AGENT", help="who had it; its lockout stays"
    )
    parser.add_argument("--reason", default="", metavar="TEXT")


def _reassign(context: Context) -> Result:
    options = context.arguments
    ask = c.ReassignTask(
        task_id=options.task,
        target=options.to,
        source=options.source,
        reason=context.text(options.reason),
    )
    answer = context.ask(ask, context.actor())
    task, claim = answer.task, answer.task.claim
    passed_on = next((event for event in answer.events if isinstance(event, e.TaskReassigned)), None)
    reserved = next((event for event in answer.events if isinstance(event, e.HandoffInitiated)), None)
    target = passed_on.target if passed_on else (claim.agent if claim else options.to)
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "reassigned_to": target,
        "reassigned_from": (passed_on.source or None) if passed_on else None,
        "handoff_id": reserved.handoff_id if reserved else (claim.handoff_id if claim else None),
        "is_last": passed_on.is_last if passed_on else False,
        "locked_out": [lockout.agent for lockout in task.active_lockouts],
    }
    if passed_on is None:
        return Result(data, f"{target} has {task.label} already")
    last = "; it is the last eligible agent" if passed_on.is_last else ""
    return Result(data, f"{target} takes {task.label} over{last}")


def _escalate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="what the user should know (@file, -)"
    )
    parser.add_argument("--agent", help="the agent that holds the task, where it asks itself")


def _escalate(context: Context) -> Result:
    options = context.arguments
    ask = c.EscalateTask(task_id=options.task, reason=context.text(options.reason))
    task = context.ask(ask, context.actor(option="agent")).task
    escalation_id = task.open_escalation.id if task.open_escalation else None
    text = asked(context, task)
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "escalation_id": escalation_id,
        "question": text,
    }
    return Result(data, f"{task.id} is {task.status}; {escalation_id} waits for the user: {text}")


COMMANDS = {
    "reassign": Command(_reassign_arguments, _reassign),
    "escalate": Command(_escalate_arguments, _escalate),
}
