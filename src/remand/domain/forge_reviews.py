"""What is kept of a forge's reviews besides rejections and approvals: comments, what does not count, and merges."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import rules as r
from remand.domain.questions import opened
from remand.domain.refusals import Refused
from remand.domain.reviews import MAX_SOURCE, require_findings, require_no_part, within_scope
from remand.domain.task import TERMINAL, Status, Task

Events = tuple[e.Event, ...]
MAX_COMMENTS = 1000
"""How many comments of a forge are handed on with one rejection."""


def add_comments(task: Task, ask: c.AddComments, command: c.Command) -> Events:
    """Adds a reviewer's comments to the rejection of the work that they are about; each comment once.

    They open no rejection and count for none: whoever works on the task has to read them before handing it in.
    """
    r.require_text("source", ask.source, MAX_SOURCE)
    require_findings(ask.findings)
    known = task.sent_back(ask.handoff_id, ask.tree)
    if known is None or task.status in TERMINAL:
        raise Refused("nothing_to_review", f"No rejection of task {task.id} stands that these belong to.")
    require_no_part(task, command.actor, command.facts)
    told = {name for one in task.standing_rounds for name in one.comments}
    fresh = tuple(finding for finding in ask.findings if finding.comment and finding.comment not in told)
    fresh = fresh[: max(MAX_COMMENTS - len(known.comments), 0)]
    if not fresh:
        return ()
    return (
        e.ReviewCommented(
            task_id=task.id,
            reviewer=command.actor.name,
            commit=known.commit,
            tree=known.tree,
            handoff_id=known.handoff_id,
            findings=within_scope(fresh, command.actor),
            source=ask.source,
        ),
    )


def note(task: Task, ask: c.NoteReview, command: c.Command) -> Events:
    """Keeps a review that cannot count, once."""
    if task.has_taken_in(ask.source):
        return ()
    return (
        e.ReviewNoted(
            task_id=task.id,
            reviewer=ask.reviewer,
            commit=ask.commit,
            why=ask.why,
            findings=ask.findings,
            source=ask.source,
        ),
    )


def note_merge(task: Task, ask: c.NoteMerge, command: c.Command) -> Events:
    """Keeps that work was merged past the rules, and tells the user."""
    if task.has_taken_in(ask.source):
        return ()
    bypassed = e.ReviewBypassed(task_id=task.id, by=ask.by, commit=ask.commit, why=ask.why, source=ask.source)
    if task.status in TERMINAL or task.status in (Status.ESCALATED, Status.DECOMPOSED):
        return (bypassed,)
    why = f"{ask.by} merged {ask.commit[:12]} of {task.label} although {ask.why}"
    return (bypassed, opened(task, "bypassed", why, command))
