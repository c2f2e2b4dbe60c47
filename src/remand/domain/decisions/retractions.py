"""What may be undone: an own answer that nobody acted on, and an own cancellation on which nothing rests."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.events.event import Events
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.events.tasks import TaskReopened
from remand.domain.facts import UndoFacts
from remand.domain.refusals import Refused
from remand.domain.task import Task


def retract_answer(task: Task, command: c.RetractAnswer, context: c.CommandContext) -> Events:
    """Takes back the last answer, by who gave it, as long as nothing rests on it."""
    r.require_text("reason", command.reason)
    found = context.facts.undo.answer
    if found is None:
        raise Refused(
            "nothing_to_retract",
            f"No answer about {task.label} can be taken back: none was given, or somebody has acted on it since.",
        )
    if found.by != context.actor.name:
        raise Refused("not_yours", f"That answer is {found.by}'s; {context.actor.name} cannot take it back.")
    if found.changed:
        names = ", ".join(found.changed[:3])
        raise Refused("too_late", f"The answer also changed {names}, and cannot be taken back alone.")
    _require_no_dependents(task, context.facts.undo)
    return (
        AnswerRetracted(task_id=task.id, answer=found.id, option=found.option[:200], reason=command.reason),
    )


def reopen_cancelled(task: Task, command: c.ReopenTask, context: c.CommandContext) -> TaskReopened:
    """Reopens a cancelled task, by who cancelled it or the user, as long as nothing rests on its end."""
    found, actor = context.facts.undo.cancellation, context.actor
    if found is None or task.links.children:
        raise Refused(
            "bad_transition",
            f"Task {task.id} is cancelled and cannot be reopened: other tasks took its place.",
        )
    if found.by != actor.name and not actor.is_user:
        raise Refused(
            "not_yours", f"{found.by} cancelled task {task.id}; {actor.name} cannot reopen it, the user can."
        )
    if found.has_forge_action:
        raise Refused("too_late", f"The end of task {task.id} was already told on the forge.")
    _require_no_dependents(task, context.facts.undo)
    return TaskReopened(
        task_id=task.id, reason=command.reason, undoes=found.id, to_review=found.was_under_review
    )


def _require_no_dependents(task: Task, facts: UndoFacts) -> None:
    if facts.dependents:
        names = ", ".join(facts.dependents[:3])
        raise Refused("too_late", f"Task {task.id} has ended, and {names} went on because of that.")
