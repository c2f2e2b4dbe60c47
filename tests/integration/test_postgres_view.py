"""What commands show straight from the tables is the same for a ledger in PostgreSQL as for one in a file."""

from pathlib import Path

from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.sqlite import SqliteStore
from remand.app.reminders import UnseenCounts
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import GateStatus
from remand.domain.task import Status
from remand.testing.builders import H1, T2, TREE, a_claim, a_task
from tests.support.builders import an_escalation

TASKS = (
    a_task(
        status=Status.CLAIMED,
        claim=a_claim("Alice", H1),
        gates=update_gates(
            GateState(),
            status=GateStatus.HELD,
            handoff_id=H1,
            held=("f1", "f2"),
            tree=TREE,
            questioned=("Alice",),
        ),
    ),
    a_task(T2, status=Status.ESCALATED, escalation=an_escalation()),
)


def _numbers(counts: UnseenCounts) -> list[int]:
    return [getattr(counts, name) for name in UnseenCounts.__slots__]


def test_a_ledger_in_postgresql_counts_what_the_user_has_not_seen_as_a_local_one_does(
    database: str, tmp_path: Path
) -> None:
    found = []
    for store in (SqliteStore(tmp_path / "ledger.db"), PostgresStore(database, "session")):
        with store.write() as tx:
            for task in TASKS:
                tx.tasks.put(task)
        found.append(_numbers(store.view.unseen_counts("2026-01-01T00:00:00.000000Z")))
        store.close()

    assert found[0] == found[1]
    assert sum(found[0]) > 1
