"""Migrates an older ledger file to this version's tables."""

from __future__ import annotations

import apsw
import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_audit import SqliteAudit
from remand.adapters.stores.sqlite_events import SqliteTraces
from remand.adapters.stores.sqlite_schema import Statements
from remand.adapters.stores.sqlite_tasks import SqliteNames, SqliteRejected, search_row, state_marks
from remand.adapters.stores.sqlite_views import VERSION
from remand.app.tasks import queue
from remand.app.tasks.lookup import participants
from remand.domain.decisions.forge_actions import due_kinds
from remand.domain.events.catalogue import event_task_id
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import as_objection
from remand.ledger.signatures import Doubt
from remand.ledger.task_state import compose_state
from remand.ledger.traces import TRACED_NAMES, trace_event

_decode = msgspec.json.Decoder(Task).decode
_NAMED = " OR ".join(f"instr(line, CAST('{name}' AS BLOB))" for name in TRACED_NAMES)
_CANDIDATES = f"SELECT subject, line FROM event WHERE {_NAMED}"  # noqa: S608 - fixed names
"""Every line that contains the name of an event that leaves traces, as its name or elsewhere."""
_UNTRUSTED = "SELECT n, signer, line FROM unconfirmed JOIN event USING (n) WHERE doubt IN ('unknown_signer', 'revoked')"


COMPOSED_STATES = 16
"""The version since which the states of tasks are stored in parts."""


def migrate(connection: apsw.Connection, version: int) -> None:
    """Migrates from an older version to this one, in one transaction. The caller keeps other writers away."""
    with connection:
        if version < COMPOSED_STATES:
            _compose_states(connection)
        for step in _STEPS[version - 1 :]:
            step(connection)
        connection.pragma("user_version", VERSION)


def _compose_states(connection: apsw.Connection) -> None:
    """Writes the states of tasks in parts. It runs first, because later steps read states."""
    rows = connection.execute("SELECT n, state FROM task").fetchall()
    states = ((n, compose_state(msgspec.json.decode(str(state)))) for n, state in rows)
    connection.executemany(
        "UPDATE task SET state = ?2 WHERE n = ?1",
        ((n, msgspec.json.encode(state).decode()) for n, state in states),
    ).fetchall()


def _add_traces(connection: apsw.Connection) -> None:
    """Version 2 also stores short records of events about rejections."""
    statements = Statements(connection)
    statements.run(sql.TRACE_TABLE)
    events = ((codec.decode_stored_line(line), task) for task, line in statements.rows(_CANDIDATES))
    traces = (trace_event(event, task or event_task_id(event)) for event, task in events)
    SqliteTraces(statements).replace_all(left for left in traces if left)


def _index_rejected(connection: apsw.Connection) -> None:
    """Version 3 finds rejected tasks by their words, and rejections by their agents."""
    connection.execute(sql.REJECTED_TABLES).fetchall()
    statements = Statements(connection)
    rows = statements.all(sql.NUMBERED_TASKS)
    SqliteRejected(statements).replace_all((n, _decode(state)) for n, state in rows)


def _keep_unconfirmed(connection: apsw.Connection) -> None:
    """Version 4 knows which releasing events have no effect. The ledger judges its events at its next use."""
    connection.execute(sql.UNCONFIRMED_TABLE).fetchall()


def _fold_again(connection: apsw.Connection) -> None:
    """Version 5 folds more of reviews and claims, so all events are judged and all tasks folded again.

    It also stores the lines of the orchestration log, and knows whose files are out of date.
    """
    connection.execute(sql.RECORD_TABLES).fetchall()
    Statements(connection).run(sql.PUT_VALUE, ("trust", ""))


def _index_errands(connection: apsw.Connection) -> None:
    """Version 7 finds the tasks for which something is to be done on the forge."""
    statements = Statements(connection)
    statements.run(sql.ERRAND_TABLE)
    tasks = [_decode(state) for _, state in statements.all(sql.NUMBERED_TASKS)]
    statements.run_many(sql.ADD_ERRAND, ((name, task.id) for task in tasks for name in due_kinds(task)))


