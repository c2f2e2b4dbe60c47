"""Holds who is given which of the tasks in line."""

from collections.abc import Iterator

from remand.app.scheduler.decide import CandidateTasks
from remand.domain.access.team import Actor, Role
from remand.domain.task import Task, update_task
from remand.testing.builders import a_task, task_id

ALICE = Actor(name="Alice", roles=(Role.AGENT,))
BOB = Actor(name="Bob", roles=(Role.AGENT,), skills=("roof",))


def tasks(*skills: tuple[str, ...]) -> list[Task]:
    return [update_task(a_task(), id=task_id(number), skills=wanted) for number, wanted in enumerate(skills)]


def test_everybody_is_given_the_first_that_suits_and_nothing_is_given_twice() -> None:
    roof, any_one, other = tasks(("roof",), (), ())
    line = CandidateTasks(iter([roof, any_one, other]))

    assert line.take(ALICE, has_team=True) == any_one
    assert line.take(BOB, has_team=True) == roof, "what was passed over for one is there for the next"
    assert line.take(ALICE, has_team=True) == other
    assert line.take(BOB, has_team=True) is None
    assert not line.has_more


def test_no_more_is_read_than_is_needed() -> None:
    read: list[str] = []

    def reading() -> Iterator[Task]:
        for task in tasks((), (), ()):
            read.append(task.id)
            yield task

    CandidateTasks(reading()).take(ALICE, has_team=True)

    assert len(read) == 1


def test_a_line_says_when_it_was_not_looked_through() -> None:
    line = CandidateTasks(iter(tasks(("roof",), ("roof",), ())), most=2)

    assert line.take(ALICE, has_team=True) is None
    assert line.has_more


def test_a_line_is_empty_when_nothing_is_left_to_be_given() -> None:
    one, other = tasks((), ())
    line = CandidateTasks(iter([one, other]))

    assert not line.is_empty
    assert line.take(ALICE, has_team=True) == one, "to ask takes nothing away"
    assert not line.is_empty
    assert line.take(ALICE, has_team=True) == other
    assert line.is_empty
    longer = CandidateTasks(iter(tasks((), (), ())), most=1)
    longer.take(ALICE, has_team=True)
    assert not longer.is_empty
    assert longer.has_more, "however often it is asked"
