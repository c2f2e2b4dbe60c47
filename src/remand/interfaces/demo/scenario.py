"""The demo scenario: its project, team and tasks, the owner's answers, and the steps in order."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.work import RunEnded, RunStarted
from remand.domain.gate.verdict import GateStatus
from remand.domain.task import Task
from remand.domain.text.words import format_count
from remand.interfaces.demo import environment
from remand.interfaces.demo.agents import GUIDANCE, HALF_WAY

MODULES = 12
GATES = """\
[gates.tests]
command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}"]
parser = "junit"
require = {max_failures = 0}
paths = ["shop/**", "tests/**"]

[gates.lint]
command = ["ruff", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
parser = "ruff"
require = {max_errors = 0}
paths = ["shop/**", "tests/**"]
"""
CONFIG = """\
# Who works here: those with a command are started by `remand run`.
[team]
members = [
{members}
  {{name = "owner", role = "user", aliases = ["user"]}},
]

{gates}
[policy]
lease = "10m"

[run]
network = false
time = "5m"
"""
PRICE = "def price(net):\n    return round(net * 1.19, 2)\n"
TEST_PRICE = (
    "from shop.price import price\n\n\n"
    "def test_tax_is_added():\n    assert price(100) == 119.0\n\n\n"
    "def test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)
PASSWORDS = "def check_password(user, password):\n    return user.knows(password)\n"
SESSION = (
    "from shop.passwords import check_password\n\n\n"
    "def open_{0}(user, password):\n    return check_password(user, password)\n\n\n"
    "def reopen_{0}(user, password):\n    return check_password(user, password)\n"
)


class DemoMember(NamedTuple):
    name: str
    character: str
    role: str = "agent"
    skills: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        """The member as `remand.toml` has it. JSON's strings and lists are TOML's."""
        command = [sys.executable, "-P", "-m", "remand.interfaces.demo.agents", self.name]
        skills = f", skills = {json.dumps(self.skills)}" if self.skills else ""
        return f'  {{name = "{self.name}", role = "{self.role}"{skills}, command = {json.dumps(command)}}},'


TEAM = (
    DemoMember("Fenster", "lazy", skills=("frontend",)),
    DemoMember("Hockney", "steady, knows accessibility", skills=("frontend", "accessibility")),
    DemoMember("McManus", "takes short cuts", skills=("backend", "refactoring")),
    DemoMember("Kobayashi", "hasty", skills=("backend", "pricing")),
    DemoMember("Keaton", "earns its no", skills=("identity", "payments")),
    DemoMember("Verbal", "crashes once", skills=("docs",)),
    DemoMember("Lead", "reviews", role="lead"),
)


class DemoTask(NamedTuple):
    alias: str
    title: str
    skill: str
    scope: str = ""
    needs_gates: bool = False

    @property
    def options(self) -> Iterator[str]:
        """The arguments of `task add`."""
        yield from (self.title, "--alias", self.alias, "--skills", self.skill)
        if self.scope:
            yield from ("--scope", self.scope)


BUTTON = DemoTask("#42", "Sign-in button", "frontend")
FOOTER = DemoTask("#48", "Footer links", "frontend", "Add imprint and privacy links.")
TASKS = (
    DemoTask("#43", "Order API", "backend"),
    DemoTask("#44", "Discounts on prices", "pricing", needs_gates=True),
    DemoTask("#45", "Tidy up prices", "refactoring", needs_gates=True),
    DemoTask(
        *("#46", "Add an OAuth button to the sign-in page", "identity"),
        "Add an OAuth button to the sign-in page. 2 hours.",
    ),
    DemoTask("#47", "Run the checkout tests", "payments", "Green run against the payment sandbox"),
    DemoTask("#49", "Write the FAQ", "docs"),
)


def has_tools() -> bool:
    """True if pytest and ruff are installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "ruff")
    return importlib.util.find_spec("pytest") is not None and os.path.exists(beside)


def configuration() -> str:
    """The project's own tables of `remand.toml`."""
    members = "\n".join(actor.row for actor in TEAM)
    return CONFIG.format(members=members, gates=GATES if has_tools() else "[gates]\n")


