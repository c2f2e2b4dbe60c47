"""Holds what a broken gate leads to in a whole ledger: one question, closed by a measurement, other rules or the user."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.events.task_folds import task_events
from remand.app.gates.done_claims import DoneClaims
from remand.app.gates.known_results import note_measured_gates, read_broken_gates
from remand.app.inbox.questions import open_escalations
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Member, Role, Team
from remand.domain.events.reviews import EscalationOpened
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import FakeLedger, a_result, a_verdict

TEAM = Team((Member(name="Alice"), Member(name="Bob"), Member(name="owner", roles=(Role.USER,))))
RULES = Rules(gates=("tests", "lint"), gates_digest="p1", team=TEAM)
MISSING = "The report is not there. It said last: python3: No module named pytest"
WORKS = a_result("tests", GateStatus.FAILED, measured={"failures": 1.0})


def broken(detail: str = MISSING, name: str = "tests", status: GateStatus = GateStatus.ERRORED) -> GateResult:
    return a_result(name, status, detail=detail)


class Claims(FakeLedger):
    """Done claims that are measured, one after the other."""

    def __init__(self, **rules: Any) -> None:
        super().__init__(rules=replace(RULES, **rules))

    def measure(self, task_id: str, *gates: GateResult, by: str = "Alice", **fields: Any) -> list[str]:
        """Claims a task where nobody holds it, and records what the gates showed; the names of what followed."""
        task = self.task(task_id)
        claim = task.claim or self.claim(task_id, by).claim
        assert claim is not None
        verdict = a_verdict(*gates, **{"policy": self.rules.gates_digest, **fields})
        ask = c.RecordVerdict(
            task_id=task_id, agent=claim.agent, handoff_id=claim.handoff_id, verdict=verdict
        )
        answer = self.ledger.ask_as(THE_COORDINATOR, ask)
        return [event.name for event in answer.events]  # type: ignore[union-attr]

    def questions(self) -> list[Any]:
        with self.store.read() as view:
            return open_escalations(view, self.rules.team, lambda name: task_events(view, name))

    def state(self) -> tuple[bool, bool]:
        """Whether nothing is started, and whether a gate is on trial."""
        with self.store.read() as view:
            found = read_broken_gates(view, self.rules.gates_digest)
        return bool(found.open_questions), found.is_on_trial


def test_the_same_cause_twice_asks_the_user_about_the_gate_and_blames_nobody() -> None:
    world = Claims()
    task = world.add()

    assert world.measure(task, broken()) == ["gate.error"]
    assert world.questions() == []
    assert world.measure(task, broken()) == ["gate.error", "escalation.open"]

    (asked,) = world.questions()
    assert (asked.task_id, asked.kind, [one.key for one in asked.options]) == (task, "gate", ["retry"])
    assert "`tests`" in asked.question
    assert "No module named pytest" in asked.question
    assert len(asked.tried) == 2
    found = world.task(task)
    assert (found.gates.rejection_count, found.reviews.rejection_count, found.people.lockouts) == (0, 0, ())
    assert world.state() == (True, False)


def test_tasks_that_meet_the_same_cause_count_together_and_are_asked_about_once() -> None:
    world = Claims()
    first, second, third = world.add(), world.add(), world.add()

    world.measure(first, broken())
    world.claim(third, "Bob")
    assert "escalation.open" in world.measure(
        second, broken("The report is not there. It said last: /x/python3.12: No module named pytest")
    )
    assert world.measure(third, broken(), by="Bob") == ["gate.error"], "asked already"

    assert [one.task_id for one in world.questions()] == [second]
    assert world.task(third).status == Status.NEEDS_CONTINUATION


def test_a_cause_that_is_another_each_time_is_asked_about_after_three() -> None:
    world = Claims()
    task = world.add()
    found = [world.measure(task, broken(why)) for why in ("no disk", "no pytest", "no sandbox")]
    assert found == [["gate.error"], ["gate.error"], ["gate.error", "escalation.open"]]


def test_two_gates_are_separate() -> None:
    world = Claims()
    first, second = world.add(), world.add()
    world.measure(first, broken(name="tests"))
    world.measure(first, broken(name="lint"))
    assert world.questions() == []

    world.measure(first, broken(name="tests"))
    world.measure(second, broken(name="lint"), by="Bob")
    assert [one.kind for one in world.questions()] == ["gate", "gate"]

    note_measured_gates(world.ledger, ["tests"])
    (left,) = world.questions()
    assert "`lint`" in left.question
    assert world.state() == (True, False)


def test_a_cause_that_breaks_all_gates_of_a_verdict_is_one_question() -> None:
    world = Claims()
    task = world.add()
    for _ in range(2):
        world.measure(task, broken("no disk", "tests"), broken("no disk", "lint"))

    (asked,) = world.questions()
    assert "`tests` and `lint`" in asked.question

    note_measured_gates(world.ledger, ["tests"])
    assert len(world.questions()) == 1, "one of its gates is broken still"
    note_measured_gates(world.ledger, ["lint"])
    assert world.questions() == []


def test_a_measurement_in_between_makes_the_count_begin_anew_for_whichever_task() -> None:
    world = Claims()
    first, second = world.add(), world.add()
    world.measure(first, broken())
    world.measure(second, WORKS, by="Bob")
    note_measured_gates(world.ledger, ["tests"])

    assert world.measure(first, broken()) == ["gate.error"]
    assert world.questions() == []


def test_a_gate_that_cannot_be_measured_beside_one_that_fails_is_asked_about_too() -> None:
    world = Claims()
    task = world.add()
    failed = a_result("lint", measured={"errors": 3.0}, excess=3.0)

    assert world.measure(task, broken(), failed) == ["gate.reject"]
    assert world.measure(task, broken(), failed) == ["gate.reject", "escalation.open"]
    (asked,) = world.questions()
    assert asked.kind == "gate"


def test_a_gate_that_is_not_required_and_one_that_is_not_enforced_are_not_asked_about() -> None:
    world = Claims()
    task = world.add()
    for _ in range(4):
        world.measure(task, replace(broken(), is_required=False))
    lax = Claims(is_enforced=False)
    other = lax.add()
    for _ in range(4):
        lax.measure(other, broken())

    assert world.questions() == lax.questions() == []
    assert world.state() == lax.state() == (False, False)


def test_the_question_closes_by_itself_when_the_gate_is_measured_and_its_task_goes_on() -> None:
    world = Claims()
    task = world.add()
    for _ in range(2):
        world.measure(task, broken())

    note_measured_gates(world.ledger, ["lint"])
    assert world.state() == (True, False), "another gate says nothing of this one"
    note_measured_gates(world.ledger, ["tests"])

    assert world.questions() == []
    assert world.task(task).status == Status.NEEDS_CONTINUATION
    assert world.state() == (False, False)
    assert world.measure(task, broken()) == ["gate.error"], "the count begins anew"


def test_the_question_closes_when_the_rules_of_the_gates_change() -> None:
    world = Claims()
    task = world.add()
    for _ in range(2):
        world.measure(task, broken())
    world.rules = replace(world.rules, gates_digest="p2")

    assert world.state() == (False, False)
    note_measured_gates(world.ledger, [])
    assert world.questions() == []
    assert world.measure(task, broken()) == ["gate.error"], "by these rules it is the first time"


def test_after_retry_one_more_outage_of_that_cause_asks_again_at_once() -> None:
    world = Claims()
    task = world.add()
    for _ in range(2):
        world.measure(task, broken())
    (asked,) = world.questions()

    world.ask(c.AnswerEscalation(task_id=task, escalation_id=asked.escalation_id, option="retry"), "owner")

    assert world.questions() == []
    assert world.task(task).status == Status.NEEDS_CONTINUATION
    assert world.state() == (False, True)
    assert world.measure(task, broken()) == ["gate.error", "escalation.open"]


def test_only_the_user_answers_and_only_a_question_about_gates_with_retry() -> None:
    world = Claims()
    task, other = world.add(), world.add()
    for _ in range(2):
        world.measure(task, broken())
    world.ask(c.EscalateTask(task_id=other, reason="Which roof?"), "owner")
    retry = c.AnswerEscalation(task_id=task, option="retry")

    assert world.refusal(retry, "Alice").code == "user_only"
    assert world.refusal(retry, "owner", confined=True).code == "user_only"
    assert world.refusal(c.AnswerEscalation(task_id=other, option="retry"), "owner").code == "bad_value"
    assert world.refusal(c.AnswerEscalation(task_id=task, option="no such"), "owner").code == "bad_value"


def test_it_is_the_same_when_the_ledger_is_opened_again_or_made_anew_from_its_events() -> None:
    world = Claims()
    task = world.add()
    world.measure(task, broken())
    world.reopen()
    world.measure(task, broken())

    with world.store.read() as view:
        assert EscalationOpened in [type(event) for event in task_events(view, task)]
    assert world.state() == (True, False)


def test_when_no_gate_can_be_started_at_all_the_rules_of_the_base_count() -> None:
    world = Claims()
    task = world.add()
    for _ in range(2):
        world.measure(task, broken("The base `main` is not in this clone.", "runner"), policy="")

    (asked,) = world.questions()
    assert asked.question.startswith("The gates could not be measured")
    assert world.state() == (True, False)


@pytest.mark.parametrize("status", [GateStatus.ERRORED, GateStatus.TIMED_OUT])
def test_running_out_of_time_counts_as_being_unable_to_run(status: GateStatus) -> None:
    world = Claims()
    task = world.add()
    for number in range(2):
        world.measure(
            task, broken(f"It did not end within 600 s. It said last: {number} of 9", status=status)
        )
    assert len(world.questions()) == 1


def test_where_nobody_can_tell_which_rules_hold_nothing_is_measured_and_the_user_is_asked() -> None:
    world = Claims()
    task = world.add()
    world.repository.add("work")

    def gone(*_: object) -> None:
        raise EnvironmentFault("The base branch was there when this task was claimed, and is gone.")

    def measure(*_: object) -> Any:
        raise AssertionError("other rules stand in for those of the base")

    world.ledger.gate_terms = gone
    claims = DoneClaims(world.ledger, measure, measure)
    for _ in range(2):
        world.claim(task)
        ask = c.SubmitTask(task_id=task, agent="Alice", commit="work")
        claimed = claims.claim(Request(command=ask, actor="Alice"), world.ledger.ask)
        assert claimed is not None
        assert isinstance(claimed.answer, Refused)
        assert claimed.answer.code == "gate_errored"

    (asked,) = world.questions()
    assert "The base branch was there when this task was claimed, and is gone" in asked.question
