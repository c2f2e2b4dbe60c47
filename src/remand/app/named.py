"""What the judge of a rejection is told of a task that it names."""

from __future__ import annotations

from remand.app.words import are_related
from remand.domain import ids
from remand.domain.task import Status, Task
from remand.domain.validation.world import Named


def described(name: str, known: Task | None, task: Task, *, is_descendant: bool = False) -> Named | None:
    """A task that a rejection names; None for what is no task's name, such as a decision."""
    if known is None:
        return Named(name=name) if ids.task_id(name) or ids.is_alias(name) else None
    return Named(
        name=name,
        task_id=known.id,
        title=known.title,
        status=str(known.status),
        is_self=known.id == task.id,
        is_descendant=is_descendant,
        is_open=not known.is_terminal,
        created_by=known.created_by,
        is_related=are_related(
            f"{task.title}\n{task.scope}",
            f"{known.title}\n{known.scope}",
            is_lenient=known.status == Status.DONE,
        ),
    )
