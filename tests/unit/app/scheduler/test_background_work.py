"""Holds what a scheduler does between its looks: what it tells, what it remembers, and what it takes down."""

from remand.app.gates.jobs import Chore
from remand.app.scheduler import ports
from remand.app.scheduler.chores import FRESH_SECONDS, SchedulerFiles, make_chores
from remand.app.scheduler.ports import CannotRun
from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.task import Status
from tests.support.scheduler import FakeScheduler

ALICE = Member(name="Alice", command=("agent",))


class Kept:
    """A file in memory, with how often it was written."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.times = 0

    def read(self) -> bytes | None:
        return self.content

    def write(self, content: bytes) -> bool:
        self.content, self.times = content, self.times + 1
        return True


class Logs:
    """Logs that say the same of every run."""

    said = "running the tests"

    def path(self, run_id: str) -> str:
        return f"/l/{run_id}"

    def last_line(self, run_id: str) -> str:
        return self.said

    def last_written(self, run_id: str) -> str:
        return ""

    def thin_out(self) -> None:
        """Nothing is kept."""


class ChoreSetup:
    """A scheduler's chores on fakes."""

    def __init__(self, shop: FakeScheduler, memory: Kept | None = None, *others: Chore) -> None:
        self.shop, self.logs, self.file, self.memory = shop, Logs(), Kept(), memory or Kept()
        made = make_chores(
            shop.scheduler,
            shop.scheduler._ledger,
            shop.staff,
            launcher=shop,
            worktrees=shop.worktrees,
            files=SchedulerFiles(self.file, self.memory, self.logs),
            pid=77,
            others=others,
        )
        self.chores = {one.name: one for one in made}

    def do(self, name: str) -> str:
        chore = self.chores[name]
        chore.run_now()
        return chore.trouble

    def told(self) -> ports.SchedulerStatus:
        found = ports.decode_status(self.file.content or b"")
        assert found is not None
        return found


def test_the_status_is_written_when_it_has_changed_and_now_and_then() -> None:
    shop = FakeScheduler(ALICE)
    shop.world.add()
    shop.tick()
    setup = ChoreSetup(shop)

    assert setup.do("status") == ""
    (agent,) = setup.told().agents
    assert (agent.agent, agent.last_line) == ("Alice", "running the tests")
    setup.do("status")
    assert setup.file.times == 1
    setup.logs.said = "all pass"
    setup.do("status")
    assert (setup.file.times, setup.told().agents[0].last_line) == (2, "all pass")
    shop.world.clock.advance(FRESH_SECONDS + 1)
    setup.do("status")
    assert setup.file.times == 3


def test_what_keeps_a_chore_from_being_done_is_told() -> None:
    failing = Chore("forge", 1.0, lambda: "it does not answer")
    setup = ChoreSetup(FakeScheduler(ALICE), None, failing)
    failing.run_now()

    setup.do("status")

    assert setup.told().forge == "forge: it does not answer"


def test_what_is_wrong_stays_wrong_for_the_next_scheduler() -> None:
    shop = FakeScheduler(ALICE)
    shop.fault = CannotRun("disk", "no room on the disk")
    shop.world.add()
    setup = ChoreSetup(shop)
    shop.tick(2)
    setup.do("breaker")
    setup.do("breaker")
    assert setup.memory.times == 1

    shop.restart()
    assert shop.scheduler.breaker.breaches == ()
    ChoreSetup(shop, setup.memory)

    assert [one.message for one in shop.scheduler.breaker.breaches] == ["no room on the disk"]


def test_the_place_of_a_task_that_has_ended_is_taken_down() -> None:
    shop = FakeScheduler(ALICE)
    task_id = shop.world.add()
    shop.tick()
    setup = ChoreSetup(shop)
    setup.do("places")
    assert shop.worktrees.retired == []
    shop.world.ask(c.CancelTask(task_id=task_id))
    setup.do("places")
    assert shop.worktrees.retired == [], "somebody is still there"
    shop.tick(3)
    shop.worktrees.retired.clear()

    setup.do("places")

    assert shop.worktrees.retired == [task_id]


def test_the_user_is_asked_about_those_nobody_is_left_for_when_the_team_has_changed() -> None:
    shop = FakeScheduler(Member(name="Alice", command=("agent",), skills=("paint",)))
    task_id = shop.world.add(skills=("paint",))
    setup = ChoreSetup(shop)
    setup.do("staff")
    assert shop.world.task(task_id).status == Status.INCOMING

    shop.world.rules = FakeScheduler(ALICE).world.rules
    setup.do("staff")

    assert shop.world.task(task_id).status == Status.ESCALATED


def test_the_user_is_asked_about_a_task_that_its_agent_has_given_up() -> None:
    shop = FakeScheduler(ALICE)
    task_id = shop.world.add()
    shop.world.ask(c.ClaimTask(agent="Alice", task_id=task_id), "Alice")
    setup = ChoreSetup(shop)
    setup.do("staff")
    assert shop.world.task(task_id).status == Status.CLAIMED
    shop.world.ask(c.FailTask(task_id=task_id, agent="Alice", reason="tired"), "Alice")

    setup.do("staff")
    setup.do("staff")

    task = shop.world.task(task_id)
    assert task.status == Status.ESCALATED
    assert task.inbox.escalation is not None
    assert "Alice gave" in task.inbox.escalation.reason
