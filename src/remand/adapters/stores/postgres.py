"""The ledger of a team: one PostgreSQL database that many processes write, each under its own session."""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import apsw
import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.types import array, numeric, string

from remand.adapters.stores import postgres_schema as own
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.postgres_statements import (
    Connection,
    KnownRows,
    PostgresStatements,
    TasksTaken,
    number_of_name,
    register_arrays,
)
from remand.adapters.stores.postgres_tables import (
    NEW_HEAD,
    PostgresTransaction,
    SessionTaken,
)
from remand.adapters.stores.shared_data import PostgresSharedData
from remand.adapters.stores.sqlite_views import VERSION, LedgerView
from remand.adapters.system.files import note_progress
from remand.app.errors import EnvironmentFault, StoreAway, StoreConflict, StoreRejected
from remand.app.reminders import UnseenCounts
from remand.ledger.store import ChangeScope, LedgerHead, Transaction

T = TypeVar("T")
Begin = Callable[[Connection], T]
"""What is done first with a connection."""


class PostgresChange:
    """A transaction: commits when left without an exception, else rolls back."""

    def __init__(self, store: PostgresStore, ahead: ChangeScope | None) -> None:
        self._store = store
        self._ahead = ahead

    def __enter__(self) -> Transaction:
        self._transaction = self._store.begin(self._ahead)
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            self._store.commit(self._transaction)
            return
        self._store.take_back(self._transaction)
        if isinstance(error, _FAULTS):
            raise self._store.fault(error) from error


class _ThreadConnections(threading.local):
    """How many connections a thread uses."""

    count = 0


