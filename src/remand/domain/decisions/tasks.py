"""What may be decided about a task itself: to add, edit, defer, cancel or reopen it, and what follows by itself."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.decisions import escalations, forge_actions
from remand.domain.decisions.notices import ask_user
from remand.domain.events.event import Events
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    TaskAdded,
    TaskCancelled,
    TaskChanges,
    TaskData,
    TaskDeferred,
    TaskEdited,
    TaskReopened,
    TaskSettled,
    TaskWoken,
)
from remand.domain.facts import update_facts
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Status, Task


def add_task(task: Task | None, ask: c.AddTask, command: c.Command) -> Events:
    facts = command.facts
    if task is not None:
        raise Refused("taken", f"Task {task.id} already exists.")
    r.require_own_task_id(ask, command.actor)
    r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category)):
        r.require_text(name, value)
    r.require_branch(ask.branch)
    r.require_skills(ask.skills)
    r.require_priority(ask.priority)
    r.require_aliases(ask.aliases, facts)
    r.require_known_tasks(facts)
    node = ids.task_node_id(ids.parse_task_id(ask.own_id) or facts.fresh.task_id)
    added = TaskAdded(
        id=node,
        type="TASK",
        data=TaskData(
            title=ask.title,
            description=ask.scope,
            status="pending",
            priority=ask.priority,
            category=ask.category,
            skills=_sorted_unique(ask.skills),
            branch=ask.branch,
            aliases=_sorted_unique(ask.aliases),
        ),
    )
    return (added, *(_dependency(node, on) for on in _unique(ask.depends_on)))


def import_issue(task: Task | None, ask: c.ImportIssue, command: c.Command) -> Events:
    """The task of an issue, under an id that is the same in every ledger."""
    forge_actions.require_issue(ask, command)
    own = update_facts(command.facts, task_id=forge_actions.issue_task_id(ask))
    added = add_task(task, ask, replace(command, facts=own))
    return (*added, forge_actions.make_issue_import(ask, own.fresh.task_id))


def _dependency(node: str, on: str) -> EdgeCreated:
    return EdgeCreated(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")


def edit_task(task: Task, ask: c.EditTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status} and cannot be edited.")
    if ask.title is not None:
        r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category)):
        r.require_text(name, value or "")
    r.require_branch(ask.branch or "")
    if ask.priority is not None:
        r.require_priority(ask.priority)
    r.require_skills(ask.skills or ())
    r.require_number("pull request number", ask.pr or 0)
    r.require_own_pull_request(ask.pr or 0, command.facts)
    r.require_aliases(ask.aliases or (), command.facts)
    r.require_known_tasks(command.facts)
    r.require_no_cycle(command.facts)
    changes = TaskChanges(
        title=ask.title,
        description=ask.scope,
        priority=ask.priority,
        category=ask.category,
        skills=None if ask.skills is None else _sorted_unique(ask.skills),
        branch=ask.branch,
        aliases=None if ask.aliases is None else _sorted_unique(ask.aliases),
        pr=ask.pr,
    )
    node = ids.task_node_id(task.id)
    edited = (TaskEdited(id=node, changes=changes),) if changes != TaskChanges() else ()
    linked = tuple(_dependency(node, on) for on in _unique(ask.depends_on) if on not in task.links.depends_on)
    dropped = tuple(
        EdgeDeleted(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")
        for on in _unique(ask.drop_depends_on)
        if on in task.links.depends_on
    )
    return (*edited, *linked, *dropped)


def check_staff(task: Task, ask: c.CheckStaff, command: c.Command) -> Events:
    """The question to the user, should nobody be left for a task that waits, or an agent have given it up."""
    if task.status is Status.FAILED:
        who = task.rejections.invalid_by[-1] if task.rejections.invalid_by else "Its agent"
        return (
            ask_user(task, "given_up", f"{who} gave up {task.label} without a justified rejection", command),
        )
    return escalations.deadlock_question(task, command) if task.status in CLAIMABLE else ()


def cancel_task(task: Task, ask: c.CancelTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.cancel", "cancelled")
    r.require_text("reason", ask.reason)
    answered = escalations.answer_by_command(task, escalations.WONTFIX, command)
    return (*answered, TaskCancelled(task_id=task.id, reason=ask.reason))


def reopen_task(task: Task, ask: c.ReopenTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.reopen", "reopened")
    r.require_text("reason", ask.reason)
    answered = escalations.answer_by_command(task, escalations.REOPEN, command)
    if answered:
        escalations.require_agent_left(task, command)
        return answered
    return (TaskReopened(task_id=task.id, reason=ask.reason), *escalations.deadlock_question(task, command))


def defer_task(task: Task, ask: c.DeferTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.defer", "deferred")
    r.require_known_tasks(command.facts)
    r.require_no_cycle(command.facts)
    r.require_text("reason", ask.reason)
    if not command.facts.links.open_blockers:
        raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
    return (TaskDeferred(task_id=task.id, waits_for=_unique(ask.waits_for), reason=ask.reason),)


def wake_task(task: Task, ask: c.WakeTask, command: c.Command) -> Events:
    if task.status != Status.DEFERRED or command.facts.links.open_blockers:
        return ()
    return (TaskWoken(task_id=task.id, because=task.links.waits_for),)


def settle_task(task: Task, ask: c.SettleTask, command: c.Command) -> Events:
    statuses = command.facts.links.child_statuses
    if task.status != Status.DECOMPOSED or not all(status in TERMINAL for status in statuses):
        return ()
    if command.facts.missing:
        return ()
    status = Status.DONE if Status.DONE in statuses else Status.CANCELLED
    return (TaskSettled(task_id=task.id, status=status),)


def _sorted_unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
