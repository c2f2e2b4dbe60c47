"""A real agent that says it is done is measured: sent back with the figures, and let go once they are right."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.journal.reader import JournalFile
from remand.domain.evidence.attempts import ToolUse
from tests.acceptance.real_agents.agents import Told, run_claude, run_host, say, shell, use
from tests.integration.machine import REMAND, Machine

pytestmark = pytest.mark.more

CONFIG = f"""\
[project]
base = "main"

[gates.tests]
command = ["{sys.executable}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={{report}}"]
parser = "junit"
require = {{max_failures = 0}}
"""
BASE = "def double(number):\n    return number * 2\n"
RIGHT = f"{BASE}\n\ndef triple(number):\n    return number * 3\n"
WRONG = f"{BASE}\n\ndef triple(number):\n    return number + 3\n"
BASE_TESTS = "import calc\n\n\ndef test_double():\n    assert calc.double(5) == 10\n"
TESTS = f"{BASE_TESTS}\n\ndef test_triple():\n    assert calc.triple(5) == 15\n"
PLUGIN = Path(__file__).parents[3] / "plugins" / "claude-code"
HOSTS = ("claude", "codex", "gemini", "qwen", "copilot", "openhands")
KEPT = ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "LC_ALL")


class Work:
    """A project with a task that an agent holds, and our hooks in the agent's host."""

    def __init__(self, machine: Machine, host: str, *others: str, options: tuple[str, ...] = ()) -> None:
        self.machine, self.host = machine, host
        self.repository = machine.repository(config=CONFIG)
        self.repository.commit("calc.py", BASE)
        self.repository.commit("test_calc.py", BASE_TESTS)
        self.repository.ok("init", "--hosts", ",".join((host, *others)), *options)
        self.repository.git("add", "-A")
        self.repository.git("commit", "-q", "-m", "Set up")
        self.task = self.repository.add("Triple a number", "--branch", "triple")
        self.repository.git("switch", "-q", "-c", "triple")
        self.repository.ok("task", "claim", self.task, "--agent", "Fenster")

    def run(self, *script: dict[str, Any]) -> Told:
        """Lets the agent do what its model says."""
        return run_host(self.host, self.repository.path, self.machine.home, script, self.environment())

    def environment(self) -> dict[str, str]:
        """What the host is started with."""
        surroundings = {
            name: value
            for name, value in self.machine.environment.items()
            if name in KEPT or name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))
        }
        return surroundings | {
            "REMAND_TASK": self.task,
            "REMAND_ACTOR": "Fenster",
            "PATH": f"{Path(REMAND).parent}:/usr/local/bin:/usr/bin:/bin",
        }

    def shell(self, command: str) -> dict[str, Any]:
        """A turn in which the agent runs a command."""
        return shell(self.host, command)

    def write(self, calc: str, message: str) -> dict[str, Any]:
        """A turn in which the agent commits code and its test."""
        return self.shell(
            f"printf %s '{calc}' > calc.py && printf %s '{TESTS}' > test_calc.py"
            f" && git add calc.py test_calc.py && git commit -q -m '{message}'"
        )

    def shown(self) -> dict[str, Any]:
        """The task as it is now."""
        shown: dict[str, Any] = self.repository.ok("task", "show", self.task)
        return shown


@pytest.fixture
def work(machine: Machine) -> Work:
    """Work for Claude Code."""
    return Work(machine, "claude")


@pytest.mark.parametrize("host", HOSTS)
def test_a_stop_is_sent_back_with_the_figures_until_they_are_right(host: str, machine: Machine) -> None:
    work = Work(machine, host)
    told = work.run(
        work.write(WRONG, "Triple"),
        say("All done, every test passes."),
        work.write(RIGHT, "Triple, rightly"),
        say("Now it does."),
    )

    after_claim = told.request(2)
    assert "REJECTED: Quality gates failed" in after_claim
    assert "Tests: 1 failure (requires 100% pass)" in after_claim
    assert "Continue working." in after_claim
    assert (told.code, told.left) == (0, []), f"{told.out[-1000:]}{told.err[-1000:]}"
    assert "Now it does." in told.out
    shown = work.shown()
    assert (shown["status"], shown["gate_rejection_count"]) == ("provisional", 1)


