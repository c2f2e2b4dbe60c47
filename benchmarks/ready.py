"""The ready set, the next task and the search for circles, in a large graph beside networkx."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

import networkx as nx

from benchmarks.history import added, task_name, write_file
from benchmarks.measure import interleaved, timed
from benchmarks.report import Report, figure, micros
from benchmarks.scratch import events_folder, repository
from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.access.team import USER, Actor, Role
from remand.domain.events.event import Event
from remand.domain.events.tasks import EdgeCreated, TaskCancelled
from remand.domain.ids import task_node_id
from remand.wiring.ledger import open_ledger
from remand.wiring.open_ledger import OpenLedger

EPICS = 50
_REACH = 200
"""A task waits for some of so many tasks before it in its epic."""
_CROSSING = 0.02
_CLOSED = 0.45
_NEAR = 2000
_CLOSING = 500
_LEVELS = ("medium", "high", "low")

Pair = tuple[str, str]
"""A task, and the blocker that it shall wait for."""


@dataclass(slots=True)
class Graph:
    """Tasks, what each waits for, and which are over."""

    blockers: list[list[int]]
    closed: set[int]

    def events(self) -> Iterator[Event]:
        """The graph as events."""
        for number in range(len(self.blockers)):
            yield added(number, description="", priority=_LEVELS[number % 3])
        for number, blockers in enumerate(self.blockers):
            for blocker in blockers:
                yield EdgeCreated(src=_node(number), tgt=_node(blocker), type="DEPENDS_ON")
        for number in self.closed:
            yield TaskCancelled(task_id=task_name(number))

    @property
    def still_open(self) -> list[int]:
        """The tasks that are not over: only among them can there be a circle."""
        return [number for number in range(len(self.blockers)) if number not in self.closed]

    def as_networkx(self) -> nx.DiGraph:
        """The graph with an edge from each task to what it waits for."""
        graph = nx.DiGraph()
        graph.add_nodes_from(task_name(number) for number in range(len(self.blockers)))
        for number, blockers in enumerate(self.blockers):
            graph.add_edges_from((task_name(number), task_name(blocker)) for blocker in blockers)
        return graph


def run(report: Report) -> None:
    """Prints the tables."""
    count = report.scale.tasks
    report.heading(f"Ready set and circles, {count:,} tasks, {3 * count:,} dependencies")
    graph = make_graph(count)
    opened = _ledger(report, "ready", graph)
    _ready_set(report, opened, graph, graph.as_networkx())
    pairs = _circles(report, opened, graph, f"{_CLOSED:.0%} of the tasks closed")
    _whole_commands(report, opened, pairs)
    opened.store.close()
    everything = Graph(graph.blockers, set())
    opened = _ledger(report, "open", everything)
    _circles(report, opened, everything, "no task closed")
    opened.store.close()


def _ledger(report: Report, name: str, graph: Graph) -> OpenLedger:
    """A ledger that was given a graph as a file."""
    repo = repository(os.path.join(report.folder, name))
    write_file(os.path.join(events_folder(repo), "graph.jsonl"), graph.events())
    opened = open_ledger(repo)
    opened.ledger.refresh()
    return opened


def make_graph(count: int) -> Graph:
    """Tasks of several epics that come in turn; each waits for three earlier ones, mostly of its own epic."""
    rng = random.Random(11)
    blockers: list[list[int]] = []
    for number in range(count):
        found: set[int] = set()
        for _ in range(3):
            if rng.random() < _CROSSING:
                found.add(rng.randrange(max(number, 1)))
            else:
                found.add(number - EPICS * rng.randint(1, _REACH))
        blockers.append([other for other in found if 0 <= other < number])
    return Graph(blockers, {number for number in range(count) if rng.random() < _CLOSED})


def _node(number: int) -> str:
    return task_node_id(task_name(number))


def _ready_set(report: Report, opened: OpenLedger, graph: Graph, peer: nx.DiGraph) -> None:
    closed = {task_name(number) for number in graph.closed}
    order = {task_name(n): ("102"[n % 3], n) for n in range(len(graph.blockers))}
    actor = Actor(name="Alice", roles=frozenset({Role.AGENT}))

    def ready() -> list[str]:
        with opened.store.read() as view:
            return view.queue.ready()

    def next_task() -> str:
        with opened.store.read() as view:
            return view.queue.next(actor, has_team=False)

    def peer_ready() -> list[str]:
        return [
            name for name in peer if name not in closed and all(b in closed for b in peer.successors(name))
        ]

    def peer_next() -> str:
        return min(peer_ready(), key=order.__getitem__)

    if set(ready()) != set(peer_ready()) or next_task() != peer_next():
        raise AssertionError("the ready sets differ")
    times = interleaved(
        {
            "remand: ready set, in order": timed(ready),
            "networkx: ready set, in no order": timed(peer_ready),
            "remand: next task": timed(next_task),
            "networkx: next task": timed(peer_next),
        },
        max(report.scale.rounds // 10, 20),
    )
    whole, peer_whole, first, peer_first = (found.p50 for found in times.values())
    ratios = (peer_whole / whole, 1.0, peer_first / first, 1.0)
    report.table(
        (f"{len(ready()):,} ready", "p50 µs", "p99 µs", "networkx's time / this"),
        [
            (name, micros(found.p50), micros(found.p99), figure(ratio))
            for (name, found), ratio in zip(times.items(), ratios, strict=True)
        ],
    )
    report.goal("ready set, networkx's time / ours", peer_whole / whole, least=25)
    report.goal("next task, networkx's time / ours", peer_first / first, least=25)


@dataclass(slots=True)
class Pairs:
    """New dependencies by what they would do."""

    forward: list[Pair]
    backward: list[Pair]
    near: list[Pair]
    closing: list[Pair]


def _pairs(opened: OpenLedger, graph: Graph) -> Pairs:
    """Dependencies between open tasks: in order, against it without a circle (far and near), and closing one."""
    rng = random.Random(13)
    numbers = graph.still_open
    found = Pairs([], [], [], [])
    for number in range(3000):
        first, second = sorted(rng.sample(range(len(numbers)), 2))
        if number % 2:
            second = min(first + rng.randint(1, _NEAR), len(numbers) - 1)
        low, high = task_name(numbers[first]), task_name(numbers[second])
        found.forward.append((high, low))
        with opened.store.read() as view:
            has_path = bool(view.dependencies.path(high, low))
        kind = found.closing if has_path else found.near if number % 2 else found.backward
        if low != high:
            kind.append((low, high))
    while len(found.closing) < _CLOSING:
        start = rng.choice(numbers)
        end = _walk(graph, start, rng)
        if end != start:
            found.closing.append((task_name(end), task_name(start)))
    rng.shuffle(found.closing)
    return found


def _walk(graph: Graph, number: int, rng: random.Random) -> int:
    """Where some steps from a task to what it waits for lead, over open tasks alone."""
    for _ in range(rng.randint(1, 30)):
        further = [blocker for blocker in graph.blockers[number] if blocker not in graph.closed]
        if not further:
            break
        number = rng.choice(further)
    return number


def _circles(report: Report, opened: OpenLedger, graph: Graph, which: str) -> Pairs:
    pairs = _pairs(opened, graph)
    peer = graph.as_networkx().subgraph(task_name(number) for number in graph.still_open).copy()
    kinds = {
        "agrees with the order": pairs.forward,
        "against the order, no circle, any two": pairs.backward,
        f"against the order, no circle, within {_NEAR:,}": pairs.near,
        "closes a circle": pairs.closing,
    }
    rounds = report.scale.rounds
    times = interleaved({name: timed(_searching(opened, found)) for name, found in kinds.items()}, rounds)
    peers = interleaved(
        {
            name: timed(_peer_searching(peer, found, closes=found is pairs.closing))
            for name, found in kinds.items()
        },
        rounds=100,
        warm_up=0,
    )
    report.table(
        (
            f"cycle check of a dependency, {which}",
            "samples",
            "p50 µs",
            "p99 µs",
            "networkx has_path p50, p99 µs",
        ),
        [
            (
                name,
                len(kinds[name]),
                micros(found.p50),
                micros(found.p99),
                f"{micros(peers[name].p50)}, {micros(peers[name].p99)}",
            )
            for name, found in times.items()
        ],
    )
    what = f"cycle check of a new dependency, {which}: the worst kind's"
    p50, p99 = (max(found.at(share) for found in times.values()) * 1e3 for share in (0.5, 0.99))
    report.goal(f"{what} median", p50, most=1.0, unit="ms")
    report.goal(f"{what} p99", p99, most=5.0, unit="ms")
    return pairs


def _searching(opened: OpenLedger, pairs: list[Pair]) -> Callable[[], object]:
    turn = cycle(pairs)

    def search() -> None:
        task, blocker = next(turn)
        with opened.store.read() as view:
            view.dependencies.path(blocker, task)

    return search


def _peer_searching(peer: nx.DiGraph, pairs: list[Pair], *, closes: bool) -> Callable[[], object]:
    turn = cycle(pairs)

    def search() -> None:
        task, blocker = next(turn)
        if nx.has_path(peer, blocker, task) != closes:
            raise AssertionError(f"{blocker} to {task}: networkx says otherwise")

    return search


def _whole_commands(report: Report, opened: OpenLedger, pairs: Pairs) -> None:
    """The whole durable command that adds such a dependency, the order of all tasks mended on the way."""
    half = len(pairs.near) // 2
    kinds = {
        "agrees with the order": _open_ones(opened, [(high, low) for low, high in pairs.near[:half]]),
        f"against the order, within {_NEAR:,}": _open_ones(opened, pairs.near[half:]),
    }
    rounds = min(report.scale.rounds // 5, *(len(found) - 5 for found in kinds.values()))
    quiet = report.quiet()
    times = interleaved(
        {name: timed(_linking(opened, found)) for name, found in kinds.items()}, rounds, quiet
    )
    report.table(
        ("the whole command: edit a task", "p50 µs", "p99 µs"),
        [(name, micros(found.p50), micros(found.p99)) for name, found in times.items()],
        quiet,
    )


def _open_ones(opened: OpenLedger, pairs: list[Pair]) -> list[Pair]:
    with opened.store.read() as view:
        return [
            (task, blocker)
            for task, blocker in pairs
            if not (found := view.tasks.get(task)) or not found.is_terminal
        ]


def _linking(opened: OpenLedger, pairs: list[Pair]) -> Callable[[], object]:
    turn = iter(pairs)

    def link() -> None:
        task, blocker = next(turn)
        request = Request(command=c.EditTask(task_id=task, depends_on=(blocker,)), actor=USER, branch="main")
        opened.ledger.ask(request)

    return link
