"""A scheduler on fakes: agents are functions, worktrees are names, and the test moves the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from remand.app.requests import Rules
from remand.app.scheduler.chores import StaffCheck
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import (
    AgentLaunch,
    Bounds,
    CannotRun,
    ClaimAnswer,
    LaunchConfig,
    RunEnd,
    SessionResult,
    TaskWorktree,
    WorktreeState,
)
from remand.app.scheduler.runs import ActiveRun, AgentRuns, RunAssignment, RunEnvironment, Workers
from remand.app.scheduler.scheduler import Scheduler
from remand.app.tasks.queue import Load
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.events.work import Purpose
from remand.domain.task import Task
from tests.support.builders import FakeLedger
from tests.support.fakes import FakeTaskWorktrees

WORKED = RunEnd("exited", 0, 1.0)
MAX_SECONDS = 3600.0
CRASHED = RunEnd("exited", 1, 1.0, errors="Traceback\nValueError: no")

Script = Callable[["FakeScheduler", AgentLaunch], RunEnd | None]
"""What an agent does when it is looked at: how it ended, or None while it goes on."""


class FakeRunningAgent:
    """An agent's process: its script, asked again until it has ended."""

    def __init__(self, shop: FakeScheduler, order: AgentLaunch, script: Script) -> None:
        self.order = order
        self.is_stopped = False
        self._shop = shop
        self._script = script
        self._on_end: Callable[[], None] = lambda: None

    def poll(self) -> RunEnd | None:
        return RunEnd("stopped", 15, 1.0) if self.is_stopped else self._script(self._shop, self.order)

    def notify_end(self, ended: Callable[[], None]) -> None:
        """Says at once that there is something to look at: a script does its work when it is looked at."""
        self._on_end = ended
        ended()

    def stop(self) -> None:
        self.is_stopped = True
        self._on_end()


class FakeScheduler:
    """A whole ledger with a scheduler at work on it. `scripts` says what each agent does."""

    tier, detail = "plain", "fake"

    def __init__(self, *members: Member, **policy: Any) -> None:
        people = (Member(name="Lead", roles=(Role.LEAD,)), Member(name="owner", roles=(Role.USER,)))
        team = Team((*members, *people))
        rules = Rules(gates=(), team=team, base="base")
        self.world = FakeLedger(rules=replace(rules, policy=replace(rules.policy, **policy)))
        self.world.repository.add("base")
        self.worktrees = FakeTaskWorktrees()
        self.scripts: dict[str, Script] = {}
        self.orders: list[AgentLaunch] = []
        self.answers: list[ClaimAnswer] = []
        self.reviewer: Member | None = None
        self.choose: Callable[[Task, Load], Member | None] = lambda *_: self.reviewer
        self.opinions: list[str] = []
        self.fault: CannotRun | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while a done claim is measured."""
        self.seconds = 0.0
        self.signs: dict[str, str] = {}
        """When something was last heard of a run, should its scheduler be killed."""
        self.open_sockets: set[str] = set()
        self.reports: list[str] = []
        """What the scheduler reported as going wrong."""
        self.scheduler = self.restart()

    def restart(self) -> Scheduler:
        """A scheduler that has just been started on the ledger as it is."""
        self.running: list[FakeRunningAgent] = []
        ledger = LedgerClient(self.world.ledger, lambda: self.world.rules, lambda: "", self.world.ids.hex)
        self.runs = AgentRuns(
            RunEnvironment(
                worktrees=self.worktrees,
                sockets=_FakeSockets(self.open_sockets),
                hosts=self,
                launcher=self,
                claims=self,
                review_agents=_FakeReviewAgents(self),
                bounds=Bounds,
                environment=dict,
                log=lambda run_id: f"/l/{run_id}",
            ),
            ledger,
        )
        self.staff = StaffCheck(ledger, self.runs, lambda: MAX_SECONDS)
        counter = iter(range(1 << 30))
        self.scheduler = Scheduler(
            ledger=ledger,
            runs=self.runs,
            worktrees=self.worktrees,
            workers=Workers(self, self),
            max_seconds=lambda: MAX_SECONDS,
            last_sign=lambda run_id: self.signs.get(run_id, ""),
            changes=lambda: next(counter),
            report=self.reports.append,
            clock=lambda: self.seconds,
        )
        self.scheduler.recover()
        return self.scheduler

    def tick(self, times: int = 1, seconds: float = 1.0) -> None:
        """Lets time pass, one look at a time."""
        for _ in range(times):
            self.scheduler.tick()
            self.seconds += seconds
            self.world.clock.advance(seconds)

    # The ports that are a line each.

    def execute(self, work: Callable[[], None]) -> None:
        work()

    def start(self, order: AgentLaunch) -> FakeRunningAgent:
        if self.fault is not None:
            raise self.fault
        self.orders.append(order)
        self.running.append(FakeRunningAgent(self, order, self.scripts.get(order.agent, _never_ends)))
        return self.running[-1]

    def launch_config(self, command: tuple[str, ...], run_id: str, prompt: str) -> LaunchConfig:
        return LaunchConfig(command=command)

    def drop(self, run_id: str) -> None:
        """Nothing was made for it."""

    def parse_result(self, command: tuple[str, ...], output: str, status: int = 0) -> SessionResult:
        """What the test says that the output tells."""
        return SessionResult(text=output)

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        """Hands the work in, unless the test has another answer ready."""
        self.meanwhile()
        if self.answers:
            return self.answers.pop(0)
        self.world.repository.add(commit)
        answer = self.world.ask(c.SubmitTask(task_id=worktree.task_id, agent=agent, commit=commit), agent)
        return ClaimAnswer("" if answer.task.submission else "gate_rejected")

    def close(self) -> None:
        """Nothing is being measured."""


class _FakeReviewAgents:
    def __init__(self, shop: FakeScheduler) -> None:
        self._shop = shop

    def choose(self, purpose: Purpose, task: Task, load: Load) -> Member | None:
        return self._shop.choose(task, load) if purpose == Purpose.REVIEW else None

    def prompt(self, assignment: RunAssignment) -> str:
        return "review"

    def apply_answer(self, run: ActiveRun, result: SessionResult) -> str:
        return "" if result.text else "it said nothing"


class _FakeSockets:
    def __init__(self, sockets: set[str]) -> None:
        self._sockets = sockets

    def open(self, run_id: str, agent: str, task_id: str, worktree: TaskWorktree) -> str:
        self._sockets.add(run_id)
        return f"/d/{run_id}"

    def close(self, run_id: str) -> None:
        self._sockets.discard(run_id)

    def gate_seconds(self, run_id: str) -> float:
        return 0.0

    def end(self) -> None:
        self._sockets.clear()


def _never_ends(shop: FakeScheduler, order: AgentLaunch) -> None:
    """An agent that never ends."""


def committing_agent(name: str) -> Script:
    """An agent that commits once and is done."""

    def script(shop: FakeScheduler, order: AgentLaunch) -> RunEnd:
        shop.worktrees.looks[order.worktree.task_id] = WorktreeState(head=name)
        return WORKED

    return script


def ending_agent(ended: RunEnd) -> Script:
    """An agent that ends like that and does nothing."""
    return lambda *_: ended
