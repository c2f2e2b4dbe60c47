"""The real Claude Code and the real Codex under `remand run`, from a claim to the work of another being taken."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.real_agents.agents import (
    CLAUDE,
    CODEX,
    CODEX_CONFIG,
    HERE,
    QUIET,
    found,
    namespace,
    say,
    use,
)
from tests.integration.machine import REMAND, Machine, end, wait_for
from tests.integration.scripted_models import address_of
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

ROOT = Path(__file__).parents[2]
GATES = f"""\
[project]
base = "main"

[gates.tests]
command = ["{sys.executable}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={{{{report}}}}"]
parser = "junit"
require = {{{{max_failures = 0}}}}

[run]
environment = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
interval = "1s"
sandbox = "{{sandbox}}"
"""
BASE = "def double(number):\n    return number * 2\n"
BASE_TESTS = "import calc\n\n\ndef test_double():\n    assert calc.double(5) == 10\n"
WRONG = f"{BASE}\n\ndef triple(number):\n    return number + 3\n"
RIGHT = f"{BASE}\n\ndef triple(number):\n    return number * 3\n"
BETTER = f'{BASE}\n\ndef triple(number):\n    """Three times a number."""\n    return number * 3\n'
TESTS = f"{BASE_TESTS}\n\ndef test_triple():\n    assert calc.triple(5) == 15\n"
PATIENCE = 300.0
pytestmark = [pytest.mark.timeout(1800), pytest.mark.more]
FINDING = "Say in a docstring what triple does."


class Agent:
    """One of the two hosts, and a script for its model."""

    def __init__(self, host: str, name: str) -> None:
        self.host, self.name = host, name

    @property
    def command(self) -> list[str]:
        if self.host == "claude":
            return [found(CLAUDE), "-p", "--allowedTools", "Bash"]
        return [found(CODEX), "exec", "--sandbox", "danger-full-access"]

    def commit(self, calc: str, message: str) -> dict[str, Any]:
        """A turn in which the agent commits code and its test."""
        command = (
            f"printf %s '{calc}' > calc.py && printf %s '{TESTS}' > test_calc.py"
            f" && git add calc.py test_calc.py && git commit -q -m '{message}'"
        )
        if self.host == "claude":
            return use("Bash", command=command, description="work")
        return use("exec_command", cmd=command)

    def tool(self, name: str, **given: str) -> dict[str, Any]:
        """A turn in which the agent uses a tool of ours."""
        if self.host == "claude":
            return use(f"mcp__remand__{name}", **given)
        # Codex does not wait for the tools of others before it begins.
        meanwhile = use("exec_command", cmd="sleep 0.1")
        return {**use(name, **given), "of": "mcp__remand", "awaits": "mcp__remand", "meanwhile": meanwhile}


class Scheduler:
    """`remand run` where no agent can reach anything but its model."""

    def __init__(self, machine: Machine, folder: Path, scripts: dict[str, list[dict[str, Any]]]) -> None:
        self.log = machine.folder / "scheduler.log"
        keys = {
            "ANTHROPIC_BASE_URL": address_of("claude"),
            "ANTHROPIC_API_KEY": "none",
            "SCRIPTED_KEY": "none",
        }
        config = CODEX_CONFIG.replace(HERE, address_of("codex")).format(folder=folder)
        plan = {
            "command": [REMAND, "run", "--plain"],
            "folder": str(folder),
            "environment": machine.environment | QUIET | keys,
            "files": {str(machine.home / ".codex" / "config.toml"): config},
            "scripts": scripts,
            "log": str(self.log),
        }
        self._process = machine.start(
            ROOT,
            *namespace(),
            sys.executable,
            "-m",
            "tests.integration.scripted_models",
            stdin=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plan) + "\n")
        self._process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """Ends it in order; gives what each model has heard and not said."""
        try:
            out, err = self._process.communicate(timeout=PATIENCE)
        finally:
            end(self._process)
        assert self._process.returncode == 0, f"{err[-2000:]}\n{self.said()}"
        ended = json.loads(out)
        assert ended["code"] == 0, self.said()
        models: dict[str, Any] = ended["models"]
        return models

    def said(self) -> str:
        """What the scheduler has said."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


