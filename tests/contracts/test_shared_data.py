"""Holds for what the processes of a ledger share beside its events, wherever it is kept."""

from __future__ import annotations

from contextlib import closing

import psycopg

from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.shared_data import CHUNK, EmbeddedSharedData
from remand.app.ports import SharedData
from remand.domain.instant import add_seconds
from remand.testing.builders import LATER, NOW


def check(one: SharedData, other: SharedData) -> None:
    """What one process keeps another finds, until its time is over or it is dropped; an owner has so many."""
    large = bytes(range(256)) * (CHUNK // 200)
    for number, data in enumerate((b"", b"first", large)):
        until = add_seconds(LATER, number)
        one.put("kind", f"name {number}", data, owner="Ann", until=until, now=NOW, most=2)
    one.put("kind", "of Bob", b"his", owner="Bob", until=LATER, now=NOW, most=2)
    assert [other.get("kind", f"name {number}", NOW) for number in range(3)] == [None, b"first", large]
    other.put("kind", "name 1", b"again", owner="Ann", until=add_seconds(LATER, 9), now=NOW, most=2)
    assert (one.get("kind", "name 1", NOW), one.get("kind", "name 2", NOW)) == (b"again", large)
    assert (one.get("kind", "of Bob", NOW), one.get("other kind", "of Bob", NOW)) == (b"his", None)
    assert one.get("kind", "of Bob", LATER) is None
    one.drop("kind", "name 1")
    one.drop("kind", "never there")
    assert other.get("kind", "name 1", NOW) is None


def test_the_embedded_ledgers_processes_share_data_for_a_while() -> None:
    values: dict[str, str] = {}
    one, other = (EmbeddedSharedData(lambda key: values.get(key, ""), values.__setitem__) for _ in range(2))
    check(one, other)


def test_the_processes_of_a_database_share_data_for_a_while(database: str) -> None:
    with closing(PostgresStore(database, "s1")) as one, closing(PostgresStore(database, "s2")) as other:
        check(one.shared_data, other.shared_data)
        one.shared_data.put("pack", "c", b"commit", owner="TASK-1", until=LATER, now=NOW, most=2)
        other.shared_data.drop_of_ended_tasks("pack")
        assert one.shared_data.get("pack", "c", NOW) == b"commit"
        with psycopg.connect(database) as connection:
            connection.execute("INSERT INTO remand.task(id, status, state) VALUES ('TASK-1', 'done', '{}')")
        other.shared_data.drop_of_ended_tasks("pack")
        assert one.shared_data.get("pack", "c", NOW) is None
