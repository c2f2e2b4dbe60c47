"""The ready queue of the embedded ledger, and who waits for whom."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_schema import Row, Statements, Table
from remand.app.tasks import queue
from remand.domain.access.team import Actor
from remand.domain.instant import Instant
from remand.domain.task import Status, Task

_LITTLE, _MUCH = 32, 512
"""How much of the head of the queue is read at first, and at most."""
_NEVER: Instant = "~"
"""Later than any time."""
decode_task = msgspec.json.Decoder(Task).decode


def read_tasks(statements: Statements, statement: str, values: Row = ()) -> list[Task]:
    """The tasks whose states a statement selects."""
    return [decode_task(row[0]) for row in statements.rows(statement, values)]


class SqliteDependencies(Table):
    """Who waits for whom, with positions (`app/tasks/queue.Waiting`)."""

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        return tuple(self._db.column(sql.OPEN_BLOCKERS, (task_id,)))

    def path(self, source: str, target: str) -> tuple[str, ...]:
        if source == target:
            return (source,)
        nodes = self.nodes((source, target))
        if len(nodes) < 2:
            return ()
        path = queue.dependency_path(self, nodes[source], nodes[target])
        names: dict[int, str] = dict(self._db.all(sql.NAMES_OF_NODES, (json.dumps(path),)))
        return tuple(names[node] for node in path)

    def nodes(self, tasks: Collection[str]) -> dict[str, int]:
        """The tasks' numbers in the graph, without tasks that neither wait nor are waited for."""
        return dict(self._db.all(sql.NODES, (json.dumps(tasks),)))

    def predecessors(self, task_id: str, most: int) -> list[Task]:
        return read_tasks(self._db, sql.LEADING_TO, (task_id, most))

    def positions(self, tasks: Collection[int]) -> Mapping[int, int]:
        """The tasks' positions."""
        return dict(self._db.all(sql.POSITIONS, (json.dumps(list(tasks)),)))

    def blockers(self, tasks: Collection[int]) -> list[Any]:
        """What the tasks wait for."""
        return self._db.all(sql.BLOCKERS_OF, (json.dumps(list(tasks)),))

    def waiters(self, tasks: Collection[int]) -> list[Any]:
        """What waits for the tasks."""
        return self._db.all(sql.WAITERS_OF, (json.dumps(list(tasks)),))

    def move(self, positions: Mapping[int, int]) -> None:
        self._db.run_many(sql.SET_POSITION, positions.items())


class SqliteQueue(Table):
    """The ready tasks, read from the indexes on the task table.

    Their first rows are kept in memory, in step with the rows that wait, while nobody else writes.
    """

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements)
        self._head: list[tuple[str, queue.AgentPool]] = []
        """The first ranks in order, each with its pool."""
        self._ranks: dict[str, str] = {}
        """The ranks in the head, by task."""
        self._reach = ""
        """The last rank that the head has if it is ready; `_NEVER` if it has all. Empty before it is read."""
        self._size = _LITTLE
        self._first_due: Instant | None = None
        """No task is due before; None if unknown."""

    def follow(
        self, task_id: str, rank: str | None, line: str | None, barred: str, due: Instant | None
    ) -> None:
        """Follows the row of a task that is written or waits."""
        if due is not None and self._first_due is not None and due < self._first_due:
            self._first_due = due
        if rank is None or rank > self._reach or line is None:
            if task_id in self._ranks:
                self._drop(task_id)
            return
        self._drop(task_id)
        insort(self._head, (rank, queue.AgentPool(line, barred)))
        self._ranks[task_id] = rank

    def _drop(self, task_id: str) -> None:
        rank = self._ranks.pop(task_id, None)
        if rank is not None:
            del self._head[bisect_left(self._head, (rank,))]

    def forget(self) -> None:
        """Forgets the rows, because all were replaced."""
        self._head, self._ranks, self._reach, self._first_due = [], {}, "", None

    def _read_head(self) -> None:
        rows = self._db.all(sql.HEAD_OF_QUEUE, (self._size,))
        self._head = [(rank, queue.AgentPool(line, barred)) for rank, line, barred in rows]
        self._ranks = {queue.task_of_rank(rank): rank for rank, _ in self._head}
        self._reach = self._head[-1][0] if len(rows) == self._size else _NEVER
        self._size = min(2 * self._size, _MUCH)

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """Checks the head of the queue first; if that does not suit the agent, each line it may take from."""
        if not self._reach or (len(self._head) < _LITTLE and self._reach != _NEVER):
            found = self._first_suitable(agent, has_team)
            if found:
                return found
            self._read_head()
        found = self._first_suitable(agent, has_team)
        if found or (self._reach == _NEVER and len(self._head) <= _LITTLE):
            return found
        return self._search(agent, has_team)

    def _first_suitable(self, agent: Actor, has_team: bool) -> str:
        """The first suitable task among the first few."""
        for rank, pool in self._head[:_LITTLE]:
            if queue.is_suitable(pool, agent, has_team):
                return queue.task_of_rank(rank)
        return ""

    def _search(self, agent: Actor, has_team: bool) -> str:
        """The first suitable task of all lines."""
        heads = [
            rank
            for prefix in queue.line_prefixes(agent.name)
            for line in self._db.column(sql.LINES_WITH_PREFIX, (prefix,))
            if queue.is_suitable(queue.AgentPool(line), agent, has_team)
            for rank in self._heads(line, agent, has_team)
        ]
        return queue.task_of_rank(min(heads)) if heads else ""

    def _heads(self, line: str, agent: Actor, has_team: bool) -> Iterator[str]:
        """The first task of a line that excludes nobody, and the first that excludes only others."""
        free = self._db.row(sql.HEAD_OF_LINE, (line, False))
        if free:
            yield free[0]
        rank, barred = self._db.row(sql.HEAD_OF_LINE, (line, True)) or ("", "")
        if not queue.is_suitable(queue.AgentPool(line, barred), agent, has_team):
            rank = self._db.value(sql.FIRST_OPENING, (agent.name, line))
        if rank:
            yield rank

    def due(self, now: Instant) -> list[str]:
        if self._first_due is None:
            self._first_due = self._db.value(sql.EARLIEST_DUE)
            if self._first_due is None:
                self._first_due = _NEVER
        if now < self._first_due:
            return []
        self._first_due = None
        return [row[0] for row in self._db.rows(sql.DUE, (now,))]

    def ready(self) -> list[str]:
        return [queue.task_of_rank(rank) for (rank,) in self._db.rows(sql.READY)]

    def count(self, status: Status | None = None) -> int:
        found = (
            self._db.value(sql.COUNT_STATUS, (status.value,)) if status else self._db.value(sql.COUNT_READY)
        )
        return int(found or 0)

    def counts(self) -> Mapping[str, int]:
        return dict(self._db.all(sql.COUNTS))
