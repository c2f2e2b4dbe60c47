"""The question that a task puts to the user when it cannot go on by itself."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.instant import plus
from remand.domain.task import Task


def opened(task: Task, kind: str, reason: str, command: c.Command) -> e.EscalationOpened:
    """The question, with the time after which it is repeated."""
    deadline = plus(command.at, command.facts.deadline_seconds)
    return e.EscalationOpened(task_id=task.id, kind=kind, reason=reason, deadline=deadline)