def asked(model: dict[str, Any], number: int) -> str:
    """What a model was told in one of the agent's turns, and which tools it was offered."""
    turn = [request for request in model["heard"] if request.get("tools")][number]
    return json.dumps([turn.get("messages") or turn.get("input"), turn["tools"]], ensure_ascii=False)


class Life:
    """A task, two agents that are real hosts, and someone who reviews their work."""

    def __init__(self, machine: Machine, first: str, second: str, sandbox: str) -> None:
        self.fenster, self.verbal = Agent(first, "Fenster"), Agent(second, "Verbal")
        team = "".join(
            f'[[team.members]]\nname = "{agent.name}"\nrole = "agent"\ncommand = {json.dumps(agent.command)}\n'
            for agent in (self.fenster, self.verbal)
        )
        lead = '[[team.members]]\nname = "Keyser"\nrole = "lead"\n'
        self.repository = machine.repository(config=f"{GATES.format(sandbox=sandbox)}\n{team}{lead}")
        self.repository.commit("calc.py", BASE)
        self.repository.commit("test_calc.py", BASE_TESTS)
        self.task = self.repository.add("Triple a number")
        self.scheduler = Scheduler(machine, self.repository.path, self.scripts())

    def scripts(self) -> dict[str, list[dict[str, Any]]]:
        """What the agents do: the first says too early that it is done, the second heeds what a reviewer said."""
        return {
            self.fenster.host: [
                self.fenster.commit(WRONG, "Triple"),
                say("All done, every test passes."),
                self.fenster.commit(RIGHT, "Triple, rightly"),
                say("Now it does."),
            ],
            self.verbal.host: [
                self.verbal.tool("feedback", task=self.task),
                self.verbal.commit(BETTER, "Say what triple does"),
                say("Said."),
            ],
        }

    def shown(self) -> dict[str, Any]:
        """The task as it is now."""
        shown: dict[str, Any] = self.repository.ok("task", "show", self.task)
        return shown

    def wait_for_work_of(self, agent: Agent) -> str:
        """Waits until an agent has handed its work in; gives the commit."""

        def is_there() -> bool:
            now = self.shown()
            return now["status"] == "provisional" and now["submission"]["agent"] == agent.name

        self.wait_for(is_there, f"the work of {agent.name}")
        return str(self.shown()["submission"]["commit"])

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Waits as long as real agents on a busy machine may take."""
        try:
            wait_for(condition, what, PATIENCE)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.scheduler.said()}") from None

    def told(self, event: str) -> list[dict[str, Any]]:
        """What the log tells of one kind of event, in order."""
        events = [one for one in self.repository.written().values() if one["event"] == event]
        return sorted(events, key=lambda one: str(one["ts"]))


@pytest.mark.parametrize(
    ("first", "second", "sandbox"), [("claude", "codex", "best"), ("codex", "claude", "off")]
)
def test_a_task_goes_through_a_whole_life(first: str, second: str, sandbox: str, machine: Machine) -> None:
    life = Life(machine, first, second, sandbox)
    rejected = life.wait_for_work_of(life.fenster)
    finding = f"calc.py:5: {FINDING}"
    life.repository.ok(
        "review", "reject", life.task, "--as", "Keyser", "--commit", rejected, "--finding", finding
    )
    approved = life.wait_for_work_of(life.verbal)
    assert life.repository.refused("task", "claim", life.task, "--agent", "Fenster") == "locked_out"
    life.repository.ok("review", "approve", life.task, "--as", "Keyser", "--commit", approved)
    life.wait_for(lambda: life.shown()["status"] == "done", "the task to be done")
    life.wait_for(lambda: len(life.told("run.end")) == 2, "both runs to end")
    life.wait_for(lambda: not life.repository.worktrees(), "its worktree to be taken away")
    models = life.scheduler.stop()

    assert [model["left"] for model in models.values()] == [[], []], "both have said all they had to say"
    assert "Triple a number" in asked(models[first], 0)
    sent_back = asked(models[first], 2)
    assert "REJECTED: Quality gates failed" in sent_back
    assert "Tests: 1 failure (requires 100% pass)" in sent_back
    assert "## Review Feedback (rejection #1)" in asked(models[second], 0)
    assert FINDING in asked(models[second], 0)
    before, after = asked(models[second], 0), asked(models[second], -1)
    assert "reject_task" in after, "our tools are offered"
    assert after.count(FINDING) > before.count(FINDING), "our tool answers"
    check_the_log(life, {"claude": (first, second).index("claude")})
    check_nothing_is_left(life, machine)


@pytest.mark.parametrize("sandbox", ["best", "off"])
def test_codex_rejects_its_task_with_our_command_in_its_own_shell(sandbox: str, machine: Machine) -> None:
    """Codex runs commands in a login shell, whose profile resets PATH."""
    codex = Agent("codex", "Verbal")
    member = f'[[team.members]]\nname = "Verbal"\nrole = "agent"\ncommand = {json.dumps(codex.command)}\n'
    repository = machine.repository(config=f"{GATES.format(sandbox=sandbox)}\n{member}")
    task = repository.add(TITLE, "--scope", SCOPE)
    record = shlex.quote(json.dumps(a_rejection("BLOCKER")))
    script = [
        use("exec_command", cmd="remand whoami"),
        use("exec_command", cmd="remand unlock Verbal; echo code=$?"),
        use("exec_command", cmd=f'printf %s {record} | remand handoff reject "$REMAND_HANDOFF" --from -'),
        say("It cannot be done, and I have said why."),
    ]
    scheduler = Scheduler(machine, repository.path, {"codex": script})

    def has_ended() -> bool:
        return any(one["event"] == "run.end" for one in repository.written().values())

    try:
        wait_for(has_ended, "the run to end", PATIENCE)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{scheduler.said()}") from None
    models = scheduler.stop()

    heard = asked(models["codex"], -1)
    assert "Verbal (agent), inside an agent's environment" in heard
    assert "user_only" in heard, "what is found is the agent's socket"
    assert "is accepted as valid" in heard
    assert [one["agent"] for one in repository.ok("task", "show", task)["rejections"]] == ["Verbal"]
    assert repository.ok("task", "show", task)["status"] == "deferred"
    events = [one["event"] for one in repository.written().values() if one.get("task_id") == task]
    assert events.count("run.start") == 1, "one run was enough to say it"


def check_the_log(life: Life, place: dict[str, int]) -> None:
    """All of it is an event, with what it took."""
    started, ended = life.told("run.start"), life.told("run.end")
    assert [run["agent"] for run in started] == [run["agent"] for run in ended] == ["Fenster", "Verbal"]
    assert [run["how"] for run in ended] == ["exited", "exited"]
    assert ended[0]["turns"] == 4
    assert ended[1]["turns"] >= 3
    assert [run["tokens"] for run in ended] == [run["turns"] * 2 for run in ended], (
        "one in and one out for each"
    )
    assert [run.get("cost", 0) > 0 for run in ended] == [number == place["claude"] for number in (0, 1)]
    assert len(life.told("gate.reject")) == 1
    assert [lockout["agent"] for lockout in life.told("lockout.set")] == ["Fenster"]
    assert life.repository.verify() == []


def check_nothing_is_left(life: Life, machine: Machine) -> None:
    """No worktree, no folder of a run, and nothing of ours in what the agents committed."""
    assert life.repository.worktrees() == []
    assert [path for path in machine.state.rglob("runs/*") if path.is_dir()] == []
    branch = life.shown()["branch"]
    changed = life.repository.git("diff", "--name-only", "main", branch).split()
    assert changed == ["calc.py", "test_calc.py"]
