"""Pages in a ledger of years: board, inbox and the history of a task, in an open ledger and over HTTP.

The ledger is filled by the shortest way: events are made up and signed in groups, and go straight into the tables that
reading them would fill. No figure is about how they came there.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg
from msgspec.structs import replace

from benchmarks.history import Author, Clock, life, task_name
from benchmarks.report import Report, millis
from benchmarks.scratch import new_ledger, repository
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_events import SEQ_BITS
from remand.adapters.stores.sqlite_schema import Statements
from remand.app.board import BOARD_ORDER, BoardContext, read_board, read_task_page
from remand.app.events.task_folds import task_events
from remand.app.history.task_history import event_rows, story_lines
from remand.app.inbox.decisions import waiting_entries
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.tasks import TaskClaimed
from remand.domain.evolve import replay
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import SignedGroup
from remand.ledger.signatures import MAX_GROUP, decode_group, is_group
from remand.ledger.store import TaskFilter, Transaction
from remand.testing import postgres
from remand.wiring.ledger import find_place, open_at
from remand.wiring.open_ledger import OpenLedger

GOAL = 0.05
_CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
_PART = 100_000
Parts = tuple[tuple[str, float], ...]
PARTS: Parts = (("incoming", 20), ("claimed", 1), ("provisional", 1), ("rejected", 1), ("escalated", 0.5))
"""Of a hundred tasks, how many are still where; the others are done."""


def run(report: Report) -> None:
    """Prints a table for each store."""
    full = report.scale.name == "full"
    events, tasks = (1_000_000, 100_000) if full else (100_000, 10_000)
    opened = new_ledger(os.path.join(report.folder, "years"))
    _measure(report, opened, events, tasks, "")
    with postgres.server() as conninfo:
        if not conninfo:
            print("No PostgreSQL is installed: nothing was measured there.")
            return
        url = f"postgresql://postgres@/postgres?host={conninfo.split()[0].removeprefix('host=')}"
        repo = repository(os.path.join(report.folder, "years-pg"))
        _measure(report, open_at(find_place(repo), "", url), events, tasks, url)


def _measure(report: Report, opened: OpenLedger, events: int, tasks: int, url: str) -> None:
    store = "PostgreSQL" if url else "SQLite"
    start = time.perf_counter()
    token = make_token(opened.place.root, url)
    opened.ledger.change(partial(fill, events, tasks))
    if url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    report.heading(
        f"{events:,} events, {tasks:,} tasks in {store} (made in {time.perf_counter() - start:.0f} s)"
    )
    found = {name: _times(read, report.scale.rounds) for name, read in _reads(opened, tasks).items()}
    opened.store.close()
    found |= _times_over_http(opened.place.root, url, token, tasks, report.scale.rounds)
    rows = [(name, millis(times[len(times) // 2]), millis(_p99(times))) for name, times in found.items()]
    report.table(("what", "p50 ms", "p99 ms"), rows)
    for name, times in found.items():
        report.goal(
            f"{events:,} events in {store}: {name}, p99", _p99(times) * 1e3, most=GOAL * 1e3, unit="ms"
        )


def _p99(times: Sequence[float]) -> float:
    return times[int(len(times) * 0.99)]


def _times(read: Callable[[random.Random], object], rounds: int) -> list[float]:
    rng = random.Random(3)
    found = []
    for _ in range(rounds + 5):
        start = time.perf_counter()
        read(rng)
        found.append(time.perf_counter() - start)
    return sorted(found[5:])


def _reads(opened: OpenLedger, tasks: int) -> dict[str, Callable[[random.Random], object]]:
    """What is asked of an open ledger."""
    rules = opened.settings.rules()

    def viewed(read: Callable[[Transaction, random.Random], object]) -> Callable[[random.Random], object]:
        def look(rng: random.Random) -> object:
            with opened.store.read() as view:
                return read(view, rng)

        return look

    def page(view: Transaction, rng: random.Random, **wanted: Any) -> object:
        after = f"{len(BOARD_ORDER) - 2} {task_name(rng.randrange(tasks))}" if rng.random() < 0.5 else ""
        return read_task_page(view, TaskFilter(**wanted), after=after, order=BOARD_ORDER)

    def history(view: Transaction, rng: random.Random) -> object:
        events = task_events(view, task_name(rng.randrange(tasks)))
        return event_rows(events), story_lines(events)

    now = opened.ledger.clock.now()
    return {
        "board: a page, rejected first": viewed(page),
        "board: a column of the done tasks": viewed(lambda view, rng: page(view, rng, statuses=("done",))),
        "board: tasks of an agent": viewed(
            lambda view, rng: page(view, rng, agent=f"agent-{rng.randrange(64):02d}")
        ),
        "board: a text that one task has": viewed(
            lambda view, rng: read_task_page(view, TaskFilter(text=f"roof {rng.randrange(tasks)} "))
        ),
        "board: what the team does now": viewed(lambda view, _: read_board(view, BoardContext(now, rules))),
        "inbox: what waits": viewed(
            lambda view, _: list(waiting_entries(view, rules, rules.team.actor("user")))
        ),
        "history of a task": viewed(history),
    }


def make_token(root: str, url: str) -> str:
    """A token of the user. It is made while there is little to read."""
    surroundings = os.environ | ({"REMAND_STORE": url} if url else {})
    create = [*_CLI, "-C", root, "token", "create", "--member", "user", "--json"]
    made = subprocess.run(create, env=surroundings, check=True, capture_output=True).stdout
    token: str = json.loads(made)["token"]
    return token


def _times_over_http(root: str, url: str, token: str, tasks: int, rounds: int) -> dict[str, list[float]]:
    """The same asked of a server, one request after the other on one connection."""
    serve = [*_CLI, "-C", root, "serve", "--port", "0", "--json", *(("--store", url) if url else ())]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        port = urlsplit(json.loads(process.stdout.readline())["url"]).port if process.stdout else 0
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def get(path: str) -> None:
            line.request("GET", path, headers={"authorization": f"Bearer {token}"})
            answer = line.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")

        return {
            "HTTP: a page of the list": _times(
                lambda rng: get(f"/api/task/list?limit=50&after={task_name(rng.randrange(tasks))}"), rounds
            ),
            "HTTP: inbox": _times(lambda _: get("/api/inbox"), rounds),
            "HTTP: history of a task": _times(
                lambda rng: get(f"/api/task/show?id={task_name(rng.randrange(tasks))}"), rounds
            ),
        }
    finally:
        process.terminate()
        process.wait(30)


def fill(events: int, tasks: int, tx: Transaction, parts: Parts = PARTS) -> None:
    """Puts so many events of so many tasks into a ledger's tables."""
    author, made = Author(9), _events(events, tasks, parts)
    folded: dict[str, Task] = {}
    handoffs: list[tuple[str, str]] = []
    statements: Statements = tx.events.statements  # type: ignore[attr-defined]  # both stores have them
    base = statements.value(sql.ADD_SESSION, (author.name, 0)) << SEQ_BITS
    seq, tip = 0, ""
    rows: list[tuple[object, ...]] = []
    part: list[tuple[Event, bytes]] = []

    def write() -> None:
        groups = author.sign([one for one, _ in part], [line for _, line in part], MAX_GROUP)
        lines = [line for line in groups if is_group(line)]
        tx.groups.add([SignedGroup(decode_group(line), line) for line in lines])
        statements.run_many(sql.ADD_EVENT, rows)
        rows.clear()
        part.clear()

    for told in made:
        stamped: list[Event] = []
        for event, actor in told:
            seq += 1
            meta = Meta(id="", session=author.name, seq=seq, actor=actor, branch="main", prev=tip)
            one, line = codec.encode_event(event, meta)
            tip = one.meta.id
            stamped.append(one)
            rows.append((base | seq, event_task_id(one), "", line))
            part.append((one, line))
            handoffs += [(one.handoff_id, one.task_id)] if isinstance(one, TaskClaimed) else []
        if len(rows) >= _PART:
            write()
        task = replay(stamped)
        assert task is not None
        folded[task.id] = task
    write()
    tx.tasks.replace_all(folded.values(), handoffs)


