"""Holds every store to the same contract."""

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.sqlite import WAL_PAGES, SqliteStore
from remand.adapters.stores.sqlite_schema import Statements
from remand.app.tasks.queue import agent_pool, is_suitable, queue_rank, task_of_rank
from remand.domain.access.team import name_key
from remand.domain.task import Priority, Status, Task
from remand.ledger.store import Store
from remand.testing.builders import (
    ALICE,
    BOB,
    LATER,
    MUCH_LATER,
    NOW,
    T1,
    Session,
    a_claim,
    a_lockout,
    a_task,
    task_added,
    task_claimed,
    task_id,
)

pytest.register_assert_rewrite(
    "remand.testing.queue_contract",
    "remand.testing.store_contract",
    "remand.testing.rejection_contract",
    "remand.testing.signature_contract",
    "remand.testing.store_contract",
    "tests.support.store_properties",
)

from remand.testing.queue_contract import Opener  # noqa: E402 - only now are asserts explained
from remand.testing.store_contract import StoreContract  # noqa: E402 - only now are asserts explained
from tests.support.postgres import empty_ledger  # noqa: E402 - only now are asserts explained
from tests.support.store_properties import DependencyProperties  # noqa: E402 - only now are asserts explained

SESSION = "20261115-090000-00000000"


@pytest.fixture
def store(new_store: Opener) -> Store:
    return new_store()


class QueueInMemory:
    """What is kept of the queue in memory is what the table says."""

    def test_the_head_of_the_queue_follows_every_task(self, store: Store) -> None:
        rng = random.Random(7)
        tasks: dict[str, Task] = {}
        for _ in range(60):
            with store.write() as tx:
                for _ in range(rng.randrange(15)):
                    task = _any_task(rng)
                    tx.tasks.put(task)
                    tasks[task.id] = task
                    agent = rng.choice((ALICE, BOB))
                    ready = sorted(rank for one in tasks.values() if (rank := queue_rank(one, ())))
                    suitable = [
                        name
                        for name in map(task_of_rank, ready)
                        if is_suitable(agent_pool(tasks[name]), agent, False)
                    ]

                    assert tx.queue.next(agent, has_team=False) == next(iter(suitable), "")
                    if rng.random() < 0.2:
                        due = [one.id for one in tasks.values() if one.claim is not None]
                        assert sorted(tx.queue.due(LATER)) == []
                        assert sorted(tx.queue.due(MUCH_LATER)) == sorted(due)[:100]
                        assert tx.queue.ready() == [*map(task_of_rank, ready)]

    def test_an_id_that_a_handoff_has_is_not_given_to_another(self, store: Store) -> None:
        session, names = Session(), ["H-20261115-090000-0000000" + str(n) for n in range(4)]
        with store.write() as tx:
            tx.events.add([session.entry(task_claimed(T1, names[0]), at=NOW)])
            assert [tx.names.is_new_handoff(name) for name in names[:2]] == [False, True]
            assert not tx.names.is_new_handoff(names[1])
            tx.events.add([session.entry(task_claimed(T1, names[2]), at=LATER)] * 200)
            assert not tx.names.is_new_handoff(names[2])
        with store.write() as tx:
            assert [tx.names.is_new_handoff(name) for name in names] == [False, False, False, True]


def _any_task(rng: random.Random) -> Task:
    status = rng.choice(
        (Status.INCOMING, Status.INCOMING, Status.REJECTED, Status.CLAIMED, Status.PROVISIONAL)
    )
    return a_task(
        task_id(rng.randrange(120)),
        status=status,
        queue=Status.INCOMING,
        priority=rng.choice(list(Priority)),
        claim=a_claim(until=MUCH_LATER) if status is Status.CLAIMED else None,
        lockouts=(a_lockout("Alice"),) if rng.random() < 0.3 else (),
    )