class PostgresStore:
    """A ledger in a database. Each thread has its own connection while it reads or writes."""

    def __init__(self, url: str, session: str, own_key: Callable[[], str] = lambda: "") -> None:
        self.url = url
        self._new_session = session
        self._own_key = own_key
        self.known = KnownRows()
        self._session = ""
        self._keeper: Connection | None = None
        """The connection whose lock keeps other processes from the session."""
        self._head: LedgerHead | None = None
        """How far the session has come with the last change, perhaps while that is being made; None when that is not known."""
        self._failures = 0
        """How many changes failed while they were committed: none that continued from one of them can be."""
        self._commits = 0
        self._free: list[Connection] = []
        self._is_closed = False
        self._places = threading.BoundedSemaphore(_MOST_USED)
        self._with_place: set[Connection] = set()
        """The connections in use that take one of the places."""
        self._thread = _ThreadConnections()
        self._pool_lock = threading.Lock()
        self._write_lock = threading.RLock()
        self._commit_lock = threading.Lock()
        try:
            with self._connection() as connection:
                self._make_tables(connection)
        except EnvironmentFault:
            self.close()
            raise

    # ------------------------------------------------------------------------------------------ connections

    def _connect(self) -> Connection:
        try:
            connection = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
            self._run_or_close(connection, _statement(own.SETTINGS))
        except psycopg.Error as error:
            raise self.fault(error) from error
        connection.adapters.register_dumper(int, numeric.Int8BinaryDumper)
        connection.adapters.register_dumper(str, string.StrBinaryDumper)
        connection.adapters.register_dumper(bytes, string.BytesBinaryDumper)
        connection.adapters.register_dumper(list, array.ListBinaryDumper)
        register_arrays(connection)
        for loader in (string.TextLoader, string.TextBinaryLoader):
            connection.adapters.register_loader("json", loader)
        return connection

    def _run_or_close(self, connection: Connection, begin: Begin[T]) -> T:
        try:
            return begin(connection)
        except psycopg.Error:
            connection.close()
            raise

    def _take(self, begin: Begin[T]) -> tuple[Connection, T]:
        """A connection, and the result of what it begins with. Replaces a connection that broke while unused.

        Threads queue when too many want a connection. A thread that has one does not queue for a second, so
        that no two wait for each other.
        """
        needs_place = not self._thread.count
        if needs_place and not self._places.acquire(timeout=_PLACE_SECONDS):
            raise StoreAway(
                f"All {_MOST_USED} connections of this process to PostgreSQL have been in use for {_PLACE_SECONDS:.0f} s. Repeat the command."
            )
        is_open = False
        try:
            connection, begun = self._open(begin)
            is_open = True
        finally:
            if not is_open and needs_place:
                self._places.release()
        self._thread.count += 1
        if needs_place:
            self._with_place.add(connection)
        return connection, begun

    def _open(self, begin: Begin[T]) -> tuple[Connection, T]:
        with self._pool_lock:
            free = self._free.pop() if self._free else None
        if free is not None:
            with suppress(psycopg.OperationalError, psycopg.InterfaceError):
                return free, self._run_or_close(free, begin)
        connection = self._connect()
        return connection, self._run_or_close(connection, begin)

    def _give_back(self, connection: Connection) -> None:
        """Returns a connection to the pool, unless it is broken or the pool is full."""
        is_idle = connection.info.transaction_status == pq.TransactionStatus.IDLE
        self._thread.count -= 1
        with self._pool_lock:
            has_place = connection in self._with_place
            self._with_place.discard(connection)
            is_wanted = len(self._free) < _MOST_FREE or connection is self._keeper
            is_kept = is_idle and is_wanted and not self._is_closed
            if is_kept:
                self._free.append(connection)
        if not is_kept:
            connection.close()
        if has_place:
            self._places.release()

    @contextmanager
    def _connection(self, begin: str = "") -> Iterator[Connection]:
        try:
            connection, _ = self._take(_statement(begin or "SELECT 1"))
            try:
                yield connection
            finally:
                if begin:
                    with suppress(psycopg.Error):
                        _roll_back(connection)
                self._give_back(connection)
        except psycopg.Error as error:
            raise self.fault(error) from error

    def _make_tables(self, connection: Connection) -> None:
        """Brings the tables to this version; only the first process does it."""
        if self._version(connection) != own.VERSION:
            connection.execute(f"SELECT pg_advisory_lock({own.LOCK_OF_TABLES})")
            try:
                self._migrate(connection)
            finally:
                connection.execute(f"SELECT pg_advisory_unlock({own.LOCK_OF_TABLES})")

    def _migrate(self, connection: Connection) -> None:
        version = self._version(connection)
        if version > own.VERSION:
            raise EnvironmentFault(
                f"The ledger in the database has version {version}; this program knows {own.VERSION}. Update remand."
            )
        with connection.transaction():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {own.SCHEMA_NAME}")
            for step in own.MIGRATIONS[version:]:
                connection.execute(step)
            if version < own.VERSION:
                connection.execute(
                    "INSERT INTO ledger VALUES ('version', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (str(own.VERSION),),
                )

    def _version(self, connection: Connection) -> int:
        with suppress(errors.UndefinedTable):
            found = connection.execute("SELECT value FROM ledger WHERE key = 'version'").fetchone()
            return int(found[0]) if found else 0
        return 0

    # ---------------------------------------------------------------------------------------- transactions

    def write(self, ahead: ChangeScope | None = None) -> PostgresChange:
        """Opens a change. Within a process, changes are decided one at a time, while the previous one is committed."""
        return PostgresChange(self, ahead)

    def begin(self, ahead: ChangeScope | None) -> PostgresTransaction:
        """Begins a change."""
        self._write_lock.acquire()
        is_begun = False
        try:
            if self._keeper is None or self._keeper.closed:
                # Before the change: a later check of whether it was committed waits for the session's row.
                with self._connection() as keeper:
                    self._take_session(keeper)
            self.known.forget_old_names()
            statements = self._take(partial(_begin_change, self.known, ahead))[1]
            is_begun = True
        except psycopg.Error as error:
            raise self.fault(error) from error
        finally:
            if not is_begun:
                self._write_lock.release()
        return PostgresTransaction(statements, self._session, self._head, self._failures)

    def _take_session(self, connection: Connection) -> None:
        """Continues a session of this key that no process writes to, or begins one."""
        self._head = None
        run = psycopg.RawCursor(connection).execute
        known = [row[0] for row in run(own.HEADS_WITH_KEY, (self._own_key(),)).fetchall()]
        for session in filter(None, dict.fromkeys((self._session, *known, self._new_session))):
            number = number_of_name(f"session {session}")
            if run("SELECT pg_try_advisory_lock($1)", (number,)).fetchone() == (True,):
                run(own.ADD_HEAD, (session, *NEW_HEAD[1:]))
                self._session, self._keeper = session, connection
                return

    def commit(self, transaction: PostgresTransaction) -> None:
        """Commits a change. While it is written and synced, the next one may be decided."""
        is_decided = False
        try:
            transaction.write_rows()
            # The previous one may still be on its way, and the next one continues from this one's head.
            self._commit_lock.acquire()
            try:
                if transaction.failures_before != self._failures:
                    raise SessionTaken(transaction.first_session)
                transaction.move_head()
                self._commits += 1
                if self._commits % _COMMITS_A_SUM == 0:
                    transaction.statements.write_later(own.SUM_COUNTS, (own.LOCK_OF_COUNTS,))
                self._head = transaction.head
                self._session = self._head.session
                is_decided = True
            finally:
                if not is_decided:
                    self._commit_lock.release()
        except _FAULTS as error:
            raise self.fault(error) from error
        finally:
            if not is_decided:
                self.take_back(transaction)
        self._write_lock.release()
        try:
            try:
                transaction.on_decided()
            finally:
                self._finish(transaction, transaction.statements.connection)
        finally:
            self._commit_lock.release()
        transaction.keep_numbers()
        transaction.undos.clear()

    def _finish(self, transaction: PostgresTransaction, connection: Connection) -> None:
        """Writes what is left and commits; if the answer is lost, finds out whether the commit succeeded."""
        try:
            transaction.statements.write_with("COMMIT")
        except _FAULTS as error:
            is_taken_back = connection.info.transaction_status == pq.TransactionStatus.INERROR
            connection.close()
            self._give_back(connection)
            if is_taken_back or not (transaction.has_events and self._is_committed(transaction)):
                self._failures += 1
                self._undo(transaction)
                raise self.fault(error) from error
        else:
            self._give_back(connection)

    def take_back(self, transaction: PostgresTransaction) -> None:
        """Rolls a change back."""
        connection = transaction.statements.connection
        transaction.statements.keep_waiting = None
        self._head = None
        self._write_lock.release()
        with suppress(psycopg.Error):
            _roll_back(connection)
        self._undo(transaction)
        self._give_back(connection)

    def _undo(self, transaction: PostgresTransaction) -> None:
        self._head = None
        for undo in reversed(transaction.undos):
            undo()

    def _is_committed(self, transaction: PostgresTransaction) -> bool:
        """True if a change whose commit was not confirmed has succeeded: then the session has its last event.

        The session's row is locked until that is settled. A server that has not processed the commit yet
        could still do so: changing the row prevents that.
        """
        head, before = transaction.head, transaction.first_session
        for wait in _WAITS:
            try:
                with self._connection() as connection:
                    connection.execute(own.FENCE_HEAD, (before,))
                    found = connection.execute(own.LINE_OF, (head.seq, head.session)).fetchone()
                    self._head = None
            except StoreAway:
                time.sleep(wait)
            else:
                return found is not None and head.tip.encode() in found[0]
        raise EnvironmentFault(
            "PostgreSQL does not answer, and it is not known whether this was recorded. Repeat the command with the same "
            "--key once it is back: it is not carried out twice."
        )

    def fault(self, error: Exception) -> EnvironmentFault:
        """Translates a database failure into a fault that tells the user what it means."""
        if isinstance(error, (*_CONFLICTS, SessionTaken, TasksTaken)):
            return StoreConflict(
                f"Nothing was recorded: another process changed the same tasks ({error}). Repeat the command.",
                getattr(error, "tasks", ()),
            )
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and _is_away(error):
            return StoreAway(
                f"PostgreSQL does not answer ({_one_line(error)}). Start it, or wait until it is back; then repeat."
            )
        return StoreRejected(f"Nothing was recorded: PostgreSQL failed ({_one_line(error)}).")

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Opens a consistent snapshot for reading."""
        with self._connection("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield PostgresTransaction(PostgresStatements(connection, self.known), self._session)

    def note_progress(self, text: str) -> None:
        """Shows the user how far a long change has come."""
        note_progress(-1, text)

    def changes(self) -> int:
        """A number that changes whenever any process changes something."""
        with self._connection() as connection:
            (found,) = connection.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
        return zlib.crc32(found.encode())

    # ------------------------------------------------------------------------------------------- the ledger

    def value(self, key: str) -> str:
        """A value that the ledger stores about itself."""
        with self._connection() as connection:
            found = connection.execute("SELECT value FROM ledger WHERE key = %s", (key,)).fetchone()
        return found[0] if found else ""

    def ensure_id(self, name: str) -> str:
        """The ledger's id, the same for all processes; if it has none, it becomes this name."""
        with self._connection() as connection:
            connection.execute("INSERT INTO ledger VALUES ('id', %s) ON CONFLICT DO NOTHING", (name,))
        return self.value("id")

    @property
    def address(self) -> str:
        """The database's address without a password, for people and for connecting to it again."""
        found = conninfo_to_dict(self.url)
        host, name = str(found.get("host", "")), found.get("dbname", "")
        port = f":{found['port']}" if "port" in found else ""
        user = f"{found['user']}@" if "user" in found else ""
        if host.startswith("/"):
            return f"postgresql://{user}{port}/{name}?host={host}"
        return f"postgresql://{user}{host}{port}/{name}"

    origin = ""
    """A log is moved here from a local ledger file, which has no address."""

    def note_origin(self, address: str) -> None:
        """Does nothing."""

    @property
    def view(self) -> PostgresView:
        """What commands show straight from the tables."""
        return PostgresView(self)

    @property
    def shared_data(self) -> PostgresSharedData:
        """The data that its processes share besides the events."""
        return PostgresSharedData(self._connection)

    @property
    def may_have_objections(self) -> bool:
        """False if no task had objections when this process began its last change."""
        return self.known.may_have_objections

    def file_identity(self) -> str:
        """The database's identity, which distinguishes it from another in its place."""
        return self.url

    def require_same_file(self) -> None:
        """Does nothing: a database cannot be replaced under a running process."""

    def stay(self) -> None:
        """Prepares for a long-running process."""

    def close(self) -> None:
        """Closes the connections; a connection in use closes when it is returned."""
        with self._pool_lock:
            self._is_closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()


