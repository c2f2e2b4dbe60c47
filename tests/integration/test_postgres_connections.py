"""What becomes of changes, and of connections, when a connection to PostgreSQL is lost, or a step of a change fails."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from remand.adapters.stores.postgres import PostgresStore
from remand.app.requests import Rules
from remand.testing.fakes import FakeKeys
from tests.support.shared_ledgers import SharedFakeLedger, require_sound_log

_SLOW_COMMIT = """
CREATE FUNCTION remand.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON remand.event DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION remand.slow()
"""


def cut_next_commit(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Cuts the connection of the next commit while the server carries it out."""
    cuts: list[threading.Thread] = []
    finish: Callable[..., None] = vars(PostgresStore)["_finish"]

    def cut(copy: int) -> None:
        time.sleep(0.3)
        with socket.socket(fileno=copy) as end:
            end.shutdown(socket.SHUT_RDWR)

    def finish_cut(store: PostgresStore, change: object, connection: psycopg.Connection) -> None:
        if not cuts:
            cuts.append(threading.Thread(target=cut, args=(os.dup(connection.fileno()),)))
            cuts[0].start()
        finish(store, change, connection)

    monkeypatch.setattr(PostgresStore, "_finish", finish_cut)
    return cuts


@pytest.mark.parametrize("case", ["first change", "later change", "first change with another key"])
def test_a_commit_that_goes_on_after_its_connection_was_cut_is_done_once(
    database: str, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    keys = FakeKeys(), FakeKeys("another")
    rules = Rules(gates=(), trusted=tuple(one.ensure_key() for one in keys))
    other, one = SharedFakeLedger(database, rules=rules), SharedFakeLedger(database, rules=rules)
    other.add()
    if case != "first change":
        one.add()
    if case == "first change with another key":
        one.ledger.keys = keys[1]
    before = len(require_sound_log(other.store))
    with psycopg.connect(database) as connection:
        connection.execute(_SLOW_COMMIT.encode())
    cuts = cut_next_commit(monkeypatch)

    one.add()

    time.sleep(1.2)
    assert cuts
    assert len(require_sound_log(other.store)) == before + 1
    for writer in (one, other):
        writer.store.close()
