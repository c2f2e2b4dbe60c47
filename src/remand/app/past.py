"""The tasks as they were at one moment of the ledger's history."""

from __future__ import annotations

from remand.app.named import described
from remand.domain import events as e
from remand.domain import ids
from remand.domain.evolve import evolve
from remand.domain.rejection import TaskRejection
from remand.domain.task import Task
from remand.domain.validation.mentions import mentions
from remand.domain.validation.world import Graded, Named, World

MAX_NAMED = 200


class Past:
    """Folds events in their order, and answers what a rule could have known by then."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._aliases: dict[str, str] = {}

    def task(self, name: str) -> Task | None:
        """A task by its id or alias."""
        bare = ids.task_id(name)
        return self._tasks.get(bare) if bare in self._tasks else self._tasks.get(self._aliases.get(name, ""))

    def follow(self, event: e.Event) -> bool:
        """Takes the next event into account; False when it could not apply to its task."""
        name = e.subject(event)
        before = self._tasks.get(name)
        after = evolve(before, event) if name else None
        if after is None:
            return False
        self._tasks[name] = after
        for alias in after.aliases:
            self._aliases.setdefault(alias, name)
        return before is None or after.conflicts == before.conflicts

    def world(self, record: TaskRejection, task: Task, graded: tuple[Graded, ...]) -> World:
        """What the ledger knew of the tasks that a rejection names, with the evidence as it was graded then."""
        found = (self._named(name, task) for name in mentions(record)[:MAX_NAMED])
        return World(named=tuple(named for named in found if named is not None), graded=graded)

    def _named(self, name: str, task: Task) -> Named | None:
        known = self.task(name)
        is_behind = known is not None and self._leads_to(known, task.id)
        return described(name, known, task, is_descendant=is_behind)

    def _leads_to(self, other: Task, target: str) -> bool:
        """True when the other task waits for the target or was cut from it, directly or by way of others."""
        seen: set[str] = set()
        ahead = [other.parent, *other.blockers]
        while ahead:
            name = ahead.pop()
            if name == target:
                return True
            task = self._tasks.get(name)
            if task is not None and name not in seen:
                seen.add(name)
                ahead += [task.parent, *task.blockers]
        return False
