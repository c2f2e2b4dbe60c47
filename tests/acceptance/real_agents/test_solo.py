"""Real agents without a task, in a repository where every session is measured."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.acceptance.real_agents.agents import Told, run_host, say, shell
from tests.acceptance.real_agents.test_stop_hook import BASE_TESTS, HOSTS, KEPT, RIGHT, TESTS, WRONG
from tests.integration.machine import Machine
from tests.integration.test_snapshots import fingerprint

pytestmark = pytest.mark.more

GATES = f"""\
[policy]
sessions = "all"

[gates.tests]
command = ["{sys.executable}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={{report}}"]
parser = "junit"
require = {{max_failures = 0}}
"""
SHOWING = frozenset({"gemini", "qwen"})
"""Hosts whose print mode shows the user what a hook says of a stop that it allows."""
STARTS = frozenset({"session_start", "prompt"})
"""What a hook may see first. Copilot calls both hooks at about the same time, before the agent acts."""


class SoloProject:
    """A project of one person, set up with `init --solo`, and a host with nothing but its hooks."""

    def __init__(self, machine: Machine, host: str) -> None:
        self.machine, self.host = machine, host
        self.repository = machine.repository(config=None)
        self.repository.commit("calc.py", RIGHT)
        self.repository.commit("test_calc.py", TESTS)
        (self.repository.path / "remand.toml").write_text(GATES)
        self.repository.ok("init", "--solo", "--hosts", host)

    def run(self, *script: dict[str, Any]) -> Told:
        """Lets the agent do what its model says."""
        environment = {
            name: value
            for name, value in self.machine.environment.items()
            if name in KEPT or name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))
        }
        return run_host(self.host, self.repository.path, self.machine.home, script, environment)

    def write(self, calc: str, tests: str = TESTS) -> dict[str, Any]:
        """A turn in which the agent writes code and its test, and commits nothing."""
        command = f"printf %s '{calc}' > calc.py && printf %s '{tests}' > test_calc.py"
        return shell(self.host, command)


@pytest.mark.parametrize("host", HOSTS)
def test_a_session_is_sent_back_with_the_figures_until_they_are_right(host: str, machine: Machine) -> None:
    project = SoloProject(machine, host)
    before = fingerprint(project.repository.path / ".git")
    told = project.run(
        project.write(WRONG),
        say("All done, every test passes."),
        project.write(f"{RIGHT}# rightly\n"),
        say("Now it does."),
    )

    after_stop = told.request(2)
    assert "Tests: 1 failure (requires 100% pass)" in after_stop
    assert "Nothing has to be committed." in after_stop
    assert (told.code, told.left) == (0, []), f"{told.out[-1000:]}{told.err[-1000:]}"
    rows = project.repository.ok("gate", "history", "--sessions")
    assert [row["status"] for row in rows] == ["failed", "passed"]
    assert rows[0]["title"] == "Do the task."
    (trace,) = machine.state.rglob("*.trace")
    assert trace.read_text().split()[2] in STARTS
    assert fingerprint(project.repository.path / ".git") == before


@pytest.mark.parametrize("host", HOSTS)
def test_a_deleted_test_lets_the_session_end_and_is_kept_for_the_user(host: str, machine: Machine) -> None:
    project = SoloProject(machine, host)
    told = project.run(project.write(RIGHT, BASE_TESTS), say("The test was flaky, and is gone."))

    assert (told.code, told.left) == (0, []), f"{told.out[-1000:]}{told.err[-1000:]}"
    is_shown = "look at this" in told.out + told.err
    assert is_shown == (host in SHOWING), f"{told.out[-1000:]}{told.err[-1000:]}"
    (row,) = project.repository.ok("gate", "history", "--sessions")
    assert row["status"] == "held"


@pytest.mark.parametrize("host", [host for host in HOSTS if host != "openhands"])
def test_a_question_is_never_blocked(host: str, machine: Machine) -> None:
    """OpenHands tells its hooks nothing of what the agent said."""
    project = SoloProject(machine, host)
    told = project.run(project.write(WRONG), say("Shall I go on with the next function?"))

    assert (told.code, told.left) == (0, []), f"{told.out[-1000:]}{told.err[-1000:]}"
    (row,) = project.repository.ok("gate", "history", "--sessions")
    assert row["status"] == "failed", "it is measured, for the user"
