"""Holds that a ledger file of an older version is brought up to date when it is opened."""

from pathlib import Path

import apsw
import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_views import VERSION, LedgerView
from remand.app.errors import EnvironmentFault
from remand.ledger.traces import TRACED_NAMES, Trace
from remand.testing.builders import (
    H1,
    Session,
    got_tool_entry,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
)

LATER_TABLES = (
    "trace",
    "rejected",
    "rejected_vocabulary",
    "rejected_word",
    "unconfirmed",
    "outdated",
    "log_line",
    "errand",
)


def made(path: Path) -> list[Trace]:
    """A ledger file with rejections; returns their traces."""
    store = SqliteStore(path)
    session = Session()
    events = (
        task_added(),
        task_claimed(),
        rejection_filed(),
        rejection_answered("OVERRIDE"),
        invalid_rejection_filed(number=2),
    )
    with store.write() as tx:
        tx.events.add(
            [*map(session.entry, events), got_tool_entry("handoff.reject", handoff_id=H1, agent="Bob")]
        )
        traces = sorted(tx.traces.every(*TRACED_NAMES))
    store.close()
    assert len(traces) == 4
    return traces


def aged(path: Path, version: int) -> None:
    """Makes the file what an older version left: the tables that came later are not there."""
    connection = apsw.Connection(str(path))
    for kind, name in connection.execute(
        "SELECT type, name FROM sqlite_schema "
        "WHERE name LIKE 'rejected%' OR name LIKE 'trace%' OR name IN ('unconfirmed', 'outdated', 'log_line', 'errand') ORDER BY name"
    ).fetchall():
        if kind == "table" and name in LATER_TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute("DROP TABLE task_text; DROP INDEX task_status; DROP INDEX task_waiting")
    connection.execute("DROP INDEX task_sent_back")
    connection.execute("DROP INDEX task_running")
    connection.execute("DROP INDEX task_commit")
    connection.execute("DROP INDEX task_pr")
    for name in ("signed_group", "group_task", "missing", "rewritten", "name", "objection"):
        connection.execute(f"DROP TABLE {name}")
    for column in ("changed", "chain", "key", "project", "bounded_from"):
        connection.execute(f"ALTER TABLE head DROP COLUMN {column}")
    connection.execute("DROP INDEX task_outages")
    connection.pragma("user_version", version)
    connection.close()


def test_a_ledger_of_version_1_gets_the_traces_of_its_events(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    traces = made(path)
    aged(path, 1)

    for _ in range(2):
        store = SqliteStore(path)
        with store.read() as view:
            assert sorted(view.traces.every(*TRACED_NAMES)) == traces
            assert [one.decision for one in sorted(view.traces.filed_rejections(""))] == ["", "OVERRIDE", ""]
        assert store.connection.pragma("user_version") == VERSION
        store.close()


def test_what_is_unseen_is_not_read_from_tables_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    made(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", VERSION - 1)

    with pytest.raises(EnvironmentFault, match="another version"):
        LedgerView(str(path)).unseen_counts("")
    connection.pragma("user_version", VERSION)
    LedgerView(str(path)).unseen_counts("")
    connection.close()


def test_a_ledger_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    made(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", VERSION + 1)
    connection.close()

    with pytest.raises(EnvironmentFault, match="Update remand"):
        SqliteStore(path)