def _events(events: int, tasks: int, parts: Parts) -> Iterator[list[tuple[Event, str]]]:
    """The lives of the tasks: most are done, the others still somewhere on the way, and some ask the user."""
    rng, clock, left = random.Random(7), Clock(), events
    for number in range(tasks):
        told = [(replace(event, ts=clock.tick()), actor) for event, actor in life(number, clock, rng)]
        told = [one for one in told if one[0].name != "edge.create"]
        part = rng.random() * 100
        place = next((name for name, share in parts if (part := part - share) < 0), "done")
        share = max(left // (tasks - number), 1)
        told = _cut(told, place, share, task_name(number), clock)
        left -= len(told)
        yield told


def _cut(
    told: list[tuple[Event, str]], place: str, share: int, task: str, clock: Clock
) -> list[tuple[Event, str]]:
    """A life up to a place, with leases renewed as often as it takes."""
    names = [event.name for event, _ in told]
    if place == "incoming":
        return told[:1]
    if place == "claimed":
        return told[: names.index("task.claim") + 2]
    if place == "provisional":
        return told[: names.index("task.submit") + 1]
    if place == "rejected" and "review.reject" in names:
        return told[: names.index("review.reject") + 2]
    if place == "escalated":
        ask = EscalationOpened(
            task_id=task, kind="reviews", reason="It is stuck.", deadline=clock.lease(), ts=clock.tick()
        )
        return [*told[: names.index("task.claim") + 2], (ask, "coordinator")]
    renewed = names.index("task.heartbeat")
    return [*told[:renewed], *[told[renewed]] * max(share + 2 - len(told), 0), *told[renewed:]]
