"""What becomes of changes, and of connections, when a connection to PostgreSQL is lost, or a step of a change fails."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from remand.adapters.stores import postgres_schema as own
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.postgres_tables import _TASKS_AT_ONCE, PostgresTransaction
from remand.app.board import read_task_page
from remand.app.errors import EnvironmentFault, StoreAway, StoreConflict, StoreRejected
from remand.app.events.task_folds import task_events
from remand.app.group_commit import GroupCommit
from remand.app.inbox.decisions import open_questions
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.domain.events.log import PauseEnded
from remand.ledger.store import TaskFilter
from remand.testing.fakes import FakeKeys
from tests.support.builders import THE_USER
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


@pytest.mark.parametrize("is_change", [True, False])
def test_a_statement_that_was_left_out_after_a_failed_one_can_be_run_again(
    database: str, *, is_change: bool
) -> None:
    """Psycopg prepares it when it is run for the sixth time, and does not learn that this did not happen."""
    store = SharedFakeLedger(database).store
    asked: tuple[tuple[str, tuple[()]], ...] = (("SELECT count(*) FROM task", ()),)

    def run(*before: tuple[str, tuple[()]]) -> int:
        with store.write() if is_change else store.read() as tx:
            return int(tx.statements.all_of(*before, *asked)[-1][0][0])

    for _ in range(2):
        assert [run() for _ in range(5)] == [0] * 5
        with pytest.raises(StoreConflict):
            run(("SELECT 1 / 0", ()))
        assert run() == 0
    store.close()


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


def test_a_change_that_waited_when_its_connection_was_cut_is_done_once(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on with what was sent, although whoever sent it has asked whether it was done, and repeats it."""
    one = SharedFakeLedger(database)
    one.add()
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE remand.signed_group IN SHARE MODE")
        cuts = cut_next_commit(monkeypatch)
        adding = threading.Thread(target=one.add)
        adding.start()
        time.sleep(1)
    adding.join()

    time.sleep(0.5)
    assert cuts
    assert len(require_sound_log(one.store)) == 2
    one.store.close()


