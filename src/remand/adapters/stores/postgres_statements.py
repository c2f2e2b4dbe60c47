"""Runs the embedded ledger's statements in PostgreSQL: in few round trips, under the change's locks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from struct import Struct
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Dumper

from remand.adapters.stores import postgres_schema as own
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_schema import Row, Statements
from remand.app.tasks import queue
from remand.domain.events.log import VOIDS
from remand.domain.instant import Instant
from remand.ledger.store import ChangeScope

Connection = psycopg.Connection[tuple[Any, ...]]
_NAMES_SECONDS = 5.0
"""How long names that other processes added may stay unseen."""
_MOST_ROWS = 5000
"""The most rows in one statement."""
_MOST_QUEUED = 256
"""The most statements that wait for the next query or the commit."""
_MISSING, _OUTDATED, _DUE, _OBJECTION = " missing", " outdated", " due", " objection"
_VALUES = f"""
SELECT key, value FROM ledger
UNION ALL SELECT '{_MISSING}', (SELECT 1 FROM missing LIMIT 1)::text
UNION ALL SELECT '{_OUTDATED}', (SELECT 1 FROM outdated LIMIT 1)::text
UNION ALL SELECT '{_OBJECTION}', (SELECT 1 FROM objection LIMIT 1)::text
UNION ALL SELECT '{_DUE}', (SELECT min(due_at) FROM task WHERE due_at IS NOT NULL)
"""  # noqa: S608 - fixed text
_VALUE_CHANGES = own.MISSING_CHANGES | {sql.PUT_VALUE, sql.IN_STEP}
_BESIDE_EVENTS = sql.BESIDE_EVENTS | own.LOCKS
_ARRAY, _LENGTH, _NUMBER = Struct("!iiIii").pack, Struct("!i").pack, Struct("!iq").pack
_NULL = _LENGTH(-1)

Answer = TypeVar("Answer")


class KnownRows:
    """Rows that rarely change, which a process remembers between changes."""

    def __init__(self) -> None:
        self.writer = ""
        """The key that signs here, while the base does not trust it."""
        self.may_have_objections = True
        """False when there was none of any task as the last change was begun."""
        self.sessions: dict[tuple[str, int], int] = {}
        self.names: dict[str, list[str]] = {}
        self._read_at = 0.0

    def forget_old_names(self) -> None:
        """Forgets names from time to time, because other processes add some."""
        if time.monotonic() - self._read_at > _NAMES_SECONDS:
            self.names, self._read_at = {}, time.monotonic()


class OpenChange:
    """A change's locks, the rows it read ahead or has not written yet, and the delay of its events."""

    def __init__(self) -> None:
        self.locked: dict[str, str | None] = {}
        """The tasks that are locked, with their states until these were read; empty for those that do not exist."""
        self.highest = ""
        """The last of them by id."""
        self.clock: Instant = ""
        """The time of the last event of anything that was read."""
        self.latest: Instant = ""
        """The time of the last event of the change itself."""
        self.start = ("", 0)
        """The session that its events are numbered in, and the number before its first."""
        self.has_graph = False
        self.is_ahead = False
        """True from when the change has begun with locks until it is prepared."""
        self.is_first_look = True
        """True while the change has waited for nobody, written no task, and looked for nothing that is due."""
        self.claims = 1
        """How many of its requests want any task that is ready."""
        self.reserved: dict[str, queue.AgentPool] = {}
        """Tasks that are ready, and locked for these, in the queue's order."""
        self.rows: dict[str, Row] = {}
        """The rows of tasks that are to be written, by id."""
        self.new_handoffs: set[str] = set()
        """The ids that were made up for handoffs."""
        self.written: set[str] = set()
        """The tasks about which it has events of its own."""
        self.lines: dict[str, list[bytes]] = {}
        """The events of tasks, read for all that are locked at once."""
        self.groups: dict[str, list[Row]] = {}
        self.group_rows: dict[int, list[Row]] = {}


class ColumnArray(bytes):
    """A column of values for many rows, in PostgreSQL's binary format."""

    oid = 0


class TextArray(ColumnArray):
    oid = 1009


class NumberArray(ColumnArray):
    oid = 1016


class BytesArray(ColumnArray):
    oid = 1001


