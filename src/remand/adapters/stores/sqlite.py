"""The embedded ledger: one SQLite file with one writer at a time.

Here, its tables of files, missing lines, objections and records.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType

import apsw
import msgspec

from remand.adapters.stores import shared_data, sqlite_migrations
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_audit import SqliteAudit
from remand.adapters.stores.sqlite_events import SqliteEvents, SqliteGroups, SqliteTraces, SqliteUnconfirmed
from remand.adapters.stores.sqlite_queue import SqliteDependencies, SqliteQueue, decode_task
from remand.adapters.stores.sqlite_schema import Row, Statements, StoredText, Table
from remand.adapters.stores.sqlite_tasks import (
    SqliteLogLines,
    SqliteNames,
    SqliteRejected,
    SqliteTaskLists,
    SqliteTasks,
)
from remand.adapters.stores.sqlite_views import VERSION, LedgerView
from remand.adapters.system.files import lock_handle, note_progress, open_lock, unlock_handle
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.domain.events.event import Event
from remand.domain.events.log import MissingLines
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger import event_tables as tables
from remand.ledger import store as port
from remand.ledger.event_tables import FileMark, KeptObjection, RewrittenLine
from remand.ledger.problems import Problem
from remand.ledger.store import LedgerHead, Transaction

with suppress(apsw.Error):  # another part of the process has begun to use SQLite
    # Counting memory takes a lock for each of the many small pieces that a statement needs.
    apsw.config(apsw.SQLITE_CONFIG_MEMSTATUS, False)

_ORIGIN, _PLACE = "origin", "place"


class SqliteFiles(Table):
    """Which event files were read, and what was wrong with them."""

    place = StoredText(_PLACE)

    def marks(self) -> dict[str, FileMark]:
        return {row[0]: FileMark(*row) for row in self._db.rows(sql.GET_FILES)}

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        self._db.run(sql.PUT_FILE, mark)
        self._db.run(sql.DROP_PROBLEMS, (mark.path,))
        self._db.run_many(sql.ADD_PROBLEM, ((one.file, one.line, one.problem) for one in problems))

    def problems(self) -> list[Problem]:
        return [Problem(file=row[0], line=row[1], problem=row[2]) for row in self._db.rows(sql.GET_PROBLEMS)]


class SqliteHeldEvents(Table):
    """The events with times too far ahead."""

    def add(self, event: Event, line: bytes) -> None:
        self._db.run(sql.QUARANTINE, (event.meta.id, event.ts, line))

    def lines(self) -> list[bytes]:
        return self._db.column(sql.HELD)

    def earliest(self) -> Instant:
        return self._db.value(sql.EARLIEST_HELD) or ""

    def ids(self) -> set[str]:
        return set(self._db.column(sql.HELD_IDS))

    def take_due(self, horizon: Instant) -> list[bytes]:
        return self._db.column(sql.RIPE, (horizon,))


class SqliteMissing(Table):
    """The lines of the log that are known to be missing."""

    _is_empty: bool | None = None
    """None if unknown. Usually nothing is missing, and every decision checks it."""

    archives_here = StoredText("archives_here")

    def replace(self, missing: Mapping[str, Iterable[MissingLines]]) -> None:
        self._is_empty = None
        for session, lines in missing.items():
            self._db.run(sql.DROP_MISSING_OF_SESSION, (session,))
            self._db.run_many(
                sql.ADD_MISSING,
                ((one.session, one.first, one.last, one.id, one.task, one.until) for one in lines),
            )
        self._db.run(sql.MARK_FAULTS)

    def drop(self, ids: Iterable[str]) -> None:
        self._is_empty = None
        self._db.run_many(sql.DROP_MISSING, ((one,) for one in ids if one))

    def every(self, session: str | None = None) -> list[MissingLines]:
        if session is None:
            return self._read(sql.EVERY_MISSING)
        return self._read(sql.MISSING_OF_SESSION, (session,))

    def of_tasks(self, tasks: Collection[str]) -> list[MissingLines]:
        if self._is_empty is None:
            self._is_empty = not self._db.value(sql.HAS_MISSING)
        if self._is_empty:
            return []
        return [one for name in ("", *tasks) for one in self._read(sql.MISSING_OF_TASK, (name,))]

    def faults(self) -> list[MissingLines]:
        return self._read(sql.MISSING_FAULTS)

    def _read(self, statement: str, values: Row = ()) -> list[MissingLines]:
        return [
            MissingLines(session=session, first=first, last=last, id=event_id, task=task, until=until)
            for session, first, last, event_id, task, until in self._db.rows(statement, values)
        ]


class SqliteRewritten(Table):
    """Published lines that are gone from their files."""

    looked_at = StoredText("base_looked_at")

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        self._db.run_many(sql.ADD_REWRITTEN, lines)

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        self._db.run_many(sql.DROP_REWRITTEN, lines)

    def every(self) -> list[RewrittenLine]:
        return [RewrittenLine(*row) for row in self._db.rows(sql.EVERY_REWRITTEN)]


class SqliteObjections(Table):
    """The objections under untrusted keys."""

    def tasks(self) -> list[Task]:
        return [decode_task(state) for state in self._db.column(sql.TASKS_WITH_OBJECTIONS)]

    def keys(self, task_id: str) -> list[KeptObjection]:
        return [KeptObjection(*row) for row in self._db.all(sql.OBJECTING_KEYS, (task_id,))]

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        if works:
            rows = self._db.all(sql.OBJECTIONS_TO_WORKS, (task_id, json.dumps(sorted(works)), signer))
        else:
            rows = self._db.all(sql.OBJECTIONS_OF_KEY, (task_id, signer))
        return [KeptObjection(*row) for row in rows]

    def line(self, place: int) -> bytes:
        return self._db.value(sql.LINE_AT, (place,)) or b""


class SqliteOutdated(Table):
    """The tasks whose files differ from the ledger."""

    mark = StoredText("folders")
    log_mark = StoredText("log_file")
    _noted: list[str] | None = None

    def note(self, task_id: str = "") -> None:
        self._noted = None
        self._db.run(sql.OUTDATE, (task_id,))

    def every(self) -> list[str]:
        return list(dict.fromkeys(note.partition(" ")[0] for note in self.notes()))

    def has_notes(self) -> bool:
        return bool(self.notes())

    def notes(self) -> list[str]:
        if self._noted is None:
            self._noted = self._db.column(sql.OUTDATED)
        return self._noted

    def clear(self, notes: Sequence[str] | None = None) -> None:
        self._db.run_many(sql.IN_STEP, [(note,) for note in (self.notes() if notes is None else notes)])
        self._noted = None


MEMORY = ":memory:"
"""The path by which SQLite keeps a database in memory."""
BUSY_MILLISECONDS = 60_000
_LITTLE = 1 << 20
WAL_PAGES, STAY_PAGES = 1000, 4000
"""Limits of the write-ahead log. A long-running process checkpoints more at once; others keep it short to open fast."""
_VERY_LONG = 8
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""Errors from reading a row whose bytes were damaged without SQLite noticing."""
FAULTS = (apsw.Error, *UNREADABLE)
_HEAD = LedgerHead.__struct_fields__


