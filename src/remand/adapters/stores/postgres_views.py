"""What commands show of a ledger in PostgreSQL: the rows it takes, read by the embedded ledger's own statements."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
from psycopg.conninfo import conninfo_to_dict

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.sqlite_views import VERSION, LedgerView
from remand.app.reminders import UnseenCounts

_TASKS = "SELECT id, status, due_at, rank, line, barred, state, marks FROM task"
_WITH_END = f"{_TASKS} WHERE right(id, 4) = ANY ($1::text[])"
_WAITING = f"{_TASKS} WHERE (marks & 32) != 0 OR id IN (SELECT task FROM errand WHERE errand = 'tell')"  # noqa: S608 - fixed text
_BESIDE = {
    "alias": "SELECT alias, task FROM alias WHERE task = ANY ($1::text[]) OR alias IN (SELECT alias FROM alias WHERE task = ANY ($1::text[]))",
    "errand": "SELECT errand, task FROM errand WHERE errand = 'tell' AND task = ANY ($1::text[])",
}


class PostgresView(LedgerView):
    """A ledger in PostgreSQL, for reading alone. The rows that a question is about are copied into memory for it."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        super().__init__(store.url, apsw.Connection(":memory:"))
        self._connection.execute(f"{sql.SCHEMA}; PRAGMA user_version = {VERSION}").fetchall()

    def _copy(self, statement: str, values: sql.Row = ()) -> None:
        """Makes the tables in memory what a statement selects of the tasks, and what belongs to these."""
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


def public_address(url: str) -> str:
    """Where a database is, without a password, for people and to connect to it again."""
    found = conninfo_to_dict(url)
    host, name = str(found.get("host", "")), found.get("dbname", "")
    port = f":{found['port']}" if "port" in found else ""
    user = f"{found['user']}@" if "user" in found else ""
    if host.startswith("/"):
        return f"postgresql://{user}{port}/{name}?host={host}"
    return f"postgresql://{user}{host}{port}/{name}"
