"""Holds that a gate which cannot be measured stops `remand run`, asks the user once, and starts nothing meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.machine import Machine
from tests.integration.scripted_agents import Office, Scheduler

pytestmark = pytest.mark.timeout(900)
COMMITS_EACH_TIME = 'commit "good $N"\n'
COMMITS_ONCE = '[ -e work.txt ] || commit "good"\n'
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


class Checker:
    """A gate whose module is not installed at first."""

    def __init__(self, machine: Machine) -> None:
        self._folder = machine.folder / "modules"
        self._folder.mkdir()
        self.gates = f"""
[gates.words]
command = ["env", "PYTHONPATH={self._folder}", "python3", "-m", "word_checker", "{{report}}"]
parser = "junit"
[sandbox]
read = ["{self._folder}"]
"""

    def install(self) -> None:
        report = "<testsuite><testcase classname='words' name='good'/></testsuite>"
        text = f"import sys\nopen(sys.argv[1], 'w').write({report!r})\n"
        (self._folder / "word_checker.py").write_text(text)


@pytest.mark.parametrize("script", [COMMITS_EACH_TIME, COMMITS_ONCE], ids=["new commits", "one commit"])
def test_a_gate_that_cannot_be_measured_asks_the_user_once_and_starts_nothing_meanwhile(
    machine: Machine, start: Start, script: str
) -> None:
    checker = Checker(machine)
    office = Office(machine, team={"Alice": script, "Bob": script}, gates=checker.gates)
    tasks = [office.add(f"Task {number}") for number in range(3)]
    scheduler = start(office)

    asked = office.wait("escalation.open")
    office.until(lambda: not scheduler.status()["agents"], "the end of those at work")
    office.until(lambda: not scheduler.status()["gates"], "the end of what is measured")
    count = runs(office)
    tasks.append(office.add("One more"))
    office.until(lambda: "words" in (scheduler.status()["waiting"] or ""), "why nothing is started")
    scheduler.stop()
    again = start(office)
    office.until(lambda: "words" in (again.status().get("waiting") or ""), "the same after a restart")

    assert count <= 4, "two agents: two runs, and at most two that were under way"
    assert runs(office) == count, "nothing is started while the user is asked"
    assert asked["kind"] == "gate"
    (item,) = office.repository.ok("inbox")
    assert "`words`" in item["question"]
    assert "No module named word_checker" in item["question"]
    assert "remand gate run" in item["question"]
    shown = office.repository.ok("top")
    told = [one["text"] for one in shown["troubles"] if one["kind"] == "system"]
    assert any("No module named word_checker" in text for text in told), told
    assert "No module named word_checker" in again.said + scheduler.said, "the run log has the cause"
    assert all(office.shown(task)["gate_rejection_count"] == 0 for task in tasks)
    assert not any(one.get("is_fault") for one in office.events("run.end"))
    words = ("inbox", "answer", item["escalation_id"], "retry")
    by_agent = office.repository.call(*words, env={"REMAND_TASK": tasks[0], "REMAND_ACTOR": "Alice"})
    assert by_agent.data["refused"] == "user_only"

    checker.install()
    office.repository.ok(*words)

    for task in tasks:
        office.wait("task.submit", task)
    assert office.repository.ok("inbox") == []
    again.stop()
    office.check()


def test_single_rounds_remember_a_broken_gate_from_one_to_the_next(machine: Machine, start: Start) -> None:
    office = Office(machine, team={"Alice": COMMITS_ONCE}, gates=Checker(machine).gates)
    office.add()

    codes, said = [], ""
    for _ in range(3):
        scheduler = start(office, "--once")
        codes.append(scheduler.wait())
        said = scheduler.said

    assert codes == [0, 3, 3], "the second time it is the gate"
    assert runs(office) == 2
    assert "`words` cannot be measured" in said