def test_a_stop_that_fires_the_hooks_of_two_hosts_counts_once(machine: Machine) -> None:
    """Copilot runs the hooks of Claude Code besides its own."""
    work = Work(machine, "copilot", "claude")
    told = work.run(
        work.write(WRONG, "Triple"),
        work.shell("echo so; exit 3"),
        say("All done, every test passes."),
        work.write(RIGHT, "Triple, rightly"),
        say("Now it does."),
    )

    assert (told.code, told.left) == (0, [])
    assert told.request(3).count("REJECTED: Quality gates failed") >= 1
    shown = work.shown()
    assert (shown["status"], shown["gate_rejection_count"]) == ("provisional", 1)
    rows = [row for path in machine.state.rglob("*.jsonl") for row in path.read_text().splitlines()]
    assert {"copilot", "claude"} <= {json.loads(row).get("host") for row in rows}, "both were called"
    uses = journal_of(work.task, machine)
    assert [(one.command, one.exit_status) for one in uses][1] == ("echo so; exit 3", 3)
    assert len(uses) == 3


def test_qwen_code_leaves_the_settings_of_ours_as_they_are(machine: Machine) -> None:
    """It rewrites settings that do not name their version. Tracked ones would then be an uncommitted change."""
    work = Work(machine, "qwen", options=("--portable",))
    path = work.repository.path / ".qwen" / "settings.json"
    before = path.read_bytes()
    told = work.run(work.write(RIGHT, "Triple"), say("Done."))

    assert path.read_bytes() == before
    assert (told.code, told.left, len(told.heard)) == (0, [], 2)
    assert work.shown()["status"] == "provisional"


def journal_of(task: str, machine: Machine) -> tuple[ToolUse, ...]:
    """What the agent ran for a task."""
    (path,) = machine.state.rglob(f"{task}.jsonl")
    return JournalFile(str(path.parent)).read_task(task).uses


def test_a_deleted_test_makes_nothing_done(work: Work) -> None:
    told = work.run(
        work.write(WRONG, "Triple"),
        say("Done."),
        work.shell("git rm -q test_calc.py && git commit -q -m 'Remove a flaky test'"),
        say("The flaky test is gone, so I am done."),
    )

    assert "REJECTED: Quality gates failed" in told.request(2)
    assert work.shown()["status"] not in {"provisional", "done"}


def test_the_plugin_alone_brings_tools_and_hooks(work: Work) -> None:
    """A session claims its task with a tool of the plugin's, and is measured by a hook of the plugin's."""
    work.repository.ok("task", "release", work.task, "--agent", "Fenster", "--reason", "Not now")
    work.repository.ok("init", "--remove")
    tool = "mcp__plugin_remand_remand__next_task"
    environment = work.environment() | {"REMAND_TASK": ""}
    told = run_claude(
        work.repository.path,
        work.machine.home,
        [
            {**use(tool, task=work.task), "awaits": tool, "meanwhile": work.shell("sleep 0.2")},
            work.write(WRONG, "Triple"),
            say("All done, every test passes."),
            work.write(RIGHT, "Triple, rightly"),
            say("Now it does."),
        ],
        environment,
        options=["--plugin-dir", str(PLUGIN), "--allowedTools", tool],
    )

    assert (told.code, told.left) == (0, []), told.err[-1000:]
    assert "Tests: 1 failure (requires 100% pass)" in told.request(-2)
    shown = work.shown()
    assert (shown["status"], shown["gate_rejection_count"]) == ("provisional", 1)


def test_a_session_without_a_task_is_left_alone(work: Work) -> None:
    work.repository.ok("task", "release", work.task, "--agent", "Fenster", "--reason", "Not now")
    told = work.run(work.shell("ls"), say("Done."))

    assert [len(told.heard), told.code, told.left] == [2, 0, []]


def test_an_agent_that_stops_again_and_again_without_work_is_let_go_and_a_human_asked(work: Work) -> None:
    told = work.run(*[say(f"Done, for the time number {number}.") for number in range(20)])

    assert 1 < len(told.heard) < 10
    assert told.code == 0
    assert work.shown()["status"] == "escalated"


def test_a_file_that_steers_the_judgement_is_not_written(work: Work) -> None:
    before = (work.repository.path / "remand.toml").read_text()
    told = work.run(
        work.shell("echo > remand.toml"),
        work.write(RIGHT, "Triple"),
        say("Done."),
    )

    assert "remand.toml" in told.request(1)
    assert (work.repository.path / "remand.toml").read_text() == before
    assert work.shown()["status"] == "provisional"
