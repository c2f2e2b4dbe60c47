"""Commands of reviewers."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.asking import Accepted
from remand.app.escalations import question, ways
from remand.app.held import HeldWork
from remand.app.stories import asserted as asserted_names
from remand.app.under_review import UnderReview, awaiting
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.refusals import Refused
from remand.domain.reviewing.lines import finding, findings_in
from remand.domain.roles import REVIEWERS, Actor
from remand.domain.task import Task
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.holds import acting_member, held_block, held_work_for
from remand.interfaces.cli.objections import with_objections
from remand.interfaces.cli.output import Result, one_line, table, write_whole
from remand.interfaces.cli.task_views import HELD, find_task, waits_for_forge

if TYPE_CHECKING:
    from rich.console import Console

SOURCE = "reject-task"
_COLUMNS = ("task", "commit", "author", "since", "pr", "asked", "try", "nos", "title")


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="reviewer", default="", metavar="R", help="what that reviewer may review"
    )


def _list(context: Context) -> Result:
    reviewer = _reviewer(context, context.arguments.reviewer) if context.arguments.reviewer else None
    with context.opened.store.read() as view:
        found = awaiting(view, reviewer)
    held = held_work_for(context, reviewer or acting_member(context))
    named = [entry.task_id for entry in found if entry.pr]
    waits = waits_for_forge(context, *named) if named else {}
    rows = [
        msgspec.to_builtins(entry) | {"waits_for_forge": waits.get(entry.task_id), "held": []}
        for entry in found
    ]
    shown = _shown(found, held)
    return Result([*rows, *(_held_row(context, work) for work in held)], shown)


def _shown(found: list[UnderReview], held: list[HeldWork]) -> Callable[[Console], None] | str:
    """What awaits review in a table, and after it the work that the gates hold, with its commands."""
    blocks = "\n\n".join(map(held_block, held))
    if not found:
        return f"{HELD}\n\n{blocks}" if held else "Nothing awaits review."

    def show(out: Console) -> None:
        table(_COLUMNS, list(map(_cells, found)), "")(out)
        for entry in found:
            for one in entry.not_counted:
                write_whole(out, f"{entry.task_id}: {one_line(one.text, 600)}")
        if held:
            write_whole(out, f"{HELD}\n\n{blocks}")

    return show


def _held_row(context: Context, work: HeldWork) -> dict[str, Any]:
    """Held work as a row beside the submissions; what it waits for is in `held`, one entry a finding."""
    task, events = find_task(context, work.task_id)
    return {
        "task_id": work.task_id,
        "title": work.title,
        "commit": work.commit,
        "author": work.agent,
        "since": work.since,
        "branch": task.gating.branch or task.branch or None,
        "pr": task.gating.pr or task.pr or None,
        "requested": [],
        "attempt": task.attempt_count,
        "rejection_count": task.rejection_count,
        "asserted": work.agent in asserted_names(events),
        "waits_for_forge": None,
        "held": msgspec.to_builtins(work.findings),
        "report": context.gates.report_path(work.report) or None if work.report else None,
    }


def _reviewer(context: Context, name: str) -> Actor:
    actor = context.opened.settings.rules().team.actor(name)
    if not actor.has(*REVIEWERS):
        raise Refused("not_authorised", f"{actor.name} is no reviewer of this team.")
    return actor


def _cells(entry: UnderReview) -> tuple[object, ...]:
    return (
        entry.task_id,
        entry.commit[:12],
        f"{entry.author} (asserted)" if entry.asserted else entry.author,
        entry.since[:19],
        f"#{entry.pr}" if entry.pr else "",
        ", ".join(entry.requested),
        entry.attempt,
        entry.rejection_count or "",
        entry.title,
    )


def _request_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--from", dest="reviewer", required=True, metavar="R", help="who is to look at it")


def _request(context: Context) -> Result:
    ask = c.RequestReview(task_id=context.arguments.task, reviewer=context.arguments.reviewer)
    task = context.ask(ask, context.actor()).task
    data = {"task_id": task.id, "status": task.status.value, "requested": list(task.requested)}
    return Result(data, f"{task.id} awaits the word of {', '.join(task.requested)}")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--reviewer")
    parser.add_argument("--commit", required=True, metavar="SHA")


def _approve_arguments(parser: ArgumentParser) -> None:
    _arguments(parser)
    parser.add_argument(
        "--checked",
        action="append",
        default=[],
        metavar="'path:line: text'",
        help="a line that was looked at, and what holds there; an agent's approval needs one",
    )


def _approve(context: Context) -> Result:
    options = context.arguments
    checked = tuple(finding(context.text(text), is_blocking=False) for text in options.checked)
    ask = c.ApproveReview(task_id=options.task, commit=context.commit(options.commit), checked=checked)
    task = context.ask(ask, context.actor(option="reviewer")).task
    data = {"task_id": task.id, "status": task.status.value}
    return with_objections(context, task, data, f"{task.id} is {task.status}")


def _reject_arguments(parser: ArgumentParser) -> None:
    _arguments(parser)
    parser.add_argument("--finding", action="append", default=[], metavar="'path:line: text'", help="blocks")
    parser.add_argument("--suggestion", action="append", default=[], metavar="'path:line: text'")


def _reject(context: Context) -> Result:
    options = context.arguments
    findings = [finding(context.text(text), is_blocking=True) for text in options.finding]
    findings += [finding(context.text(text), is_blocking=False) for text in options.suggestion]
    ask = c.RejectReview(
        task_id=options.task, commit=context.commit(options.commit), findings=tuple(findings)
    )
    return _rejected(context, context.ask(ask, context.actor(option="reviewer")))


def _reject_task_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("text", help="what has to be done about it, one finding a line (@file, -)")
    parser.add_argument("--reviewer")


def _reject_task(context: Context) -> Result:
    """Rejects the latest submission; what it was is looked up, since the reviewer names the task alone."""
    options = context.arguments
    findings = findings_in(context.text(options.text))
    task, _ = find_task(context, options.task)
    if task.submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    ask = c.RejectReview(task_id=task.id, commit=task.submission.commit, findings=findings, source=SOURCE)
    return _rejected(context, context.ask(ask, context.actor(option="reviewer")))


def _rejected(context: Context, answer: Accepted) -> Result:
    """What came of a rejection: who is locked out, who takes over, or what the user is asked."""
    task = answer.task
    passed_on = next((event for event in answer.events if isinstance(event, e.TaskReassigned)), None)
    data: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status.value,
        "rejection_count": task.rejection_count,
        "locked_out": [lockout.agent for lockout in task.active_lockouts],
        "reassigned_to": passed_on.target if passed_on else None,
    }
    if task.open_escalation:
        data["escalation_id"] = task.open_escalation.id
    return Result(data, "\n".join(_told(context, answer, passed_on)))


def _told(context: Context, answer: Accepted, passed_on: e.TaskReassigned | None) -> list[str]:
    task = answer.task
    rows = [f"{task.id} is {task.status}: rejection #{task.rejection_count}"]
    rows += [
        f"{event.agent} is locked out of {task.label}: {one_line(event.reason, 200)}"
        for event in answer.events
        if isinstance(event, e.LockoutSet)
    ]
    if passed_on:
        last = "; it is the last eligible agent" if passed_on.is_last else ""
        rows.append(f"{passed_on.target} takes over ({one_line(passed_on.reason, 200)}){last}")
    if task.open_escalation:
        rows.append(f"{task.open_escalation.id} waits for the user: {asked(context, task)}")
    return rows


def asked(context: Context, task: Task) -> str:
    """What an escalated task asks the user."""
    with context.opened.store.read() as view:
        return question(task, ways(view, context.opened.settings.rules().team, task))


def _retract_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--reviewer")
    parser.add_argument("--reason", required=True, metavar="TEXT")
    parser.add_argument(
        "--review", default="", metavar="ID", help="which rejection; else the last that stands"
    )


def _retract(context: Context) -> Result:
    options = context.arguments
    ask = c.RetractReview(task_id=options.task, reason=context.text(options.reason), review_id=options.review)
    answer = context.ask(ask, context.actor(option="reviewer"))
    task = answer.task
    retracted = next(event for event in answer.events if isinstance(event, e.ReviewRetracted))
    locked = [lockout.agent for lockout in task.active_lockouts]
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "review_id": retracted.review_id,
        "rejection_count": task.rejection_count,
        "locked_out": locked,
    }
    text = f"{retracted.review_id} is taken back; {task.id} is {task.status}, rejected {task.rejection_count} times"
    return Result(data, f"{text}; locked out: {', '.join(locked) or 'nobody'}")


COMMANDS = {
    "review list": Command(_list_arguments, _list),
    "review request": Command(_request_arguments, _request),
    "review approve": Command(_approve_arguments, _approve),
    "review reject": Command(_reject_arguments, _reject),
    "review retract": Command(_retract_arguments, _retract),
    "reject-task": Command(_reject_task_arguments, _reject_task),
}
