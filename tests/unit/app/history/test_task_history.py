"""Holds how a task's reviews and questions are told from its events."""

from remand.app.events.task_folds import task_events
from remand.app.history.task_history import (
    HandoffView,
    QuestionView,
    task_handoffs,
    task_questions,
    task_reviews,
)
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.policy import Policy
from tests.support.builders import FakeLedger, member, send_back
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

TEAM = Team((member("Alice"), member("Lea", Role.LEAD), member("Boss", Role.USER)))


def with_team() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM, policy=Policy(deadline_seconds=60)))


def asked(world: FakeLedger, task_id: str) -> list[QuestionView]:
    with world.store.read() as view:
        return task_questions(view.tasks.get(task_id), task_events(view, task_id))


def test_a_question_is_told_with_its_answer() -> None:
    world = with_team()
    task = send_back(world, world.add(), "Alice", "one", reviewer="Lea")
    world.ask(c.AnswerEscalation(task_id=task.id, option="unlock:Alice", guidance="Use tar"), "Boss")

    (found,) = asked(world, task.id)

    assert task.inbox.escalation is not None
    assert (found.escalation_id, found.kind) == (task.inbox.escalation.id, "deadlock")
    assert (found.status, found.option, found.answered_by) == ("answered", "unlock:Alice", "Boss")
    assert found.guidance == "Use tar"


def test_a_question_the_task_went_on_without_is_closed_and_the_next_is_open() -> None:
    world = with_team()
    task = send_back(world, world.add(), "Alice", "one", reviewer="Lea").id
    world.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")
    world.ask(c.EscalateTask(task_id=task, reason="Two?"))

    assert [(found.kind, found.status) for found in asked(world, task)] == [
        ("deadlock", "closed"),
        ("asked", "open"),
    ]


def test_a_question_that_was_repeated_and_seen_says_so() -> None:
    world = with_team()
    task = world.add()
    world.ask(c.EscalateTask(task_id=task, reason="One?"))
    before = asked(world, task)[0].deadline
    world.clock.advance(120)
    world.add("so that the ledger looks")
    world.ask(c.AcknowledgeEscalation(task_id=task), "Boss")

    (found,) = asked(world, task)

    assert (found.repeats, found.acknowledged_by) == (1, "Boss")
    assert found.deadline > before


def test_a_rejection_is_told_with_its_id_and_whether_it_stands() -> None:
    world = with_team()
    task = send_back(world, world.add(), "Alice", "one", reviewer="Lea")
    world.ask(c.RetractReview(task_id=task.id, reason="It was right"), "Lea")

    with world.store.read() as view:
        rows = task_reviews(view.tasks.get(task.id), task_events(view, task.id))

    assert [row["event"] for row in rows] == ["review.reject", "review.retract"]
    assert rows[0]["is_retracted"] is True
    assert rows[0]["review_id"] == rows[1]["review_id"]


class TestTheOverrideMessageOfAHandoff:
    """It stands while the agent holds the handoff on that override, and no longer."""

    MESSAGE = "The token is in the vault"

    @staticmethod
    def world() -> FakeLedger:
        return FakeLedger(rules=Rules(gates=(), policy=Policy(director=("human",))))

    @staticmethod
    def seen(world: FakeLedger, handoff: str) -> HandoffView:
        with world.store.read() as view:
            found = task_handoffs(task_events(view, view.names.find_task_id(handoff)))
        return next(one for one in found if one.handoff_id == handoff)

    def overridden(self, world: FakeLedger, reassign_to: str = "") -> tuple[str, str]:
        """A task and its handoff, whose rejection the user has overridden."""
        task, handoff = world.add_and_claim(title=TITLE, scope=SCOPE)
        world.reject(handoff, a_rejection())
        world.ask(
            c.AnswerRejection(
                handoff_id=handoff, decision="OVERRIDE", message=self.MESSAGE, reassign_to=reassign_to
            )
        )
        return task, handoff

    def test_it_stands_as_long_as_the_agent_goes_on(self) -> None:
        world = self.world()
        task, handoff = self.overridden(world)
        world.ask(c.Heartbeat(task_id=task, agent="Alice", handoff_id=handoff), "Alice")

        found = self.seen(world, handoff)

        assert (found.status, found.override_message) == ("overridden", self.MESSAGE)

    def test_it_is_gone_once_the_agent_rejects_again_and_once_that_is_answered(self) -> None:
        world = self.world()
        _, handoff = self.overridden(world)
        world.reject(handoff, a_rejection("INFEASIBLE"))
        waiting = self.seen(world, handoff)
        world.ask(c.AnswerRejection(handoff_id=handoff, decision="ACCEPT"))

        assert (waiting.status, waiting.override_message) == ("rejected", "")
        assert self.seen(world, handoff).override_message == ""

    def test_an_invalid_rejection_after_it_has_a_message_of_its_own(self) -> None:
        world = self.world()
        _, handoff = self.overridden(world)
        world.reject(handoff, LAZY)

        assert "not accepted" in self.seen(world, handoff).override_message

    def test_it_is_gone_once_the_work_is_handed_in_the_task_is_given_back_or_passed_on(self) -> None:
        world = self.world()
        done, first = self.overridden(world)
        world.submit(done)
        left, second = self.overridden(world)
        world.ask(c.ReleaseTask(task_id=left, agent="Alice"), "Alice")
        _, third = self.overridden(world, reassign_to="Bob")
        ended, fourth = self.overridden(world)
        world.ask(c.CancelTask(task_id=ended))

        assert [self.seen(world, one).override_message for one in (first, second, third, fourth)] == [""] * 4

    def test_an_offer_that_was_rejected_has_it_until_it_is_taken_up(self) -> None:
        world = self.world()
        task = world.add(TITLE, scope=SCOPE)
        answer = world.ask(c.InitiateHandoff(task_id=task, target="Alice"))
        handoff = answer.task.claims.offers[0].handoff_id
        world.reject(handoff, a_rejection())
        world.ask(c.AnswerRejection(handoff_id=handoff, decision="OVERRIDE", message=self.MESSAGE))
        offered = self.seen(world, handoff)
        world.ask(c.AcceptHandoff(handoff_id=handoff, agent="Alice"), "Alice")
        taken = self.seen(world, handoff)

        assert (offered.status, offered.override_message) == ("initiated", self.MESSAGE)
        assert (taken.status, taken.override_message) == ("accepted", "")
