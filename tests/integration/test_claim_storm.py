"""Many processes claim at once: every task has one holder, and nobody is left without a clear answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.wiring.ledger import open_ledger
from tests.integration.machine import REMAND, Repository

MODES = ("library", "coordinator", "mixed")
pytestmark = pytest.mark.timeout(1200)


def write_down(repository: Repository, count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Adds tasks, in groups."""
    for name, value in repository.machine.environment.items():
        monkeypatch.setenv(name, value)
    ledger = open_ledger(str(repository.path)).ledger
    asks = [Request(command=c.AddTask(title=f"task {n}"), actor=USER) for n in range(count)]
    answers = [a for start in range(0, count, 500) for a in ledger.ask_all(asks[start : start + 500])]
    return [answer.task.id for answer in answers]


def storm(repository: Repository, processes: int, mode: str, *tasks: str) -> list[dict[str, Any]]:
    """Lets the processes loose; returns what each was answered."""
    output = repository.machine.folder / "answers.jsonl"
    with repository.coordinator() if mode != "library" else nullcontext():
        repository.machine.script(
            "claim_storm.py", repository.path, output, processes, mode, *tasks, timeout=900
        )
    return [json.loads(line) for line in output.read_text().splitlines()]


def claims_in_files(repository: Repository) -> list[str]:
    """Which tasks were claimed, as the event files tell."""
    events = repository.written().values()
    return [event["task_id"] for event in events if event["event"] == "task.claim"]


@pytest.mark.parametrize("mode", MODES)
def test_every_task_is_claimed_once_and_none_is_left(
    repository: Repository,
    campaign: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    processes, count = campaign(16, 64), campaign(500, 10_000)
    tasks = write_down(repository, count, monkeypatch)

    answers = storm(repository, processes, mode)

    won = [answer["task"] for answer in answers if "task" in answer]
    assert Counter(won) == Counter(tasks), "each task has one winner"
    refusals = [answer["refused"] for answer in answers if "refused" in answer]
    assert refusals == ["nothing_to_claim"] * processes
    assert sorted(claims_in_files(repository)) == sorted(tasks), "the files tell the same"
    listed = {row["task_id"]: row["agent"] for row in repository.ok("task", "list", "--status", "claimed")}
    assert listed == {answer["task"]: answer["agent"] for answer in answers if "task" in answer}
    assert repository.verify() == []
    repository.check_log()


@pytest.mark.parametrize("mode", MODES)
def test_one_task_has_one_winner_and_everyone_else_hears_who_has_it(
    repository: Repository,
    campaign: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    claimers, rounds = campaign(32, 256), campaign(3, 1000)
    tasks = write_down(repository, rounds, monkeypatch)

    answers = storm(repository, claimers, mode, *tasks)

    assert len(answers) == claimers * rounds
    for task in tasks:
        heard = [answer for answer in answers if answer["asked"] == task]
        winners = [answer["agent"] for answer in heard if answer.get("task") == task]
        losers = [answer for answer in heard if "refused" in answer]
        assert len(winners) == 1, f"{task}: {winners}"
        assert {answer["refused"] for answer in losers} == {"already_claimed"}
        assert all(winners[0] in answer["message"] for answer in losers), "a refusal says who holds the task"
        assert len(losers) == claimers - 1
    assert sorted(claims_in_files(repository)) == sorted(tasks)
    assert repository.verify() == []
    repository.check_log()


@pytest.mark.parametrize("calls", ["task claim", "task list", "mixed"])
def test_calls_started_at_once_are_all_answered(
    repository: Repository, campaign: Callable[[int, int], int], calls: str
) -> None:
    """Every process opens the ledger, and leaves it, while the others do."""
    words = {
        "task claim": [("task", "claim", "--agent", "Alice")],
        "task list": [("task", "list")],
        "mixed": [
            ("task", "list"),
            ("task", "add", "x"),
            ("log", "digest"),
            ("task", "claim", "--agent", "A"),
        ],
    }[calls]
    for _ in range(campaign(2, 40)):
        repository.add()
        started = [
            repository.machine.start(repository.path, REMAND, *words[number % len(words)], "--json")
            for number in range(10)
        ]
        answers = [(process.communicate(timeout=600), process.returncode) for process in started]
        assert [answer for answer in answers if answer[1] not in (0, 1)] == []
        for (out, err), _ in answers:
            assert not err
            assert json.loads(out) is not None
    assert repository.verify() == []
    repository.check_log()


def test_two_sessions_of_one_agent_do_not_both_get_a_task(repository: Repository) -> None:
    task = repository.add()
    first = repository.call("task", "claim", task, "--agent", "Alice")
    second = repository.call("task", "claim", task, "--agent", "Alice")
    assert (first.code, second.code) == (0, 1)
    assert second.data["refused"] == "already_claimed"
