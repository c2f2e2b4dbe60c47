"""An older ledger file finds its rejected tasks, too."""

from __future__ import annotations

from pathlib import Path

from remand.adapters.stores.sqlite import SqliteStore
from remand.domain.task import Task
from remand.testing.builders import a_task, task_id

OLD = """
DROP TABLE rejected_vocabulary; DROP TABLE rejected; DROP TABLE rejected_word; DROP INDEX trace_rejecter;
DROP TABLE unconfirmed;
PRAGMA user_version = 2
"""


def rejected(number: int, title: str) -> Task:
    return a_task(task_id(number), title=title, rejection_count=1)


def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.adopt(store.file_identity(), "20261115-090000-00000000", lambda segment: None)
    return store


def test_a_ledger_without_the_index_is_given_one_when_it_is_opened(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(rejected(1, "Mend roof"))
        tx.tasks.put(a_task(task_id(2), title="Mend roof"))
    store.connection.execute(OLD).fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        assert (tx.rejected.count(), tx.rejected.counts(["roof"])) == (1, {"roof": 1})
        tx.tasks.put(rejected(3, "Mend roof"))
        assert [task.id for task in tx.rejected.sharing({"roof": 1.0}, 5)] == [task_id(3), task_id(1)]
    store.close()
