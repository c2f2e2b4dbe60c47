"""Agents at work: what scheduler and coordinator take for each task, how soon an agent is started, what they hold."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass

from benchmarks.measure import Times
from benchmarks.office import Caller, Office, Use, until
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import adding, ask_all
from remand.adapters.sandbox.sandboxes import find_bubblewrap
from remand.wiring.ledger import open_ledger

MANY_TASKS = 10_000
MIB = 1 << 20
SECONDS_EACH = 0.2
"""An agent is at work so many seconds for each of its team: all are, and as many tasks come in by the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is done."""

    teams: tuple[tuple[int, int], ...]
    """Agents and tasks, twice."""
    rounds: int


SIZES = {
    "quick": Size(teams=((4, 20), (20, 20)), rounds=5),
    "usual": Size(teams=((20, 60), (100, 120)), rounds=10),
    "full": Size(teams=((20, 400), (200, 2000)), rounds=30),
}


def run(report: Report) -> None:
    """Prints the tables."""
    size = SIZES[report.scale.name]
    _churn(report, size)
    _starts(report, size)
    _memory(report)


# Tasks, one after the other.


@dataclass(slots=True)
class Visit:
    """Somebody who claims at the same coordinator meanwhile, and asks something that changes nothing."""

    caller: Caller
    claims: list[float]
    noops: list[float]

    def go(self) -> None:
        """Claims a task of its own, and asks nothing."""
        task = self.caller.add("Visit", "--skills", "visiting")
        self.claims.append(_timed(self.caller, "task", "claim", task, "--agent", "Visitor"))
        self.noops.append(_timed(self.caller, "task", "heartbeat", "T-none", "--agent", "Visitor"))


def _timed(caller: Caller, *arguments: str) -> float:
    start = time.perf_counter()
    caller.call(*arguments)
    return time.perf_counter() - start


@dataclass(frozen=True, slots=True, kw_only=True)
class Churned:
    """What came of one team's work."""

    agents: int
    tasks: int
    seconds: float
    scheduler: float
    coordinator: float
    below: float
    claims: Times
    noops: Times


def _churn(report: Report, size: Size) -> None:
    report.heading("Agents at work: from the queue to done, no gates, no sandbox, all agents at work")
    found = [_worked_off(report, agents, tasks) for agents, tasks in size.teams]
    report.table(
        (
            "agents, tasks",
            "tasks/s",
            "scheduler, CPU ms a task",
            "coordinator",
            "git, agents, gates",
            "claim p50, p99 ms",
            "no-op p50, p99 ms",
            "claim / no-op, p99",
        ),
        [
            (
                f"{one.agents}, {one.tasks:,}",
                figure(one.tasks / one.seconds),
                millis(one.scheduler / one.tasks),
                millis(one.coordinator / one.tasks),
                millis(one.below / one.tasks),
                f"{millis(one.claims.p50)}, {millis(one.claims.p99)}",
                f"{millis(one.noops.p50)}, {millis(one.noops.p99)}",
                figure(one.claims.p99 / one.noops.p99),
            )
            for one in found
        ],
    )
    few, many = found
    both = [(one.scheduler + one.coordinator) / one.tasks for one in found]
    what = f"{many.agents} agents / {few.agents}"
    report.goal(f"scheduler + coordinator, CPU a finished task, {what}", both[1] / both[0], most=1.3)
    report.goal(f"claim p99 / no-op p99, {many.agents} agents", many.claims.p99 / many.noops.p99, most=10)


def _worked_off(report: Report, agents: int, tasks: int) -> Churned:
    folder = os.path.join(report.folder, f"churn-{agents}")
    office = Office(folder, agents=agents, sandbox="off", seconds=agents * SECONDS_EACH)
    with office.scheduler():
        caller = office.connected()
        visit = Visit(office.connected(), [], [])
        uses = Use(office.pid), Use(office.coordinator)
        before = [use.cpu() for use in uses]
        start = time.monotonic()
        for number in range(tasks):
            caller.add(f"Task {number}")
        _approve_all(office, caller, tasks, visit)
        seconds = time.monotonic() - start
        after = [use.cpu() for use in uses]
    office.close()
    (scheduler, below), (coordinator, _) = (
        (late[0] - early[0], late[1] - early[1]) for early, late in zip(before, after, strict=True)
    )
    return Churned(
        agents=agents,
        tasks=tasks,
        seconds=seconds,
        scheduler=scheduler,
        coordinator=coordinator,
        below=below,
        claims=Times.of(visit.claims),
        noops=Times.of(visit.noops),
    )


