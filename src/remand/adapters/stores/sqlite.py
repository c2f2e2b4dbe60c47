"""The embedded ledger: one SQLite file, one writer at a time, the tables in step with the events."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import TracebackType

import apsw
import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_events import (
    SqliteEvents,
    SqliteTraces,
    SqliteUnconfirmed,
)
from remand.adapters.stores.sqlite_files import SqliteFiles
from remand.adapters.stores.sqlite_groups import SqliteGroups
from remand.adapters.stores.sqlite_missing import SqliteMissing, SqliteRewritten
from remand.adapters.stores.sqlite_names import SqliteNames
from remand.adapters.stores.sqlite_objections import SqliteObjections
from remand.adapters.stores.sqlite_records import SqliteLogLines, SqliteOutdated
from remand.adapters.stores.sqlite_rejected import SqliteRejected
from remand.adapters.stores.sqlite_statements import Statements
from remand.adapters.stores.sqlite_tasks import SqliteQueue, SqliteTasks
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.ledger.missing_tables import MissingTable, RewrittenTable
from remand.ledger.objections import ObjectionTable
from remand.ledger.record_tables import LogLines, Outdated
from remand.ledger.store import (
    EventLog,
    FileBook,
    GroupTable,
    Head,
    NameTable,
    Queue,
    RejectedTasks,
    TaskTable,
    TraceTable,
    Transaction,
    UnconfirmedTable,
)

BUSY_MILLISECONDS = 60_000
_LITTLE = 1 << 20
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What reading a row leads to whose bytes were damaged without SQLite noticing."""
FAULTS = (apsw.Error, *UNREADABLE)
_HEAD = Head.__struct_fields__


