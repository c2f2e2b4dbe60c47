"""The ledger's tables in PostgreSQL: what a change locks and reads ahead, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import psycopg
from msgspec.structs import replace
from psycopg import errors

from remand.adapters.stores import postgres_schema as own
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite import SqliteTransaction
from remand.adapters.stores.sqlite_events import SqliteEvents, SqliteUnconfirmed
from remand.adapters.stores.sqlite_schema import Row, Statements
from remand.adapters.stores.sqlite_tasks import SqliteDependencies, SqliteQueue, SqliteTasks
from remand.app.tasks import queue
from remand.domain.access.team import Actor
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger.event_tables import EventEntry
from remand.ledger.store import LedgerHead

_HEAD = LedgerHead.__struct_fields__
_TASK_ROWS = frozenset({sql.ADD_TASK, sql.CHANGE_TASK})
Connection = psycopg.Connection[tuple[Any, ...]]


class OpenChange:
    """What a change has locked and read ahead, and how late its events are."""

    def __init__(self) -> None:
        self.locked: dict[str, str | None] = {}
        """The tasks that are locked, with their states until these were read; empty for those that do not exist."""
        self.clock: Instant = ""
        """The time of the last event of anything that was read."""
        self.latest: Instant = ""
        """The time of the last event of the change itself."""
        self.has_graph = False


class PostgresStatements(Statements):
    """A connection that is given the embedded ledger's statements, and runs them in PostgreSQL's dialect."""

    def __init__(self, connection: Connection, local: dict[str, str]) -> None:
        self.connection = connection
        self._cursor = psycopg.RawCursor(connection)
        self._execute_raw = self._cursor.execute
        self.keep_waiting: Callable[[], None] | None = None
        self.change: OpenChange | None = None
        """What the open change has locked; None in a view, which locks nothing."""
        self.local = local
        """What holds for this process alone."""

    def _execute(self, statement: str, values: Row) -> Any:
        if self.keep_waiting is not None and statement not in sql.BESIDE_EVENTS:
            self.settle()
        if statement in _TASK_ROWS:
            values = (*values, self.change.latest if self.change else "")
        return self._execute_raw(own.translate(statement), values, binary=True)

    def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        if self.keep_waiting is not None and statement not in sql.BESIDE_EVENTS:
            self.settle()
        self._cursor.executemany(own.translate(statement), rows)

    def try_change(self, statement: str, values: Row = ()) -> bool:
        return bool(self._execute(statement, values).rowcount)

    def rows(self, statement: str, values: Row = ()) -> Iterator[Row]:
        """The rows. They are all here, so that others can be asked for before the last."""
        return iter(self._execute(statement, values).fetchall())

    def column(self, statement: str, values: Row = ()) -> list[Any]:
        return [row[0] for row in self._execute(statement, values).fetchall()]

    # ------------------------------------------------------------------------------------------------ locks

    def lock_task(self, change: OpenChange, task_id: str) -> None:
        """Locks a task, if there is one.

        Whoever holds tasks waits for none that comes before them by id, so that no two wait for each other: it gives
        all back, and begins again with all of them.
        """
        is_in_order = not change.locked or task_id > max(change.locked)
        try:
            found = self.row(own.LOCK_TASK if is_in_order else own.TRY_TASK, (task_id,))
        except errors.LockNotAvailable as error:
            raise TasksTaken({*change.locked, task_id}) from error
        self.note_locked(change, (task_id, *(found or ("", ""))))

    def note_locked(self, change: OpenChange, row: Row) -> None:
        """Keeps the state of a task that was just locked, and lets the clock follow its last event."""
        task_id, state, at = row
        change.locked.setdefault(task_id, state)
        change.clock = max(change.clock, at)

    def lock_graph(self) -> None:
        """Keeps others from adding dependencies until the change ends."""
        if self.change is not None and not self.change.has_graph:
            self.change.has_graph = True
            self.lock_names([own.LOCK_OF_GRAPH])

    def lock_names(self, names: list[int]) -> None:
        """Waits for those who write the same names, and goes on after the last event of theirs."""
        self.run(own.LOCK_NAMES, (names,))
        if self.change is not None:
            self.change.clock = max(self.change.clock, self.value(own.LATEST_CLOCK) or "")


class PostgresEvents(SqliteEvents):
    """The events; how late the last one is goes into the rows of the tasks that they change."""

    statements: PostgresStatements

    def add(self, entries: Sequence[EventEntry]) -> None:
        if (change := self.statements.change) is not None and entries:
            change.latest = max(change.latest, *(entry.event.ts for entry in entries))
        super().add(entries)


class PostgresUnconfirmed(SqliteUnconfirmed):
    """The events without effect. Each process signs with a key of its own, so whether that counts is its own affair."""

    statements: PostgresStatements

    @property
    def writer(self) -> str:
        return self.statements.local.get("writer", "")

    @writer.setter
    def writer(self, key: str) -> None:
        self.statements.local["writer"] = key


class PostgresDependencies(SqliteDependencies):
    """Who waits for whom. A change that looks for a way, or adds one, is alone with the graph."""

    statements: PostgresStatements

    def path(self, source: str, target: str) -> tuple[str, ...]:
        self.statements.lock_graph()
        return super().path(source, target)


class PostgresTasks(SqliteTasks):
    """The tasks. In a change, a task that is read is locked before."""

    statements: PostgresStatements

    def _read_state(self, task_id: str) -> Any:
        change = self.statements.change
        if change is None:
            return super()._read_state(task_id)
        if task_id not in change.locked:
            self.statements.lock_task(change, task_id)
        state, change.locked[task_id] = change.locked[task_id], None
        return super()._read_state(task_id) if state is None else state or None

    def _link(self, task: Task, before: tuple[str, ...], waiters: list[str]) -> None:
        self.statements.lock_graph()
        super()._link(task, before, waiters)

    def _has_place(self, task: Task, waiters: list[str]) -> bool:
        if not task.is_terminal:
            self.statements.lock_graph()
        return super()._has_place(task, waiters)

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        super().replace_all(tasks, handoffs)
        self._db.run(own.RESTART_NUMBERS)


class PostgresQueue(SqliteQueue):
    """The ready set. Claims take what nobody holds, and wait for others only before they say that there is nothing."""

    statements: PostgresStatements

    def next(self, agent: Actor, *, has_team: bool) -> str:
        change = self.statements.change
        if change is None:
            return super().next(agent, has_team=has_team)
        for statement in (own.TRY_READY, own.LOCK_READY):
            while found := self._suitable(agent, has_team):
                for row in self._db.all(statement, (found, 1)):
                    self.statements.note_locked(change, row)
                    return str(row[0])
                if statement == own.TRY_READY:
                    break
        return ""

    def _suitable(self, agent: Actor, has_team: bool) -> list[str]:
        """The first ready tasks that suit an agent, locked by others or not."""
        found = [
            queue.task_of_rank(rank)
            for rank, line, barred in self._db.rows(sql.HEAD_OF_QUEUE)
            if queue.is_suitable(queue.AgentPool(line, barred), agent, has_team)
        ]
        return found or [name for name in (super().next(agent, has_team=has_team),) if name]

    def due(self, now: Instant) -> list[str]:
        change = self.statements.change
        if change is None:
            return super().due(now)
        rows = self._db.all(own.TRY_DUE, (now,))
        for row in rows:
            self.statements.note_locked(change, row)
        return [row[0] for row in rows]


class PostgresTransaction(SqliteTransaction):
    """One change, or one view, of the ledger. Its head is that of one session."""

    events_kind, unconfirmed_kind = PostgresEvents, PostgresUnconfirmed
    tasks_kind, dependencies_kind, queue_kind = PostgresTasks, PostgresDependencies, PostgresQueue

    def __init__(self, statements: PostgresStatements, session: str, head: LedgerHead | None = None) -> None:
        super().__init__(statements)
        self.statements = statements
        self._session = session
        self._head = self._before = head
        self.on_decided: Callable[[], None] = lambda: None

    @property
    def head(self) -> LedgerHead:
        """How far the session has come, its clock after all that the change has read."""
        if self._head is None:
            values = self._db.row(own.GET_HEAD, (self._session,)) or (self._session, *NEW_HEAD[1:])
            self._head = self._before = LedgerHead(**dict(zip(_HEAD, values, strict=True)))
        change = self.statements.change
        if change is not None and change.clock > self._head.clock:
            self._head = replace(self._head, clock=change.clock)
        return self._head

    @head.setter
    def head(self, head: LedgerHead) -> None:
        self.head  # noqa: B018 - what it was is compared with when it is written
        self._head, self._changed = head, True

    def prepare(
        self,
        names: Iterable[str],
        tasks: Collection[str],
        handoffs: Collection[str],
        *,
        is_linking: bool,
        on_decided: Callable[[], None],
    ) -> None:
        """Waits for those who write the same names or tasks, all in one order, and locks them."""
        self.on_decided = on_decided
        db = self.statements
        change = db.change = db.change or OpenChange()
        numbers = sorted(map(number_of_name, names))
        change.has_graph = is_linking
        if numbers or is_linking:
            db.lock_names([*([own.LOCK_OF_GRAPH] if is_linking else ()), *numbers])
        if tasks or handoffs:
            found = (list(tasks), list(handoffs), [name for name in tasks if "#" in name])
            for row in db.all(own.LOCK_TASKS, found):
                db.note_locked(change, row)

    @property
    def has_events(self) -> bool:
        """True when the change has events."""
        return self._before is not None and self.head.tip != self._before.tip

    def fence_writers(self) -> None:
        self.head  # noqa: B018 - it is read before it is changed
        self._db.run(own.LOCK_HEADS)
        self._db.run(own.FENCE_HEADS)
        if self._head is not None and self._before is not None:
            self._before = replace(self._before, changed=self._before.changed + 1)
            self.head = replace(self._head, changed=self._head.changed + 1)

    def flush(self) -> None:
        self._db.settle()
        before, head = self._before, self._head
        if not self._changed or head is None or before is None:
            return
        values = msgspec.structs.astuple(head)
        is_moved = self._db.try_change(own.MOVE_HEAD, (*values, *_guard(before)))
        if not is_moved and (before.seq or not self._db.try_change(own.ADD_HEAD, values)):
            raise SessionTaken(before.session)
        self._changed = False


NEW_HEAD = msgspec.structs.astuple(LedgerHead(session=""))


def _guard(head: LedgerHead) -> tuple[str, int, str, int]:
    """What must be so still of a session for a change to go on from there."""
    return (head.session, head.seq, head.tip, head.changed)


class SessionTaken(Exception):  # noqa: N818 - it is what has happened
    """Another process goes on with the session, or what came before in it was taken back."""


class TasksTaken(Exception):  # noqa: N818 - it is what has happened
    """A task is locked by somebody else while others are held that come after it."""

    def __init__(self, tasks: set[str]) -> None:
        super().__init__("a task is locked by another process")
        self.tasks = tasks


def number_of_name(name: str) -> int:
    """The number of the lock of a name."""
    return int.from_bytes(sha256(name.encode("utf-8", "backslashreplace")).digest()[:8], signed=True)