def _has_none_left(url: str) -> bool:
    """True when a database has no connection but the one that asks, once those that were closed are gone."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(others).fetchone() != (0,):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
    return True


def test_a_store_that_is_closed_while_a_view_is_open_leaves_no_connection(database: str) -> None:
    store = PostgresStore(database, "session")
    with store.read():
        store.close()

    assert _has_none_left(database)


def test_what_fails_after_a_change_was_decided_does_not_keep_it_from_being_made(database: str) -> None:
    store = PostgresStore(database, "session")

    def fail() -> None:
        raise KeyError("a slip")

    def change() -> None:
        with store.write() as tx:
            tx.unconfirmed.trust = "project:x"
            tx.on_decided = fail  # type: ignore[attr-defined]

    with pytest.raises(KeyError):
        change()

    with store.read() as view:
        assert view.unconfirmed.trust == "project:x"
    store.close()
    assert _has_none_left(database)


def test_no_more_than_a_few_connections_are_kept_for_nobody(database: str) -> None:
    store = PostgresStore(database, "session")
    with ExitStack() as views:
        for _ in range(40):
            views.enter_context(store.read())

    assert len(store._free) <= 32
    store.close()


def test_threads_wait_for_one_another_when_very_many_want_a_connection(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remand.adapters.stores.postgres._MOST_USED", 2)
    store = PostgresStore(database, "session")
    most, lock = [0, 0], threading.Lock()

    def look(depth: int = 2) -> None:
        with store.read():
            if depth > 1:
                with lock:
                    most[0] += 1
                    most[1] = max(most)
                look(depth - 1)  # who has a connection gets another at once
                with lock:
                    most[0] -= 1

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)

    assert most[0] == 0
    assert most[1] <= 2
    with store.write(), store.read():
        pass
    store.close()
    assert _has_none_left(database)


_REFUSE_SOME = """
CREATE OR REPLACE FUNCTION remand.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NEW.state::text LIKE '%poison%' THEN RAISE EXCEPTION 'not this one' USING ERRCODE = '{code}'; END IF; RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON remand.task FOR EACH ROW EXECUTE FUNCTION remand.refuse()
"""
_REFUSALS = ("22021", "22003", "54001", "57014", "53100", "P0001")
"""A character that cannot be stored, a number too large, too complex, too long, a full disk, anything."""


@pytest.mark.timeout(900)
def test_what_the_database_refuses_fails_its_own_command_alone(database: str) -> None:
    one = SharedFakeLedger(database)
    one.add()
    with psycopg.connect(database, autocommit=True) as connection:
        for code in _REFUSALS:
            connection.execute(_REFUSE_SOME.format(code=code).encode())
            group = GroupCommit(one.ledger)
            titles = (f"one {code}", f"poison {code}", f"two {code}")
            requests = [Request(command=c.AddTask(title=title), actor=USER) for title in titles]
            decided = one.ledger.decide_all(requests)
            answers = [group.submit(request) for request in requests]
            group.close()

            assert [isinstance(one, StoreRejected) for one in decided.answers] == [False, True, False], code
            assert "not this one" in str(answers[1].exception())
            assert all(isinstance(answers[number].result(), Acceptance) for number in (0, 2))
    with one.store.read() as view:
        assert len(list(view.tasks.every())) == 1 + 4 * len(_REFUSALS)
    require_sound_log(one.store)
    one.store.close()


def test_a_name_with_a_character_that_cannot_be_stored_is_refused_alone(database: str) -> None:
    one = SharedFakeLedger(database)
    names = ("a\0b", "a\ud800b")
    commands: list[c.Command] = [c.AddTask(title="good")]
    for name in names:
        commands += [c.ClaimTask(agent="Alice", task_id=name), c.AddTask(title="new", depends_on=(name,))]

    found = one.ledger.ask_all([Request(command=command, actor=USER) for command in commands])

    assert [getattr(answer, "code", "") for answer in found] == ["", *["bad_value"] * 4]
    one.store.close()


def test_a_change_that_fences_the_others_waits_for_those_under_way(database: str) -> None:
    one, two = SharedFakeLedger(database), SharedFakeLedger(database)
    task = one.add()
    fenced = threading.Event()

    def fence() -> None:
        with two.store.write() as tx:
            tx.fence_writers()
            tx.tasks.get(task)
        fenced.set()

    thread = threading.Thread(target=fence)
    with one.store.write() as tx:
        assert tx.tasks.get(task)
        thread.start()
        time.sleep(0.3)
        tx.head = replace(tx.head, changed=tx.head.changed + 1)
    thread.join()

    assert fenced.is_set()
    for writer in (one, two):
        writer.store.close()


@pytest.mark.parametrize("fault", [StoreConflict, StoreAway])
def test_a_change_of_the_log_or_of_the_tables_that_met_another_or_was_cut_off_is_made_again(
    database: str, monkeypatch: pytest.MonkeyPatch, fault: type[EnvironmentFault]
) -> None:
    one = SharedFakeLedger(database)
    commit, failed = PostgresStore.commit, list[int]()

    def fail_once(store: PostgresStore, change: PostgresTransaction) -> None:
        if not failed:
            failed.append(1)
            store.take_back(change)
            raise fault("another process changed the same")
        commit(store, change)

    monkeypatch.setattr(PostgresStore, "commit", fail_once)
    one.ledger.record([PauseEnded()], THE_USER)
    assert failed
    failed.clear()

    assert one.ledger.change(lambda tx: tx.events.count()) == 1
    assert failed
    assert len(require_sound_log(one.store)) == 1
    one.store.close()


def test_a_page_is_planned_by_its_values_however_often_it_was_read(database: str) -> None:
    store = SharedFakeLedger(database).store
    try:
        for _ in range(12):
            with store.read() as view:
                read_task_page(view, TaskFilter(statuses=("claimed",), agent="Ada"), limit=20)
                statements: Any = view.statements  # type: ignore[attr-defined]  # this store's own
                prepared = statements.all("SELECT statement FROM pg_prepared_statements")
    finally:
        store.close()

    assert prepared, "other statements are planned once"
    assert not [text for (text,) in prepared if "nullif(" in text]


def test_a_page_of_an_agents_tasks_comes_from_its_own_index(database: str) -> None:
    store = SharedFakeLedger(database).store
    with psycopg.connect(database) as connection:
        connection.execute(f"{own.SETTINGS}; SET enable_seqscan = off")
        statement = f"EXPLAIN {own.translate(sql.FOUND_OF_AGENT)}"
        plan = psycopg.RawCursor(connection).execute(statement, ("", 50, "claimed", "", "", "Ada")).fetchall()
    store.close()
    assert "task_agent" in str(plan), plan


def test_the_histories_of_many_waiting_tasks_are_read_at_once(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SharedFakeLedger(database)
    tasks = [one.add(title=f"Task {number}") for number in range(_TASKS_AT_ONCE + 9)]
    for task in tasks:
        one.ask(c.EscalateTask(task_id=task, reason="It is stuck."))
    asked: list[str] = []
    execute = psycopg.RawCursor.execute

    def note(cursor: psycopg.RawCursor, query: str, *rest: object, **more: object) -> object:
        asked.append(query)
        return execute(cursor, query, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.RawCursor, "execute", note)
    with one.store.read() as view:
        questions = open_questions(view, Rules())
        expected = {task: task_events(view, task) for task in tasks}
        asked_for_questions = len([text for text in asked if text == own.EVENTS_OF_TASKS])
        found = {task: task_events(view, task, beside=tasks) for task in tasks}
    one.store.close()

    assert [question.task_id for question in questions] == tasks
    assert asked_for_questions == 2
    assert found == expected