class TestStoreInMemory(StoreContract, DependencyProperties, QueueInMemory):
    @pytest.fixture
    def new_store(self) -> Opener:
        return lambda: SqliteStore.in_memory(SESSION)


class TestStoreFile(StoreContract, DependencyProperties, QueueInMemory):
    @pytest.fixture
    def new_store(self, tmp_path: Path) -> Iterator[Opener]:
        opened: list[SqliteStore] = []
        numbers = count()

        def new() -> SqliteStore:
            store = SqliteStore(tmp_path / f"{next(numbers)}.db")
            store.adopt(store.file_identity(), SESSION, lambda segment: None)
            opened.append(store)
            return store

        yield new
        for store in opened:
            store.close()

    def test_what_another_process_changes_is_seen_by_the_same_number(self, tmp_path: Path) -> None:
        ours, theirs = SqliteStore(tmp_path / "ledger.db"), SqliteStore(tmp_path / "ledger.db")
        before, again = ours.changes(), ours.changes()
        with theirs.write() as tx:
            tx.tasks.put(a_task())
        after = ours.changes()
        ours.close()
        theirs.close()

        assert again == before
        assert after != before

    def test_forged_events_of_one_number_cost_no_more_each_the_more_there_are(
        self, new_store: Opener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = 0
        value = Statements.value

        def counted(statements: Statements, *arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return value(statements, *arguments)

        entries = [Session("s").entry(task_added(title=f"Task {n}")) for n in range(400)]
        monkeypatch.setattr(Statements, "value", counted)

        with new_store().write() as tx:
            tx.events.add(entries)

        assert calls < 80 * len(entries)


class TestStoreInPostgres(StoreContract):
    @pytest.fixture
    def new_store(self, shared_database: str) -> Iterator[Opener]:
        opened: list[PostgresStore] = []

        def new() -> PostgresStore:
            for store in opened:
                store.close()
            empty_ledger(shared_database)
            opened.append(PostgresStore(shared_database, SESSION))
            return opened[-1]

        yield new
        for store in opened:
            store.close()


def test_the_write_ahead_log_is_moved_once_it_is_long(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    for _ in range(WAL_PAGES):
        with store.write() as tx:
            tx.outdated.note("T-1")
            tx.outdated.clear()

    pages = (tmp_path / "ledger.db-wal").stat().st_size // 4096
    store.close()
    assert pages < 1.2 * WAL_PAGES


@pytest.mark.parametrize("is_other", [True, False], ids=["another process", "the same connection"])
def test_what_was_read_for_one_change_is_read_again_once_somebody_else_has_written(
    tmp_path: Path, is_other: bool
) -> None:
    ours = SqliteStore(tmp_path / "ledger.db")
    other = SqliteStore(tmp_path / "ledger.db") if is_other else ours
    with ours.write() as tx:
        tx.unconfirmed.trust = "ours"
        tx.tasks.put(a_task())
        task = tx.tasks.get(a_task().id)
        assert tx.names.names_with_key(name_key("Alice")) == []

    other.connection.execute("UPDATE ledger SET value = 'theirs'")
    other.connection.execute("DELETE FROM task")
    other.connection.execute("INSERT INTO name VALUES (?, 'Alice')", (name_key("Alice"),))

    with ours.write() as tx:
        assert (task is not None, tx.tasks.get(a_task().id)) == (True, None)
        assert tx.unconfirmed.trust == "theirs"
        assert tx.names.names_with_key(name_key("Alice")) == ["Alice"]
    for store in {ours, other}:
        store.close()


def test_what_a_change_that_failed_has_read_and_written_is_forgotten(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.unconfirmed.trust = "before"

    def fail() -> None:
        with store.write() as tx:
            tx.unconfirmed.trust = "after"
            tx.tasks.put(a_task())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.write() as tx:
        assert tx.unconfirmed.trust == "before"
        assert tx.tasks.get(a_task().id) is None
    store.close()
