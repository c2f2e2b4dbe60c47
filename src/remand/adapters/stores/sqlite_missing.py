"""What an embedded ledger knows to be missing, or gone from published files."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Row, Statements
from remand.domain.missing import MissingLines
from remand.ledger.missing_tables import RewrittenLine

_LOOKED_AT = "base_looked_at"


class SqliteMissing:
    """The lines of the log that are known to be missing."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def replace(self, session: str, lines: Iterable[MissingLines]) -> None:
        """Keeps these as what is missing of a session."""
        self._db.run(sql.DROP_MISSING_OF_SESSION, (session,))
        self._db.run_many(
            sql.ADD_MISSING,
            ((one.session, one.first, one.last, one.id, one.task, one.until) for one in lines),
        )

    def drop(self, ids: Iterable[str]) -> None:
        """Forgets events that have come."""
        self._db.run_many(sql.DROP_MISSING, ((one,) for one in ids if one))

    def of_session(self, session: str) -> list[MissingLines]:
        """What is missing of a session, by its numbers."""
        return [_as_missing(row) for row in self._db.rows(sql.MISSING_OF_SESSION, (session,))]

    def every(self) -> list[MissingLines]:
        """All that is missing, session by session."""
        return [_as_missing(row) for row in self._db.rows(sql.EVERY_MISSING)]

    def concerning(self, tasks: Collection[str]) -> list[MissingLines]:
        """What is missing of one of these tasks, or of nobody knows which."""
        names = ("", *tasks)
        return [_as_missing(row) for name in names for row in self._db.rows(sql.MISSING_OF_TASK, (name,))]

    def tell_apart(self) -> None:
        """Finds out which of them are faults."""
        self._db.run(sql.MARK_FAULTS)

    def faults(self) -> list[MissingLines]:
        """Those that are faults."""
        return [_as_missing(row) for row in self._db.rows(sql.MISSING_FAULTS)]


def _as_missing(row: Row) -> MissingLines:
    session, first, last, event_id, task, until = row
    return MissingLines(session=session, first=first, last=last, id=event_id, task=task, until=until)


class SqliteRewritten:
    """Published lines that are gone from their files."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    @property
    def looked_at(self) -> str:
        """The ref of the base and its commit when its history was looked at."""
        return self._db.value(sql.GET_VALUE, (_LOOKED_AT,)) or ""

    @looked_at.setter
    def looked_at(self, text: str) -> None:
        self._db.run(sql.PUT_VALUE, (_LOOKED_AT, text))

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        """Keeps lines that were found."""
        self._db.run_many(sql.ADD_REWRITTEN, lines)

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        """Forgets lines that are there again, or were given up."""
        self._db.run_many(sql.DROP_REWRITTEN, lines)

    def every(self) -> list[RewrittenLine]:
        """All of them, by file and line."""
        return [RewrittenLine(*row) for row in self._db.rows(sql.EVERY_REWRITTEN)]