class SqliteTransaction:
    """One change, or one view, of the ledger."""

    events_kind, groups_kind, names_kind = SqliteEvents, SqliteGroups, SqliteNames
    unconfirmed_kind, outdated_kind = SqliteUnconfirmed, SqliteOutdated
    tasks_kind, dependencies_kind, queue_kind = SqliteTasks, SqliteDependencies, SqliteQueue
    """The tables for which another store has its own classes."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self.undos: list[Callable[[], None]] = []
        events, groups = self.events_kind(statements), self.groups_kind(statements)
        names = self.names_kind(statements, events.new_handoffs, events.recent_handoffs)
        dependencies = self.dependencies_kind(statements)
        self.rejected: port.RejectedTaskTable = (rejected := SqliteRejected(statements))
        queue = self.queue_kind(statements)
        tasks = self.tasks_kind(statements, names, dependencies, rejected, queue)
        self.files: tables.FileTable = SqliteFiles(statements)
        self.held: tables.HeldEvents = SqliteHeldEvents(statements)
        self.events: tables.EventTable = events
        self.event_rows: tables.EventRows = events
        self.groups: tables.GroupTable = groups
        self.group_doubts: tables.GroupDoubts = groups
        self.unconfirmed: tables.UnconfirmedTable = self.unconfirmed_kind(statements, events)
        self.missing: tables.MissingTable = SqliteMissing(statements)
        self.rewritten: tables.RewrittenTable = SqliteRewritten(statements)
        self.objections: tables.ObjectionTable = SqliteObjections(statements)
        self.traces: tables.TraceTable = SqliteTraces(statements)
        self.tasks: port.TaskTable = tasks
        self.task_lists: port.TaskLists = SqliteTaskLists(statements)
        self.names: port.NameTable = names
        self.queue: port.ReadyQueue = queue
        self.dependencies: port.Dependencies = dependencies
        self.outdated: port.OutdatedTasks = self.outdated_kind(statements)
        self.log_lines: port.LogLineTable = SqliteLogLines(statements)
        self._head: LedgerHead | None = None
        self._changed = False

    @property
    def audit(self) -> SqliteAudit:
        return SqliteAudit(self._db)

    @property
    def head(self) -> LedgerHead:
        """The ledger's head."""
        if self._head is None:
            values = self._db.row(sql.GET_HEAD) or ("",) * len(_HEAD)
            self._head = LedgerHead(**dict(zip(_HEAD, values, strict=True)))
        return self._head

    @head.setter
    def head(self, head: LedgerHead) -> None:
        self._head, self._changed = head, True

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self.undos.append(undo)

    def fence_writers(self) -> None:
        """Does nothing: a change is alone, and the next one begins with its head."""

    def flush(self) -> None:
        """Writes the rows that were queued until the end."""
        self._db.settle()
        if self._changed and self._head is not None:
            self._db.run(sql.PUT_HEAD, msgspec.structs.astuple(self._head))
            self._changed = False