def _columns(kinds: str, rows: Sequence[Row]) -> list[ColumnArray]:
    """The columns of rows. Faster than Psycopg, which checks each value's type."""
    return [_MAKERS[kind](column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


def text_array(values: Collection[str | None]) -> TextArray:
    """Texts as an array."""
    return TextArray(_elements(25, [None if value is None else value.encode() for value in values]))


def _bytes(values: Sequence[bytes]) -> BytesArray:
    return BytesArray(_elements(17, values))


def _numbers(values: Sequence[int]) -> NumberArray:
    return NumberArray(_ARRAY(1, 0, 20, len(values), 1) + b"".join([_NUMBER(8, value) for value in values]))


def _elements(oid: int, values: Sequence[bytes | None]) -> bytes:
    parts = [_ARRAY(1, int(None in values), oid, len(values), 1)]
    for value in values:
        parts += (_NULL,) if value is None else (_LENGTH(len(value)), value)
    return b"".join(parts)


_MAKERS: dict[str, Callable[[Any], ColumnArray]] = {"t": text_array, "n": _numbers, "b": _bytes}


def scope_locks(scope: ChangeScope) -> list[tuple[str, Row]]:
    """The statements that lock what a change needs, in the order in which every change waits."""
    locks: list[tuple[str, Row]] = []
    if scope.names or scope.is_linking:
        numbers = sorted(map(number_of_name, scope.names))
        graph = [own.LOCK_OF_GRAPH] if scope.is_linking else []
        locks += [(own.LOCK_NAMES, ([*graph, *numbers],)), (own.LATEST_CLOCK, ())]
    if scope.tasks or scope.handoffs:
        aliases = [name for name in scope.tasks if "#" in name]
        columns = text_array(scope.tasks), text_array(scope.handoffs), text_array(aliases)
        locks.append((own.LOCK_TASKS, columns))
    if scope.claims:
        locks.append((own.TAKE_READY, (scope.claims, queue.OPEN_LINE)))
    return locks


def number_of_name(name: str) -> int:
    """The number of a name's advisory lock."""
    return int.from_bytes(sha256(name.encode("utf-8", "backslashreplace")).digest()[:8], signed=True)


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: ColumnArray) -> bytes:
        return obj


def register_arrays(connection: Connection) -> None:
    """Lets a connection accept encoded arrays."""
    for kind in (TextArray, NumberArray, BytesArray):
        connection.adapters.register_dumper(kind, type(kind.__name__, (_ArrayDumper,), {"oid": kind.oid}))


class PostgresStatements(Statements):
    """Runs the embedded ledger's statements in PostgreSQL's dialect.

    Rows of tasks are written when a query depends on them, or at the end of the change. Bulk writes and the
    change's own events go out with the next query or the commit: a statement that fails rolls the change
    back, whenever that is noticed.
    """

    def __init__(self, connection: Connection, known: KnownRows) -> None:
        self.connection = connection
        self._cursor = psycopg.RawCursor(connection)
        self.keep_waiting: Callable[[], None] | None = None
        self.change: OpenChange | None = None
        """What the open change has locked; None in a view, which locks nothing."""
        self.known = known
        self._values: dict[str, str] | None = None
        self._later: list[own.Write] = []

    def begin(self, ahead: ChangeScope | None) -> None:
        """Begins a change: locks what is known to be needed, and reads what every change needs, in one round trip."""
        change = self.change = OpenChange()
        locks = scope_locks(ahead) if ahead else []
        _, _, *found, values = self.all_of(("BEGIN", ()), (own.SHARE_CHANGES, ()), *locks, (_VALUES, ()))
        self._values = dict(values)
        self.known.may_have_objections = self._values[_OBJECTION] is not None
        if ahead and locks:
            change.is_ahead = True
            self._note_scope(change, ahead, dict(zip([text for text, _ in locks], found, strict=True)))

    def prepare(self, scope: ChangeScope) -> None:
        """Locks what the requests name, unless the change has begun with that."""
        change = self.change = self.change or OpenChange()
        if change.is_ahead:
            change.is_ahead = False
            return
        locks = scope_locks(scope)
        # What was read when the change began may have changed while it waited.
        change.is_first_look = not (scope.names or scope.is_linking or scope.tasks or scope.handoffs)
        found = self.all_of(*locks) if locks else []
        self._note_scope(change, scope, dict(zip([text for text, _ in locks], found, strict=True)))

    def _note_scope(self, change: OpenChange, scope: ChangeScope, found: dict[str, list[Row]]) -> None:
        """Stores what was locked before anything is decided."""
        change.has_graph = scope.is_linking
        for (clock,) in found.get(own.LATEST_CLOCK, ()):
            change.clock = max(change.clock, clock or "")
        for row in found.get(own.LOCK_TASKS, ()):
            self.note_locked(change, row)
        ready = found.get(own.TAKE_READY, ())
        change.claims = max(1, scope.claims - len(ready))
        for task_id, state, at, line, barred in ready:
            self.note_locked(change, (task_id, state, at))
            change.reserved[task_id] = queue.AgentPool(line, barred)

    def write_later(self, statement: str, values: Sequence[Any]) -> None:
        """Queues a statement without a result; it runs at the latest with the commit."""
        self._later.append((statement, values))
        if len(self._later) > _MOST_QUEUED:
            self.write_with()

    def write_with(self, *last: str) -> None:
        """Runs the queued writes and the statements that end the change, in one round trip."""
        if self._later or last:
            with self.connection.pipeline():
                self._send_queued()
                for statement in last:
                    psycopg.RawCursor(self.connection).execute(statement)

    def _send_queued(self) -> None:
        """Sends the queued writes, in a pipeline that is open."""
        later, self._later = self._later, []
        for statement, values in own.join_writes(later):
            psycopg.RawCursor(self.connection).execute(statement, values)

    def _execute_raw(
        self, statement: str, values: Sequence[Any] = (), *, prepare: bool | None = None
    ) -> psycopg.RawCursor[Any]:
        if self._later:
            with self.connection.pipeline():
                self._send_queued()
                return self._cursor.execute(statement, values, binary=True, prepare=prepare)
        return self._cursor.execute(statement, values, binary=True, prepare=prepare)

    def all_of(self, *asked: tuple[str, Row]) -> list[list[Row]]:
        """The rows of several statements, in one round trip."""
        with self.connection.pipeline():
            self._send_queued()
            found = [
                psycopg.RawCursor(self.connection).execute(statement, values, binary=True)
                for statement, values in asked
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in found]

    def _execute(self, statement: str, values: Row) -> Any:
        text, given = self._translate(statement, values)
        # The plan for a page depends on its values: one made for any values walks through every task.
        return self._execute_raw(text, given, prepare=False if own.PAGE_LIMIT in text else None)

    def _translate(self, statement: str, values: Row) -> own.Write:
        """A statement in PostgreSQL's dialect, after those that it depends on were queued."""
        if self.keep_waiting is not None and statement not in _BESIDE_EVENTS:
            self.settle()
        if self.change is not None:
            if self.change.rows and own.reads_tasks(statement):
                self.write_tasks()
            if statement == sql.ADD_TASK:
                self._note_own_tasks()
                self.change.reserved.clear()
                values = (*values, self.change.latest)
        elif statement in (sql.ADD_TASK, sql.CHANGE_TASK):
            values = (*values, "")
        return own.translate(statement), values

    def _note_row(self, change: OpenChange, values: Row) -> None:
        """Queues a task's row. A new claimable task may come before reserved ones."""
        change.is_first_look = False
        change.rows[values[0]] = (*values, change.latest)
        change.reserved.pop(values[0], None)
        if values[3] is not None:
            change.reserved.clear()

    def _note_own_tasks(self) -> None:
        """The due tasks that were read at the start may be incomplete, since the change writes tasks itself."""
        if self.change is not None:
            self.change.is_first_look = False

    def write_tasks(self) -> None:
        """Writes the queued rows of tasks."""
        if self.change is not None and self.change.rows:
            rows, self.change.rows = self.change.rows, {}
            self.write_later(own.CHANGE_TASKS, _columns("tttttttnt", list(rows.values())))

    def settle(self) -> None:
        super().settle()
        self.write_tasks()

    def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        if self.keep_waiting is not None and statement not in _BESIDE_EVENTS:
            self.settle()
        self._forget(statement)
        if statement not in own.AT_ONCE:
            self.write_with()
            self._note_own_tasks()
            self._cursor.executemany(own.translate(statement), rows)
        else:
            left = iter(rows)
            while part := list(islice(left, _MOST_ROWS)):
                self._insert(statement, part)

    def _insert(self, statement: str, rows: Sequence[Row]) -> None:
        """Adds the rows that do not exist yet, all at once."""
        kinds, text = own.AT_ONCE[statement]
        made = self.change.new_handoffs if self.change and statement == sql.ADD_HANDOFF else set()
        if made and all(row[0] in made for row in rows):
            self.insert_new(statement, list(dict.fromkeys(rows)))
            made.difference_update([row[0] for row in rows])
            return
        count = self._execute_raw(f"{text} ON CONFLICT DO NOTHING", _columns(kinds, rows)).rowcount
        if made and count < len(rows) and self._has_old(made, rows):
            raise TasksTaken(set())

    def insert_new(self, statement: str, rows: Sequence[Row]) -> None:
        """Adds new rows; if one exists already, the change fails by its commit."""
        kinds, text = own.AT_ONCE[statement]
        self.write_later(text, _columns(kinds, rows))

    def _has_old(self, made: set[str], handoffs: Sequence[Row]) -> bool:
        """True if a handoff id generated here already exists."""
        new = [row for row in handoffs if row[0] in made]
        kept: dict[str, str] = dict(self.all(own.TASKS_OF_HANDOFFS, ([row[0] for row in new],)))
        return any(kept.get(name) != task for name, task in new)

    def value(self, statement: str, values: Row = ()) -> Any:
        """The first value of the first row. Values about the ledger itself are read all at once."""
        if statement not in (sql.GET_VALUE, sql.HAS_MISSING):
            return super().value(statement, values)
        return self._read_values().get(values[0] if values else _MISSING)

    def _read_values(self) -> dict[str, str]:
        if self._values is None:
            self._values = dict(self._execute_raw(_VALUES).fetchall())
        return self._values

    def has_due(self, change: OpenChange, now: Instant) -> bool:
        """False if certainly nothing is due: at the change's first check, by what was read at its start."""
        is_first, change.is_first_look = change.is_first_look, False
        if not is_first or self._values is None:
            return True
        first = self._values.get(_DUE)
        return first is not None and first <= now

    def run(self, statement: str, values: Row = ()) -> None:
        """Queues a statement without a result, as a change needs no answer to it."""
        self._forget(statement)
        if self.change is None:
            super().run(statement, values)
        elif statement == sql.CHANGE_TASK:
            self._settle_before(statement)
            self._note_row(self.change, values)
        else:
            self.write_later(*self._translate(statement, values))

    def _forget(self, statement: str) -> None:
        """Drops rows that were read ahead and that a statement changes."""
        if statement in _VALUE_CHANGES:
            self._values = None
        elif statement == sql.OUTDATE and self._values is not None:
            self._values[_OUTDATED] = "1"
        if self.change is not None and statement in own.EVENT_CHANGES:
            self.change.lines, self.change.groups, self.change.group_rows = {}, {}, {}

    def try_change(self, statement: str, values: Row = ()) -> bool:
        return bool(self._execute(statement, values).rowcount)

    def rows(self, statement: str, values: Row = ()) -> Iterator[Row]:
        """The rows. All are fetched, so that other statements can run before the last one is used."""
        return iter(self._execute(statement, values).fetchall())

    def has_outdated(self) -> bool:
        """True if files are outdated, by what was read at the change's start and what it noted."""
        return self._read_values()[_OUTDATED] is not None

    def column(self, statement: str, values: Row = ()) -> list[Any]:
        if statement == sql.OUTDATED and not self.has_outdated():
            return []
        return [row[0] for row in self._execute(statement, values).fetchall()]

    def read_stories(self, change: OpenChange, task_id: str) -> None:
        """Reads the events of a task, and which groups name it; and those of all locked tasks at once."""
        names = {task_id, VOIDS, *change.locked}
        lines, groups = names - change.lines.keys() - change.written, names - change.groups.keys()
        asked = [(own.EVENTS_OF_TASKS, lines), (own.GROUPS_OF_TASKS, groups)]
        found = dict(
            zip(
                [text for text, wanted in asked if wanted],
                self.all_of(*[(text, (text_array(wanted),)) for text, wanted in asked if wanted]),
                strict=True,
            )
        )
        change.lines |= {name: [] for name in lines}
        for subject, line in found.get(own.EVENTS_OF_TASKS, ()):
            change.lines[subject].append(line)
        change.groups |= {name: [] for name in groups}
        for name, *row in found.get(own.GROUPS_OF_TASKS, ()):
            change.groups[name].append(tuple(row))

    # ------------------------------------------------------------------------------------------------ locks

    def lock_task(self, change: OpenChange, task_id: str) -> None:
        """Locks a task, if it exists.

        To prevent deadlocks, tasks are locked in the order of their ids. A change that needs an earlier one
        releases all and begins again with all of them.
        """
        is_in_order = task_id > change.highest
        try:
            found = self.row(own.LOCK_TASK if is_in_order else own.TRY_TASK, (task_id,))
        except errors.LockNotAvailable as error:
            raise TasksTaken({*change.locked, task_id}) from error
        self.note_locked(change, (task_id, *(found or ("", ""))))

    def note_locked(self, change: OpenChange, row: Row) -> None:
        """Stores the state of a task that was just locked, and advances the clock to its last event."""
        task_id, state, at = row
        change.locked.setdefault(task_id, state)
        change.highest = max(change.highest, task_id)
        change.clock = max(change.clock, at)

    def lock_graph(self) -> None:
        """Keeps others from adding dependencies until the change ends."""
        if self.change is not None and not self.change.has_graph:
            self.change.has_graph = True
            self.lock_names([own.LOCK_OF_GRAPH])

    def lock_names(self, names: list[int]) -> None:
        """Waits for changes that write the same names, and continues after their last event."""
        self.run(own.LOCK_NAMES, (names,))
        if self.change is not None:
            self.change.clock = max(self.change.clock, self.value(own.LATEST_CLOCK) or "")


class TasksTaken(Exception):  # noqa: N818 - it is what has happened
    """Another change has locked a task that this one needs after later ones."""

    def __init__(self, tasks: set[str]) -> None:
        super().__init__("a task is locked by another process")
        self.tasks = tasks