def _statement(text: str) -> Begin[psycopg.Cursor[Any]]:
    return lambda connection: connection.execute(text)


def _roll_back(connection: Connection) -> None:
    """Ends a transaction, and forgets prepared statements if it failed: Psycopg believes in those that a failed pipeline left out."""
    if connection.info.transaction_status == pq.TransactionStatus.INERROR:
        connection.rollback()
    else:
        connection.execute("ROLLBACK")


def _begin_change(known: KnownRows, ahead: ChangeScope | None, connection: Connection) -> PostgresStatements:
    statements = PostgresStatements(connection, known)
    statements.begin(ahead)
    return statements


_COMMITS_A_SUM = 256
"""After so many changes the rows that count tasks are added up."""
_MOST_FREE = 32
"""Most unused connections in the pool: as many as a server has threads."""
_MOST_USED = 48
"""Most connections in use; PostgreSQL's default limit is 100 for all processes together."""
_PLACE_SECONDS = 30.0
_WAITS = (0.0, 0.05, 0.1, 0.2, 0.5, *[1.0] * 60)
"""Pauses between attempts to reach an unavailable database."""
_CONFLICTS = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.UniqueViolation,
    errors.LockNotAvailable,
    errors.DivisionByZero,  # As `MUST_MOVE_HEAD` reports that another process continues with the session.
)


