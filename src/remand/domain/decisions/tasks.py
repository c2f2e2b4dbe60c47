"""Decisions on tasks: adding, editing, deferring, cancelling, reopening, automatic changes, and undo."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.decisions import escalations, forge_actions
from remand.domain.decisions.notices import ask_user
from remand.domain.events import tasks as task_events
from remand.domain.events.event import Events
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.events.tasks import TaskReopened
from remand.domain.facts import UndoFacts, update_facts
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Status, Task


def retract_answer(task: Task, command: c.RetractAnswer, context: c.CommandContext) -> Events:
    """Retracts the last answer by the person who gave it, while nothing depends on it."""
    r.require_text("reason", command.reason)
    decision = context.facts.undo.answer
    if decision is None:
        raise Refused(
            "nothing_to_retract",
            f"No answer about {task.label} can be retracted: none was given, or somebody has acted on it since.",
        )
    if decision.by != context.actor.name:
        raise Refused("not_yours", f"That answer is {decision.by}'s; {context.actor.name} cannot retract it.")
    if decision.changed:
        names = ", ".join(decision.changed[:3])
        raise Refused("too_late", f"The answer also changed {names}, and cannot be retracted alone.")
    _require_no_dependents(task, context.facts.undo)
    return (
        AnswerRetracted(
            task_id=task.id, answer=decision.id, option=decision.option[:200], reason=command.reason
        ),
    )


def reopen_cancelled(task: Task, command: c.ReopenTask, context: c.CommandContext) -> TaskReopened:
    """Reopens a cancelled task by whoever cancelled it or the user, while nothing depends on its end."""
    decision, actor = context.facts.undo.cancellation, context.actor
    if decision is None or task.links.children:
        raise Refused(
            "bad_transition",
            f"Task {task.id} is cancelled and cannot be reopened: other tasks replaced it.",
        )
    if decision.by != actor.name and not actor.is_user:
        raise Refused(
            "not_yours",
            f"{decision.by} cancelled task {task.id}; {actor.name} cannot reopen it, the user can.",
        )
    if decision.has_forge_action:
        raise Refused("too_late", f"The end of task {task.id} was already reported on the forge.")
    _require_no_dependents(task, context.facts.undo)
    return TaskReopened(
        task_id=task.id, reason=command.reason, undoes=decision.id, to_review=decision.was_under_review
    )


def _require_no_dependents(task: Task, facts: UndoFacts) -> None:
    if facts.dependents:
        names = ", ".join(facts.dependents[:3])
        raise Refused("too_late", f"Task {task.id} has ended, and {names} continued because of that.")


def add_task(task: Task | None, command: c.AddTask, context: c.CommandContext) -> Events:
    facts = context.facts
    if task is not None:
        raise Refused("taken", f"Task {task.id} already exists.")
    r.require_own_task_id(command, context.actor)
    r.require_text("title", command.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", command.scope), ("category", command.category)):
        r.require_text(name, value)
    r.require_branch(command.branch)
    r.require_skills(command.skills)
    r.require_must_pass(command.must_pass)
    r.require_priority(command.priority)
    r.require_aliases(command.aliases, facts)
    r.require_known_tasks(facts)
    node = ids.task_node_id(ids.parse_task_id(command.own_id) or facts.fresh.task_id)
    added = task_events.TaskAdded(
        id=node,
        type="TASK",
        data=task_events.TaskData(
            title=command.title,
            description=command.scope,
            status="pending",
            priority=command.priority,
            category=command.category,
            skills=_sorted_unique(command.skills),
            branch=command.branch,
            aliases=_sorted_unique(command.aliases),
            must_pass=_unique(command.must_pass) or UNSET,
        ),
    )
    return (added, *(_dependency(node, on) for on in _unique(command.depends_on)))


def import_issue(task: Task | None, command: c.ImportIssue, context: c.CommandContext) -> Events:
    """The task of an issue, with an id that is the same in every ledger."""
    forge_actions.require_issue(command, context)
    own = update_facts(context.facts, task_id=forge_actions.issue_task_id(command))
    added = add_task(task, command, replace(context, facts=own))
    return (*added, forge_actions.make_issue_import(command, own.fresh.task_id))


def _dependency(node: str, on: str) -> task_events.EdgeCreated:
    return task_events.EdgeCreated(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")


def edit_task(task: Task, command: c.EditTask, context: c.CommandContext) -> Events:
    r.require_disinterested(task, context.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status} and cannot be edited.")
    if command.title is not None:
        r.require_text("title", command.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", command.scope), ("category", command.category)):
        r.require_text(name, value or "")
    r.require_branch(command.branch or "")
    if command.priority is not None:
        r.require_priority(command.priority)
    r.require_skills(command.skills or ())
    r.require_number("pull request number", command.pr or 0)
    r.require_own_pull_request(command.pr or 0, context.facts)
    r.require_aliases(command.aliases or (), context.facts)
    r.require_known_tasks(context.facts)
    r.require_no_cycle(context.facts)
    changes = task_events.TaskChanges(
        title=command.title,
        description=command.scope,
        priority=command.priority,
        category=command.category,
        skills=None if command.skills is None else _sorted_unique(command.skills),
        branch=command.branch,
        aliases=None if command.aliases is None else _sorted_unique(command.aliases),
        pr=command.pr,
    )
    node = ids.task_node_id(task.id)
    edited = (
        (task_events.TaskEdited(id=node, changes=changes),) if changes != task_events.TaskChanges() else ()
    )
    linked = tuple(
        _dependency(node, on) for on in _unique(command.depends_on) if on not in task.links.depends_on
    )
    dropped = tuple(
        task_events.EdgeDeleted(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")
        for on in _unique(command.drop_depends_on)
        if on in task.links.depends_on
    )
    return (*edited, *linked, *dropped)


def check_staff(task: Task, command: c.CheckStaff, context: c.CommandContext) -> Events:
    """The question to the user if nobody can take a waiting task, or an agent gave it up."""
    if task.status is Status.FAILED:
        who = task.rejections.invalid_by[-1] if task.rejections.invalid_by else "Its agent"
        return (
            ask_user(task, "given_up", f"{who} gave up {task.label} without a justified rejection", context),
        )
    return escalations.deadlock_question(task, context) if task.status in CLAIMABLE else ()


def cancel_task(task: Task, command: c.CancelTask, context: c.CommandContext) -> Events:
    r.require_disinterested(task, context.actor)
    r.require_status(task, "task.cancel", "cancelled")
    r.require_text("reason", command.reason)
    answered = escalations.answer_by_command(task, escalations.WONTFIX, context)
    return (*answered, task_events.TaskCancelled(task_id=task.id, reason=command.reason))


def reopen_task(task: Task, command: c.ReopenTask, context: c.CommandContext) -> Events:
    r.require_disinterested(task, context.actor)
    r.require_text("reason", command.reason)
    if task.status is Status.CANCELLED:
        reopened = reopen_cancelled(task, command, context)
        waits = replace(task, status=Status.PROVISIONAL if reopened.to_review else task.queue)
        return (reopened, *(() if reopened.to_review else escalations.deadlock_question(waits, context)))
    r.require_status(task, "task.reopen", "reopened")
    answered = escalations.answer_by_command(task, escalations.REOPEN, context)
    if answered:
        escalations.require_agent_left(task, context)
        return answered
    return (
        task_events.TaskReopened(task_id=task.id, reason=command.reason),
        *escalations.deadlock_question(task, context),
    )


def defer_task(task: Task, command: c.DeferTask, context: c.CommandContext) -> Events:
    r.require_disinterested(task, context.actor)
    r.require_status(task, "task.defer", "deferred")
    r.require_known_tasks(context.facts)
    r.require_no_cycle(context.facts)
    r.require_text("reason", command.reason)
    if not context.facts.links.open_blockers:
        raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
    return (
        task_events.TaskDeferred(
            task_id=task.id, waits_for=_unique(command.waits_for), reason=command.reason
        ),
    )


def wake_task(task: Task, command: c.WakeTask, context: c.CommandContext) -> Events:
    if task.status != Status.DEFERRED or context.facts.links.open_blockers:
        return ()
    return (task_events.TaskWoken(task_id=task.id, because=task.links.waits_for),)


def settle_task(task: Task, command: c.SettleTask, context: c.CommandContext) -> Events:
    statuses = context.facts.links.child_statuses
    if task.status != Status.DECOMPOSED or not all(status in TERMINAL for status in statuses):
        return ()
    if context.facts.missing:
        return ()
    status = Status.DONE if Status.DONE in statuses else Status.CANCELLED
    return (task_events.TaskSettled(task_id=task.id, status=status),)


def _sorted_unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
