"""What an embedded ledger knows of the files that are made from it."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.ledger.record_tables import LogLine

_MARK = "folders"


class SqliteOutdated:
    """The tasks whose files are not as the ledger has it."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    @property
    def mark(self) -> str:
        """How the folders were left."""
        return self._db.value(sql.GET_VALUE, (_MARK,)) or ""

    @mark.setter
    def mark(self, text: str) -> None:
        self._db.run(sql.PUT_VALUE, (_MARK, text))

    def note(self, task_id: str = "") -> None:
        """Has a task's files made again; without a task, all files."""
        self._db.run(sql.OUTDATE, (task_id,))

    def every(self) -> list[str]:
        """The tasks that were noted."""
        return [row[0] for row in self._db.rows(sql.OUTDATED)]

    def clear(self) -> None:
        """Forgets them."""
        self._db.run(sql.ALL_IN_STEP)


class SqliteLogLines:
    """The lines of the orchestration log."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        """Replaces a task's lines."""
        days = {row[0] for row in self._db.rows(sql.DAYS_OF_TASK, (task_id,))}
        self._db.run(sql.DROP_LINES, (task_id,))
        self._db.run_many(sql.ADD_LINE, ((task_id, *line) for line in lines))
        return days | {line.place[:10] for line in lines}

    def day(self, day: str) -> list[str]:
        """The lines of a day, in their order."""
        return [row[0] for row in self._db.rows(sql.LINES_OF_DAY, (day,))]

    def days(self) -> list[str]:
        """The days that have lines."""
        return [row[0] for row in self._db.rows(sql.DAYS)]

    def clear(self) -> None:
        """Throws all lines away."""
        self._db.run(sql.DROP_ALL_LINES)