def _keep_groups(connection: apsw.Connection) -> None:
    """Version 10 stores signed groups, and the value of the session's chain. All events are judged again by them."""
    connection.execute("ALTER TABLE head RENAME TO old_head").fetchall()
    connection.execute(sql.HEAD_TABLE + sql.GROUP_TABLE).fetchall()
    connection.execute(
        "INSERT INTO head(only, session, seq, tip, clock, segment, first, size, inode) SELECT * FROM old_head"
    ).fetchall()
    connection.execute("DROP TABLE old_head").fetchall()
    Statements(connection).run(sql.PUT_VALUE, ("trust", ""))


def _keep_missing(connection: apsw.Connection) -> None:
    """Version 11 knows which lines of the log are missing, and when the open segment last changed.

    Missing lines are searched for at the ledger's next use.
    """
    connection.execute(sql.MISSING_TABLES).fetchall()
    columns = {row[1] for row in connection.execute("PRAGMA table_info(head)").fetchall()}
    if "changed" not in columns:
        connection.execute("ALTER TABLE head ADD COLUMN changed INTEGER NOT NULL DEFAULT 0").fetchall()
    Statements(connection).run(sql.PUT_VALUE, ("trust", ""))


def _keep_objections(connection: apsw.Connection) -> None:
    """Version 13 finds the objections under untrusted keys."""
    connection.execute(sql.OBJECTION_TABLE).fetchall()
    statements = Statements(connection)
    for n, signer, line in statements.all(_UNTRUSTED):
        event = codec.decode_stored_line(line)
        found = as_objection(event, event_task_id(event), Doubt.UNKNOWN_SIGNER, signer)
        if found is not None:
            statements.run(sql.ADD_OBJECTION, (n, *found))


def _note_bound(connection: apsw.Connection) -> None:
    """Version 14 limits how far ahead events may be; earlier events keep the limit of their time."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(head)").fetchall()}
    if "bounded_from" not in columns:
        connection.execute(
            "ALTER TABLE head ADD COLUMN bounded_from TEXT NOT NULL DEFAULT '0001-01-01T00:00:00.000000Z'"
        ).fetchall()
    connection.execute("UPDATE head SET bounded_from = clock").fetchall()


def _keep_names(connection: apsw.Connection) -> None:
    """Version 12 finds everyone who has a part in a task by name."""
    statements = Statements(connection)
    statements.run(sql.NAME_TABLE)
    tasks = (_decode(state) for _, state in statements.all(sql.NUMBERED_TASKS))
    SqliteNames(statements).note({name for task in tasks for name in participants(task)})


def _index_groups(connection: apsw.Connection) -> None:
    """Version 15 numbers the groups, and finds those that name a task."""
    connection.execute(
        "ALTER TABLE signed_group RENAME TO old_group; DROP INDEX signed_group_place; "
        "DROP INDEX signed_group_wrong; DROP TABLE IF EXISTS group_task"
    ).fetchall()
    connection.execute(sql.GROUP_TABLE).fetchall()
    connection.execute(
        "INSERT INTO signed_group(session, first, last, hash, doubt, line) "
        "SELECT session, first, last, hash, doubt, line FROM old_group"
    ).fetchall()
    connection.execute("DROP TABLE old_group").fetchall()
    SqliteAudit(Statements(connection)).reindex_groups()


def _do_nothing(connection: apsw.Connection) -> None:
    """Versions 6, 8, 9 and 18 have indexes that later ones create; version 16's change happens before the steps."""


