"""What can be wrong with a log, by file and line."""

from __future__ import annotations

from remand.domain.record import NamedTuple, Record

LEDGER = ".got/ledger.db"
"""The name of the ledger's own file in problems."""


class BadLine(Exception):  # noqa: N818 - the line is bad, the reader is not
    """A line that is not a valid event; the message says why."""


class Problem(Record, kw_only=True):
    """One problem in the log: where, and what."""

    file: str
    line: int
    problem: str


class TableDifference(NamedTuple):
    """A difference between a table and the events: the table, and the task, if it concerns one."""

    table: str
    task: str