CLOSED_PORT = 1022
"""A port on which nobody listens: it is reserved for experiments, and the system gives it to no server that asks for any port."""


def project_files() -> dict[str, str]:
    """The shop: prices with tests, modules that all check passwords themselves, and the address of a sandbox that is down."""
    return {
        "README.md": "# A shop\n",
        "shop/__init__.py": "",
        "shop/passwords.py": PASSWORDS,
        "shop/price.py": PRICE,
        "tests/test_price.py": TEST_PRICE,
        "checkout.py": f'"""The way to the payment sandbox."""\nSANDBOX = ("127.0.0.1", {CLOSED_PORT})\n',
    } | {f"auth/session_{number}.py": SESSION.format(number) for number in range(1, MODULES + 1)}


UNLOCKED = "McManus"
NOT_WORTH_IT = "tidier prices are not worth the test of the tax"


class Owner:
    """Answers questions, with one command each."""

    def __init__(self, stage: environment.DemoEnvironment, voice: environment.DemoPrinter) -> None:
        self._stage = stage
        self._voice = voice

    def add(self, *tasks: DemoTask) -> None:
        for task in tasks:
            self._stage.remand("task", "add", *task.options)

    def answer(self, observed: environment.ObservedEvent) -> None:
        """Does what an event asks of the user, if anything."""
        match observed.event:
            case EscalationOpened():
                self._unlock(observed.task)
            case RunEnded() if (
                observed.task.gates.status == GateStatus.HELD and not observed.task.is_terminal
            ):
                alias = observed.task.details.aliases[0]
                self._stage.remand("task", "cancel", alias, "--reason", NOT_WORTH_IT)

    def _unlock(self, task: Task) -> None:
        """Every suitable agent is locked out: looks at the question, and answers it."""
        stage, say = self._stage, self._voice.say
        if task.inbox.escalation and task.inbox.escalation.kind != "deadlock":
            environment.fail(f"the user is asked what nobody should have to: {task.inbox.escalation.reason}")
        alias = task.details.aliases[0]
        again = stage.remand("task", "claim", alias, "--agent", UNLOCKED)
        environment.expect(again, "refused", "locked_out")
        say(f"    {again['message']}")
        question = next(one for one in stage.remand("inbox") if one["task_id"] == task.id)
        say(f"    {question['question']}")
        for option in question["options"]:
            say(f"      {option['key']}: {option['text']}")
        answered = stage.remand("inbox", "answer", alias, f"unlock:{UNLOCKED}", "--guidance", GUIDANCE)
        if "refused" in answered:
            environment.fail(f"the user's answer was refused: {answered}")


PATIENCE = 600.0
"""After how many seconds the story is given up as hanging."""
TIERS = {
    "bubblewrap": "in bubblewrap (tier 1): their worktree, their tools, and one socket that is their identity",
    "plain": "as they are (tier 0): no sandbox is available here, see `remand doctor`",
}
OWN_TABLES = "# Who works here"
"""Where the project's own part begins in the configuration that `remand init` writes."""