def _stand_in_lines(connection: apsw.Connection) -> None:
    """Version 17 finds the first task that an agent may take, and numbers the tasks that wait for one another."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(task)").fetchall()}
    if "position" not in columns:
        return
    connection.execute(
        "DROP INDEX task_rank; DROP INDEX task_pool; DROP INDEX blocker_of; DROP INDEX blocker_void; "
        "ALTER TABLE blocker RENAME TO old_blocker; ALTER TABLE task RENAME COLUMN pool TO line; "
        "ALTER TABLE task ADD COLUMN barred TEXT NOT NULL DEFAULT ''"
    ).fetchall()
    connection.execute(sql.DEPENDENCY_TABLES + sql.QUEUE_TABLES).fetchall()
    statements = Statements(connection)
    statements.run(
        "INSERT INTO node(task, position) SELECT name, CASE WHEN status NOT IN ('done', 'cancelled', 'infeasible') "
        "THEN position << 32 END FROM (SELECT task AS name FROM old_blocker UNION SELECT blocker FROM old_blocker) "
        "LEFT JOIN task ON task.id = name"
    )
    statements.run_many(sql.ADD_BLOCKER, statements.all("SELECT task, blocker, is_void FROM old_blocker"))
    rows = statements.all("SELECT n, state FROM task WHERE rank IS NOT NULL")
    statements.run_many(
        "UPDATE task SET line = ?2, barred = ?3 WHERE n = ?1",
        ((n, *queue.agent_pool(_decode(state))) for n, state in rows),
    )
    connection.execute("DROP TABLE old_blocker; ALTER TABLE task DROP COLUMN position").fetchall()
    statements.run_many(sql.ADD_OPENING, list(queue.openings(statements.all(sql.STANDING))))


def _mark_states(connection: apsw.Connection) -> None:
    """Version 19 finds tasks by marks in a column, so that a write need not search their states.

    A running process of an older version would write states without marks: it does not know the column's new
    name, so its writes fail. Version 18 had the marks without that name, so all are computed again.
    """
    for name in ("running", "sent_back", "outages", "commit", "pr"):
        connection.execute(f"DROP INDEX IF EXISTS task_{name}").fetchall()
    columns = {row[1] for row in connection.execute("PRAGMA table_info(task)").fetchall()}
    if "marks" not in columns:
        connection.execute("ALTER TABLE task ADD COLUMN marks INTEGER NOT NULL DEFAULT 0").fetchall()
    if "due" in columns:
        connection.execute("ALTER TABLE task RENAME COLUMN due TO due_at").fetchall()
    statements = Statements(connection)
    statements.run("UPDATE task SET marks = 0 WHERE marks")
    marks = ((n, state_marks(_decode(state))) for n, state in statements.all(sql.NUMBERED_TASKS))
    statements.run_many("UPDATE task SET marks = ?2 WHERE n = ?1", [row for row in marks if row[1]])
    connection.execute(sql.MARK_INDEXES).fetchall()


def _list_pages(connection: apsw.Connection) -> None:
    """Version 20 reads pages of tasks, and those that wait for a person, from indexes, and searches their texts."""
    # Early versions had other indexes with these names.
    for name in ("task_active", "task_escalated", "task_status", "task_waiting"):
        connection.execute(f"DROP INDEX IF EXISTS {name}").fetchall()
    connection.execute("DROP TABLE IF EXISTS task_text").fetchall()
    statements = Statements(connection)
    tasks = [(n, _decode(state)) for n, state in statements.all(sql.NUMBERED_TASKS)]
    statements.run_many(
        "UPDATE task SET marks = ?2 WHERE n = ?1 AND marks != ?2",
        ((n, state_marks(task)) for n, task in tasks),
    )
    connection.execute(sql.LIST_TABLES).fetchall()
    statements.run_many(sql.PUT_TEXT, (search_row(task) for _, task in tasks))


def _index_log_traces(connection: apsw.Connection) -> None:
    """Version 21 finds repairs of the log without reading every trace."""
    connection.execute(sql.LOG_TRACE_INDEX).fetchall()


_STEPS = (
    _add_traces,
    _index_rejected,
    _keep_unconfirmed,
    _fold_again,
    _do_nothing,
    _index_errands,
    _do_nothing,
    _do_nothing,
    _keep_groups,
    _keep_missing,
    _keep_names,
    _keep_objections,
    _note_bound,
    _index_groups,
    _do_nothing,
    _stand_in_lines,
    _do_nothing,
    _mark_states,
    _list_pages,
    _index_log_traces,
)
"""The step from version n has index n - 1."""
