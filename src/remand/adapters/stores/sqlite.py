"""The embedded ledger: one SQLite file, one writer at a time, the tables in step with the events."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.app import ready, waiting
from remand.app.errors import EnvironmentFault
from remand.domain.events import Event, HandoffInitiated, TaskClaimed
from remand.domain.instant import BEGINNING, Instant
from remand.domain.roles import Actor
from remand.domain.task import TERMINAL, Task
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.problems import Problem
from remand.ledger.store import Entry, FileMark, Head

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Task).decode
_SEQ_BITS = 40
_SEQ_MASK = (1 << _SEQ_BITS) - 1
_HANDING = frozenset({TaskClaimed, HandoffInitiated})


class SqliteEvents:
    """The events, numbered so that one session's stand together in their order: session, then place in it.

    The number makes an event known. A session that was written twice (its ledger was copied) forks: what
    differs from the first writing is kept under a number of its own.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._run = connection.execute
        self._numbers: dict[tuple[str, int], int] = {}

    def add(self, entries: Sequence[Entry]) -> None:
        """Keeps the events that are not kept yet, and remembers which task each handoff belongs to."""
        for entry in entries:
            event, line, subject = entry
            meta = event.meta
            n = (
                self._number(meta.session) << _SEQ_BITS | meta.seq
                if meta.seq > 0
                else self._unnumbered(meta.id)
            )
            if not n:
                continue
            self._run(sql.ADD_EVENT, (n, subject, meta.key, line))
            if not self._connection.changes():
                self._add_again(n, entry)
            if subject and type(event) in _HANDING:
                self._run(sql.ADD_HANDOFF, (event.handoff_id, subject))  # type: ignore[attr-defined]

    def _number(self, session: str, fork: int = 0) -> int:
        """The number of a session, given when it is first seen."""
        known = self._numbers.get((session, fork))
        if known is None:
            row = self._run(sql.GET_SESSION, (session, fork)).fetchone()
            row = row or self._run(sql.ADD_SESSION, (session, fork)).fetchone()
            known = self._numbers[session, fork] = row[0]
        return known

    def _unnumbered(self, event_id: str) -> int:
        """A number for an event that has none; 0 when it is kept already."""
        self._run(sql.ADD_UNNUMBERED, (event_id,))
        if not self._connection.changes():
            return 0
        first = self._number("") << _SEQ_BITS
        last = self._run(sql.LAST_OF, (first, first | _SEQ_MASK)).fetchone()[0]
        return (last or first) + 1

    def _add_again(self, n: int, entry: Entry) -> None:
        """The number is taken: by this very event, or by another of a session that forked."""
        fork = 0
        while self._run(sql.LINE_AT, (n,)).fetchone()[0] != entry.line:
            fork += 1
            meta = entry.event.meta
            n = self._number(meta.session, fork) << _SEQ_BITS | meta.seq
            self._run(sql.ADD_EVENT, (n, entry.subject, meta.key, entry.line))

    def count(self) -> int:
        """How many events there are."""
        count: int = self._run(sql.COUNT_EVENTS).fetchone()[0]
        return count

    def of_task(self, task_id: str) -> list[Event]:
        """A task's events in their order."""
        return sorted((codec.recall(row[0]) for row in self._run(sql.EVENTS_OF_TASK, (task_id,))), key=place)

    def of_key(self, key: str) -> list[Event]:
        """The events that an idempotency key led to."""
        return [codec.recall(row[0]) for row in self._run(sql.EVENTS_OF_KEY, (key,))]

    def lines(self, session: str = "", first: int = 0) -> Iterator[bytes]:
        """Every line, session by session; with a session, its own from that number on."""
        if not session:
            return (row[0] for row in self._run(sql.LINES))
        start = self._number(session) << _SEQ_BITS
        return (row[0] for row in self._run(sql.LINES_BETWEEN, (start | first, start | _SEQ_MASK)))

    def last_lines(self, count: int) -> list[bytes]:
        """The latest lines of each session, in no order."""
        found: list[bytes] = []
        for number, _, _ in self._run(sql.SESSIONS).fetchall():
            span = (number << _SEQ_BITS, number << _SEQ_BITS | _SEQ_MASK, count)
            found += [row[0] for row in self._run(sql.LAST_LINES_BETWEEN, span)]
        return found


