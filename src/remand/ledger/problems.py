"""What can be wrong with a log, said by file and line."""

from __future__ import annotations

from remand.domain.record import NamedTuple, Record

LEDGER = ".got/ledger.db"
"""How the ledger's own file is called where something is wrong with it."""


class BadLine(Exception):  # noqa: N818 - the line is bad, the reader is not
    """A line that is no event; the message says what is wrong with it."""


class Problem(Record, kw_only=True):
    """One thing wrong with the log: where, and what."""

    file: str
    line: int
    problem: str


class TableDifference(NamedTuple):
    """Where a table is not what the events make of it: the table, and the task concerned if there is one."""

    table: str
    task: str
