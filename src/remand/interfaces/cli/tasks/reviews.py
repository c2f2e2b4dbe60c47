"""Commands of reviewers, and the consequences of reviews: lockouts, reassignments and escalations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.history.rejections import active_lockouts, explain_lockouts
from remand.app.history.task_history import asserted_actors as asserted_names
from remand.app.history.task_history import submissions_under_review
from remand.app.inbox.held_findings import HeldWork
from remand.app.inbox.questions import answer_options, question_text
from remand.app.requests import Acceptance
from remand.app.tasks.lookup import People
from remand.domain import commands as c
from remand.domain.decisions.findings import open_findings
from remand.domain.decisions.reviews import require_awaiting_review, require_shown_work
from remand.domain.events.reviews import LockoutCleared, LockoutSet, ReviewRetracted, TaskReassigned
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.preconditions import require_reviewer
from remand.domain.reviewer import parse_finding, parse_findings, render_omissions
from remand.domain.task import Submission, Task
from remand.domain.text.words import format_count
from remand.interfaces.cli.context import PAGE, Context, argument, command
from remand.interfaces.cli.output import Result, one_line, table, write_unwrapped
from remand.interfaces.cli.tasks.changes import with_objections
from remand.interfaces.cli.tasks.verdicts import acting_member, held_work_for, render_held_work
from remand.interfaces.cli.tasks.views import HELD_HEADING, find_task, waits_for_forge
from remand.wiring.scheduler import submitted_changes

if TYPE_CHECKING:
    from rich.console import Console


@command(
    "review diff",
    argument("task"),
    argument("--path", action="append", default=[], metavar="FILE", help="show only this file"),
)
def _diff(context: Context) -> Result:
    task, _ = find_task(context, context.arguments.task)
    work, gating, claim = task.submission, task.gates, task.claim
    if work is None and claim is not None and open_findings(task):
        # Work that the gates hold is not submitted yet, and a reviewer has to see it as well.
        work = Submission(
            commit=gating.commit,
            agent=claim.agent,
            handoff_id=claim.handoff_id,
            at=claim.claimed_at,
            tree=gating.tree,
            base=claim.base,
        )
    submission = require_shown_work(task, work)
    change = submitted_changes(context.opened_ledger).submission_change(
        task, submission, context.arguments.path
    )
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


SOURCE = "reject-task"
_REVIEW_COLUMNS = ("task", "commit", "author", "since", "pr", "asked", "attempt", "rejections", "title")


@command(
    "review list",
    argument("--for", dest="reviewer", default="", metavar="R", help="only what this reviewer may review"),
    *PAGE,
)
def _list_reviews(context: Context) -> Result:
    reviewer = None
    if context.arguments.reviewer:
        reviewer = context.opened_ledger.settings.rules().team.actor(context.arguments.reviewer)
        require_reviewer(reviewer)
    with context.opened_ledger.store.read() as view:
        submissions = submissions_under_review(view, reviewer)
    held_works = held_work_for(context, reviewer or acting_member(context))
    named = [entry.task_id for entry in submissions if entry.pr]
    waits = waits_for_forge(context, *named) if named else {}
    rows = [
        msgspec.to_builtins(entry) | {"waits_for_forge": waits.get(entry.task_id), "held": []}
        for entry in submissions
    ]
    rows += [_held_row(context, work) for work in held_works]
    blocks = f"{HELD_HEADING}\n\n" + "\n\n".join(map(render_held_work, held_works)) if held_works else ""
    if not submissions:
        return Result(rows, blocks or "Nothing awaits review.")

    def show(out: Console) -> None:
        cells = [
            (
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
            for entry in submissions
        ]
        table(_REVIEW_COLUMNS, cells, "", limit=context.row_limit)(out)
        for entry in submissions:
            for review in entry.not_counted:
                write_unwrapped(out, f"{entry.task_id}: {one_line(review.text, 600)}")
        if blocks:
            write_unwrapped(out, blocks)

    return Result(rows, show)


def _held_row(context: Context, work: HeldWork) -> dict[str, Any]:
    """Held work as a row beside the submissions; `held` has an entry for each finding it waits for."""
    task, events = find_task(context, work.task_id)
    return {
        "task_id": work.task_id,
        "title": work.title,
        "commit": work.commit,
        "author": work.agent,
        "since": work.since,
        "branch": task.gates.branch or task.branch or None,
        "pr": task.gates.pr or task.pr or None,
        "requested": [],
        "attempt": task.claims.attempt_count,
        "rejection_count": task.reviews.rejection_count,
        "asserted": work.agent in asserted_names(events),
        "waits_for_forge": None,
        "held": msgspec.to_builtins(work.findings),
        "report": context.gates.report_path(work.report) or None if work.report else None,
    }


@command(
    "review request",
    argument("task"),
    argument("--from", dest="reviewer", required=True, metavar="R", help="the reviewer"),
)
def _request(context: Context) -> Result:
    request = c.RequestReview(task_id=context.arguments.task, reviewer=context.arguments.reviewer)
    task = context.ask(request, context.actor()).task
    data = {"task_id": task.id, "status": task.status.value, "requested": list(task.reviews.requested)}
    return Result(data, f"{task.id} awaits a review by {', '.join(task.reviews.requested)}")


_REVIEW = (argument("task"), argument("--reviewer"), argument("--commit", required=True, metavar="SHA"))


@command(
    "review approve",
    *_REVIEW,
    argument(
        "--checked",
        action="append",
        default=[],
        metavar="'path:line: text'",
        help="a checked line and what is correct there; an agent's approval needs one",
    ),
)
def _approve(context: Context) -> Result:
    options = context.arguments
    checked = tuple(parse_finding(context.text(text), is_blocking=False) for text in options.checked)
    request = c.ApproveReview(task_id=options.task, commit=context.commit(options.commit), checked=checked)
    task = context.ask(request, context.actor(option="reviewer")).task
    data = {"task_id": task.id, "status": task.status.value}
    return with_objections(context, task, data, f"{task.id} is {task.status}")


@command(
    "review reject",
    *_REVIEW,
    argument(
        "--finding", action="append", default=[], metavar="'path:line: text'", help="a finding that blocks"
    ),
    argument(
        "--suggestion",
        action="append",
        default=[],
        metavar="'path:line: text'",
        help="a finding that does not block; may be repeated",
    ),
)
def _reject(context: Context) -> Result:
    options = context.arguments
    findings = [parse_finding(context.text(text), is_blocking=True) for text in options.finding]
    findings += [parse_finding(context.text(text), is_blocking=False) for text in options.suggestion]
    request = c.RejectReview(
        task_id=options.task, commit=context.commit(options.commit), findings=tuple(findings)
    )
    return _rejection_result(context, context.ask(request, context.actor(option="reviewer")))


@command(
    "reject-task",
    argument("task"),
    argument("text", help="what must be fixed, one finding per line (@file, -)"),
    argument("--reviewer"),
)
def _reject_task(context: Context) -> Result:
    """Rejects the latest submission, which is looked up because the reviewer names only the task."""
    options = context.arguments
    findings = parse_findings(context.text(options.text))
    task, _ = find_task(context, options.task)
    commit = require_awaiting_review(task).commit
    request = c.RejectReview(task_id=task.id, commit=commit, findings=findings, source=SOURCE)
    return _rejection_result(context, context.ask(request, context.actor(option="reviewer")))


def _rejection_result(context: Context, answer: Acceptance) -> Result:
    """The result of a rejection: who is locked out, who takes over, or what the user is asked."""
    task = answer.task
    passed_on = next((event for event in answer.events if isinstance(event, TaskReassigned)), None)
    data: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status.value,
        "rejection_count": task.reviews.rejection_count,
        "locked_out": [lockout.agent for lockout in task.active_lockouts],
        "reassigned_to": passed_on.target if passed_on else None,
    }
    rows = [f"{task.id} is {task.status}: rejection #{task.reviews.rejection_count}"]
    rows += [
        f"{event.agent} is locked out of {task.label}: {one_line(event.reason, 200)}"
        for event in answer.events
        if isinstance(event, LockoutSet)
    ]
    if passed_on:
        last = "; it is the last eligible agent" if passed_on.is_last else ""
        rows.append(f"{passed_on.target} takes over ({one_line(passed_on.reason, 200)}){last}")
    if task.open_escalation:
        data["escalation_id"] = task.open_escalation.id
        rows.append(f"{task.open_escalation.id} waits for the user: {escalation_question(context, task)}")
    return Result(data, "\n".join(rows))


def escalation_question(context: Context, task: Task) -> str:
    """The question to the user about an escalated task."""
    with context.opened_ledger.store.read() as view:
        return question_text(task, answer_options(view, context.opened_ledger.settings.rules().team, task))


@command(
    "review retract",
    argument("task"),
    argument("--reviewer"),
    argument("--reason", required=True, metavar="TEXT"),
    argument("--review", default="", metavar="ID", help="the rejection; default: the latest in force"),
)
def _retract(context: Context) -> Result:
    options = context.arguments
    request = c.RetractReview(
        task_id=options.task, reason=context.text(options.reason), review_id=options.review
    )
    answer = context.ask(request, context.actor(option="reviewer"))
    task = answer.task
    retracted = next(event for event in answer.events if isinstance(event, ReviewRetracted))
    locked = [lockout.agent for lockout in task.active_lockouts]
    data = {
        "task_id": task.id,
        "status": task.status.value,
        "review_id": retracted.review_id,
        "rejection_count": task.reviews.rejection_count,
        "locked_out": locked,
    }
    text = f"{retracted.review_id} is retracted; {task.id} is {task.status}, rejected {format_count(task.reviews.rejection_count, 'time')}"
    return Result(data, f"{text}; locked out: {', '.join(locked) or 'nobody'}")


@command(
    "reassign",
    argument("task"),
    argument("--to", required=True, metavar="AGENT"),
    argument(
        "--from", dest="source", default="", metavar="AGENT", help="the agent that had it; its lockout stays"
    ),
    argument("--reason", default="", metavar="TEXT"),
)
def _reassign(context: Context) -> Result:
    options = context.arguments
    request = c.ReassignTask(
        task_id=options.task, target=options.to, source=options.source, reason=context.text(options.reason)
    )
    answer = context.ask(request, context.actor())
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


@command(
    "escalate",
    argument("task"),
    argument("--reason", required=True, metavar="TEXT", help="what the user should know (@file, -)"),
    argument("--agent", help="the agent that holds the task, if it asks itself"),
)
def _escalate(context: Context) -> Result:
    options = context.arguments
    request = c.EscalateTask(task_id=options.task, reason=context.text(options.reason))
    task = context.ask(request, context.actor(option="agent")).task
    escalation_id = task.open_escalation.id if task.open_escalation else None
    text = escalation_question(context, task)
    data = {"task_id": task.id, "status": task.status.value, "escalation_id": escalation_id, "question": text}
    return Result(data, f"{task.id} is {task.status}; {escalation_id} waits for the user: {text}")


_LOCKOUT_COLUMNS = ("task", "agent", "by", "since", "reason")


@command("lockout list", *PAGE)
def _list_lockouts(context: Context) -> Result:
    with context.opened_ledger.store.read() as view:
        rows = active_lockouts(view)
    cells = [(row.label, row.agent, row.reviewer, row.since[:19], row.reason) for row in rows]
    text = table(_LOCKOUT_COLUMNS, cells, "Nobody is locked out.", limit=context.row_limit)
    return Result(msgspec.to_builtins(rows), text)


@command(
    "unlock",
    argument("agent"),
    argument("--task", required=True, metavar="TASK"),
    argument("--reason", required=True, metavar="TEXT", help="the reason, which is recorded (@file, -)"),
    argument("--guidance", metavar="TEXT", help="guidance for the agent (@file, -)"),
)
def _unlock(context: Context) -> Result:
    options = context.arguments
    request = c.Unlock(
        task_id=options.task,
        agent=options.agent,
        reason=context.text(options.reason),
        guidance=context.text(options.guidance),
    )
    answer = context.ask(request, context.actor())
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


@command("why", argument("agent"), argument("--task", default="", metavar="TASK"))
def _why(context: Context) -> Result:
    options = context.arguments
    task_id = find_task(context, options.task)[0].id if options.task else ""
    team = context.opened_ledger.settings.rules().team
    with context.opened_ledger.store.read() as view:
        agent = People(view, team).recorded_name(options.agent)
        explanations = explain_lockouts(view, team, agent, task_id)
    text = "\n".join(one.why for one in explanations) or f"{agent} is not locked out of any task."
    data = {
        "agent": agent,
        "locked_out": any(one.is_locked_out for one in explanations),
        "why": text,
        "tasks": msgspec.to_builtins(explanations),
    }
    return Result(data, text)
