"""Commands of reviewers, and what follows from reviews: lockouts, reassignments and escalations."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.history.lockouts import active_lockouts, explain_lockouts
from remand.app.history.task_history import SubmissionUnderReview, submissions_under_review
from remand.app.history.task_history import asserted_actors as asserted_names
from remand.app.inbox.held_findings import HeldWork
from remand.app.inbox.questions import answer_options, question_text
from remand.app.requests import Acceptance
from remand.app.tasks.lookup import People
from remand.domain import commands as c
from remand.domain.access.team import Actor
from remand.domain.decisions.findings import open_findings
from remand.domain.decisions.reviews import require_awaiting_review, require_shown_work
from remand.domain.events.reviews import LockoutCleared, LockoutSet, ReviewRetracted, TaskReassigned
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.preconditions import require_reviewer
from remand.domain.reviewer.answer import parse_finding, parse_findings
from remand.domain.reviewer.change import render_omissions
from remand.domain.task import Submission, Task
from remand.interfaces.cli.context import CommandSpec, Context, add_no_arguments
from remand.interfaces.cli.output import Result, one_line, table, write_unwrapped
from remand.interfaces.cli.tasks.verdicts import acting_member, held_work_for, render_held_work
from remand.interfaces.cli.tasks.views import HELD_HEADING, find_task, waits_for_forge, with_objections
from remand.wiring.submissions import submitted_change

if TYPE_CHECKING:
    from rich.console import Console


def _diff_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--path", action="append", default=[], metavar="FILE", help="show only this file")


def _held_submission(task: Task) -> Submission | None:
    """The work of a done claim that the gates hold, which a reviewer has to see as well."""
    gating, claim = task.gating, task.claim
    if claim is None or not open_findings(task):
        return None
    return Submission(
        commit=gating.commit,
        agent=claim.agent,
        handoff_id=claim.handoff_id,
        at=claim.claimed_at,
        tree=gating.tree,
        base=claim.base,
    )


def _diff(context: Context) -> Result:
    task, _ = find_task(context, context.arguments.task)
    submission = require_shown_work(task, task.submission or _held_submission(task))
    change = submitted_change(context.opened_ledger, task, submission, context.arguments.path)
    data = {
        "task_id": task.id,
        "title": task.title,
        "status": task.status.value,
        "author": submission.agent,
        "commit": submission.commit,
        "base": change.since,
        "since": change.since,
        "paths": list(change.paths),
        "diff": change.text,
        "is_cut": change.is_cut,
        "event_files": change.event_files,
        "control": change.control,
        "cut": msgspec.to_builtins(change.unshown),
    }
    more = "\n".join(["\nOmitted or shortened:", *render_omissions(change.unshown)]) if change.is_cut else ""
    head = f"{task.id} at {submission.commit[:12]} by {submission.agent}, since {change.since[:12]}\n"
    notes = "".join(f"{note}\n" for note in change.notes)
    return Result(data, f"{head}{notes}{change.text}{more}".rstrip())


DIFF_COMMANDS = {"review diff": CommandSpec(_diff_arguments, _diff)}


SOURCE = "reject-task"
_REVIEW_COLUMNS = ("task", "commit", "author", "since", "pr", "asked", "try", "nos", "title")


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="reviewer", default="", metavar="R", help="only what this reviewer may review"
    )


def _list_reviews(context: Context) -> Result:
    reviewer = _reviewer(context, context.arguments.reviewer) if context.arguments.reviewer else None
    with context.opened_ledger.store.read() as view:
        found = submissions_under_review(view, reviewer)
    held = held_work_for(context, reviewer or acting_member(context))
    named = [entry.task_id for entry in found if entry.pr]
    waits = waits_for_forge(context, *named) if named else {}
    rows = [
        msgspec.to_builtins(entry) | {"waits_for_forge": waits.get(entry.task_id), "held": []}
        for entry in found
    ]
    shown = _render_review_list(found, held)
    return Result([*rows, *(_held_row(context, work) for work in held)], shown)


def _render_review_list(
    found: list[SubmissionUnderReview], held: list[HeldWork]
) -> Callable[[Console], None] | str:
    """What awaits review in a table, and after it the work that the gates hold, with its commands."""
    blocks = "\n\n".join(map(render_held_work, held))
    if not found:
        return f"{HELD_HEADING}\n\n{blocks}" if held else "Nothing awaits review."

    def show(out: Console) -> None:
        table(_REVIEW_COLUMNS, list(map(_cells, found)), "")(out)
        for entry in found:
            for one in entry.not_counted:
                write_unwrapped(out, f"{entry.task_id}: {one_line(one.text, 600)}")
        if held:
            write_unwrapped(out, f"{HELD_HEADING}\n\n{blocks}")

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
    actor = context.opened_ledger.settings.rules().team.actor(name)
    require_reviewer(actor)
    return actor


def _cells(entry: SubmissionUnderReview) -> tuple[object, ...]:
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
    parser.add_argument("--from", dest="reviewer", required=True, metavar="R", help="the reviewer")


def _request(context: Context) -> Result:
    ask = c.RequestReview(task_id=context.arguments.task, reviewer=context.arguments.reviewer)
    task = context.ask(ask, context.actor()).task
    data = {"task_id": task.id, "status": task.status.value, "requested": list(task.requested)}
    return Result(data, f"{task.id} awaits a review by {', '.join(task.requested)}")


def _add_review_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--reviewer")
    parser.add_argument("--commit", required=True, metavar="SHA")


def _approve_arguments(parser: ArgumentParser) -> None:
    _add_review_arguments(parser)
    parser.add_argument(
        "--checked",
        action="append",
        default=[],
        metavar="'path:line: text'",
        help="a checked line and what is correct there; an agent's approval needs one",
    )


def _approve(context: Context) -> Result:
    options = context.arguments
    checked = tuple(parse_finding(context.text(text), is_blocking=False) for text in options.checked)
    ask = c.ApproveReview(task_id=options.task, commit=context.commit(options.commit), checked=checked)
    task = context.ask(ask, context.actor(option="reviewer")).task
    data = {"task_id": task.id, "status": task.status.value}
    return with_objections(context, task, data, f"{task.id} is {task.status}")


def _reject_arguments(parser: ArgumentParser) -> None:
    _add_review_arguments(parser)
    parser.add_argument("--finding", action="append", default=[], metavar="'path:line: text'", help="blocks")
    parser.add_argument("--suggestion", action="append", default=[], metavar="'path:line: text'")


def _reject(context: Context) -> Result:
    options = context.arguments
    findings = [parse_finding(context.text(text), is_blocking=True) for text in options.finding]
    findings += [parse_finding(context.text(text), is_blocking=False) for text in options.suggestion]
    ask = c.RejectReview(
        task_id=options.task, commit=context.commit(options.commit), findings=tuple(findings)
    )
    return _rejection_result(context, context.ask(ask, context.actor(option="reviewer")))


def _reject_task_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("text", help="what must be fixed, one finding per line (@file, -)")
    parser.add_argument("--reviewer")


def _reject_task(context: Context) -> Result:
    """Rejects the latest submission; what it was is looked up, since the reviewer names the task alone."""
    options = context.arguments
    findings = parse_findings(context.text(options.text))
    task, _ = find_task(context, options.task)
    commit = require_awaiting_review(task).commit
    ask = c.RejectReview(task_id=task.id, commit=commit, findings=findings, source=SOURCE)
    return _rejection_result(context, context.ask(ask, context.actor(option="reviewer")))


def _rejection_result(context: Context, answer: Acceptance) -> Result:
    """What came of a rejection: who is locked out, who takes over, or what the user is asked."""
    task = answer.task
    passed_on = next((event for event in answer.events if isinstance(event, TaskReassigned)), None)
    data: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status.value,
        "rejection_count": task.rejection_count,
        "locked_out": [lockout.agent for lockout in task.active_lockouts],
        "reassigned_to": passed_on.target if passed_on else None,
    }
    if task.open_escalation:
        data["escalation_id"] = task.open_escalation.id
    return Result(data, "\n".join(_rejection_lines(context, answer, passed_on)))


def _rejection_lines(context: Context, answer: Acceptance, passed_on: TaskReassigned | None) -> list[str]:
    task = answer.task
    rows = [f"{task.id} is {task.status}: rejection #{task.rejection_count}"]
    rows += [
        f"{event.agent} is locked out of {task.label}: {one_line(event.reason, 200)}"
        for event in answer.events
        if isinstance(event, LockoutSet)
    ]
    if passed_on:
        last = "; it is the last eligible agent" if passed_on.is_last else ""
        rows.append(f"{passed_on.target} takes over ({one_line(passed_on.reason, 200)}){last}")
    if task.open_escalation:
        rows.append(f"{task.open_escalation.id} waits for the user: {escalation_question(context, task)}")
    return rows


def escalation_question(context: Context, task: Task) -> str:
    """What an escalated task asks the user."""
    with context.opened_ledger.store.read() as view:
        return question_text(task, answer_options(view, context.opened_ledger.settings.rules().team, task))


def _retract_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--reviewer")
    parser.add_argument("--reason", required=True, metavar="TEXT")
    parser.add_argument(
        "--review", default="", metavar="ID", help="the rejection; default: the latest in force"
    )


def _retract(context: Context) -> Result:
    options = context.arguments
    ask = c.RetractReview(task_id=options.task, reason=context.text(options.reason), review_id=options.review)
    answer = context.ask(ask, context.actor(option="reviewer"))
    task = answer.task
    retracted = next(event for event in answer.events if isinstance(event, ReviewRetracted))
    locked = [lockout.agent for lockout in task.active_lockouts]
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "review_id": retracted.review_id,
        "rejection_count": task.rejection_count,
        "locked_out": locked,
    }
    text = f"{retracted.review_id} is retracted; {task.id} is {task.status}, rejected {task.rejection_count} times"
    return Result(data, f"{text}; locked out: {', '.join(locked) or 'nobody'}")


REVIEW_COMMANDS = {
    "review list": CommandSpec(_list_arguments, _list_reviews),
    "review request": CommandSpec(_request_arguments, _request),
    "review approve": CommandSpec(_approve_arguments, _approve),
    "review reject": CommandSpec(_reject_arguments, _reject),
    "review retract": CommandSpec(_retract_arguments, _retract),
    "reject-task": CommandSpec(_reject_task_arguments, _reject_task),
}


def _reassign_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--to", required=True, metavar="AGENT")
    parser.add_argument(
        "--from", dest="source", default="", metavar="AGENT", help="the agent that had it; its lockout stays"
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
    passed_on = next((event for event in answer.events if isinstance(event, TaskReassigned)), None)
    reserved = next((event for event in answer.events if isinstance(event, HandoffInitiated)), None)
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
        return Result(data, f"{target} already has {task.label}")
    last = "; it is the last eligible agent" if passed_on.is_last else ""
    return Result(data, f"{target} takes over {task.label}{last}")


def _escalate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="what the user should know (@file, -)"
    )
    parser.add_argument("--agent", help="the agent that holds the task, if it asks itself")


def _escalate(context: Context) -> Result:
    options = context.arguments
    ask = c.EscalateTask(task_id=options.task, reason=context.text(options.reason))
    task = context.ask(ask, context.actor(option="agent")).task
    escalation_id = task.open_escalation.id if task.open_escalation else None
    text = escalation_question(context, task)
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "escalation_id": escalation_id,
        "question": text,
    }
    return Result(data, f"{task.id} is {task.status}; {escalation_id} waits for the user: {text}")


REASSIGNMENT_COMMANDS = {
    "reassign": CommandSpec(_reassign_arguments, _reassign),
    "escalate": CommandSpec(_escalate_arguments, _escalate),
}


_LOCKOUT_COLUMNS = ("task", "agent", "by", "since", "reason")


def _list_lockouts(context: Context) -> Result:
    with context.opened_ledger.store.read() as view:
        rows = active_lockouts(view)
    cells = [(row.label, row.agent, row.reviewer, row.since[:19], row.reason) for row in rows]
    return Result(msgspec.to_builtins(rows), table(_LOCKOUT_COLUMNS, cells, "Nobody is locked out."))


def _unlock_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("agent")
    parser.add_argument("--task", required=True, metavar="TASK")
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="the reason, which is recorded (@file, -)"
    )
    parser.add_argument("--guidance", metavar="TEXT", help="guidance for the agent (@file, -)")


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
    cleared = next((event for event in answer.events if isinstance(event, LockoutCleared)), None)
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
    team = context.opened_ledger.settings.rules().team
    with context.opened_ledger.store.read() as view:
        agent = People(view, team).recorded_name(options.agent)
        found = explain_lockouts(view, team, agent, task_id)
    text = "\n".join(one.why for one in found) or f"{agent} is not locked out of any task."
    data = {
        "agent": agent,
        "locked_out": any(one.is_locked_out for one in found),
        "why": text,
        "tasks": msgspec.to_builtins(found),
    }
    return Result(data, text)


COMMANDS = {
    **DIFF_COMMANDS,
    **REVIEW_COMMANDS,
    **REASSIGNMENT_COMMANDS,
    "lockout list": CommandSpec(add_no_arguments, _list_lockouts),
    "unlock": CommandSpec(_unlock_arguments, _unlock),
    "why": CommandSpec(_why_arguments, _why),
}
