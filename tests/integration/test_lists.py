"""Holds that lists for people are a page at a time, and complete for programs."""

import pytest

from tests.integration.machine import Machine, Repository


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    return near_machine


def test_tasks_are_listed_a_page_at_a_time_those_that_have_ended_last(repository: Repository) -> None:
    ended, first, second = (repository.add(title) for title in ("Ended", "First", "Second"))
    repository.ok("task", "cancel", ended)

    page = repository.people("task", "list", "--limit", "2").out

    assert first in page
    assert second in page
    assert ended not in page
    assert "1 more are not shown; --limit N shows more, --all shows all." in page
    assert ended in repository.people("task", "list", "--all").out
    assert len(repository.ok("task", "list", "--limit", "1")) == 3


@pytest.mark.parametrize(
    "words", [("task", "ready"), ("lockout", "list"), ("review", "list"), ("gate", "history")]
)
def test_every_list_is_complete_for_programs_and_a_page_for_people(
    repository: Repository, words: tuple[str, ...]
) -> None:
    repository.git("checkout", "-q", "-b", "work")
    for number in range(3):
        task = repository.add(f"Task {number}")
        if words == ("task", "ready"):
            continue
        commit = repository.commit(f"work-{number}.txt")
        repository.ok("task", "claim", task, "--agent", "Alice")
        repository.ok("task", "submit", task, "--agent", "Alice", "--commit", commit)
        if words == ("lockout", "list"):
            finding = ("--finding", "work.txt:1: It leaks")
            repository.ok("review", "reject", task, "--reviewer", "user", "--commit", commit, *finding)

    rows = repository.ok(*words, "--limit", "1")
    page = repository.people(*words, "--limit", "1").out

    assert len(rows) >= 3
    assert f"{len(rows) - 1} " in page
    assert "not shown" in page
    assert "not shown" not in repository.people(*words, "--all").out
