"""Commands of reviewers."""

from __future__ import annotations

import re
from argparse import ArgumentParser

from remand.domain import commands as c
from remand.domain.events import Finding
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result

_FINDING = re.compile(r"(?P<path>[^\s:][^:]*):(?P<line>\d{1,9}):\s*(?P<text>.+)", re.DOTALL)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--reviewer")
    parser.add_argument("--commit", required=True, metavar="SHA")


def _approve(context: Context) -> Result:
    ask = c.ApproveReview(task_id=context.arguments.task, commit=context.commit(context.arguments.commit))
    task = context.ask(ask, context.actor(option="reviewer")).task
    return Result({"task_id": task.id, "status": task.status.value}, f"{task.id} is {task.status}")


def _reject_arguments(parser: ArgumentParser) -> None:
    _arguments(parser)
    parser.add_argument("--finding", action="append", default=[], metavar="'path:line: text'", help="blocks")
    parser.add_argument("--suggestion", action="append", default=[], metavar="'path:line: text'")


def _reject(context: Context) -> Result:
    options = context.arguments
    findings = [finding(text, is_blocking=True) for text in options.finding]
    findings += [finding(text, is_blocking=False) for text in options.suggestion]
    ask = c.RejectReview(
        task_id=options.task, commit=context.commit(options.commit), findings=tuple(findings)
    )
    task = context.ask(ask, context.actor(option="reviewer")).task
    locked = [lockout.agent for lockout in task.active_lockouts]
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "rejection_count": task.rejection_count,
        "locked_out": locked,
        "reassigned_to": None,
    }
    return Result(data, f"{task.id} is {task.status}; locked out: {', '.join(locked) or 'nobody'}")


def finding(text: str, *, is_blocking: bool) -> Finding:
    """A finding from `path:line: text`, or from text alone."""
    match = _FINDING.fullmatch(text.strip())
    if match is None:
        return Finding(text=text.strip(), is_blocking=is_blocking)
    return Finding(text=match["text"], path=match["path"], line=int(match["line"]), is_blocking=is_blocking)


COMMANDS = {
    "review approve": Command(_arguments, _approve),
    "review reject": Command(_reject_arguments, _reject),
}