class WriteTransaction:
    """A transaction: commits when left without an exception, else rolls back."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> Transaction:
        try:
            self._transaction = self._store.begin()
        except apsw.Error as error:
            self._store.release()
            raise self._store.fault(error) from error
        except BaseException:
            self._store.release()
            raise
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._store.commit(self._transaction)
            else:
                self._store.take_back(self._transaction)
                if isinstance(error, FAULTS):
                    raise self._store.fault(error) from error
        except apsw.Error as failed:
            self._store.take_back(self._transaction)
            raise self._store.fault(failed) from failed
        finally:
            self._store.release()


class SqliteStore:
    """A ledger file. Writers queue at a lock file, which is fair, unlike SQLite's own waiting."""

    url = ""
    """The address of a team's database; a file has none."""
    address = "the ledger file in the repository"
    """Where the ledger is, for messages."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._thread_lock = threading.RLock()
        self._lock_file = (
            -1  # No other process can reach it.
            if self.path == MEMORY
            else open_lock(f"{os.path.splitext(self.path)[0]}.lock")
        )
        try:
            self.connection = self._open()
        except apsw.Error as error:
            raise self.fault(error) from error
        self._db = Statements(self.connection)
        self._identity = self.file_identity()
        self._wal_pages = 0
        self._has_wal = False
        """True once a change was written to the write-ahead log."""
        self._most_wal_pages = WAL_PAGES
        self.connection.set_wal_hook(self._note_wal_pages)
        self._last: tuple[SqliteTransaction, tuple[int, int]] | None = None
        """The last change, with what it has read, and how far the file had come with it: by others, and by this process."""
        self._others = 0
        """SQLite's number that is another one once another process has changed something."""

    @classmethod
    def in_memory(cls, session: str) -> SqliteStore:
        """A ledger that ends with its process, for tests and for reading a log without storing it."""
        store = cls(MEMORY)
        store.adopt(MEMORY, session, lambda _: None)
        return store

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        # Otherwise a statement that may use a partial index is prepared again whenever other values are bound.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        with self._hold_lock():
            version = connection.pragma("user_version")
            if not 0 <= version <= VERSION:
                raise EnvironmentFault(
                    f"The ledger {self.path} has version {version}; this program knows {VERSION}. "
                    "Update remand; if the file is damaged, move it away, and Remand rebuilds it."
                )
            if version == 0:
                connection.execute("PRAGMA page_size = 4096")
                connection.execute(
                    f"BEGIN IMMEDIATE; {sql.SCHEMA}; PRAGMA user_version = {VERSION}; COMMIT"
                ).fetchall()
            connection.execute(sql.SETTINGS).fetchall()
            if version == 0:
                connection.execute("PRAGMA synchronous = FULL")  # until the write-ahead log is used
            if 0 < version < VERSION:
                sqlite_migrations.migrate(connection, version)
        return connection

    def file_identity(self) -> str:
        """The file's identity, which distinguishes it from a copy; empty if it is gone."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return ""
        return f"{status.st_dev}:{status.st_ino}"

    may_have_objections = True
    """Always True: reading objections costs next to nothing."""

    def require_same_file(self) -> None:
        """Refuses to continue if the file was replaced."""
        if self.file_identity() != self._identity:
            raise LedgerReplaced(f"The ledger {self.path} was deleted or replaced. Repeat the command.")

    def value(self, key: str) -> str:
        """A value that the ledger stores about itself."""
        try:
            found: str | None = self._db.value(sql.GET_VALUE, (key,))
        except apsw.Error as error:
            raise self.fault(error) from error
        return found or ""

    def remember(self, key: str, value: str) -> None:
        """Stores a value about the ledger itself."""
        with self.write():
            self._db.run(sql.PUT_VALUE, (key, value))

    def ensure_id(self, session: str, let_go: Callable[[str], None]) -> str:
        """The ledger's id. A copied ledger file is a new ledger: it gets a new id and begins the given session."""
        body, known = self.file_identity(), self.value("id")
        return known if known and self.value("file") == body else self.adopt(body, session, let_go)

    def adopt(self, body: str, session: str, let_go: Callable[[str], None]) -> str:
        """Gives the ledger a new id and session, unless another process just did.

        A copied ledger abandons the segment to which its original continues writing.
        """
        with self._hold_lock():
            if self.value("file") == body:
                return self.value("id")
            run = self._db.run
            run("BEGIN IMMEDIATE")
            run(sql.PUT_VALUE, ("id", session))
            run(sql.PUT_VALUE, ("file", body))
            head = self._db.row(sql.GET_HEAD)
            if head and head[4]:
                let_go(head[4])
            before = LedgerHead(**dict(zip(_HEAD, head, strict=True))) if head else LedgerHead(session="")
            started = LedgerHead(session=session, clock=before.clock, bounded_from=before.bounded_from)
            run(sql.PUT_HEAD, msgspec.structs.astuple(started))
            run("COMMIT")
        return session

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        with self._thread_lock:
            if self._lock_file >= 0:
                lock_handle(self._lock_file)
            try:
                yield
            finally:
                if self._lock_file >= 0:
                    unlock_handle(self._lock_file)

    def write(self) -> WriteTransaction:
        """Opens a change, alone among all writers."""
        return WriteTransaction(self)

    def begin(self) -> SqliteTransaction:
        """Takes the lock and begins a change."""
        self._thread_lock.acquire()
        if self._lock_file >= 0:
            lock_handle(self._lock_file)
        self.require_same_file()
        self._db.run("BEGIN IMMEDIATE")
        # Rows read for the last change stay valid while no other process, and no other part of this one,
        # writes.
        last, self._last = self._last, None
        others, self._others = self._others, self._db.value(sql.DATA_VERSION)
        if others != self._others:
            self._require_same_tables()
        if last is not None and last[1] == (self._others, self.connection.total_changes()):
            return last[0]
        return SqliteTransaction(self._db)

    def _require_same_tables(self) -> None:
        """Refuses to write to tables that a newer version has changed since they were opened."""
        if self._db.value(sql.TABLES_VERSION) != VERSION:
            self._others = 0
            self._db.run("ROLLBACK")
            raise LedgerReplaced(
                f"Another version of remand has changed the ledger {self.path}. Repeat the command."
            )

    def commit(self, transaction: SqliteTransaction) -> None:
        """Commits a change."""
        transaction.flush()
        self._db.run("COMMIT")
        transaction.undos.clear()
        if not self._has_wal:
            self._use_wal()
        self._last = (transaction, (self._others, self.connection.total_changes()))

    def _use_wal(self) -> None:
        """Begins to use a write-ahead log, once all event files have been read.

        Until then a new ledger has a rollback journal: new pages are written once and not twice. Others may be reading;
        then a later change does it.
        """
        if self.path != MEMORY and not self.value(_PLACE):
            with suppress(apsw.Error):
                self.connection.execute("PRAGMA journal_mode = WAL").fetchall()
                self.connection.execute("PRAGMA synchronous = NORMAL").fetchall()
                self._others = self._db.value(sql.DATA_VERSION)

    def _note_wal_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages, self._has_wal = pages, True
        return apsw.SQLITE_OK

    def release(self) -> None:
        """Releases the lock and checkpoints the write-ahead log, which takes two syncs, while others write.

        That never empties the log while others write. So once it is very long, they wait.
        """
        is_long, is_very_long = (self._wal_pages > self._most_wal_pages * n for n in (1, _VERY_LONG))
        try:
            if is_very_long:
                self._checkpoint()
            if self._lock_file >= 0:
                unlock_handle(self._lock_file)
            if is_long and not is_very_long:
                self._checkpoint()
        finally:
            self._thread_lock.release()

    def _checkpoint(self) -> None:
        """Checkpoints the write-ahead log. A short-lived process empties the log, too.

        Whoever opens the ledger alone reads all of the log and does not know how much of it was checkpointed.
        It would checkpoint all of it again after its own change, and the log would grow for ever. This waits
        for nobody: a log that others are reading stays as it is.
        """
        self._wal_pages = 0
        is_staying = self._most_wal_pages == STAY_PAGES
        mode = apsw.SQLITE_CHECKPOINT_PASSIVE if is_staying else apsw.SQLITE_CHECKPOINT_TRUNCATE
        self.connection.set_busy_timeout(0)
        try:
            with suppress(apsw.Error):
                self.connection.wal_checkpoint(mode=mode)
        finally:
            self.connection.set_busy_timeout(BUSY_MILLISECONDS)

    def fault(self, error: Exception) -> EnvironmentFault:
        """Translates a database failure, or a row that nobody can have written, into a fault for the user."""
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, *UNREADABLE)):
            remedy = "It is damaged. Move it away; Remand recreates it from .got/events."
        elif isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and self._is_disk_full()):
            remedy = "The disk is full. Free some space, then repeat."
        elif isinstance(error, apsw.BusyError | apsw.LockedError):
            remedy = "Another program holds it. End that program, then repeat."
        else:
            remedy = "Check the disk and the permissions of the file, then repeat."
        return EnvironmentFault(f"Nothing was recorded: the ledger {self.path} failed ({error}). {remedy}")

    def _is_disk_full(self) -> bool:
        disk = os.statvfs(os.path.dirname(self.path) or os.curdir)
        return disk.f_bavail * disk.f_frsize < _LITTLE

    def take_back(self, transaction: SqliteTransaction) -> None:
        self._db.keep_waiting = self._db.keep_tasks = None
        with suppress(apsw.Error):
            self.connection.execute("ROLLBACK")
        for undo in reversed(transaction.undos):
            undo()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._thread_lock:
            try:
                self.connection.execute("BEGIN")
                try:
                    yield SqliteTransaction(self._db)
                finally:
                    self.connection.execute("ROLLBACK")
            except FAULTS as error:
                raise self.fault(error) from error

    @property
    def origin(self) -> str:
        """The address of the database from which the log is being moved; empty if there is none."""
        return self.value(_ORIGIN)

    def note_origin(self, address: str) -> None:
        """Stores that address."""
        self.remember(_ORIGIN, address)

    @property
    def view(self) -> LedgerView:
        """What commands show straight from the tables."""
        return LedgerView(self.path, self.connection)

    @property
    def shared_data(self) -> shared_data.EmbeddedSharedData:
        """The data that its processes share for a while, besides the events."""
        return shared_data.EmbeddedSharedData(self.value, self.remember)

    def note_progress(self, text: str) -> None:
        is_writing = self.connection.txn_state() == apsw.SQLITE_TXN_WRITE
        note_progress(self._lock_file if is_writing else -1, text)

    def changes(self) -> int:
        """A number that changes whenever any process changes something."""
        with self._thread_lock:
            try:
                others: int = self._db.value(sql.DATA_VERSION)
            except apsw.Error as error:
                raise self.fault(error) from error
            return others + self.connection.total_changes()

    def stay(self) -> None:
        """Prepares for a long-running process."""
        self._most_wal_pages = STAY_PAGES

    def close(self) -> None:
        """Closes the file."""
        self.connection.close()
        if self._lock_file >= 0:
            os.close(self._lock_file)
