"""Holds that stops with nothing to measure have one count: for hooks and runs, in every session, after a restart."""

from msgspec.structs import replace

from remand.app.gates.done_claims import Stop, StopReply, StopResponder
from remand.domain.access.team import Member
from remand.domain.events.work import IdleStopCounted
from remand.domain.task import Status
from tests.support.builders import FakeLedger
from tests.support.scheduler import WORKED, FakeScheduler, ending_agent

LIMIT = 4


class NoMarks:
    def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
        raise AssertionError(f"{task_id} waits for nothing")


def stop(world: FakeLedger, task_id: str, key: str, session: str = "s") -> StopReply:
    stopping = StopResponder(world.ledger, lambda _: None, NoMarks())
    reply = stopping.reply(Stop(task_id=task_id, session=session, key=key, agent="Alice"))
    assert reply is not None
    return reply


def a_claimed_task() -> tuple[FakeLedger, str]:
    world = FakeLedger()
    world.rules = replace(world.rules, policy=replace(world.rules.policy, escalate_after_gates=LIMIT))
    task_id, _ = world.add_and_claim("Alice")
    return world, task_id


def idle_stops(world: FakeLedger) -> list[int]:
    return [event.number for event in world.events() if isinstance(event, IdleStopCounted)]


def test_a_session_is_sent_back_until_the_policys_number_is_reached() -> None:
    world, task_id = a_claimed_task()

    replies = [stop(world, task_id, f"k{n}") for n in range(LIMIT)]

    assert [reply.may_stop for reply in replies] == [False] * (LIMIT - 1) + [True]
    assert replies[-1].notice == (
        f"Task {task_id} was escalated to the user: Alice stopped {LIMIT} times with nothing to measure."
    )
    assert world.task(task_id).status == Status.ESCALATED
    assert stop(world, task_id, "later").may_stop


def test_the_count_outlives_the_session_and_the_process() -> None:
    world, task_id = a_claimed_task()
    stop(world, task_id, "k1", session="one")
    stop(world, task_id, "k2", session="two")
    world.reopen()
    stop(world, task_id, "k3", session="three")

    assert stop(world, task_id, "k4", session="four").may_stop
    assert idle_stops(world) == [1, 2, 3, 4]


def test_two_hooks_of_one_stop_count_once() -> None:
    world, task_id = a_claimed_task()

    assert [stop(world, task_id, "same").may_stop for _ in range(LIMIT + 1)] == [False] * (LIMIT + 1)
    assert idle_stops(world) == [1]


def test_the_end_of_a_run_and_the_stops_of_its_hooks_have_one_count() -> None:
    shop = FakeScheduler(Member(name="Alice", command=("agent",)), escalate_after_gates=LIMIT)
    task_id = shop.world.add()
    shop.tick()
    stop(shop.world, task_id, "k1")
    stop(shop.world, task_id, "k2")
    shop.scripts["Alice"] = ending_agent(WORKED)

    shop.restart()
    shop.tick(20)

    task = shop.world.task(task_id)
    assert idle_stops(shop.world) == [1, 2, 3, 4]
    assert task.status == Status.ESCALATED
    assert task.inbox.escalation is not None
    assert "Alice stopped 4 times with nothing to measure" in task.inbox.escalation.reason