class Scenario:
    def __init__(self, stage: environment.DemoEnvironment, voice: environment.DemoPrinter) -> None:
        self._stage = stage
        self._voice = voice
        self._watching = environment.EventWatcher(stage.repository)
        self._narrator = environment.Narrator(stage.log_of)
        self._owner = Owner(stage, voice)
        self._tier = ""

    def run(self) -> dict[str, Any]:
        """The whole story; returns its result."""
        self._set_up_project()
        self._kill_scheduler_midway()
        self._finish_all_tasks()
        self._stage.stop_scheduler()
        self._compare_clone()
        self._analyze_rejections()
        return self._summarize()

    def _set_up_project(self) -> None:
        stage = self._stage
        self._voice.heading(
            "A shop's repository, six agents with a character each, a lead, and you as the owner"
        )
        stage.git("init", "-q", "-b", "main")
        stage.write(project_files())
        stage.git("commit", "-q", "-m", "A shop")
        stage.remand("init")
        own = stage.read("remand.toml").partition(OWN_TABLES)[0]
        stage.write({"remand.toml": own + configuration()})
        stage.git("add", "--all")
        stage.git("commit", "-q", "-m", "Set up Remand")
        for actor in TEAM:
            self._voice.say(f"  {actor.name:<10} {actor.character}")
        if not has_tools():
            self._voice.say(
                "  (without gates: pytest and ruff are not installed here; `make demo` installs them)"
            )

    def _kill_scheduler_midway(self) -> None:
        """A review rejects work, a colleague takes over, and the scheduler is killed: nothing is lost."""
        stage, voice = self._stage, self._voice
        voice.heading("The board is empty. The scheduler starts, and one task is added")
        stage.start_scheduler()
        self._owner.add(BUTTON)
        self._watch_until(self._is_half_way)
        voice.heading("Hockney is in the middle of it when the scheduler is killed. What is known is known")
        stage.kill_scheduler()
        refused = stage.remand("task", "claim", BUTTON.alias, "--agent", "Fenster")
        environment.expect(refused, "refused", "locked_out")
        voice.say(f"    {refused['message']}")
        voice.say(f"    {stage.remand('say', 'Why is Fenster locked out?')['done']}")

    def _finish_all_tasks(self) -> None:
        """The scheduler resumes; the owner adds the remaining tasks, and answers questions."""
        stage = self._stage
        self._voice.heading(
            "It starts again, marks Hockney's run as lost without blame, and receives the other tasks"
        )
        self._owner.add(FOOTER)
        stage.start_scheduler()
        has_gates = has_tools()
        self._owner.add(*(task for task in TASKS if has_gates or not task.needs_gates))
        self._watch_until(lambda: self._watching.is_over)

    def _compare_clone(self) -> None:
        """A clone has the same state as the repository."""
        stage = self._stage
        self._voice.heading("The log travels with git: a fresh clone knows the same")
        stage.remand("log", "publish")
        clone = os.path.join(stage.folder, "clone")
        stage.git("clone", "-q", stage.repository, clone, folder=stage.folder)
        here = stage.remand("log", "digest")
        there = stage.remand("log", "digest", folder=clone, is_quiet=True)
        environment.expect(there, "digest", here["digest"])
        self._voice.say(f"    both: {here['digest'][:16]}…, {format_count(here['events'], 'event')}")

    def _analyze_rejections(self) -> None:
        """What the rejections say about tasks, agents and blockers."""
        self._voice.heading("What is learned: who rejects what, and how often without cause")
        found = self._stage.remand("analyze", "rejections")
        by = ", ".join(f"{name} {count}" for name, count in found["by_agent"].items())
        self._voice.say(
            f"    {format_count(found['total_rejections'], 'rejection')} ({by}), {found['override_rate']:.0%} of them overridden"
        )

    def _summarize(self) -> dict[str, Any]:
        """The digest, with other results."""
        stage = self._stage
        verified = stage.remand("log", "verify", is_quiet=True)
        environment.expect(verified, "ok", True)
        readout: dict[str, Any] = stage.remand("analyze", "runs", is_quiet=True)
        return readout | {"tier": self._tier, "events": verified["events"]}

    def _watch_until(self, is_enough: Callable[[], bool]) -> None:
        """Prints what happens, and has the owner answer, until a condition holds."""
        until = time.monotonic() + PATIENCE
        while not is_enough():
            if self._stage.scheduler_failure or time.monotonic() > until:
                environment.fail(self._stage.scheduler_failure or f"nothing ends: {self._open()}")
            self._watching.wait()
            for observed in self._watching.news():
                self._introduce(observed.event)
                for line in self._narrator.lines(observed):
                    self._voice.tell(line)
                self._owner.answer(observed)

    def _is_half_way(self) -> bool:
        """True while the colleague who took over is working."""
        runs = (run for task in self._watching.tasks.values() for run in task.runs)
        return any(HALF_WAY in self._stage.log_of(run.id) for run in runs)

    def _introduce(self, event: Event) -> None:
        if isinstance(event, RunStarted) and not self._tier:
            self._tier = event.tier
            self._voice.say(f"  Agents run {TIERS.get(event.tier, event.tier)}.")

    def _open(self) -> str:
        tasks = self._watching.tasks.values()
        return ", ".join(f"{task.title} is {task.status}" for task in tasks if not task.is_terminal)
