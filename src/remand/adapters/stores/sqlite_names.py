"""The names of an embedded ledger's people, found by how they are spelt and how they look."""

from __future__ import annotations

from collections.abc import Iterable

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.domain.names import keys, name_key


class SqliteNames:
    """Names by their keys."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def having(self, key: str) -> list[str]:
        """The names with a key, sorted."""
        return [row[0] for row in self._db.all(sql.NAMES_WITH_KEY, (key,))]

    def note(self, names: Iterable[str]) -> None:
        """Adds the names that are not there yet. How a name looks is worked out for those alone."""
        for name in names:
            if name and self._db.value(sql.HAS_NAME, (name_key(name), name)) is None:
                self._db.run_many(sql.ADD_NAME, ((key, name) for key in keys(name)))