class SqliteTransaction:
    """One change, or one view, of the ledger."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self.undos: list[Callable[[], None]] = []
        self.files: FileBook = SqliteFiles(statements)
        events = SqliteEvents(statements)
        self.events: EventLog = events
        self.groups: GroupTable = SqliteGroups(statements)
        self.unconfirmed: UnconfirmedTable = SqliteUnconfirmed(statements, events)
        self.missing: MissingTable = SqliteMissing(statements)
        self.rewritten: RewrittenTable = SqliteRewritten(statements)
        self.objections: ObjectionTable = SqliteObjections(statements)
        self.traces: TraceTable = SqliteTraces(statements)
        self.tasks: TaskTable = SqliteTasks(statements)
        self.names: NameTable = SqliteNames(statements)
        self.queue: Queue = SqliteQueue(statements)
        self.rejected: RejectedTasks = SqliteRejected(statements)
        self.outdated: Outdated = SqliteOutdated(statements)
        self.log_lines: LogLines = SqliteLogLines(statements)
        self._head: Head | None = None
        self._changed = False

    @property
    def head(self) -> Head:
        """How far the ledger has come."""
        if self._head is None:
            values = self._db.row(sql.GET_HEAD) or ("",) * len(_HEAD)
            self._head = Head(**dict(zip(_HEAD, values, strict=True)))
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
            self._db.run(sql.PUT_HEAD, msgspec.structs.astuple(self._head))


class Writing:
    """An open change: leaving it without an error makes it so, with one takes it back."""

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
    """A ledger file. Writers queue at a lock file, which is fair where SQLite's own waiting is not."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._thread_lock = threading.RLock()
        self._lock_file = os.open(
            f"{os.path.splitext(self.path)[0]}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            self.connection = self._open()
        except apsw.Error as error:
            raise self.fault(error) from error
        self._db = Statements(self.connection)
        self._identity = self.file_identity()

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        with self._locked():
            version = connection.pragma("user_version")
            if not 0 <= version <= sql.VERSION:
                raise EnvironmentFault(
                    f"The ledger {self.path} has version {version}; this program knows {sql.VERSION}. "
                    "Update remand; should the file be damaged, move it away to have it rebuilt."
                )
            if version == 0:
                connection.execute("PRAGMA page_size = 4096")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(
                    f"BEGIN IMMEDIATE; {sql.SCHEMA}; PRAGMA user_version = {sql.VERSION}; COMMIT"
                ).fetchall()
            connection.execute(sql.SETTINGS).fetchall()
            if 0 < version < sql.VERSION:
                import_module("remand.adapters.stores.sqlite_migrations").migrate(connection, version)
        return connection

    def file_identity(self) -> str:
        """What tells this file from a copy of it; empty when it is gone."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return ""
        return f"{status.st_dev}:{status.st_ino}"

    def require_same_file(self) -> None:
        """Refuses to go on with a file that is not the ledger any more."""
        if self.file_identity() != self._identity:
            raise LedgerReplaced(f"The ledger {self.path} was deleted or replaced. Repeat the command.")

    def value(self, key: str) -> str:
        """Something the ledger remembers of itself."""
        try:
            found: str | None = self._db.value(sql.GET_VALUE, (key,))
        except apsw.Error as error:
            raise self.fault(error) from error
        return found or ""

    def adopt(self, body: str, session: str, let_go: Callable[[str], None]) -> str:
        """Gives the ledger a new id and session, unless another process just did.

        A copied ledger lets go of the segment that its original goes on writing to.
        """
        with self._locked():
            if self.value("file") == body:
                return self.value("id")
            run = self._db.run
            run("BEGIN IMMEDIATE")
            run(sql.PUT_VALUE, ("id", session))
            run(sql.PUT_VALUE, ("file", body))
            head = self._db.row(sql.GET_HEAD)
            if head and head[4]:
                let_go(head[4])
            before = Head(**dict(zip(_HEAD, head, strict=True))) if head else Head(session="")
            started = Head(session=session, clock=before.clock, bounded_from=before.bounded_from)
            run(sql.PUT_HEAD, msgspec.structs.astuple(started))
            run("COMMIT")
        return session

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._thread_lock:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def write(self) -> Writing:
        """Opens a change, alone among all writers."""
        return Writing(self)

    def begin(self) -> SqliteTransaction:
        """Takes the lock and begins a change."""
        self._thread_lock.acquire()
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        self.require_same_file()
        self._db.run("BEGIN IMMEDIATE")
        return SqliteTransaction(self._db)

    def commit(self, transaction: SqliteTransaction) -> None:
        """Makes a change so."""
        transaction.flush()
        self._db.run("COMMIT")

    def release(self) -> None:
        """Lets others write."""
        fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        self._thread_lock.release()

    def fault(self, error: Exception) -> EnvironmentFault:
        """What a failing database, or a table that holds what nobody wrote, means for the user."""
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, *UNREADABLE)):
            remedy = "It is damaged. Move it away; it is made again from .got/events."
        elif isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and self._is_disk_full()):
            remedy = "The disk is full. Free some space, then repeat."
        elif isinstance(error, apsw.BusyError | apsw.LockedError):
            remedy = "Another program holds it. End that program, then repeat."
        else:
            remedy = "Check the disk and the rights of the file, then repeat."
        return EnvironmentFault(f"Nothing was recorded: the ledger {self.path} failed ({error}). {remedy}")

    def _is_disk_full(self) -> bool:
        disk = os.statvfs(os.path.dirname(self.path) or os.curdir)
        return disk.f_bavail * disk.f_frsize < _LITTLE

    def take_back(self, transaction: SqliteTransaction) -> None:
        with suppress(apsw.Error):
            self.connection.execute("ROLLBACK")
        for undo in reversed(transaction.undos):
            undo()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Opens a view of one moment."""
        with self._thread_lock:
            try:
                self.connection.execute("BEGIN")
                try:
                    yield SqliteTransaction(self._db)
                finally:
                    self.connection.execute("ROLLBACK")
            except FAULTS as error:
                raise self.fault(error) from error

    def changes(self) -> int:
        """Another number once this or any other process has changed something."""
        with self._thread_lock:
            try:
                others: int = self.connection.pragma("data_version")
            except apsw.Error as error:
                raise self.fault(error) from error
            return others + self.connection.total_changes()

    def stay(self) -> None:
        """Prepares for a long life."""
        self._db.all(sql.STAY)

    def close(self) -> None:
        """Lets go of the file."""
        self.connection.close()
        os.close(self._lock_file)
