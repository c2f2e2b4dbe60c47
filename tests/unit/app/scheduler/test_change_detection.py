"""Holds that what has changed is seen at once, whatever is left for the whole look that comes once a second."""

from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.events.reviews import Finding
from remand.domain.task import Status
from tests.support.scheduler import FakeScheduler, committing_agent

ALICE, BOB = (Member(name=name, command=("agent", name)) for name in ("Alice", "Bob"))


def glance(shop: FakeScheduler, times: int = 3) -> None:
    """Looks at what has changed alone."""
    for _ in range(times):
        shop.scheduler.tick(is_whole=False)


def test_a_task_is_begun_handed_in_and_given_to_another_by_glances_alone() -> None:
    shop = FakeScheduler(ALICE, BOB)
    shop.scripts |= {"Alice": committing_agent("first"), "Bob": committing_agent("second")}
    shop.tick()
    task_id = shop.world.add()

    glance(shop)
    assert shop.world.task(task_id).status == Status.PROVISIONAL
    shop.world.ask(
        c.RejectReview(task_id=task_id, commit="first", findings=(Finding(text="Not like this."),)), "Lead"
    )
    glance(shop)

    assert [order.agent for order in shop.orders] == ["Alice", "Bob"]
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_an_agent_whose_task_was_cancelled_is_ended_at_once() -> None:
    shop = FakeScheduler(ALICE)
    shop.scripts["Alice"] = lambda *_: None
    task_id = shop.world.add()
    shop.tick()
    (running,) = shop.running

    glance(shop)
    assert not running.is_stopped
    shop.world.ask(c.CancelTask(task_id=task_id), "owner")
    glance(shop)

    assert running.is_stopped


def test_between_looks_only_those_are_looked_at_that_are_said_to_have_ended() -> None:
    shop = FakeScheduler(ALICE, BOB)
    asked: list[str] = []
    for name in ("Alice", "Bob"):
        shop.scripts[name] = lambda _, order: asked.append(order.agent)
    tasks = [shop.world.add(), shop.world.add()]
    shop.tick()
    glance(shop)
    asked.clear()

    glance(shop, 5)
    assert asked == []
    shop.tick()
    assert sorted(asked) == ["Alice", "Bob"], "a whole look looks at all"
    shop.running[0].stop()
    glance(shop, 1)

    assert [len(shop.world.task(task).runs) for task in tasks] == [0, 1]
