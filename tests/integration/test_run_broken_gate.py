"""Holds that a gate which cannot be measured stops `remand run`, asks the user once, and starts nothing meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.machine import Machine
from tests.integration.scripted_agents import Office, Scheduler

pytestmark = pytest.mark.timeout(900)
COMMITS_EACH_TIME = 'commit "good $N"\n'
COMMITS_ONCE = '[ -e work.txt ] || commit "good"\n'
NO_MODULE = """
[gates.words]
command = ["python3", "-m", "no_such_checker", "{report}"]
parser = "junit"
"""
Start = Callable[..., Scheduler]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts schedulers, which end with the test at the latest."""
    started: list[Scheduler] = []

    def start_one(office: Office, *options: str) -> Scheduler:
        started.append(Scheduler(office, *options))
        return started[-1]

    yield start_one
    for one in started:
        one.close()


def runs(office: Office) -> int:
    return len(office.events("run.start"))


@pytest.mark.parametrize("script", [COMMITS_EACH_TIME, COMMITS_ONCE], ids=["new commits", "one commit"])
def test_a_gate_that_cannot_be_measured_asks_the_user_once_and_starts_nothing_meanwhile(
    machine: Machine, start: Start, script: str
) -> None:
    office = Office(machine, team={"Alice": script, "Bob": script}, gates=NO_MODULE)
    tasks = [office.add(f"Task {number}") for number in range(3)]
    scheduler = start(office)

    asked = office.wait("escalation.open")
    office.until(lambda: not scheduler.status()["agents"], "the end of those at work")
    count = runs(office)
    later = office.add("One more")
    office.until(lambda: "words" in (scheduler.status()["waiting"] or ""), "why nothing is started")
    scheduler.stop()
    again = start(office)
    office.until(lambda: "words" in (again.status().get("waiting") or ""), "the same after a restart")

    assert count <= 4, "two agents: two runs, and at most two that were under way"
    assert runs(office) == count, "nothing is started while the user is asked"
    assert asked["kind"] == "gate"
    (item,) = office.repository.ok("inbox")
    assert item["escalation_id"]
    assert "words" in item["question"]
    assert "No module named no_such_checker" in item["question"]
    assert "remand gate run" in item["question"]
    assert [option["key"] for option in item["options"]] == ["retry"]
    shown = office.repository.ok("top")
    assert any("words" in one["text"] for one in shown["troubles"] if one["kind"] == "system")
    assert all(office.shown(task)["gate_rejection_count"] == 0 for task in (*tasks, later))
    assert not any(one.get("is_fault") for one in office.events("run.end"))
    assert office.repository.refused(
        "inbox",
        "answer",
        item["escalation_id"],
        "retry",
        env={"REMAND_TASK": tasks[0], "REMAND_ACTOR": "Alice"},
    )
    office.check()
