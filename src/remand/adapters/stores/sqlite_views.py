"""Views read directly from an embedded ledger's tables, with few imports."""

from __future__ import annotations

import os
from collections.abc import Sequence

import apsw

from remand.app.errors import EnvironmentFault
from remand.app.reminders import UnseenCounts

VERSION = 21
"""The version of the tables. Opening a ledger for writing migrates older ones."""

_HELD = """
CASE WHEN status IN ('claimed', 'escalated') AND instr(state, '"gates":{"status":"held"') > 0 THEN (
    SELECT json_group_array(name) FROM (
        SELECT DISTINCT value AS name FROM json_each(state, '$.gates.held')
        WHERE NOT ifnull(state ->> '$.gates.is_released', 0)
        AND value NOT IN (SELECT value FROM json_each(ifnull(state -> '$.gates.decisions.accepted', '[]')))
        AND value NOT IN (SELECT value ->> 0 FROM json_each(ifnull(state -> '$.gates.decisions.refused', '[]')))
        AND (substr(value, 1, 4) = 'got-' OR NOT EXISTS (
            SELECT 1 FROM json_each(ifnull(state -> '$.gates.decisions.overridden', '[]'))
            WHERE value ->> 0 = 'integrity' AND value ->> 1 = ifnull(state ->> '$.gates.tree', '')
        ))
        AND (
            status = 'claimed' AND state ->> '$.claim.handoff_id' = state ->> '$.gates.handoff_id'
            OR status = 'escalated' AND state ->> '$.inbox.escalation.kind' = 'rejected_before'
            AND substr(value, 1, 5) = 'same-'
        )
    )
) ELSE '[]' END
"""
"""The findings that wait for a person, by the same rule as `domain/holds.py`."""
_LIST = f"""
SELECT json_group_array(json_object(
    'task_id', id, 'title', state ->> '$.title', 'status', status,
    'priority', ifnull(state ->> '$.details.priority', 'medium'),
    'agent', CASE status WHEN 'claimed' THEN state ->> '$.claim.agent'
                         WHEN 'provisional' THEN state ->> '$.submission.agent' END,
    'branch', state ->> '$.branch', 'alias', state ->> '$.details.aliases[0]', 'pr', state ->> '$.pr',
    'rejection_count', ifnull(state ->> '$.reviews.rejection_count', 0),
    'gate_rejection_count', ifnull(state ->> '$.gates.rejection_count', 0),
    'attempt_count', ifnull(state ->> '$.claims.attempt_count', 0),
    'held', json({_HELD})
) ORDER BY id)
FROM task
"""  # noqa: S608 - fixed text

_UNSEEN = """
SELECT count(*), count(*) FILTER (WHERE kind = 'question' AND times = 0), count(*) FILTER (WHERE due <= ?1),
    ifnull(min(times), 0)
FROM (
    SELECT 'question' AS kind, due_at AS due, ifnull(json_array_length(state, '$.inbox.escalation.notified'), 0) AS times
    FROM task INDEXED BY task_status WHERE status = 'escalated' AND due_at IS NOT NULL
    UNION ALL
    SELECT 'alert', NULL, ifnull(json_array_length(state, '$.gates.progress.alert.notified'), 0)
    FROM task INDEXED BY task_waiting WHERE marks & 32 AND status = 'claimed'
    AND instr(state, '"alert":{') > 0 AND state ->> '$.gates.progress.alert.acknowledged_by' IS NULL
    UNION ALL
    SELECT 'override', NULL, ifnull(json_array_length(notice.value, '$.notified'), 0)
    FROM errand JOIN task ON task.id = errand.task JOIN json_each(task.state, '$.inbox.notices') AS notice
    WHERE errand = 'tell'
)
"""
"""A question that the user has acknowledged is no longer due; alerts and overrides are never repeated."""
_COUNT_HELD = f"""
SELECT ifnull(sum(json_array_length({_HELD})), 0) FROM task INDEXED BY task_waiting WHERE marks & 32 AND status = 'claimed'
AND instr(state, '"gates":{{"status":"held"') > 0
AND ifnull(state ->> '$.people.fixer', '') != ifnull(state ->> '$.claim.agent', '')
"""  # noqa: S608 - fixed text
"""The held findings, except those in the user's own work, which others settle."""

_UNTRUSTED = """
SELECT value FROM ledger WHERE key = 'writer' AND value != '' AND EXISTS (SELECT 1 FROM head WHERE seq > 0)
"""


_COUNT_DAMAGE = """
SELECT (SELECT count(*) FROM missing INDEXED BY missing_fault WHERE is_fault) + (SELECT count(*) FROM rewritten)
"""


_ALIASES = """
SELECT id, (
    SELECT alias FROM alias WHERE task = id AND alias = state ->> '$.details.aliases[0]'
    AND NOT EXISTS (SELECT 1 FROM alias AS other WHERE other.alias = alias.alias AND other.task < id)
) FROM task WHERE id IN (SELECT value FROM json_each(?))
"""
"""If several tasks share an alias, the oldest has it."""
_COUNT_ENDS = """
SELECT substr(id, -?1) AS end, count(*) FROM task WHERE end IN (SELECT value FROM json_each(?2)) GROUP BY end
"""
_SHORTEST, _LONGEST = 4, 8


