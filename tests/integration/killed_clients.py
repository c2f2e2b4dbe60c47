"""Clients that are killed at random points, and go on where they were. Run as a script:

    killed_clients.py FOLDER JOURNALS SEED KILLS CLIENTS MODE

Each client adds, claims, hands in, approves or sends back, and publishes. Before every ask it writes the ask
and its key into its journal, after every answer the answer. A third of the kills strikes after so many calls in
the client's own code, a third before or after one that writes, and a third at a random time from outside. A killed
client starts again, repeats what it has no answer to, and goes on. With MODE coordinator one runs, and is killed too.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.domain.events.reviews import Finding
from remand.interfaces.cli.entry import run
from remand.wiring.ledger import Gateway, find_place

STEPS = (10, 100_000)
"""Between how many calls a kill strikes: before the ledger is open, or after dozens of asks."""
TENDER = {
    "write": 6,
    "execute": 6,
    "fdatasync": 2,
    "flock": 1,
    "pwrite": 1,
    "open": 1,
    "replace": 1,
    "rename": 1,
}
"""The calls around which a kill hurts most, and how often they are chosen."""
TENDER_CALLS = (1, 60)
SECONDS = (0.005, 1.0)
LONG = "long text " * 6000
"""Large events take several pages, so that a kill can tear them."""


class Journal:
    """What a client asked and what it was answered, kept through its deaths."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def rows(self) -> list[dict[str, Any]]:
        """All that was written; a line that a kill has torn is not there."""
        with open(self._path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def write(self, **row: Any) -> None:
        """Adds a row."""
        os.write(self._file, (json.dumps(row) + "\n").encode())


class Client:
    """One client: what it does next follows from its journal alone."""

    def __init__(self, folder: str, journal: Journal, name: str, seed: int) -> None:
        self._gateway = Gateway(find_place(folder))
        self._journal = journal
        self._name = name
        self._seed = seed

    def work(self) -> None:
        """Repeats what has no answer, then goes on for ever."""
        rows = self._journal.rows()
        answered = {row["key"] for row in rows if "answer" in row}
        asked = [row for row in rows if "ask" in row]
        results = {row["key"]: row for row in rows if "answer" in row}
        if asked and asked[-1]["key"] not in answered:
            results[asked[-1]["key"]] = self._do(asked[-1])
        count = len(asked)
        while True:
            intent = self._next(count, results)
            self._journal.write(**intent)
            results[intent["key"]] = self._do(intent)
            count += 1

    def _next(self, count: int, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Five asks on one task, then the next task."""
        item, step = divmod(count, 5)
        chance = random.Random(f"{self._seed}-{self._name}-{item}")
        agent = f"{self._name}-agent-{item}"
        added = results.get(f"{self._name}-{item}-0", {})
        kind = ("add", "claim", "submit", "decide", "publish")[step]
        return {
            "ask": kind,
            "key": f"{self._name}-{item}-{step}",
            "agent": agent,
            "task": added.get("task", ""),
            "title": f"{self._name} {item}",
            "is_long": chance.random() < 0.3,
            "approves": chance.random() < 0.5,
            "is_skipped": kind == "publish" and chance.random() < 0.6,
        }

    def _do(self, intent: dict[str, Any]) -> dict[str, Any]:
        answer = self._publish(intent) if intent["ask"] == "publish" else self._asked(intent)
        row = {"answer": intent["ask"], "key": intent["key"]} | answer
        self._journal.write(**row)
        return row

    def _asked(self, intent: dict[str, Any]) -> dict[str, Any]:
        ask = self._ask(intent)
        actor = USER if intent["ask"] in ("add", "decide") else intent["agent"]
        answer = self._gateway.ask(Request(command=ask, actor=actor, key=intent["key"], branch="main"))
        if isinstance(answer, Acceptance):
            return {"task": answer.task.id, "events": [event.meta.id for event in answer.events]}
        return {"refused": answer.code}

    def _ask(self, intent: dict[str, Any]) -> c.Command:
        task, agent = intent["task"], intent["agent"]
        match intent["ask"]:
            case "add":
                return c.AddTask(title=intent["title"], scope=LONG if intent["is_long"] else "short")
            case "claim":
                return c.ClaimTask(agent=agent, task_id=task)
            case "submit":
                return c.SubmitTask(task_id=task, agent=agent, commit="start", branch="main")
            case _ if intent["approves"]:
                return c.ApproveReview(task_id=task, commit="start")
            case _:
                finding = Finding(text=LONG if intent["is_long"] else "It leaks.")
                return c.RejectReview(task_id=task, commit="start", findings=(finding,))

    def _publish(self, intent: dict[str, Any]) -> dict[str, Any]:
        """Publishing may lose against another that publishes; then the next one takes it along."""
        return {} if intent["is_skipped"] else {"code": run(["log", "publish", "--json"])}


class Point(NamedTuple):
    """Where a process kills itself: after so many calls of any kind, or of one kind of C function."""

    count: int
    event: str = ""
    name: str = ""


def chosen_point(chance: random.Random) -> Point | None:
    """A point at which a process is to die; None when it is to be killed from outside."""
    kind = chance.randrange(3)
    if kind == 0:
        return None
    if kind == 1:
        return Point(int(log_uniform(chance, *STEPS)))
    name = chance.choices(list(TENDER), list(TENDER.values()))[0]
    return Point(int(log_uniform(chance, *TENDER_CALLS)), chance.choice(("c_call", "c_return")), name)


def dies_at(point: Point) -> None:
    """Has this process kill itself when it comes to the point. What the campaign itself calls does not count."""
    left = point.count

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if point.name and (event != point.event or getattr(argument, "__name__", "") != point.name):
            return
        if frame.f_code.co_filename == __file__:
            return
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def run_client(folder: str, journal: str, name: str, seed: int, point: Point | None) -> None:
    """The life of one client process; it ends only by being killed."""
    os.setsid()
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if point:
        dies_at(point)
    try:
        Client(folder, Journal(journal), name, seed).work()
    except BaseException as error:
        Journal(journal).write(broke=f"{type(error).__name__}: {error}")
        raise


def kill(process: int, *, is_group: bool) -> None:
    """Kills a process, alone or with the git processes it has started."""
    with suppress(ProcessLookupError):
        if is_group:
            os.killpg(process, signal.SIGKILL)
        else:
            os.kill(process, signal.SIGKILL)


def log_uniform(chance: random.Random, low: float, high: float) -> float:
    """A number that is as often small as it is large."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def children(folder: str, journals: str, seed: int, kills: int, clients: int) -> Iterator[int]:
    """Starts clients and kills them, so many times in all; yields after every death."""
    chance = random.Random(seed)
    running: dict[int, tuple[int, float]] = {}
    started = 0
    while started < kills or running:
        idle = [number for number in range(clients) if number not in {n for n, _ in running.values()}]
        for number in idle[: kills - started]:
            point = chosen_point(chance)
            delay = 2.0 if point else log_uniform(chance, *SECONDS)
            started += 1
            child = os.fork()
            if not child:
                try:
                    run_client(folder, os.path.join(journals, f"{number}"), f"client-{number}", seed, point)
                finally:
                    os._exit(1)
            running[child] = (number, time.monotonic() + delay)
        for child, (_, deadline) in list(running.items()):
            if time.monotonic() >= deadline:
                kill(child, is_group=chance.random() < 0.5)
        child, _ = os.waitpid(-1, os.WNOHANG)
        if child in running:
            del running[child]
            yield child
        elif not child:
            time.sleep(0.002)


def start_coordinator(folder: str) -> subprocess.Popen[bytes]:
    """Starts a coordinator."""
    command = [os.path.join(os.path.dirname(sys.executable), "remand"), "serve", "--no-http"]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main() -> None:
    """The campaign."""
    folder, journals, seed, kills, clients, mode = sys.argv[1:]
    chance = random.Random(int(seed))
    coordinator = start_coordinator(folder) if mode == "coordinator" else None
    for _ in children(folder, journals, int(seed), int(kills), int(clients)):
        if coordinator and (coordinator.poll() is not None or chance.random() < 0.3):
            coordinator.kill()
            coordinator.wait()
            coordinator = start_coordinator(folder)
    if coordinator:
        coordinator.kill()
        coordinator.wait()


if __name__ == "__main__":
    main()
