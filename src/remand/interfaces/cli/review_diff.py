"""What a submission changes, as its reviewer reads it."""

from __future__ import annotations

from argparse import ArgumentParser

import msgspec

from remand.bootstrap.patches import submitted_change
from remand.domain.holds import open_findings
from remand.domain.refusals import Refused
from remand.domain.reviewing.change import not_shown
from remand.domain.task import Submission, Task
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result
from remand.interfaces.cli.task_views import find_task


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--path", action="append", default=[], metavar="FILE", help="show that file alone")


def _held(task: Task) -> Submission | None:
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
    submission = task.submission or _held(task)
    if submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it was handed in.")
    change = submitted_change(context.opened, task, submission, context.arguments.path)
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
    more = "\n".join(["\nNot shown, or not in full:", *not_shown(change.unshown)]) if change.is_cut else ""
    head = f"{task.id} at {submission.commit[:12]} by {submission.agent}, since {change.since[:12]}\n"
    notes = "".join(f"{note}\n" for note in change.notes)
    return Result(data, f"{head}{notes}{change.text}{more}".rstrip())


COMMANDS = {"review diff": Command(_arguments, _diff)}
