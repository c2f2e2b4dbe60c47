"""Compares the embedded ledger's tables with its events, and rebuilds its index of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_events import ADD_GROUP_TASK, named_tasks
from remand.adapters.stores.sqlite_schema import Row, Table
from remand.adapters.stores.sqlite_tasks import search_row, task_row
from remand.app.tasks import queue
from remand.domain.decisions.forge_actions import due_kinds
from remand.domain.task import Task
from remand.ledger import signatures
from remand.ledger.event_tables import SignedGroup
from remand.ledger.problems import BadLine, TableDifference
from remand.ledger.traces import Trace

_NUMBERED_GROUPS = "SELECT n, line FROM signed_group"
_GROUP_ROWS = "SELECT n, session, first, last, hash, line FROM signed_group"
_GROUP_PLACES = "SELECT session, first, last, line FROM signed_group"
DROP_GROUP = "DELETE FROM signed_group WHERE n = ?"
_GROUPS_BY_TASK = "SELECT task, line FROM group_task LEFT JOIN signed_group USING (n)"
_GROUP_TASKS = "SELECT task, n FROM group_task"
DROP_GROUP_TASKS = "DELETE FROM group_task"


class SqliteAudit(Table):
    """The comparisons for `remand log verify` and `repair`."""

    def task_differences(
        self, tasks: Mapping[str, Task], handoffs: Mapping[str, str]
    ) -> Iterator[TableDifference]:
        """Where the tables differ from what these tasks imply. The order of the tasks does not matter."""
        _, void = queue.topological_order(queue.open_blockers(tasks))
        left = dict.fromkeys(tasks)
        standing: list[tuple[Any, Any, Any]] = []
        for row in self._db.rows(sql.TASK_ROWS):
            left.pop(row[0], None)
            task = tasks.get(row[0])
            expected = task and task_row(0, task, tasks, void)[1:]
            if expected and expected[5]:
                standing.append((expected[4], expected[3], expected[5]))
            if row != expected:
                yield TableDifference("task", str(row[0]))
        yield from (TableDifference("task", name) for name in left)
        every = tasks.values()
        if dict(self._db.all(sql.COUNTS)) != Counter(task.status.value for task in every):
            yield TableDifference("status_count", "")
        links = {(task.id, name, (task.id, name) in void) for task in every for name in task.blockers}
        yield from self._table_differences("blocker", sql.EVERY_BLOCKER, links)
        in_graph = {name for task in every if task.blockers for name in (task.id, *task.blockers)}
        # A task that once waited may stay in the table.
        nodes: dict[str, int] = dict(self._db.all(sql.EVERY_NODE))
        for name in sorted(in_graph | set(nodes)):
            if nodes.get(name) != (name not in tasks or tasks[name].is_terminal):
                yield TableDifference("node", str(name))
        yield from (TableDifference("node", name) for name in sorted(set(self._db.column(sql.MISPLACED))))
        aliases = {(task.id, alias) for task in every for alias in task.details.aliases}
        yield from self._table_differences("alias", sql.EVERY_ALIAS, aliases)
        texts = set(map(search_row, every))
        yield from self._table_differences("task_text", sql.EVERY_TEXT, texts)
        sent = {(task.id, name) for task in every for name in due_kinds(task)}
        yield from self._table_differences("errand", sql.EVERY_ERRAND, sent)
        openings = {(rank, agent, line) for agent, line, rank in queue.openings(sorted(standing))}
        for rank, *_ in openings ^ set(self._db.rows(sql.EVERY_OPENING)):
            yield TableDifference("opening", queue.task_of_rank(str(rank)))
        count = 0
        for name, owner in self._db.rows(sql.EVERY_HANDOFF):
            count += 1
            if handoffs.get(name) != owner:
                yield TableDifference("handoff", str(owner))
        if count < len(handoffs):
            known = {row[0] for row in self._db.rows(sql.EVERY_HANDOFF)}
            yield from (
                TableDifference("handoff", task) for name, task in handoffs.items() if name not in known
            )

    def _table_differences(self, table: str, statement: str, expected: set[Any]) -> Iterator[TableDifference]:
        """The tasks whose rows in a table, which start with the task's id, are not as expected."""
        wrong = expected ^ set(self._db.rows(statement))
        yield from (TableDifference(table, task) for task in sorted({str(row[0]) for row in wrong}))

    def trace_differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        wrong = Counter(map(tuple, traces))
        wrong.subtract(self._db.rows(sql.EVERY_TRACE))
        tasks = {str(row[4]) for row, count in wrong.items() if count}
        yield from (TableDifference("trace", task) for task in sorted(tasks))

    def group_differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:
        """Tasks for which `of_task` misses groups or finds wrong ones, and rows with a wrong place."""
        places, names = _Total(), _Total()
        for group, line, _ in groups:
            places.add((group.session, group.first, group.last, line))
            for task in named_tasks(group):
                names.add((task, line))
        if places != _Total(self._db.rows(_GROUP_PLACES)):
            yield TableDifference("signed_group", "")
        if names != _Total(self._db.rows(_GROUPS_BY_TASK)):
            wrong = set(self._expected_group_tasks()) ^ set(self._db.rows(_GROUP_TASKS))
            yield from (
                TableDifference("group_task", task) for task in sorted({str(row[0]) for row in wrong})
            )

    def reindex_groups(self) -> None:
        damaged = [n for n, *row in self._db.rows(_GROUP_ROWS) if not _is_as_written(*row)]
        self._db.run_many(DROP_GROUP, ((n,) for n in damaged))
        self._db.run(DROP_GROUP_TASKS)
        self._db.run_many(ADD_GROUP_TASK, list(self._expected_group_tasks()))

    def _expected_group_tasks(self) -> Iterator[Row]:
        for n, line in self._db.rows(_NUMBERED_GROUPS):
            if isinstance(line, bytes):
                with suppress(BadLine):
                    yield from ((task, n) for task in named_tasks(signatures.decode_group(line)))


def _is_as_written(session: object, first: object, last: object, own: object, line: object) -> bool:
    """True if a row matches its line. A damaged row may hold values of any type."""
    if not isinstance(line, bytes) or sha256(line).digest() != own:
        return False
    try:
        group = signatures.decode_group(line)
    except BadLine:
        return False
    return (session, first, last) == (group.session, group.first, group.last)


class _Total:
    """The number of rows and the sum of their hashes: different rows give another total, whatever their order."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._count = self._sum = 0
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        self._count += 1
        self._sum += hash(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Total) and (self._count, self._sum) == (other._count, other._sum)