class SqliteWaiting:
    """Who waits for whom, with positions."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute

    def position(self, task: str) -> int | None:
        """Where a task stands."""
        row = self._run(sql.POSITION, (task,)).fetchone()
        return row[0] if row else None

    def blockers(self, task: str) -> waiting.Neighbours:
        """What the task waits for."""
        return self._run(sql.BLOCKERS_WITH_POSITION, (task,)).fetchall()

    def waiters(self, task: str) -> waiting.Neighbours:
        """What waits for the task."""
        return self._run(sql.WAITERS_WITH_POSITION, (task,)).fetchall()

    def move(self, task: str, position: int) -> None:
        """Puts a task at another position."""
        self._run(sql.SET_POSITION, (task, position))


class SqliteQueue:
    """The ready set, read from the indexes on the task table."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute
        self._waiting = SqliteWaiting(connection)

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """Looks at the head of the queue first; then, when that suits the agent not, at the head of each pool."""
        for rank, pool in self._run(sql.HEAD_OF_QUEUE):
            if ready.suits(pool, agent, has_team):
                return ready.ranked(rank)
        heads = [
            self._run(sql.HEAD_OF_POOL, (pool,)).fetchone()[0]
            for (pool,) in self._run(sql.POOLS).fetchall()
            if ready.suits(pool, agent, has_team)
        ]
        return ready.ranked(min(heads)) if heads else ""

    def due(self, now: Instant) -> list[str]:
        """The tasks with something that has ended by now."""
        return [row[0] for row in self._run(sql.DUE, (now,))]

    def ready(self) -> list[str]:
        """Every task that could be claimed, in order."""
        return [ready.ranked(rank) for (rank,) in self._run(sql.READY)]

    def open_blockers(self, blockers: Sequence[str]) -> tuple[str, ...]:
        """Which of the tasks have not ended."""
        found = ((name, self._run(sql.STATUS, (name,)).fetchone()) for name in blockers)
        return tuple(name for name, row in found if row is None or row[0] not in TERMINAL)

    def path(self, source: str, target: str) -> tuple[str, ...]:
        """How one task comes to wait for another."""
        return waiting.path(self._waiting, source, target)


class SqliteTasks:
    """The task table and the tables beside it that follow from it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._waiting = SqliteWaiting(connection)
        self._loaded: dict[str, Task | None] = {}

    def get(self, task_id: str) -> Task | None:
        """A task by its id."""
        if task_id not in self._loaded:
            row = self._run(sql.GET_TASK, (task_id,)).fetchone()
            self._loaded[task_id] = _decode(row[0]) if row else None
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
        count = self._run(sql.COUNT_OPEN_BLOCKERS, (task.id,)).fetchone()[0] if task.blockers else 0
        rank = ready.rank(task, count)
        pool = None if rank is None else ready.pool(task)
        self._run(statement, (task.id, task.status.value, ready.due(task, count), rank, pool, _encode(task)))

    def _link(self, task: Task, before: tuple[str, ...]) -> None:
        for gone in set(before) - set(task.blockers):
            self._run(sql.DROP_BLOCKER, (task.id, gone))
        for new in task.blockers:
            if new in before:
                continue
            is_void = bool(waiting.path(self._waiting, new, task.id))
            self._run(sql.ADD_BLOCKER, (task.id, new, is_void))
            if not is_void:
                waiting.make_room(self._waiting, task.id, new)

    def _rename(self, task: Task, before: tuple[str, ...]) -> None:
        for alias in before:
            self._run(sql.DROP_ALIAS, (alias, task.id))
        for alias in task.aliases:
            self._run(sql.ADD_ALIAS, (alias, task.id))

    def _refresh_waiters(self, task_id: str) -> None:
        for (name,) in self._run(sql.WAITING_FOR, (task_id,)).fetchall():
            waiter = self.get(name)
            if waiter is not None:
                self._write(sql.CHANGE_TASK, waiter)

    def replace_all(self, tasks: Iterable[Task]) -> None:
        """Makes the tables anew, in one pass."""
        by_id = {task.id: task for task in tasks}
        order, void = waiting.topological({task.id: task.blockers for task in by_id.values()})
        for table in ("task", "blocker", "alias"):
            self._run(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._many(sql.BULK_TASK, (_row(n, by_id[name], by_id, void) for n, name in enumerate(order, 1)))
        pairs = ((task.id, blocker) for task in by_id.values() for blocker in dict.fromkeys(task.blockers))
        self._many(sql.ADD_BLOCKER, ((*pair, pair in void) for pair in pairs))
        self._many(sql.ADD_ALIAS, ((alias, task.id) for task in by_id.values() for alias in task.aliases))
        self._loaded.clear()

    def named(self, name: str) -> str:
        """The task an alias or a handoff belongs to."""
        row = self._run(sql.NAMED, (name,)).fetchone()
        return row[0] if row else ""

    def every(self) -> Iterator[Task]:
        """All tasks, by id."""
        return (_decode(row[0]) for row in self._run(sql.EVERY_TASK))


def _row(n: int, task: Task, by_id: dict[str, Task], void: set[tuple[str, str]]) -> tuple[object, ...]:
    count = 0
    for blocker in task.blockers:
        other = by_id.get(blocker)
        if (other is None or not other.is_terminal) and (task.id, blocker) not in void:
            count += 1
    rank = ready.rank(task, count)
    pool = None if rank is None else ready.pool(task)
    return (n, task.id, task.status.value, ready.due(task, count), rank, pool, _encode(task))


class SqliteFiles:
    """Which event files were read, and what was wrong with them."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute

    def marks(self) -> dict[str, FileMark]:
        """Every file that was read, as it was then."""
        return {row[0]: FileMark(*row) for row in self._run(sql.GET_FILES)}

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        """Remembers a file, and what was wrong with it this time."""
        self._run(sql.PUT_FILE, mark)
        self._run(sql.DROP_PROBLEMS, (mark.path,))
        for problem in problems:
            self._run(sql.ADD_PROBLEM, (problem.file, problem.line, problem.problem))

    def problems(self) -> list[Problem]:
        """Everything that was wrong with the files."""
        return [Problem(file=row[0], line=row[1], problem=row[2]) for row in self._run(sql.GET_PROBLEMS)]

    def hold_back(self, event: Event, line: bytes) -> None:
        """Keeps an event from too far ahead aside."""
        self._run(sql.QUARANTINE, (event.meta.id, event.ts, line))

    def ripe(self, horizon: Instant) -> list[bytes]:
        """Takes out what is not too far ahead any more."""
        return [row[0] for row in self._run(sql.RIPE, (horizon,)).fetchall()]


