"""What every store must hold to about rejected tasks and the rejections of an agent."""

from __future__ import annotations

import random

import pytest

from remand.app.words import all_words_of
from remand.domain import events as e
from remand.domain.filed import Filed
from remand.domain.task import Task
from remand.ledger.store import Store
from remand.ledger.traces import FILED, INVALID
from remand.testing.builders import H1, T1, T2, Session, a_task, task_id

_WORDS = [
    "roof",
    "kitchen",
    "tiles",
    "gutter",
    "paint",
    "fence",
    "invoice",
    "export",
    "billing",
    "socket",
    "parser",
    "queue",
    "登录页面",
    "Авторизация",
]


def rejected(number: int, title: str, scope: str = "") -> Task:
    """A task that an agent has rejected."""
    filed = Filed(rejection_id="R-1", handoff_id=H1, agent="Bob")
    return a_task(task_id(number), title=title, scope=scope, filed=filed)


class RejectedContract:
    """Rejected tasks, and no others, are found by their words as they are now."""

    def test_only_rejected_tasks_are_counted(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, title="Mend roof"))
            tx.tasks.put(rejected(2, "Mend fence", "The roof leaks"))
            tx.tasks.put(a_task(task_id(3), title="Paint fence", rejection_count=1))

            assert tx.rejected.count() == 2
            assert tx.rejected.counts(["roof", "fence", "kitche"]) == {"roof": 1, "fence": 2}

    def test_a_task_is_found_from_its_rejection_on(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(task_id(1), title="Mend roof"))
            assert tx.rejected.sharing({"roof": 1.0}, 5) == []
            tx.tasks.put(rejected(1, "Mend roof"))
            tx.tasks.put(rejected(1, "Mend roof"))

            assert tx.rejected.sharing({"roof": 1.0}, 5) == [rejected(1, "Mend roof")]
            assert tx.rejected.counts(["roof"]) == {"roof": 1}

    def test_a_task_that_says_something_else_now_is_found_by_that(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected(1, "Mend roof"))
            tx.tasks.put(rejected(1, "Paint fence"))

            assert tx.rejected.sharing({"roof": 1.0}, 5) == []
            assert tx.rejected.sharing({"fence": 1.0}, 5) == [rejected(1, "Paint fence")]
            assert tx.rejected.counts(["roof", "fence"]) == {"fence": 1}

    def test_a_task_whose_rejection_did_not_happen_after_all_is_found_no_more(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected(1, "Mend roof"))
            tx.tasks.put(a_task(task_id(1), title="Mend roof"))

            assert (tx.rejected.count(), tx.rejected.counts(["roof"])) == (0, {})
            assert tx.rejected.sharing({"roof": 1.0}, 5) == []
            tx.tasks.put(rejected(2, "Another roof"))
            assert [task.id for task in tx.rejected.sharing({"roof": 1.0}, 5)] == [T2]

    def test_those_that_share_the_most_weight_come_first(self, store: Store) -> None:
        with store.write() as tx:
            for number, title in enumerate(("roof tiles", "roof gutter", "roof", "fence"), 1):
                tx.tasks.put(rejected(number, title))
            found = tx.rejected.sharing({"roof": 1.0, "tile": 2.0, "gutter": 3.0, "unknow": 9.0}, 2)

            assert [task.id for task in found] == [task_id(2), task_id(1)]

    def test_whatever_way_tasks_come_the_index_is_the_same(self, store: Store) -> None:
        rng = random.Random(5)  # noqa: S311 - repeatable by intent
        tasks: dict[str, Task] = {}
        with store.write() as tx:
            for _ in range(200):
                title, number = " ".join(rng.choices(_WORDS, k=4)), rng.randrange(30)
                task = rejected(number, title) if rng.random() < 0.7 else a_task(task_id(number), title=title)
                tasks[task.id] = task
                tx.tasks.put(task)
            kept = [task for task in tasks.values() if task.filed]
            every = {word for task in kept for word in all_words_of(task)}
            expected = {word: sum(word in all_words_of(task) for task in kept) for word in every}

            assert (tx.rejected.count(), tx.rejected.counts(every)) == (len(kept), expected)
            tx.tasks.replace_all(tasks.values(), ())
            assert (tx.rejected.count(), tx.rejected.counts(every)) == (len(kept), expected)
            for word in every:
                found = {task.id for task in tx.rejected.sharing({word: 1.0}, 100)}
                assert found == {task.id for task in kept if word in all_words_of(task)}

    def test_replacing_everything_leaves_no_word_of_what_was(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected(1, "Mend roof"))
            tx.tasks.replace_all([rejected(2, "Paint fence")], ())

            assert tx.rejected.counts(["roof", "fence"]) == {"fence": 1}
            assert [task.id for task in tx.rejected.sharing({"roof": 1.0, "fence": 1.0}, 5)] == [T2]

    def test_a_change_that_fails_leaves_no_word(self, store: Store) -> None:
        def fail() -> None:
            with store.write() as tx:
                tx.tasks.put(rejected(1, "Mend roof"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with store.read() as view:
            assert (view.rejected.count(), view.rejected.counts(["roof"])) == (0, {})

    def test_an_agents_latest_rejections_come_newest_first(self, store: Store) -> None:
        session = Session()
        kinds = (e.HandoffRejected, e.HandoffRejectionInvalid)
        entries = [
            session.entry(
                kinds[n % 2](
                    task_id=task_id(n), handoff_id=H1, agent=("Alice", "Bob")[n > 3], rejection_id="R-1"
                )
            )
            for n in range(6)
        ]
        entries.append(session.entry(e.LockoutSet(task_id=T1, agent="Alice")))
        with store.write() as tx:
            tx.events.add(entries)
            found = tx.traces.of_agent("Alice", 3)

            assert [(trace.task, trace.event) for trace in found] == [
                (task_id(3), INVALID),
                (task_id(2), FILED),
                (task_id(1), INVALID),
            ]
            assert tx.traces.of_agent("Nobody", 3) == []
