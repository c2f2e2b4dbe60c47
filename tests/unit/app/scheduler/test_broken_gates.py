"""Holds that the scheduler starts nothing for a gate that cannot be measured, and goes on by itself afterwards."""

from msgspec.structs import replace

from remand.app.gates.known_results import note_measured_gates
from remand.app.requests import Acceptance
from remand.app.scheduler.ports import AgentLaunch, CannotRun, ClaimAnswer, TaskWorktree, WorktreeState
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Member
from remand.domain.gate.state import find_measured_gates
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.task import Status
from tests.support.builders import a_result, a_verdict
from tests.support.scheduler import WORKED, FakeScheduler, committing_agent, ending_agent

MISSING = a_result(
    "tests", GateStatus.ERRORED, detail="There is no report. It said last: No module named pytest"
)
WORKS = a_result("tests", GateStatus.PASSED, measured={"failures": 0.0})
FAILS = a_result("tests", GateStatus.FAILED, measured={"failures": 1.0}, excess=1.0)


class BrokenShop(FakeScheduler):
    """A shop whose done claims are measured: `result` is what the gate shows, `unsubmitted` why nothing can be claimed."""

    def __init__(self, *names: str, **policy: int) -> None:
        self.result: GateResult = MISSING
        self.submissions: list[str] = []
        self.unsubmitted: CannotRun | None = None
        super().__init__(
            *(Member(name=name, command=("agent", name)) for name in names or ("Alice",)), **policy
        )
        for name in names or ("Alice",):
            self.scripts[name] = committing_agent("work")

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        self.submissions.append(worktree.task_id)
        if self.unsubmitted is not None:
            raise self.unsubmitted
        task = self.world.task(worktree.task_id)
        assert task.claim is not None
        verdict = a_verdict(self.result, commit=commit)
        ask = c.RecordVerdict(task_id=task.id, agent=agent, handoff_id=task.claim.handoff_id, verdict=verdict)
        answer = self.world.ledger.ask_as(THE_COORDINATOR, ask)
        assert isinstance(answer, Acceptance)
        note_measured_gates(self.world.ledger, find_measured_gates(verdict))
        if verdict.status is GateStatus.PASSED:
            return super().submit(worktree, agent, commit)
        return ClaimAnswer("gate_errored" if verdict.status is GateStatus.ERRORED else "gate_rejected")

    def asked(self) -> list[str]:
        """The tasks that carry a question."""
        with self.world.store.read() as view:
            return [task.id for task in view.task_lists.with_status(Status.ESCALATED)]

    def answer(self, option: str = "retry") -> None:
        (task_id,) = self.asked()
        self.world.ask(c.AnswerEscalation(task_id=task_id, option=option), "owner")


def test_nothing_is_started_while_the_user_is_asked_about_a_gate() -> None:
    shop = BrokenShop("Alice", "Bob")
    tasks = [shop.world.add() for _ in range(4)]

    shop.tick(60)

    assert len(shop.orders) == 2, "one run each; both failed the same way"
    assert len(shop.asked()) == 1
    assert "`tests` cannot be measured" in shop.scheduler.blocked_reason
    assert shop.scheduler.is_broken
    assert all(shop.world.task(one).spent.faults == 0 for one in tasks)


def test_a_scheduler_that_is_started_anew_starts_nothing_either() -> None:
    shop = BrokenShop()
    shop.world.add()
    shop.tick(10)
    count = len(shop.orders)

    shop.restart()
    shop.tick(30)

    assert len(shop.orders) == count == 2


def test_those_at_work_may_finish_and_are_measured_once() -> None:
    shop = BrokenShop("Alice", "Bob", "Carol")
    for _ in range(3):
        shop.world.add()
    is_done = False

    def slow(shop: FakeScheduler, order: AgentLaunch) -> object:
        return committing_agent("late")(shop, order) if is_done else None

    shop.scripts["Carol"] = slow  # type: ignore[assignment]
    shop.tick(10)
    (late,) = [order.worktree.task_id for order in shop.orders if order.agent == "Carol"]
    assert shop.world.task(late).runs, "it is not ended"

    is_done = True
    shop.tick(30)

    assert shop.submissions.count(late) == 1
    assert len(shop.orders) == 3
    assert len(shop.asked()) == 1