class SqliteTransaction:
    """One change, or one view, of the ledger."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.undos: list[Callable[[], None]] = []
        self.files = SqliteFiles(connection)
        self.events = SqliteEvents(connection)
        self.tasks = SqliteTasks(connection)
        self.queue = SqliteQueue(connection)
        self._head: Head | None = None
        self._changed = False

    @property
    def head(self) -> Head:
        """How far the ledger has come."""
        if self._head is None:
            names = ("session", "seq", "tip", "clock", "segment", "first", "size", "inode")
            row = self.connection.execute(sql.GET_HEAD).fetchone()
            self._head = Head(**dict(zip(names, row, strict=True)))
        return self._head

    @head.setter
    def head(self, head: Head) -> None:
        self._head, self._changed = head, True

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """What to take back outside the store, should the change not come to be."""
        self.undos.append(undo)

    def flush(self) -> None:
        """Writes what was held back until the end."""
        if self._changed and self._head is not None:
            h = self._head
            values = (h.session, h.seq, h.tip, h.clock, h.segment, h.first, h.size, h.inode)
            self.connection.execute(sql.PUT_HEAD, values)


class SqliteStore:
    """A ledger file. Writers queue at a lock file, which is fair where SQLite's own waiting is not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread_lock = threading.RLock()
        self._lock_file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self.connection = self._open()
        except apsw.Error as error:
            raise EnvironmentFault(
                f"The ledger {path} cannot be opened ({error}). Move it away; it is rebuilt from .got/events."
            ) from error

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(os.fspath(self.path))
        with self._locked():
            version = connection.pragma("user_version")
            if version not in (0, sql.VERSION):
                raise EnvironmentFault(
                    f"The ledger {self.path} has version {version}; this program knows {sql.VERSION}. "
                    "Update remand, or move the file away to have it rebuilt."
                )
            if version == 0:
                connection.execute("PRAGMA page_size = 4096")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(
                    f"BEGIN IMMEDIATE; {sql.SCHEMA}; PRAGMA user_version = {sql.VERSION}; COMMIT"
                ).fetchall()
            connection.execute(sql.SETTINGS).fetchall()
        return connection

    def file_identity(self) -> str:
        """What tells this file from a copy of it."""
        status = os.stat(self.path)
        return f"{status.st_dev}:{status.st_ino}"

    def value(self, key: str) -> str:
        """Something the ledger remembers of itself."""
        row = self.connection.execute(sql.GET_VALUE, (key,)).fetchone()
        return row[0] if row else ""

    def adopt(self, body: str, session: str) -> str:
        """Gives the ledger a new id and session, unless another process just did."""
        with self._locked():
            if self.value("file") == body:
                return self.value("id")
            run = self.connection.execute
            run("BEGIN IMMEDIATE")
            run(sql.PUT_VALUE, ("id", session))
            run(sql.PUT_VALUE, ("file", body))
            head = run(sql.GET_HEAD).fetchone()
            run(sql.PUT_HEAD, (session, 0, "", head[3] if head else BEGINNING, "", 0, 0, 0))
            run("COMMIT").fetchall()
        return session

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._thread_lock:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """Opens a change, alone among all writers."""
        with self._locked():
            self.connection.execute("BEGIN IMMEDIATE")
            transaction = SqliteTransaction(self.connection)
            try:
                yield transaction
                transaction.flush()
                self.connection.execute("COMMIT").fetchall()
            except BaseException as error:
                self._take_back(transaction)
                if isinstance(error, apsw.FullError | apsw.IOError):
                    raise EnvironmentFault(
                        f"Nothing was recorded: {self.path} cannot be written ({error})."
                    ) from error
                raise

    def _take_back(self, transaction: SqliteTransaction) -> None:
        with suppress(apsw.Error):
            self.connection.execute("ROLLBACK")
        for undo in reversed(transaction.undos):
            undo()

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """Opens a view of one moment."""
        with self._thread_lock:
            self.connection.execute("BEGIN")
            try:
                yield SqliteTransaction(self.connection)
            finally:
                self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """Lets go of the file."""
        self.connection.close()
        os.close(self._lock_file)
