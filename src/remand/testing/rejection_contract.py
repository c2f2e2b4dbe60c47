"""The contract of every store about rejections: their traces, and rejected tasks found by their words."""

from __future__ import annotations

import random

from remand.app.events.task_folds import rebuild_tables
from remand.app.tasks.similarity import all_words_of
from remand.domain.events.reviews import LockoutSet
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid
from remand.domain.instant import Instant, add_seconds
from remand.domain.task import LastRejection, Status, Task
from remand.ledger.store import Store
from remand.ledger.traces import ANSWERED, FILED, INVALID, TRACED_NAMES, WOKEN, FiledRejection
from remand.testing.builders import (
    H1,
    NOW,
    T1,
    T2,
    T3,
    Session,
    a_task,
    assert_raises,
    got_tool_entry,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
    task_id,
    task_woken,
)

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


def rejected_task(number: int, title: str, scope: str = "") -> Task:
    """A task that an agent has rejected."""
    filed = LastRejection(rejection_id="R-1", handoff_id=H1, agent="Bob")
    return a_task(task_id(number), title=title, scope=scope, last_rejection=filed)


class RejectedTasksContract:
    """Exactly the rejected tasks are found, by their current words."""

    def test_only_rejected_tasks_are_counted(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, title="Mend roof"))
            tx.tasks.put(rejected_task(2, "Mend fence", "The roof leaks"))
            tx.tasks.put(a_task(task_id(3), title="Paint fence", rejection_count=1))

            assert tx.rejected.count() == 2
            assert tx.rejected.counts(["roof", "fence", "kitche"]) == {"roof": 1, "fence": 2}

    def test_a_task_is_found_from_its_rejection_on(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(task_id(1), title="Mend roof"))
            assert tx.rejected.most_similar({"roof": 1.0}, 5) == []
            tx.tasks.put(rejected_task(1, "Mend roof"))
            tx.tasks.put(rejected_task(1, "Mend roof"))

            assert tx.rejected.most_similar({"roof": 1.0}, 5) == [rejected_task(1, "Mend roof")]
            assert tx.rejected.counts(["roof"]) == {"roof": 1}

    def test_a_task_that_says_something_else_now_is_found_by_that(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected_task(1, "Mend roof"))
            tx.tasks.put(rejected_task(1, "Paint fence"))

            assert tx.rejected.most_similar({"roof": 1.0}, 5) == []
            assert tx.rejected.most_similar({"fence": 1.0}, 5) == [rejected_task(1, "Paint fence")]
            assert tx.rejected.counts(["roof", "fence"]) == {"fence": 1}

    def test_a_task_whose_rejection_did_not_happen_after_all_is_found_no_more(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected_task(1, "Mend roof"))
            tx.tasks.put(a_task(task_id(1), title="Mend roof"))

            assert (tx.rejected.count(), tx.rejected.counts(["roof"])) == (0, {})
            assert tx.rejected.most_similar({"roof": 1.0}, 5) == []
            tx.tasks.put(rejected_task(2, "Another roof"))
            assert [task.id for task in tx.rejected.most_similar({"roof": 1.0}, 5)] == [T2]

    def test_those_that_share_the_most_weight_come_first(self, store: Store) -> None:
        with store.write() as tx:
            for number, title in enumerate(("roof tiles", "roof gutter", "roof", "fence"), 1):
                tx.tasks.put(rejected_task(number, title))
            tasks = tx.rejected.most_similar({"roof": 1.0, "tile": 2.0, "gutter": 3.0, "unknow": 9.0}, 2)

            assert [task.id for task in tasks] == [task_id(2), task_id(1)]

    def test_whatever_way_tasks_come_the_index_is_the_same(self, store: Store) -> None:
        rng = random.Random(5)  # noqa: S311 - repeatable by intent
        tasks: dict[str, Task] = {}
        with store.write() as tx:
            for _ in range(200):
                title, number = " ".join(rng.choices(_WORDS, k=4)), rng.randrange(30)
                task = (
                    rejected_task(number, title)
                    if rng.random() < 0.7
                    else a_task(task_id(number), title=title)
                )
                tasks[task.id] = task
                tx.tasks.put(task)
            kept = [task for task in tasks.values() if task.rejections.last_rejection]
            every = {word for task in kept for word in all_words_of(task)}
            expected = {word: sum(word in all_words_of(task) for task in kept) for word in every}

            assert (tx.rejected.count(), tx.rejected.counts(every)) == (len(kept), expected)
            tx.tasks.replace_all(tasks.values(), ())
            assert (tx.rejected.count(), tx.rejected.counts(every)) == (len(kept), expected)
            for word in every:
                found = {task.id for task in tx.rejected.most_similar({word: 1.0}, 100)}
                assert found == {task.id for task in kept if word in all_words_of(task)}

    def test_replacing_everything_leaves_no_word_of_what_was(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(rejected_task(1, "Mend roof"))
            tx.tasks.replace_all([rejected_task(2, "Paint fence")], ())

            assert tx.rejected.counts(["roof", "fence"]) == {"fence": 1}
            assert [task.id for task in tx.rejected.most_similar({"roof": 1.0, "fence": 1.0}, 5)] == [T2]

    def test_a_change_that_fails_leaves_no_word(self, store: Store) -> None:
        def fail() -> None:
            with store.write() as tx:
                tx.tasks.put(rejected_task(1, "Mend roof"))
                raise ZeroDivisionError

        with assert_raises(ZeroDivisionError):
            fail()
        with store.read() as view:
            assert (view.rejected.count(), view.rejected.counts(["roof"])) == (0, {})

    def test_an_agents_latest_rejections_come_newest_first(self, store: Store) -> None:
        session = Session()
        kinds = (HandoffRejected, HandoffRejectionInvalid)
        entries = [
            session.entry(
                kinds[n % 2](
                    task_id=task_id(n), handoff_id=H1, agent=("Alice", "Bob")[n > 3], rejection_id="R-1"
                )
            )
            for n in range(6)
        ]
        entries.append(session.entry(LockoutSet(task_id=T1, agent="Alice")))
        with store.write() as tx:
            tx.events.add(entries)
            traces = tx.traces.of_agent("Alice", 3)

            assert [(trace.task, trace.event) for trace in traces] == [
                (task_id(3), INVALID),
                (task_id(2), FILED),
                (task_id(1), INVALID),
            ]
            assert tx.traces.of_agent("Nobody", 3) == []


class TraceContract:
    """Events about rejections leave traces, others none, and each rejection is known with its answer."""

    def test_an_event_leaves_its_trace_once_however_often_it_comes(self, store: Store) -> None:
        session = Session()
        entries = [
            session.entry(event)
            for event in (
                task_added(),
                task_claimed(),
                rejection_filed(),
                rejection_answered("ACCEPT"),
                task_woken(),
            )
        ]

        with store.write() as tx:
            tx.events.add(entries)
            tx.events.add(entries)
        with store.write() as tx:
            tx.events.add(entries[2:3])

            assert sorted(trace.event for trace in tx.traces.every(*TRACED_NAMES)) == [FILED, ANSWERED, WOKEN]
            assert [trace.rejection for trace in tx.traces.every(FILED)] == ["R-1"]
            assert list(tx.traces.every(INVALID)) == []

    def test_a_long_run_of_events_leaves_the_same_traces(self, store: Store) -> None:
        session = Session()
        events = [rejection_filed(number=n) if n % 3 else task_added(T2) for n in range(200)]

        with store.write() as tx:
            tx.events.add([session.entry(event) for event in events])

            names = {trace.rejection for trace in tx.traces.every(FILED)}
            assert names == {f"R-{n}" for n in range(200) if n % 3}

    def test_what_a_copied_ledger_wrote_differently_leaves_its_own_trace(self, store: Store) -> None:
        first, second = (
            Session("s").entry(rejection_filed(number=1)),
            Session("s").entry(rejection_filed(number=2)),
        )

        with store.write() as tx:
            tx.events.add([first])
            tx.events.add([second])
            tx.events.add([second, first])

            assert sorted(trace.rejection for trace in tx.traces.every(FILED)) == ["R-1", "R-2"]

    def test_a_change_that_fails_leaves_no_trace(self, store: Store) -> None:
        def fail() -> None:
            with store.write() as tx:
                tx.events.add([Session().entry(rejection_filed())])
                raise ZeroDivisionError

        with assert_raises(ZeroDivisionError):
            fail()
        with store.read() as view:
            assert list(view.traces.every(*TRACED_NAMES)) == []

    def test_making_everything_anew_makes_the_traces_anew(self, store: Store) -> None:
        session = Session()
        events = (
            task_added(),
            task_claimed(),
            rejection_filed(),
            rejection_answered("OVERRIDE"),
            invalid_rejection_filed(number=2),
        )
        with store.write() as tx:
            tx.events.add([*map(session.entry, events), got_tool_entry(FILED, handoff_id=H1, agent="Bob")])
            before = sorted(tx.traces.every(*TRACED_NAMES))
            tx.traces.replace_all([])
            assert list(tx.traces.every(*TRACED_NAMES)) == []
            rebuild_tables(tx)

            assert sorted(tx.traces.every(*TRACED_NAMES)) == before

    def test_a_rejection_is_known_with_the_answer_that_counts(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([session.entry(rejection_filed()), session.entry(rejection_filed(T2, 2))])
            tx.events.add(
                [
                    session.entry(rejection_answered("OVERRIDE")),
                    session.entry(rejection_answered("ACCEPT", created=(T3,))),
                ]
            )

            rejection, other = sorted(tx.traces.filed_rejections(""))
            assert rejection[4:] == (
                T1, "Alice", "BLOCKER", "The ladder is gone", "ACCEPT", rejection.answered_at, T3, "",
            )  # fmt: skip
            assert rejection.answered_at > other.ts
            assert other[8:] == ("", "", "", "")

    def test_the_first_answer_that_accepts_counts_whatever_came_when(self, store: Store) -> None:
        session = Session()
        decisions = ("OVERRIDE", "ACCEPT", "ACCEPT_AND_DEFER", "OVERRIDE")
        entries = [session.entry(event) for event in (rejection_filed(), *map(rejection_answered, decisions))]
        with store.write() as tx:
            for entry in reversed(entries):
                tx.events.add([entry])

            (rejection,) = tx.traces.filed_rejections("")
            assert (rejection.decision, rejection.answered_at) == ("ACCEPT", entries[2].event.ts)

    def test_a_deferred_task_woke_when_it_first_did_after_the_answer(self, store: Store) -> None:
        session = Session()
        events = (
            task_woken(),
            rejection_filed(),
            rejection_answered("ACCEPT_AND_DEFER"),
            task_woken(T2),
            task_woken(),
            task_woken(),
        )
        with store.write() as tx:
            tx.events.add([session.entry(event, at=add_seconds(NOW, n)) for n, event in enumerate(events)])

            assert [one.woken_at for one in tx.traces.filed_rejections("")] == [add_seconds(NOW, 4)]

    def test_what_wakes_after_another_answer_than_a_deferral_did_not_wait(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add(
                [
                    session.entry(event)
                    for event in (rejection_filed(), rejection_answered("ACCEPT"), task_woken())
                ]
            )

            assert [one.woken_at for one in tx.traces.filed_rejections("")] == [""]

    def test_the_statuses_of_tasks_can_be_had_by_their_ids(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.DONE))
            tx.tasks.put(a_task(T2, status=Status.PROVISIONAL))

            for many in (0, 20_000):
                names = [T1, T2, "T-nowhere", *(f"T-{number}" for number in range(many))]
                found = tx.tasks.statuses(names)
                assert [found.get(name, "") for name in names[:3]] == ["done", "provisional", ""], many

    def test_rejections_can_be_had_from_a_time_on(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add(
                [session.entry(rejection_filed(number=n), at=add_seconds(NOW, n)) for n in range(4)]
            )

            assert _times(list(tx.traces.filed_rejections(add_seconds(NOW, 2)))) == [
                add_seconds(NOW, 2),
                add_seconds(NOW, 3),
            ]

    def test_a_rejection_of_a_got_tool_is_found_with_its_task_and_its_answer(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([Session().entry(task_claimed(handoff_id=H1))])
            tx.events.add(
                [got_tool_entry(FILED, handoff_id=f"handoff:{H1}", agent="Bob", reason="no", suggestion="")]
            )
            tx.events.add(
                [
                    got_tool_entry(
                        ANSWERED,
                        "2025-12-20T11:00:00Z",
                        handoff_id=H1,
                        decision={"decision_type": "OVERRIDE"},
                    )
                ]
            )

            (rejection,) = tx.traces.filed_rejections("")
            assert (rejection.task, rejection.agent, rejection.reason, rejection.decision) == (
                T1,
                "Bob",
                "",
                "OVERRIDE",
            )

    def test_without_a_handoff_a_rejection_of_a_got_tool_has_no_answer(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([got_tool_entry(FILED, agent="Bob")])
            tx.events.add(
                [got_tool_entry(ANSWERED, "2025-12-20T11:00:00Z", decision={"decision_type": "OVERRIDE"})]
            )

            assert [(one.task, one.decision) for one in tx.traces.filed_rejections("")] == [("", "")]


def _times(rejections: list[FiledRejection]) -> list[Instant]:
    return sorted(one.ts for one in rejections)
