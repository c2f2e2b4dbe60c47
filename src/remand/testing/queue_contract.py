"""The contract of every store about the queue, dependencies, pages, and tasks with something due on the forge."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from remand.domain.decisions.forge_actions import PLANNED
from remand.domain.decisions.notices import NOTICE_DUE
from remand.domain.forge import ForgeAction, PlannedAction, TaskForgeState
from remand.domain.gate.state import GateState
from remand.domain.instant import add_seconds
from remand.domain.task import OverrideNotice, Priority, Status
from remand.ledger.store import Store, TaskFilter, Transaction
from remand.testing.builders import (
    ALICE,
    BOB,
    LATER,
    MUCH_LATER,
    NOW,
    SHA,
    T1,
    T2,
    T3,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    an_offer,
    task_id,
)

Opener = Callable[[], Store]
SLEEPING: tuple[dict[str, Any], ...] = (
    {"status": Status.DEFERRED, "waits_for": (T2,)},
    {"status": Status.DECOMPOSED, "children": (T2,)},
)


class QueueContract:
    """The queue gives each agent the first task that suits it."""

    def test_the_queues_order_is_lane_then_priority_then_age(self, store: Store) -> None:
        tasks = [
            a_task(
                task_id(n), status=status, queue=status, priority=priority, created_at=add_seconds(NOW, -age)
            )
            for n, (status, priority, age) in enumerate(
                (status, priority, age)
                for status in (Status.REJECTED, Status.NEEDS_CONTINUATION, Status.INCOMING)
                for priority in Priority
                for age in (20, 10)
            )
        ]
        shuffled = random.Random(2).sample(tasks, len(tasks))  # noqa: S311 - repeatable by intent

        with store.write() as tx:
            for task in shuffled:
                tx.tasks.put(task)

            assert tx.queue.ready() == [task.id for task in tasks]
            assert tx.queue.next(ALICE, has_team=False) == tasks[0].id

    def test_a_task_that_is_in_no_queue_is_not_given(self, new_store: Opener) -> None:
        for status in sorted(set(Status) - {"incoming", "rejected", "needs_continuation"}):
            with new_store().write() as tx:
                tx.tasks.put(a_task())
                tx.tasks.put(a_task(status=status))

                assert tx.queue.ready() == [], status
                assert tx.queue.next(ALICE, has_team=False) == "", status

    def test_an_agent_is_not_given_what_it_is_locked_out_of(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, lockouts=(a_lockout("Alice"),)))
            tx.tasks.put(a_task(T2))

            assert tx.queue.next(ALICE, has_team=False) == T2
            assert tx.queue.next(BOB, has_team=False) == T1

    def test_a_reserved_task_is_given_to_its_agent_alone(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, offers=(an_offer("Alice"),)))

            assert tx.queue.next(ALICE, has_team=False) == T1
            assert tx.queue.next(BOB, has_team=False) == ""

    def test_a_team_member_is_given_what_it_has_the_skills_for(self, store: Store) -> None:
        painter = actor("Painter", skills=("paint",))
        both = actor("Both", skills=("paint", "weld"))

        with store.write() as tx:
            tx.tasks.put(a_task(T1, skills=("paint", "weld")))
            tx.tasks.put(a_task(T2, skills=("paint",)))
            tx.tasks.put(a_task(T3))

            given = [tx.queue.next(agent, has_team=True) for agent in (both, painter, ALICE)]
            assert given == [T1, T2, T3]
            assert tx.queue.next(ALICE, has_team=False) == T1

    def test_a_thousand_tasks_an_agent_is_locked_out_of_do_not_hide_its_own(self, store: Store) -> None:
        with store.write() as tx:
            for n in range(1000):
                tx.tasks.put(a_task(task_id(n), priority=Priority.HIGH, lockouts=(a_lockout("Alice"),)))
            tx.tasks.put(a_task(task_id(1000), skills=("paint",)))
            tx.tasks.put(a_task(task_id(1001), priority=Priority.LOW))

            assert tx.queue.next(ALICE, has_team=True) == task_id(1001)
            assert tx.queue.next(BOB, has_team=True) == task_id(0)

    def test_what_has_ended_is_due(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(task_id(1), status=Status.CLAIMED, claim=a_claim(until=LATER)))
            tx.tasks.put(a_task(task_id(2), offers=(an_offer(until=MUCH_LATER),)))
            tx.tasks.put(a_task(task_id(3)))

            assert tx.queue.due(NOW) == []
            assert tx.queue.due(LATER) == [task_id(1)]
            assert tx.queue.due(MUCH_LATER) == [task_id(1), task_id(2)]

    def test_a_sleeping_task_is_due_when_what_it_sleeps_for_has_ended(self, new_store: Opener) -> None:
        for sleep in SLEEPING:
            with new_store().write() as tx:
                tx.tasks.put(a_task(T1, **sleep))
                tx.tasks.put(a_task(T2))
                assert tx.queue.due(NOW) == [], sleep

                tx.tasks.put(a_task(T2, status=Status.DONE))
                assert tx.queue.due(NOW) == [T1], sleep

    def test_a_sleeping_task_does_not_sleep_for_its_dependencies(self, new_store: Opener) -> None:
        for sleep in SLEEPING:
            with new_store().write() as tx:
                tx.tasks.put(a_task(T3))
                tx.tasks.put(a_task(T2))
                tx.tasks.put(a_task(T1, depends_on=(T3,), **sleep))
                tx.tasks.put(a_task(T2, status=Status.DONE))

                assert tx.queue.due(NOW) == [T1], sleep


class PageContract:
    """Pages of tasks have the matching tasks in the order of ids; tasks that wait for a person are found."""

    def test_pages_have_each_task_that_is_wanted_once(self, store: Store) -> None:
        states = (Status.REJECTED, Status.INCOMING, Status.CLAIMED, Status.DONE, Status.PROVISIONAL)
        with store.write() as tx:
            for number in range(20):
                status = states[number % 5]
                more: dict[str, Any] = {"claim": a_claim("Bob")} if status is Status.CLAIMED else {}
                more |= {"submission": a_submission("Bob")} if status is Status.PROVISIONAL else {}
                title, skills = f"Mend ROOF {number % 3}", ("tiles",) if number % 2 else ("roof", "tiles-2")
                tx.tasks.put(
                    a_task(
                        task_id(number),
                        title=title,
                        skills=skills,
                        aliases=(f"#{number}",),
                        status=status,
                        **more,
                    )
                )

            def ids_that_fit(fits: Callable[[int], object]) -> list[str]:
                return [task_id(number) for number in range(20) if fits(number)]

            for most in (1, 3, -1):
                for task_filter, fits in (
                    (TaskFilter(), lambda _: True),
                    (TaskFilter(statuses=("done", "rejected", "done")), lambda n: n % 5 in (0, 3)),
                    (TaskFilter(agent="Bob"), lambda n: n % 5 in (2, 4)),
                    (TaskFilter(agent="Bob", statuses=("claimed", "done")), lambda n: n % 5 == 2),
                    (TaskFilter(agent="Alice"), lambda _: False),
                    (TaskFilter(skill="tiles"), lambda n: n % 2),
                    (TaskFilter(text="roof 2"), lambda n: n % 3 == 2),
                    (
                        TaskFilter(text="Roof 2", statuses=("done", "incoming")),
                        lambda n: n % 3 == 2 and n % 5 in (1, 3),
                    ),
                    (TaskFilter(text="#12"), lambda n: n == 12),
                    (TaskFilter(text="%"), lambda _: False),
                ):
                    assert _all_pages(tx, task_filter, most) == ids_that_fit(fits), (task_filter, most)
            assert tx.queue.count() == len(tx.queue.ready()) == 8
            tx.tasks.put(a_task(task_id(12), title="Paint"))
            assert _all_pages(tx, TaskFilter(text="#12"), 2) == []
            assert _all_pages(tx, TaskFilter(text="paint"), 2) == [task_id(12)]

    def test_only_tasks_that_wait_for_a_person_are_read_for_the_inbox(self, store: Store) -> None:
        gate_state = GateState(held=("got-1",))
        with store.write() as tx:
            tx.tasks.put(a_task(task_id(1), status=Status.CLAIMED, claim=a_claim()))
            tx.tasks.put(a_task(task_id(2), status=Status.CLAIMED, claim=a_claim(), gates=gate_state))
            tx.tasks.put(a_task(task_id(3), status=Status.ESCALATED))
            tx.tasks.put(a_task(task_id(4), status=Status.BLOCKED))
            tx.tasks.put(a_task(task_id(5), status=Status.DONE, gates=gate_state))
            assert [task.id for task in tx.task_lists.pages.waiting_tasks()] == [
                task_id(2),
                task_id(3),
                task_id(4),
            ]
            tx.tasks.put(a_task(task_id(3)))
            assert [task.id for task in tx.task_lists.pages.waiting_tasks()] == [task_id(2), task_id(4)]


def _all_pages(tx: Transaction, wanted: TaskFilter, most: int) -> list[str]:
    found: list[str] = []
    while page := tx.task_lists.pages.page(wanted, most, found[-1] if found else ""):
        assert most < 0 or len(page) <= most
        found += [task.id for task in page]
    return found


class DependencyContract:
    """A task waits for its blockers, and cycles are found."""

    def test_a_task_is_ready_when_its_blocker_ends_and_not_when_that_comes_back(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, depends_on=(T2, T3)))
            tx.tasks.put(a_task(T2))
            tx.tasks.put(a_task(T3, status=Status.CANCELLED))
            assert tx.queue.ready() == [T2]
            assert tx.dependencies.open_blockers(T1) == (T2,)

            tx.tasks.put(a_task(T2, status=Status.DONE))
            assert tx.queue.ready() == [T1]

            tx.tasks.put(a_task(T2))
            assert tx.queue.ready() == [T2]

    def test_a_new_task_that_is_blocked_and_bars_an_agent_is_given_to_nobody(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, lockouts=(a_lockout(ALICE.name),), created_at=add_seconds(NOW, -20)))
            tx.tasks.put(a_task(T3, skills=("paint",)))
            blocked = a_task(T2, lockouts=(a_lockout(BOB.name),), depends_on=(T3,))
            tx.tasks.put(blocked)

            assert tx.queue.next(ALICE, has_team=True) == ""

    def test_a_task_that_has_ended_has_no_place_although_others_wait_in_a_circle(self, store: Store) -> None:
        ended, blocker = task_id(4), task_id(5)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, depends_on=(T2,)))
            tx.tasks.put(a_task(T2, depends_on=(T1,)))
            tx.tasks.put(a_task(blocker))
            tx.tasks.put(a_task(ended, depends_on=(blocker,)))
            tx.tasks.put(a_task(ended, depends_on=(blocker,), status=Status.DONE))

            assert tx.dependencies.path(ended, blocker) == ()

    def test_a_circle_is_found_through_a_task_that_was_waited_for_before_it_came(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, depends_on=(T2,)))
            tx.tasks.put(a_task(T1))
            tx.tasks.put(a_task(T2))
            tx.tasks.put(a_task(T3, depends_on=(T2,)))

            assert tx.dependencies.path(T3, T2) == (T3, T2)

    def test_a_blocker_nobody_knows_has_not_ended(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, depends_on=("T-elsewhere",)))

            assert tx.queue.ready() == []
            assert tx.dependencies.open_blockers(T1) == ("T-elsewhere",)

    def test_a_task_is_free_when_its_dependency_is_dropped(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T2))
            tx.tasks.put(a_task(T1, depends_on=(T2,)))
            tx.tasks.put(a_task(T1))

            assert tx.queue.ready() == [T1, T2]
            assert tx.dependencies.path(T1, T2) == ()

    def test_a_dependency_on_a_task_that_came_later_is_followed(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, depends_on=(T2,)))
            tx.tasks.put(a_task(T2, depends_on=(T3,)))
            tx.tasks.put(a_task(T3))

            assert tx.dependencies.path(T1, T3) == (T1, T2, T3)


UNDER_REVIEW = a_task(T1, status=Status.PROVISIONAL, submission=a_submission(), branch="work/1")
DONE = a_task(T2, status=Status.DONE, submission=a_submission(), approved_commit=SHA, pr=7)
BEGUN = a_task(T3, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.PUSH, about=SHA)))


class OutstandingWorkContract:
    """Tasks are listed as long as something is left to do for them."""

    def test_a_task_is_found_by_what_is_left_to_do_for_it(self, store: Store) -> None:
        with store.write() as tx:
            for task in (BEGUN, DONE, UNDER_REVIEW):
                tx.tasks.put(task)

            assert tx.task_lists.with_due([ForgeAction.PUSH]) == [UNDER_REVIEW]
            assert tx.task_lists.with_due([ForgeAction.PUSH, ForgeAction.MERGE]) == [UNDER_REVIEW, DONE]
            assert tx.task_lists.with_due([PLANNED]) == [BEGUN]
            assert tx.task_lists.with_due([ForgeAction.CLOSE]) == tx.task_lists.with_due([]) == []

    def test_a_task_is_found_by_what_the_user_has_yet_to_be_told(self, store: Store) -> None:
        notice = OverrideNotice(id="N-1", text="owner unlocked Alice", at=NOW)
        untold = a_task(T1, status=Status.DONE, notices=(notice,))
        with store.write() as tx:
            tx.tasks.put(untold)
            tx.tasks.put(a_task(T2))
            assert tx.task_lists.with_due([NOTICE_DUE]) == [untold]
            assert tx.task_lists.with_due([*ForgeAction, PLANNED]) == []

            tx.tasks.put(a_task(T1, status=Status.DONE))
            assert tx.task_lists.with_due([NOTICE_DUE]) == []

    def test_a_task_for_which_all_is_done_is_not_found_any_more(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T2))
            tx.tasks.put(DONE)
            tx.tasks.put(
                a_task(T2, status=Status.DONE, approved_commit=SHA, pr=7, forge=TaskForgeState(merged=SHA))
            )

            assert tx.task_lists.with_due([*ForgeAction, PLANNED]) == []

    def test_what_is_due_is_made_anew_with_the_tasks(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(DONE)
            tx.tasks.replace_all([UNDER_REVIEW, a_task(T2)], [])

            assert tx.task_lists.with_due([*ForgeAction, PLANNED]) == [UNDER_REVIEW]
