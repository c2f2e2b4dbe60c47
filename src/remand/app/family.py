"""Which task was cut from which, and whose lockouts go along."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from remand.domain.task import Task
from remand.ledger.store import Transaction


def people(task: Task) -> Iterator[str]:
    """Everyone who has a part in a task: first those kept away, then those who had a part in its work."""
    yield from (lockout.agent for lockout in task.lockouts)
    yield from (task.claim.agent,) if task.claim else ()
    yield from (offer.target for offer in task.offers)
    yield from (*task.holders, *task.authors, *task.reviewers, *task.gating.questioned, task.fixer)
    yield from (task.filed.agent,) if task.filed else ()
    yield from (*task.requested, *task.unlocked, *task.invalid_by, *task.accepted_by, task.created_by)


class Family:
    """The tasks above a task and below it."""

    def __init__(self, tx: Transaction, get: Callable[[str], Task | None] | None = None) -> None:
        self._get = get or tx.tasks.get

    def above(self, task: Task) -> Iterator[Task]:
        """The tasks that this one was cut from, the nearest first."""
        seen = {task.id}
        while task.parent and task.parent not in seen:
            seen.add(task.parent)
            found = self._get(task.parent)
            if found is None:
                return
            task = found
            yield task

    def inherited(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Who is locked out of a task above this one, and of which."""
        return tuple(
            (lockout.agent, above.id) for above in self.above(task) for lockout in above.inheritable_lockouts
        )

    def names(self, task: Task) -> Iterator[str]:
        """Every name by which somebody is known on a task: first of those kept away, then of who had a part in it."""
        yield from (lockout.agent for lockout in task.lockouts)
        yield from (agent for agent, _ in self.inherited(task) if task.parent)
        yield from people(task)

    def heirs(self, task: Task) -> tuple[tuple[str, str], ...]:
        """The tasks below this one, each with every agent that is locked out there because it is here."""
        found: list[tuple[str, str]] = []
        waiting = [(task, {lockout.agent for lockout in task.lockouts})]
        seen = {task.id}
        while waiting:
            one, agents = waiting.pop()
            for heir in self._cut_from(one, seen):
                same = {
                    lockout.agent: all(cause.inherited_from == one.id for cause in lockout.causes)
                    for lockout in heir.lockouts
                    if lockout.agent in agents
                    and any(cause.inherited_from == one.id for cause in lockout.causes)
                }
                found += [(heir.id, agent) for agent in sorted(same)]
                waiting.append(
                    (heir, {agent for agent, is_only_from_here in same.items() if is_only_from_here})
                )
        return tuple(found)

    def _cut_from(self, task: Task, seen: set[str]) -> Iterator[Task]:
        for name in (*task.children, task.superseded_by):
            found = self._get(name) if name and name not in seen else None
            if found is not None:
                seen.add(name)
                yield found
