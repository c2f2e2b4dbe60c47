"""Running statements, with rows as plain tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from remand.adapters.stores import sqlite_schema as sql

Row = tuple[Any, ...]


class Statements:
    """A connection, asked for one row, all rows, or none."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._changes = connection.changes

    def run(self, statement: str, values: Row = ()) -> None:
        """Runs a statement for what it does."""
        self._execute(statement, values)

    def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Runs a statement for every row of values."""
        self._executemany(statement, rows)

    def try_change(self, statement: str, values: Row = ()) -> bool:
        """Runs a statement; True when it changed something."""
        self._execute(statement, values)
        return bool(self._changes())

    def row(self, statement: str, values: Row = ()) -> Row | None:
        """The first row, or None."""
        found: Row | None = self._execute(statement, values).fetchone()
        return found

    def value(self, statement: str, values: Row = ()) -> Any:
        """The first value of the first row, or None."""
        found = self._execute(statement, values).fetchone()
        return found[0] if found else None

    def rows(self, statement: str, values: Row = ()) -> Iterator[Row]:
        """The rows, one after the other; run nothing else before the last."""
        return self._execute(statement, values)

    def column(self, statement: str, values: Row = ()) -> list[Any]:
        """The first value of every row."""
        return [row[0] for row in self._execute(statement, values)]

    def all(self, statement: str, values: Row = ()) -> list[Row]:
        """All rows."""
        found: list[Row] = self._execute(statement, values).fetchall()
        return found


class Table:
    """One of the ledger's tables. What its methods promise is said in `ledger/store.py` and `ledger/event_tables.py`."""

    def __init__(self, statements: Statements) -> None:
        self.statements = self._db = statements


class StoredText:
    """An attribute that is kept as a text in the table of the ledger's own values; empty when it was never set."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get__(self, table: Table, owner: type) -> str:
        found: str | None = table.statements.value(sql.GET_VALUE, (self._key,))
        return found or ""

    def __set__(self, table: Table, text: str) -> None:
        if text != self.__get__(table, type(table)):
            table.statements.run(sql.PUT_VALUE, (self._key, text))
