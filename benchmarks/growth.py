"""How the CPU of each command grows with tasks, events, agents, lock sets and dependencies."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.history import added, task_name, write_file, write_stories
from benchmarks.ready import make_graph
from benchmarks.report import Report, figure
from benchmarks.scratch import events_folder, repository
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutSet
from remand.wiring.ledger import open_ledger

SIZES = (100, 1_000, 10_000)
LARGE = 100_000
"""A full run has this size, too: a thousand times the first."""
_CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
_AGENT = "Barred"
_TURNS = 3
_FLAT = ("task claim", "task add", "task submit", "stop hook", "task prompt")
"""What must not grow at all: agents do these all the time."""
_BARS = "▁▂▃▄▅▆▇█"


def run(report: Report) -> None:
    """Prints a table for each thing that there may be many of."""
    sizes = (*SIZES, LARGE) if report.scale.name == "full" else SIZES
    for kind, write in KINDS.items():
        report.heading(f"CPU of a whole command, in ms, by the number of {kind}")
        found: dict[str, list[float]] = {}
        for size in sizes:
            for name, seconds in _costs(report, kind, size, write).items():
                found.setdefault(name, []).append(seconds)
        rows = []
        for name, costs in found.items():
            exponent = _exponent(sizes, costs)
            rows.append((name, *(figure(one * 1e3) for one in costs), _bars(costs), f"{exponent:.2f}"))
            bound = 0.1 if name in _FLAT else 1.1
            report.goal(f"{name} by {kind}: exponent of its growth", max(exponent, 0.01), most=bound, unit="")
        report.table(("command", *(f"{size:,}" for size in sizes), "curve", "exponent"), rows)


def _tasks(folder: str, size: int) -> None:
    write_file(os.path.join(folder, "given.jsonl"), (added(number) for number in range(size)))


def _events(folder: str, size: int) -> None:
    write_stories(folder, size, (size,))


def _agents(folder: str, size: int) -> None:
    """A tenth as many tasks, each with ten agents that are locked out of it and of nothing else."""
    write_file(
        os.path.join(folder, "given.jsonl"), _lockouts(size // 10, lambda n: range(10 * n, 10 * n + 10))
    )


def _lock_sets(folder: str, size: int) -> None:
    """As many tasks, from which the agent that claims is locked out with three others, nearly always another three."""
    rng = random.Random(5)
    write_file(
        os.path.join(folder, "given.jsonl"), _lockouts(size, lambda _: rng.sample(range(64), 3), _AGENT)
    )


def _lockouts(tasks: int, agents: Callable[[int], object], *more: str) -> Iterator[Event]:
    for number in range(tasks):
        yield added(number)
        for agent in (*more, *(f"agent-{one}" for one in agents(number))):  # type: ignore[attr-defined]
            yield LockoutSet(task_id=task_name(number), agent=agent, reason="The roof leaks again.")


def _dependencies(folder: str, size: int) -> None:
    write_file(os.path.join(folder, "given.jsonl"), make_graph(size // 3).events())


KINDS: dict[str, Callable[[str, int], None]] = {
    "tasks": _tasks,
    "events": _events,
    "agents that are locked out": _agents,
    "different sets of locked-out agents": _lock_sets,
    "dependencies": _dependencies,
}


def _costs(report: Report, kind: str, size: int, write: Callable[[str, int], None]) -> dict[str, float]:
    """The CPU of each command in a ledger of this size, start included."""
    repo = repository(os.path.join(report.folder, f"growth-{kind.replace(' ', '-')}-{size}"))
    _git(repo, "commit", "-q", "--allow-empty", "-m", "start")
    _git(repo, "checkout", "-q", "-b", "work")
    write(events_folder(repo), size)
    opened = open_ledger(repo)
    opened.ledger.refresh()
    opened.store.close()
    remand = (*_CLI, "-C", repo)
    found: dict[str, list[float]] = {}

    def measure(name: str, *words: str, given: str = "", task: str = "") -> None:
        environment = {"REMAND_TASK": task, "REMAND_ACTOR": _AGENT} if task else {}
        found.setdefault(name, []).append(_cpu([*remand, *words], environment, given))

    for turn in range(_TURNS + 1):
        measure("task add", "task", "add", f"Roof {turn}", "--priority", "critical")
        measure("task add", "task", "add", f"Gutter {turn}")
        first, second = (_claimed(remand, found) for _ in range(2))
        Path(repo, f"roof-{turn}").write_text("roof\n", encoding="utf-8")
        _git(repo, "add", f"roof-{turn}")
        _git(repo, "commit", "-q", "-m", f"roof {turn}")
        measure("task prompt", "task", "prompt", first, "--agent", _AGENT)
        payload = {"session_id": f"s{turn}", "prompt_id": "p", "cwd": repo, "hook_event_name": "Stop"}
        measure("stop hook", "hook", "--host", "claude", "stop", given=json.dumps(payload), task=first)
        measure("task submit", "task", "submit", second, "--agent", _AGENT, "--commit", "HEAD")
        measure("task show", "task", "show", second)
        measure("why", "why", _AGENT, "--task", second)
        for name in ("task list", "task ready", "review list", "lockout list", "inbox", "graph stats"):
            measure(name, *name.split())
        measure("board", "top")
    return {name: median(costs[len(costs) // (_TURNS + 1) :]) for name, costs in found.items()}


def _claimed(remand: tuple[str, ...], found: dict[str, list[float]]) -> str:
    read, write = os.pipe()
    found.setdefault("task claim", []).append(
        _cpu([*remand, "task", "claim", "--agent", _AGENT, "--json"], output=write)
    )
    os.close(write)
    with os.fdopen(read) as file:
        task: str = json.loads(file.read())["task_id"]
    return task


def _cpu(
    command: list[str],
    environment: dict[str, str] | None = None,
    given: str = "",
    output: int = subprocess.DEVNULL,
) -> float:
    """The CPU that a program takes from start to end, that of the system included."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        env=os.environ | (environment or {}),
    )
    if process.stdin is not None:
        process.stdin.write(given.encode())
        process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """The slope of the line through the costs, both axes logarithmic: 0 is flat, 1 is as fast as the size."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle, level = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - middle) ** 2 for x in xs)


def _bars(costs: list[float]) -> str:
    """The costs as bars, logarithmic: each step of a bar is twice the CPU of the first."""
    steps = (round(math.log2(cost / costs[0])) for cost in costs)
    return "".join(_BARS[min(max(step, 0), len(_BARS) - 1)] for step in steps)


def _git(repo: str, *words: str) -> None:
    names = ("-c", "user.name=b", "-c", "user.email=b@localhost")
    subprocess.run(["git", "-C", repo, *names, *words], check=True)