class LedgerView:
    """A read-only view of a ledger file."""

    def __init__(self, path: str, connection: apsw.Connection | None = None) -> None:
        self._path = path
        try:
            self._connection = connection or apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            raise EnvironmentFault(f"The ledger {path} cannot be read ({error}).") from None
        if connection is None:
            self._connection.set_busy_timeout(60_000)

    def unseen_counts(self, now: str) -> UnseenCounts:
        """The counts of what the user has not seen."""
        try:
            if self._connection.pragma("user_version") != VERSION:
                raise EnvironmentFault(f"The ledger {self._path} has tables of another version.")
            (found,) = self._connection.execute(_UNSEEN, (now,)).fetchall()
            found += self._connection.execute(_COUNT_HELD).fetchall()[0]
            found += self._connection.execute(_COUNT_DAMAGE).fetchall()[0]
        except apsw.Error as error:
            raise EnvironmentFault(f"The ledger {self._path} cannot be read ({error}).") from None
        return UnseenCounts(*(int(str(value)) for value in found))

    def untrusted_writer(self) -> str:
        """The key that signs this ledger's events, if the base does not trust it; else empty."""
        try:
            found = self._connection.execute(_UNTRUSTED).fetchone()
        except apsw.Error as error:
            raise EnvironmentFault(f"The ledger {self._path} cannot be read ({error}).") from None
        return str(found[0]) if found else ""

    def is_current(self, folders: tuple[str, ...], files: dict[str, tuple[int, int, int]]) -> bool:
        """True if the ledger has read every file in its current state, and its own segment is unchanged."""
        run = self._connection.execute
        if self._connection.pragma("user_version") != VERSION:
            return False
        segment, size, inode = run("SELECT segment, size, inode FROM head").fetchone() or ("", 0, 0)
        rest = dict(files)
        if segment:
            own = rest.pop(f"{folders[0]}/{segment}.jsonl", None)
            if own is None or (own[0], own[2]) != (size, inode):
                return False
        known = {row[0]: tuple(row[1:]) for row in run("SELECT path, size, mtime, inode FROM file")}
        if run("SELECT 1 FROM quarantine").fetchone() or run(_UNTRUSTED).fetchone():
            return False
        return all(known.get(path) == mark for path, mark in rest.items())

    def short_names(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Short names of tasks for people: a unique alias, if any, and the shortest unique end of the id."""
        try:
            rows = self._connection.execute(_ALIASES, (_json_list(ids),)).fetchall()
            aliases = {str(name): str(alias or "") for name, alias in rows}
            ends = dict.fromkeys(aliases, "")
            for length in range(_SHORTEST, _LONGEST + 1):
                left = {name: name[-length:] for name, end in ends.items() if not end}
                if not left:
                    break
                wanted = _json_list(sorted(set(left.values())))
                rows = self._connection.execute(_COUNT_ENDS, (length, wanted)).fetchall()
                unique = {str(end) for end, count in rows if count == 1}
                ends |= {name: end for name, end in left.items() if end in unique}
        except (apsw.Error, UnicodeDecodeError):
            return {}
        return {name: (aliases[name], end or name) for name, end in ends.items()}

    def tasks(self, statuses: Sequence[str] = ()) -> str:
        """The tasks with one of the statuses, or all, as JSON: the rows of `app/board.ListedTask`."""
        where = f"WHERE status IN ({','.join('?' * len(statuses))})" if statuses else ""
        try:
            rows = self._connection.execute(_LIST + where, statuses).fetchall()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise EnvironmentFault(
                f"The ledger {self._path} cannot be read ({error}). If it is damaged, move it away; "
                "it is made again from .got/events."
            ) from error
        return str(rows[0][0])


def _json_list(names: Sequence[str]) -> str:
    """Ids as JSON; they need no escapes."""
    return '["' + '","'.join(names) + '"]' if names else "[]"


def read_unseen(path: str, view: LedgerView | None = None, now: str = "") -> UnseenCounts:
    """The counts of questions that wait for the user; zero if there is no ledger."""
    try:
        return (view or LedgerView(path)).unseen_counts(now)
    except EnvironmentFault:
        return UnseenCounts()


def read_short_names(path: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Short names of tasks, as in `LedgerView.short_names`; empty if there is no ledger."""
    try:
        return LedgerView(path).short_names(ids)
    except EnvironmentFault:
        return {}


def untrusted_writer(path: str, view: LedgerView | None = None) -> str:
    """The key that signs a ledger's events, if the base does not trust it; else empty."""
    try:
        return (view or LedgerView(path)).untrusted_writer()
    except EnvironmentFault:
        return ""


def read_task_list(path: str, event_folders: tuple[str, ...], arguments: list[str]) -> str | None:
    """The tasks as JSON; None if that takes more than reading the tables."""
    statuses = arguments[1:]
    if arguments and (arguments[0] != "--status" or not statuses):
        return None
    if any(not word.replace("_", "").isalpha() for word in statuses):
        return None
    try:
        view = LedgerView(path)
        text = view.tasks(statuses) if view.is_current(event_folders, _event_files(event_folders)) else None
    except (apsw.Error, UnicodeDecodeError, EnvironmentFault):
        return None
    if text is None or '"held":["' in text:  # What settles a held finding is not in the tables.
        return None
    return text if text.isascii() and (text != "[]" or not statuses) else None


def _event_files(folders: tuple[str, ...]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".jsonl"):
                        status = entry.stat(follow_symlinks=False)
                        found[entry.path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