def _approve_all(office: Office, caller: Caller, tasks: int, visit: Visit) -> None:
    """Has the lead approve whatever comes, until everything is done; somebody claims for every task."""
    done = 0
    events = Events(os.path.join(office.repo, ".got", "events"))
    while done < tasks:
        for line in events.news():
            if b'"task.submit"' in line:
                event = json.loads(line)
                caller.review("approve", event["task_id"], event["commit"])
                visit.go()
                done += 1
        time.sleep(0.1)


class Events:
    """The lines of the event files, as they come."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def news(self) -> list[bytes]:
        """The lines that were not there before."""
        return [line for name in sorted(os.listdir(self._folder)) for line in self._lines(name)]

    def _lines(self, name: str) -> list[bytes]:
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(self._read.get(name, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read[name] = self._read.get(name, 0) + len(whole)
        return whole.splitlines()


# From a free task to its agent.


def _starts(report: Report, size: Size) -> None:
    report.heading("From a free task to the first thing that its agent does")
    tiers = {"no sandbox": "off"} | ({"bubblewrap": "required"} if find_bubblewrap() else {})
    rows = []
    for name, sandbox in tiers.items():
        new, again = _begun(report, sandbox, size.rounds)
        for what, times in (("new task, new worktree", new), ("rejected task, its worktree", again)):
            rows.append((name, what, millis(times.p50), millis(times.p99)))
        report.goal(
            f"task free → agent started, warm worktree, {name}, p50", again.p50 * 1e3, most=300, unit="ms"
        )
    report.table(("tier", "what", "p50 ms", "p99 ms"), rows)


def _begun(report: Report, sandbox: str, rounds: int) -> tuple[Times, Times]:
    """How long it takes after `task add` and after `review reject` are answered."""
    office = Office(os.path.join(report.folder, f"starts-{sandbox}"), agents=2, sandbox=sandbox)
    new, again = [], []
    with office.scheduler():
        caller = office.connected()
        for number in range(rounds + 1):
            task = caller.add(f"Task {number}")
            free = time.time()
            new.append(_start_of(office, task, 1) - free)
            caller.review("reject", task, _handed_in(caller, task), "--finding", "work.txt:1: Again.")
            free = time.time()
            again.append(_start_of(office, task, 2) - free)
            caller.review("approve", task, _handed_in(caller, task))
    office.close()
    return Times.of(new[1:]), Times.of(again[1:])


def _start_of(office: Office, task: str, count: int) -> float:
    return float(
        until(
            lambda: found[count - 1] if len(found := office.started().get(task, [])) >= count else 0.0,
            f"start {count} of {task}",
            patience=120,
        )
    )


def _handed_in(caller: Caller, task: str) -> str:
    def commit() -> str:
        shown = caller.ok("task", "show", task)
        return str(shown["submission"]["commit"]) if shown["status"] == "provisional" else ""

    return str(until(commit, f"the work of {task}", pause=0.1, patience=120))


# What they hold.


def _memory(report: Report) -> None:
    report.heading(f"Memory of scheduler and coordinator, {MANY_TASKS:,} tasks, 20 agents at work")
    office = Office(os.path.join(report.folder, "memory"), agents=20, sandbox="off", seconds=1000)
    ask_all(open_ledger(office.repo).ledger, adding(MANY_TASKS))
    with office.scheduler():
        until(lambda: len(office.started()) == 20, "20 agents", patience=300)
        time.sleep(10)
        uses = {"scheduler": Use(office.pid), "coordinator": Use(office.coordinator)}
        rows = [(name, _mib(use.memory()), _mib(use.memory("Rss"))) for name, use in uses.items()]
        total = sum(use.memory() for use in uses.values())
    report.table(("process", "PSS, MB", "RSS, MB"), rows)
    report.goal(f"memory of scheduler + coordinator, {MANY_TASKS:,} tasks", total / MIB, most=150, unit="MB")
    office.close()


def _mib(size: int) -> str:
    return figure(size / MIB)
