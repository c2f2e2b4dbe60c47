"""Holds what awaits review, and whose."""

from remand.app.history.task_history import SubmissionUnderReview, submissions_under_review
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from tests.support.builders import FakeLedger, member

TEAM = Team(
    (
        member("Alice", Role.AGENT, Role.LEAD),
        member("Bob"),
        member("Lea", Role.LEAD),
        member("Boss", Role.USER),
    )
)


def listed(world: FakeLedger, reviewer: str = "") -> list[SubmissionUnderReview]:
    with world.store.read() as view:
        return submissions_under_review(view, world.rules.team.actor(reviewer) if reviewer else None)


def with_team() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM))


def test_only_what_was_handed_in_and_not_reviewed_awaits_review() -> None:
    world = with_team()
    waiting, done, _ = (world.add(title) for title in ("One", "Two", "Three"))
    world.finish(done, "Bob")
    world.claim(waiting, "Bob")
    world.submit(waiting, "Bob")
    world.ask(c.RequestReview(task_id=waiting, reviewer="Lea"))

    (found,) = listed(world)

    assert (found.task_id, found.title, found.author) == (waiting, "One", "Bob")
    assert (found.requested, found.attempt, found.rejection_count) == (("Lea",), 1, 0)


def test_nobody_is_shown_work_it_had_a_part_in() -> None:
    world = with_team()
    task = world.add()
    world.claim(task, "Alice")
    world.ask(c.ReleaseTask(task_id=task, agent="Alice"), "Alice")
    world.claim(task, "Bob")
    world.submit(task, "Bob")

    assert listed(world, "Alice") == [], "she held it once"
    assert [len(listed(world, name)) for name in ("Lea", "Boss")] == [1, 1]


def test_the_oldest_submission_comes_first() -> None:
    world = with_team()
    first, second = world.add("One"), world.add("Two")
    for task, commit in ((second, "a"), (first, "b")):
        world.claim(task, "Bob")
        world.submit(task, "Bob", commit)

    assert [found.task_id for found in listed(world)] == [second, first]
