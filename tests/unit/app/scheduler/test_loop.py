"""Holds how the scheduler goes round: what it does once, and how it ends."""

import threading

import pytest

from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.gates.jobs import Chore
from remand.app.scheduler.ports import RunEnd
from remand.domain.access.team import Member, Role
from remand.domain.task import Status
from tests.support.scheduler import FakeScheduler, committing_agent

ALICE = Member(name="Alice", command=("agent",), capacity=2)


def test_once_begins_all_there_is_room_for_and_sees_it_to_its_end() -> None:
    shop = FakeScheduler(ALICE)
    shop.scripts["Alice"] = committing_agent("work")
    first = [shop.world.add() for _ in range(2)]

    shop.scheduler.run(once=True)

    assert {shop.world.task(task_id).status for task_id in first} == {Status.PROVISIONAL}


def test_once_does_its_chores_first_and_last() -> None:
    shop, done = FakeScheduler(ALICE), []

    def brings_work() -> str:
        done.append(shop.world.add())
        return ""

    shop.scripts["Alice"] = committing_agent("work")
    shop.scheduler.run([Chore("forge", 60.0, brings_work)], once=True)

    task_id, later = done
    assert shop.world.task(later).status == Status.INCOMING
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_once_has_everything_reviewed_that_somebody_can_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who was busy when a submission came looks at it afterwards, though nothing more happens to it."""
    critic = Member(name="Rita", roles=(Role.LEAD,), command=("critic",))
    shop = FakeScheduler(ALICE, critic)
    shop.scripts["Alice"] = committing_agent("work")
    done = RunEnd("exited", 0, 1.0, output="It is well.")
    looks = iter([*[None] * 9, *[done] * 99])
    shop.scripts["Rita"] = lambda *_: next(looks)
    shop.choose = lambda task, load: (
        critic if load.free_capacity(critic) > 0 and not task.spent.runs > 1 else None
    )
    tasks = [shop.world.add() for _ in range(2)]
    monkeypatch.setattr(shop.scheduler._ledger, "changed_tasks", set)

    shop.scheduler.run(once=True)

    assert [shop.world.task(task_id).spent.runs for task_id in tasks] == [2, 2]


def test_told_to_stop_it_ends_when_everybody_has_gone() -> None:
    shop = FakeScheduler(ALICE)
    shop.world.add()

    def stop_when_somebody_works() -> str:
        if shop.running:
            shop.scheduler.stop()
        return ""

    shop.scheduler.run([Chore("stop", 0.0, stop_when_somebody_works)])

    assert shop.scheduler.is_idle
    assert shop.running[0].is_stopped


def test_what_goes_wrong_is_said_once_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = FakeScheduler(ALICE)
    looks = 0

    def fails(*, is_whole: bool) -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            shop.scheduler.stop()
        raise EnvironmentFault("The disk is full.")

    monkeypatch.setattr(shop.scheduler, "tick", fails)
    shop.scheduler.run()

    assert shop.reports == ["The disk is full."]
    assert looks > 3
    assert shop.scheduler.blocked_reason == "The disk is full."


def test_a_ledger_that_was_replaced_ends_it_and_its_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = FakeScheduler(ALICE)
    shop.world.add()
    shop.tick()

    def is_gone(*, is_whole: bool) -> None:
        raise LedgerReplaced("It is another file.")

    monkeypatch.setattr(shop.scheduler, "tick", is_gone)
    with pytest.raises(LedgerReplaced):
        shop.scheduler.run()

    assert shop.running[0].is_stopped


def test_a_chore_is_done_again_when_its_time_has_come_and_its_trouble_is_kept() -> None:
    done = threading.Event()

    def fails() -> str:
        done.set()
        raise EnvironmentFault("The forge does not answer.")

    chore = Chore("forge", 10.0, fails)
    chore.start_if_due(0.0)
    chore.wait(60.0)
    assert done.is_set()
    assert chore.trouble == "The forge does not answer."
    done.clear()
    chore.start_if_due(9.0)
    chore.wait(60.0)
    assert not done.is_set()
    chore.start_if_due(10.0)
    chore.wait(60.0)
    assert done.is_set()
