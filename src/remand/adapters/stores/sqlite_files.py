"""The event files that an embedded ledger has read, and what it holds back."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.domain.events import Event
from remand.domain.instant import Instant
from remand.ledger.problems import Problem
from remand.ledger.store import FileMark


class SqliteFiles:
    """Which event files were read, and what was wrong with them."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def marks(self) -> dict[str, FileMark]:
        """Every file that was read, as it was then."""
        return {row[0]: FileMark(*row) for row in self._db.rows(sql.GET_FILES)}

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        """Remembers a file, and what was wrong with it this time."""
        self._db.run(sql.PUT_FILE, mark)
        self._db.run(sql.DROP_PROBLEMS, (mark.path,))
        for problem in problems:
            self._db.run(sql.ADD_PROBLEM, (problem.file, problem.line, problem.problem))

    def problems(self) -> list[Problem]:
        """Everything that was wrong with the files."""
        return [Problem(file=row[0], line=row[1], problem=row[2]) for row in self._db.rows(sql.GET_PROBLEMS)]

    def hold_back(self, event: Event, line: bytes) -> None:
        """Keeps an event from too far ahead aside."""
        self._db.run(sql.QUARANTINE, (event.meta.id, event.ts, line))

    def held(self) -> list[bytes]:
        """The lines held back."""
        return [row[0] for row in self._db.all(sql.HELD)]

    def earliest_held(self) -> Instant:
        """The earliest time held back."""
        found: Instant | None = self._db.value(sql.EARLIEST_HELD)
        return found or ""

    def held_ids(self) -> set[str]:
        """The ids of the events that are held back."""
        return {row[0] for row in self._db.rows(sql.HELD_IDS)}

    def ripe(self, horizon: Instant) -> list[bytes]:
        """Takes out what is not too far ahead any more."""
        return [row[0] for row in self._db.all(sql.RIPE, (horizon,))]
