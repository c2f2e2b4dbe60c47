"""Holds how a task's reviews and questions are told from its events."""

from remand.app.asking import Rules
from remand.app.rebuild import story
from remand.app.stories import QuestionView, questions, reviews
from remand.domain import commands as c
from remand.domain.policy import Policy
from remand.domain.roles import Role, Team
from remand.testing.builders import World, member
from remand.testing.reviewing import send_back

TEAM = Team((member("Alice"), member("Lea", Role.LEAD), member("Boss", Role.USER)))


def with_team() -> World:
    return World(rules=Rules(gates=(), team=TEAM, policy=Policy(deadline_seconds=60)))


def asked(world: World, task_id: str) -> list[QuestionView]:
    with world.store.read() as view:
        return questions(world.task(task_id), story(view, task_id))


def test_a_question_is_told_with_its_answer() -> None:
    world = with_team()
    task = send_back(world, world.add(), "Alice", "one", reviewer="Lea")
    world.ask(c.AnswerEscalation(task_id=task.id, option="unlock:Alice", guidance="Use tar"), "Boss")

    (found,) = asked(world, task.id)

    assert task.escalation is not None
    assert (found.escalation_id, found.kind) == (task.escalation.id, "deadlock")
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
        rows = reviews(world.task(task.id), story(view, task.id))

    assert [row["event"] for row in rows] == ["review.reject", "review.retract"]
    assert rows[0]["is_retracted"] is True
    assert rows[0]["review_id"] == rows[1]["review_id"]