_FAULTS = (psycopg.Error, SessionTaken, TasksTaken, struct.error, OverflowError, UnicodeError)
"""What may stop a change: database errors, conflicts with other changes, and values that cannot be sent."""


def _is_away(error: psycopg.Error) -> bool:
    """True if the server is unreachable; False if it failed to run this statement.

    A full disk, a timeout and too complex a statement are operational errors, too.
    """
    code = error.sqlstate or ""
    return not code or code.startswith(("08", "57P")) or code == "53300"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


_TASKS = "SELECT id, status, due_at, rank, line, barred, state, marks FROM task"
_WITH_END = f"{_TASKS} WHERE right(id, 4) = ANY ($1::text[])"
_WAITING = f"{_TASKS} WHERE marks & 32 OR id IN (SELECT task FROM errand WHERE errand = 'tell')"  # noqa: S608 - fixed text
_BESIDE = {
    "alias": "SELECT alias, task FROM alias WHERE task = ANY ($1::text[]) OR alias IN (SELECT alias FROM alias WHERE task = ANY ($1::text[]))",
    "errand": "SELECT errand, task FROM errand WHERE errand = 'tell' AND task = ANY ($1::text[])",
}


class PostgresView(LedgerView):
    """A read-only view of a ledger in PostgreSQL. Copies the rows that a query needs into an SQLite database in memory."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        super().__init__(store.url, apsw.Connection(":memory:"))
        self._connection.execute(f"{sql.SCHEMA}; PRAGMA user_version = {VERSION}").fetchall()

    def _copy(self, statement: str, values: sql.Row = ()) -> None:
        """Fills the tables in memory with the selected tasks and what belongs to them."""
        run, run_many = self._connection.execute, self._connection.executemany
        with self._store.read() as view:
            statements = view.statements  # type: ignore[attr-defined]  # it is this store's own
            tasks = statements.all(statement, values)
            names = ([row[0] for row in tasks],)
            beside = {table: statements.all(found, names) for table, found in _BESIDE.items()}
            missing = statements.all("SELECT * FROM missing WHERE is_fault")
            rewritten = statements.all("SELECT * FROM rewritten")
        with self._connection:
            for table in ("task", "alias", "errand", "missing", "rewritten"):
                run(f"DELETE FROM {table}").fetchall()  # noqa: S608 - fixed names
            run_many(sql.ADD_TASK, tasks).fetchall()
            run_many("INSERT INTO alias VALUES (?, ?)", beside["alias"]).fetchall()
            run_many(sql.ADD_ERRAND, beside["errand"]).fetchall()
            run_many("INSERT INTO missing VALUES (?, ?, ?, ?, ?, ?, ?)", missing).fetchall()
            run_many(sql.ADD_REWRITTEN, rewritten).fetchall()

    def unseen_counts(self, now: str) -> UnseenCounts:
        self._copy(_WAITING)
        return super().unseen_counts(now)

    def untrusted_writer(self) -> str:
        return self._store.known.writer

    def short_names(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        self._copy(_WITH_END, ([name[-4:] for name in ids],))
        return super().short_names(ids)
