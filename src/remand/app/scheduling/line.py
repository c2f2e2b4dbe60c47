"""The tasks that may be begun now, in their order, as far as somebody for them is looked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from remand.app.ready import pool, suits
from remand.domain.roles import Actor
from remand.domain.task import Task

LOOKED_THROUGH = 500
"""How far down the line a task for somebody is looked for."""


class Line:
    """Gives each task once. What was read for one agent is not read again for the next."""

    def __init__(self, tasks: Iterator[Task], most: int = LOOKED_THROUGH) -> None:
        self._all = tasks
        self._rest = islice(tasks, most)
        self._passed: list[tuple[str, Task]] = []

    def take(self, agent: Actor, *, has_team: bool) -> Task | None:
        """The first task that suits an agent; None when there is none among those that are looked through."""
        for one in self._in_order():
            if suits(one[0], agent, has_team):
                self._passed.remove(one)
                return one[1]
        return None

    @property
    def is_empty(self) -> bool:
        """True when there is nothing left to be given."""
        if not self._passed:
            next(self._in_order(), None)
        return not self._passed and not self.is_longer

    @cached_property
    def is_longer(self) -> bool:
        """True when there are tasks beyond those that were looked through. To be asked in the end."""
        return next(self._all, None) is not None

    def _in_order(self) -> Iterator[tuple[str, Task]]:
        yield from tuple(self._passed)
        for task in self._rest:
            self._passed.append((pool(task), task))
            yield self._passed[-1]
