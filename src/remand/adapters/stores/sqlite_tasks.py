"""The tables an embedded ledger makes of its events: tasks, the queue, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.app import ready, waiting
from remand.domain.instant import Instant
from remand.domain.roles import Actor
from remand.domain.task import TERMINAL, Task

_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Task).decode


def _encode(task: Task) -> str:
    return _encoder.encode(task).decode()


class SqliteWaiting:
    """Who waits for whom, with positions."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def position(self, task: str) -> int | None:
        """Where a task stands."""
        position: int | None = self._db.value(sql.POSITION, (task,))
        return position

    def blockers(self, task: str) -> waiting.Neighbours:
        """What the task waits for."""
        return self._db.all(sql.BLOCKERS_WITH_POSITION, (task,))

    def waiters(self, task: str) -> waiting.Neighbours:
        """What waits for the task."""
        return self._db.all(sql.WAITERS_WITH_POSITION, (task,))

    def move(self, task: str, position: int) -> None:
        """Puts a task at another position."""
        self._db.run(sql.SET_POSITION, (task, position))


class SqliteQueue:
    """The ready set, read from the indexes on the task table."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self._waiting = SqliteWaiting(statements)

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """Looks at the head of the queue first; then, when that suits the agent not, at the head of each pool."""
        for rank, pool in self._db.rows(sql.HEAD_OF_QUEUE):
            if ready.suits(pool, agent, has_team):
                return ready.ranked(rank)
        heads = [
            self._db.value(sql.HEAD_OF_POOL, (pool,))
            for (pool,) in self._db.all(sql.POOLS)
            if ready.suits(pool, agent, has_team)
        ]
        return ready.ranked(min(heads)) if heads else ""

    def due(self, now: Instant) -> list[str]:
        """The tasks with something that has ended by now."""
        return [row[0] for row in self._db.rows(sql.DUE, (now,))]

    def ready(self) -> list[str]:
        """Every task that could be claimed, in order."""
        return [ready.ranked(rank) for (rank,) in self._db.rows(sql.READY)]

    def open_blockers(self, blockers: Sequence[str]) -> tuple[str, ...]:
        """Which of the tasks have not ended."""
        return tuple(name for name in blockers if self._db.value(sql.STATUS, (name,)) not in TERMINAL)

    def path(self, source: str, target: str) -> tuple[str, ...]:
        """How one task comes to wait for another."""
        return waiting.path(self._waiting, source, target)


class SqliteTasks:
    """The task table and the tables beside it that follow from it."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self._waiting = SqliteWaiting(statements)
        self._loaded: dict[str, Task | None] = {}

    def get(self, task_id: str) -> Task | None:
        """A task by its id."""
        if task_id not in self._loaded:
            state = self._db.value(sql.GET_TASK, (task_id,))
            self._loaded[task_id] = None if state is None else _decode(state)
        return self._loaded[task_id]

    def put(self, task: Task) -> None:
        """Keeps a task, and brings everything that follows from it up to date."""
        before = self.get(task.id)
        if before is None:
            self._write(sql.ADD_TASK, task)
        if task.blockers != (before.blockers if before else ()):
            self._link(task, before.blockers if before else ())
            self._write(sql.CHANGE_TASK, task)
        elif before is not None:
            self._write(sql.CHANGE_TASK, task)
        if (before.aliases if before else ()) != task.aliases:
            self._rename(task, before.aliases if before else ())
        self._loaded[task.id] = task
        if before is None or before.is_terminal != task.is_terminal:
            self._refresh_waiters(task.id)

    def _write(self, statement: str, task: Task) -> None:
        count = self._db.value(sql.COUNT_OPEN_BLOCKERS, (task.id,)) if task.blockers else 0
        rank = ready.rank(task, count)
        pool = None if rank is None else ready.pool(task)
        self._db.run(
            statement, (task.id, task.status.value, ready.due(task, count), rank, pool, _encode(task))
        )

    def _link(self, task: Task, before: tuple[str, ...]) -> None:
        for gone in set(before) - set(task.blockers):
            self._db.run(sql.DROP_BLOCKER, (task.id, gone))
        for new in task.blockers:
            if new in before:
                continue
            is_void = bool(waiting.path(self._waiting, new, task.id))
            self._db.run(sql.ADD_BLOCKER, (task.id, new, is_void))
            if not is_void:
                waiting.make_room(self._waiting, task.id, new)

    def _rename(self, task: Task, before: tuple[str, ...]) -> None:
        for alias in before:
            self._db.run(sql.DROP_ALIAS, (alias, task.id))
        for alias in task.aliases:
            self._db.run(sql.ADD_ALIAS, (alias, task.id))

    def _refresh_waiters(self, task_id: str) -> None:
        for (name,) in self._db.all(sql.WAITING_FOR, (task_id,)):
            waiter = self.get(name)
            if waiter is not None:
                self._write(sql.CHANGE_TASK, waiter)

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        """Makes the tables anew, in one pass."""
        by_id = {task.id: task for task in tasks}
        order, void = waiting.topological({task.id: task.blockers for task in by_id.values()})
        for table in sql.READ_MODELS:
            self._db.run(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._db.run_many(
            sql.BULK_TASK, (_row(n, by_id[name], by_id, void) for n, name in enumerate(order, 1))
        )
        pairs = ((task.id, blocker) for task in by_id.values() for blocker in dict.fromkeys(task.blockers))
        self._db.run_many(sql.ADD_BLOCKER, ((*pair, pair in void) for pair in pairs))
        self._db.run_many(
            sql.ADD_ALIAS, ((alias, task.id) for task in by_id.values() for alias in task.aliases)
        )
        self._db.run_many(sql.ADD_HANDOFF, handoffs)
        self._loaded.clear()

    def named(self, name: str) -> str:
        """The task an alias or a handoff belongs to."""
        task: str | None = self._db.value(sql.NAMED, (name,))
        return task or ""

    def every(self) -> Iterator[Task]:
        """All tasks, by id."""
        return (_decode(row[0]) for row in self._db.rows(sql.EVERY_TASK))


def _row(n: int, task: Task, by_id: dict[str, Task], void: set[tuple[str, str]]) -> tuple[object, ...]:
    count = 0
    for blocker in task.blockers:
        other = by_id.get(blocker)
        if (other is None or not other.is_terminal) and (task.id, blocker) not in void:
            count += 1
    rank = ready.rank(task, count)
    pool = None if rank is None else ready.pool(task)
    return (n, task.id, task.status.value, ready.due(task, count), rank, pool, _encode(task))
