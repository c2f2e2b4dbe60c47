"""The signed groups of an embedded ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256

from remand.adapters.stores.sqlite_statements import Row, Statements
from remand.ledger import signatures
from remand.ledger.problems import BadLine, TableDifference
from remand.ledger.signatures import MAX_GROUP, MAX_SEQ, VOID, Doubt, Group
from remand.ledger.store import SignedGroup

_ADD_GROUP = """
INSERT INTO signed_group(session, first, last, hash, doubt, line) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT(session, first, hash) DO UPDATE SET doubt = excluded.doubt RETURNING n
"""
_ADD_GROUP_TASK = "INSERT OR IGNORE INTO group_task VALUES (?, ?)"
_GROUPS_OF_TASK = """
SELECT line, doubt FROM group_task JOIN signed_group USING (n) WHERE task = ? ORDER BY session, first
"""
_NUMBERED_GROUPS = "SELECT n, line FROM signed_group"
_GROUP_ROWS = "SELECT n, session, first, last, hash, line FROM signed_group"
_GROUP_PLACES = "SELECT session, first, last, line FROM signed_group"
_DROP_GROUP = "DELETE FROM signed_group WHERE n = ?"
_GROUPS_BY_TASK = "SELECT task, line FROM group_task LEFT JOIN signed_group USING (n)"
_GROUP_TASKS = "SELECT task, n FROM group_task"
_DROP_GROUP_TASKS = "DELETE FROM group_task"
_DOUBT_OF_GROUP = "SELECT doubt FROM signed_group WHERE session = ? AND first = ? AND hash = ?"
_WRONG_GROUPS = """
SELECT line, doubt FROM signed_group WHERE session = ? AND doubt = 'wrong_signature' ORDER BY first
"""
_GROUPS = "SELECT line, doubt FROM signed_group ORDER BY session, first"
_IMPORT_GROUPS = """
SELECT line, doubt FROM signed_group WHERE session BETWEEN 'import-' AND 'import-~' ORDER BY session, first
"""
_GROUPS_OF_SESSION = f"""
SELECT line, doubt FROM signed_group WHERE session = ?1 AND first BETWEEN ?2 - {MAX_GROUP} AND ?3 AND last >= ?2
ORDER BY first
"""  # noqa: S608 - a number of ours
_SPANS = """
SELECT first, last FROM signed_group
WHERE session = ? AND doubt = '' AND typeof(first) = 'integer' AND typeof(last) = 'integer' ORDER BY first
"""


class SqliteGroups:
    """The signed groups."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def add(self, groups: Iterable[SignedGroup]) -> None:
        """Keeps groups."""
        for group, line, doubt in groups:
            row = (group.session, group.first, group.last, sha256(line).digest(), doubt.value, line)
            n = self._db.value(_ADD_GROUP, row)
            for task in _tasks(group):
                self._db.run(_ADD_GROUP_TASK, (task, n))

    def of_task(self, task_id: str) -> list[SignedGroup]:
        """Those that name an event of a task."""
        return list(_groups(self._db.rows(_GROUPS_OF_TASK, (task_id,))))

    def differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:
        """The tasks whose groups are not found by `of_task`, or that find others', and rows that tell another place."""
        groups = list(groups)
        places = ((one.group.session, one.group.first, one.group.last, one.line) for one in groups)
        if _total(places) != _total(self._db.rows(_GROUP_PLACES)):
            yield TableDifference("signed_group", "")
        if _total((task, one.line) for one in groups for task in _tasks(one.group)) != _total(
            self._db.rows(_GROUPS_BY_TASK)
        ):
            wrong = set(self._expected()) ^ set(self._db.rows(_GROUP_TASKS))
            yield from (
                TableDifference("group_task", task) for task in sorted({str(row[0]) for row in wrong})
            )

    def index(self) -> None:
        """Finds out anew which groups name which task. Rows that are not as they were written are dropped."""
        damaged = [n for n, *row in self._db.rows(_GROUP_ROWS) if not _is_as_written(*row)]
        self._db.run_many(_DROP_GROUP, ((n,) for n in damaged))
        self._db.run(_DROP_GROUP_TASKS)
        self._db.run_many(_ADD_GROUP_TASK, list(self._expected()))

    def _expected(self) -> Iterator[Row]:
        for n, line in self._db.rows(_NUMBERED_GROUPS):
            if isinstance(line, bytes):
                with suppress(BadLine):
                    yield from ((task, n) for task in _tasks(signatures.read(line)))

    def doubt(self, group: Group) -> Doubt | None:
        """Why a kept group does not count."""
        place = (group.session, group.first, sha256(signatures.write(group)).digest())
        found = self._db.value(_DOUBT_OF_GROUP, place)
        return None if found is None else _as_group_doubt(found)

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers."""
        return list(_groups(self._db.rows(_GROUPS_OF_SESSION, (session, first, last))))

    def spans(self, session: str) -> list[tuple[int, int]]:
        """The first and last number of a session's groups that count."""
        return [(first, last) for first, last in self._db.rows(_SPANS, (session,))]

    def wrong(self, session: str) -> list[SignedGroup]:
        """A session's groups whose signature is wrong."""
        return list(_groups(self._db.rows(_WRONG_GROUPS, (session,))))

    def imports(self) -> list[SignedGroup]:
        """Those that name imported lines of GoT tools."""
        return list(_groups(self._db.rows(_IMPORT_GROUPS)))

    def every(self) -> Iterator[SignedGroup]:
        """All of them."""
        return _groups(self._db.rows(_GROUPS), signatures.read)


def _is_as_written(session: object, first: object, last: object, own: object, line: object) -> bool:
    """True when a row says what its line says. A row may hold values of any type."""
    if not isinstance(line, bytes) or sha256(line).digest() != own:
        return False
    try:
        group = signatures.read(line)
    except BadLine:
        return False
    return (session, first, last) == (group.session, group.first, group.last)


def _tasks(group: Group) -> set[str]:
    """The tasks whose events a group names."""
    return {name.task for name in group.events} - {"", VOID}


def _total(rows: Iterable[Row]) -> tuple[int, int]:
    """How many rows there are, and what their hashes add up to: another total means other rows, in whatever order."""
    count = total = 0
    for row in rows:
        count += 1
        total += hash(row)
    return count, total


def _groups(rows: Iterable[Row], read: Callable[[bytes], Group] = signatures.recall) -> Iterator[SignedGroup]:
    """The groups of these rows. One whose line was damaged covers nothing."""
    for line, doubt in rows:
        if isinstance(line, bytes):
            with suppress(BadLine):
                yield SignedGroup(read(line), line, _as_group_doubt(doubt))


def _as_group_doubt(text: object) -> Doubt:
    return Doubt.NONE if text == "" else as_doubt(text)


def as_doubt(text: object) -> Doubt:
    """What is doubted. An event whose row was damaged is not believed for that."""
    return next((doubt for doubt in Doubt if doubt and doubt == text), Doubt.UNSIGNED)