def test_reviews_go_on_meanwhile() -> None:
    shop = BrokenShop("Alice")
    shop.result = WORKS
    under_review = shop.world.add("Handed in")
    shop.tick(3)
    assert shop.world.task(under_review).status == Status.PROVISIONAL
    shop.result = MISSING
    shop.world.add()
    shop.tick(10)
    assert shop.asked()

    shop.reviewer = Member(name="Lead", command=("agent", "Lead"))
    shop.tick(2)

    assert shop.orders[-1].agent == "Lead"


def test_after_retry_one_agent_at_a_time_goes_on_until_the_gate_is_measured() -> None:
    shop = BrokenShop("Alice", "Bob", "Carol")
    for _ in range(3):
        shop.world.add()
    shop.tick(10)
    count = len(shop.orders)

    shop.answer()
    shop.tick(20)
    assert len(shop.orders) == count + 1, "one was let through to try"
    assert len(shop.asked()) == 1, "and the user is asked again at once"

    shop.result = WORKS
    shop.answer()
    shop.tick(20)
    assert shop.asked() == []
    with shop.world.store.read() as view:
        assert {task.status for task in view.tasks.every()} == {Status.PROVISIONAL}


def test_a_trial_run_that_has_nothing_to_measure_is_sent_back_like_any_other() -> None:
    shop = BrokenShop(escalate_after_gates=3)
    task_id = shop.world.add()
    shop.tick(10)
    shop.scripts["Alice"] = ending_agent(WORKED)
    shop.worktrees.looks[task_id] = WorktreeState(head="work", uncommitted=("half.py",))
    shop.answer()

    shop.tick(40)

    assert len(shop.orders) == 2 + 3, "two, and three with nothing to measure"
    (asked,) = shop.asked()
    assert "nothing to measure" in shop.world.task(asked).inbox.escalation.reason  # type: ignore[union-attr]


def test_when_the_rules_of_the_gates_change_all_goes_on_by_itself() -> None:
    shop = BrokenShop()
    task_id = shop.world.add()
    shop.tick(10)

    shop.result = WORKS
    shop.world.rules = replace(shop.world.rules, gates_digest="p2")
    shop.tick(5)

    assert shop.asked() == []
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_a_measurement_of_somebody_else_lets_all_go_on_by_itself() -> None:
    shop = BrokenShop()
    task_id = shop.world.add()
    shop.tick(10)

    shop.result = WORKS
    note_measured_gates(shop.world.ledger, find_measured_gates(a_verdict(WORKS)))
    shop.tick(5)

    assert shop.asked() == []
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_work_that_cannot_even_be_submitted_is_asked_about_and_not_tried_for_ever() -> None:
    shop = BrokenShop()
    shop.unsubmitted = CannotRun("gates", "A done claim could not be measured: exit 3")
    task_id = shop.world.add()

    shop.tick(120, seconds=60.0)

    assert len(shop.orders) <= 3
    assert len(shop.submissions) <= 4
    assert shop.asked() == [task_id]
    shop.unsubmitted, shop.result = None, WORKS
    shop.answer()
    shop.tick(5)
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_a_rejection_is_not_counted_again_when_its_agent_could_not_be_started_at_once() -> None:
    shop = BrokenShop()
    shop.result = FAILS
    task_id = shop.world.add()
    shop.scripts["Alice"] = lambda _, order: (
        committing_agent("work")(shop, order) if len(shop.orders) == 1 else None
    )
    submit = shop.submit

    def submit_at_the_end(worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        answer = submit(worktree, agent, commit)
        shop.scheduler.stop()
        return answer

    shop.submit = submit_at_the_end  # type: ignore[method-assign]
    shop.tick(3)
    assert (len(shop.orders), shop.world.task(task_id).gates.rejection_count) == (1, 1)

    shop.restart()
    shop.tick(5)

    assert len(shop.orders) == 2, "the agent goes on with the rejection"
    assert shop.submissions == [task_id]
    assert shop.world.task(task_id).gates.rejection_count == 1
