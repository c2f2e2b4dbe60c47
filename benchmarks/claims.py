"""Claims: one process and many, beside peers that do less; behind locked-out tasks; in long queues."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from benchmarks import queues as q
from benchmarks.history import added, task_name, write_file
from benchmarks.measure import Operation, Quiet, Times, interleaved, timed
from benchmarks.report import Report, figure, micros, millis, per_second
from benchmarks.scratch import (
    accepted,
    coordinator,
    events_folder,
    repository,
)
from benchmarks.workers import Slice, Workers, merged, workers
from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutSet
from remand.testing import postgres
from remand.wiring.ledger import open_ledger

LOCKED_OUT = 10_000
_BARRED, _FREE = "Barred", "Free"
_FLOOR = (sys.executable, "-m", "benchmarks.embedded_floors")
_IN_A_ROW = 20
"""A worker claims on and on: so many claims from one queue before the next queue has its turn."""


def run(report: Report) -> None:
    """Prints the tables."""
    report.heading(f"Claims, {report.scale.queued:,} queued (peers: no lockouts, no rejected-first, no log)")
    folder = os.path.join(report.folder, "claims")
    os.mkdir(folder)
    with ExitStack() as stack:
        conninfo = stack.enter_context(postgres.server())
        repository(os.path.join(folder, "library"))
        socket = stack.enter_context(coordinator(repository(os.path.join(folder, "coordinated"))))
        floor = stack.enter_context(coordinator(repository(os.path.join(folder, "floor")), _FLOOR))
        places = q.Places(
            folder=folder,
            socket=socket,
            floor_socket=floor,
            conninfo=conninfo,
            agents=report.scale.processes,
        )
        filled = {name: places.open(name, 0) for name in places.names}
        for queue in filled.values():
            stack.callback(queue.close)
            queue.fill(report.scale.queued)
        _one_process(report, filled)
        with workers(places, report.scale.processes) as team:
            _many_processes(report, filled, team)
    _behind_lockouts(report)
    _long_queue(report)


def _one_process(report: Report, filled: dict[str, q.Queue]) -> None:
    quiet = report.quiet()
    times = interleaved(
        {name: _claiming(queue) for name, queue in filled.items()},
        max(report.scale.rounds // _IN_A_ROW, 10),
        quiet,
        in_a_row=_IN_A_ROW,
        warm_up=1,
    )
    base = times[q.HUEY].p50
    report.table(
        ("1 process", "claims/s (p50)", "p50 µs", "p99 µs", "rate / SqliteHuey"),
        [
            (name, per_second(found), micros(found.p50), micros(found.p99), figure(base / found.p50))
            for name, found in times.items()
        ],
        quiet,
    )
    ours = times[q.LIBRARY].p50
    report.goal("claims/s, 1 worker, library / SqliteHuey", base / ours, quiet, least=0.8)
    for peer in (q.LITEQUEUE, q.PROCRASTINATE, q.PGQUEUER):
        if peer in times:
            report.goal(f"claims/s, 1 worker, library / {peer}", times[peer].p50 / ours, quiet, least=1.0)


def _claiming(queue: q.Queue) -> Operation:
    def operation() -> float:
        claimed = queue.claims(q.Until(count=1))
        if claimed.failures:
            raise RuntimeError("the queue is empty")
        return claimed.seconds[0]

    return operation


def _many_processes(report: Report, filled: dict[str, q.Queue], team: Workers) -> None:
    """Once until every process has had its share, and once with a deadline, whoever gets the tasks."""
    scale = report.scale
    shared, free = Turns(), Turns()
    rng = random.Random(3)
    quiet = report.quiet()
    for number in range(scale.turns + 1):
        names = list(filled)
        rng.shuffle(names)
        quiet.wait()
        for name in names:
            share = team.each(name, scale.share)
            grab = team.for_a_while(name, scale.slice_seconds)
            filled[name].fill(len(share.names) + len(grab.names))
            if number:
                shared.add(name, share)
                free.add(name, grab)
    many = f"{scale.processes} processes"
    _print_turns(report, f"{many}, {scale.share} claims each", shared, quiet)
    _print_turns(report, f"{many}, {scale.slice_seconds} s, whoever gets them", free, quiet)
    _goals(report, f"{many}, each its share", shared, quiet)
    _goals(report, f"{many}, whoever gets them", free, quiet)


class Turns:
    """What each queue gave, turn by turn."""

    def __init__(self) -> None:
        self.found: dict[str, list[Slice]] = {}

    def add(self, name: str, one: Slice) -> None:
        """Keeps one turn."""
        self.found.setdefault(name, []).append(one)

    def times(self, name: str) -> Times:
        """The times of all claims."""
        return merged(self.found[name])

    def ratio(self, one: str, other: str) -> float:
        """How the rates of the same turn compare."""
        pairs = zip(self.found[one], self.found[other], strict=True)
        return median(ours.rate / max(theirs.rate, 1.0) for ours, theirs in pairs)


def _print_turns(report: Report, title: str, turns: Turns, quiet: Quiet) -> None:
    rows = []
    for name, slices in turns.found.items():
        names = [claimed for one in slices for claimed in one.names]
        times = turns.times(name)
        rows.append(
            (
                name,
                f"{median(one.rate for one in slices):,.0f}",
                f"{min(one.rate for one in slices):,.0f}–{max(one.rate for one in slices):,.0f}",
                millis(times.p50),
                millis(times.p99),
                figure(turns.ratio(name, q.HUEY)),
                len(names) - len(set(names)),
                sum(one.failures for one in slices),
            )
        )
    report.table(
        (title, "claims/s", "from–to", "p50 ms", "p99 ms", "rate / SqliteHuey", "doubles", "failed"),
        rows,
        quiet,
    )


def _goals(report: Report, which: str, turns: Turns, quiet: Quiet) -> None:
    report.goal(f"claims/s, {which}: library / SqliteHuey", turns.ratio(q.LIBRARY, q.HUEY), quiet, least=2)
    p99 = turns.times(q.LIBRARY).p99 / turns.times(q.HUEY).p99
    report.goal(f"p99, {which}: library / SqliteHuey", p99, quiet, most=1 / 3)
    for peer, least in ((q.HUEY, 8), (q.PGQUEUER, 6)):
        if peer in turns.found:
            ratio = turns.ratio(q.COORDINATOR, peer)
            report.goal(f"claims/s, {which}: coordinator / {peer}", ratio, quiet, least=least)


def _behind_lockouts(report: Report) -> None:
    """The agent is locked out of everything at the head of the queue: once by one set, once by many sets."""
    rounds = max(report.scale.rounds // 2, 100)
    total = LOCKED_OUT + rounds + 50
    rng = random.Random(5)
    others = [f"agent-{number:02d}" for number in range(64)]
    variants: dict[str, Callable[[], list[str]]] = {
        "none": lambda: [_FREE],
        "one set of agents": lambda: [_BARRED],
        "100 sets of agents": lambda: [_BARRED, *rng.sample(others[:14], 2)],
        "thousands of sets": lambda: [_BARRED, *rng.sample(others, 3)],
    }
    operations: dict[str, Operation] = {}
    for number, (name, agents) in enumerate(variants.items()):
        operations[name] = timed(_claim_from(report, f"lockouts-{number}", _locked_out(total, agents)))
    quiet = report.quiet()
    times = interleaved(operations, rounds, quiet)
    base = times["none"].p50
    report.table(
        (f"{LOCKED_OUT:,} locked-out tasks first", "p50 µs", "p99 µs", "time / none"),
        [
            (name, micros(found.p50), micros(found.p99), figure(found.p50 / base))
            for name, found in times.items()
        ],
        quiet,
    )
    what = f"claim behind {LOCKED_OUT:,} locked-out tasks"
    report.goal(f"{what}, time / none", times["one set of agents"].p50 / base, quiet, most=1.5)
    report.goal(
        f"{what}, thousands of sets, time / none", times["thousands of sets"].p50 / base, quiet, most=2
    )
    report.goal(
        f"claim of one of {LOCKED_OUT:,} tasks that bar others", base * 1e3, quiet, most=0.5, unit="ms"
    )


def _locked_out(total: int, agents: Callable[[], list[str]]) -> list[Event]:
    events: list[Event] = [added(number) for number in range(total)]
    for number in range(LOCKED_OUT):
        events += [
            LockoutSet(task_id=task_name(number), agent=agent, reason="The roof leaks again.")
            for agent in sorted(agents())
        ]
    return events


def _long_queue(report: Report) -> None:
    scale = report.scale
    rounds = max(scale.rounds // 2, 100)
    quiet = report.quiet()
    times = interleaved(
        {
            f"{size:,}": timed(
                _claim_from(report, f"queue-{size}", [added(number) for number in range(size)])
            )
            for size in (scale.queued, scale.many_queued)
        },
        rounds,
        quiet,
    )
    short, long = times.values()
    report.table(
        ("queued tasks", "claims/s (p50)", "p50 µs", "p99 µs", f"rate / {scale.queued:,}"),
        [
            (name, per_second(found), micros(found.p50), micros(found.p99), figure(short.p50 / found.p50))
            for name, found in times.items()
        ],
        quiet,
    )
    report.goal(
        f"claims/s at {scale.many_queued:,} tasks / at {scale.queued:,}",
        short.p50 / long.p50,
        quiet,
        least=0.9,
    )


def _claim_from(report: Report, name: str, events: list[Event]) -> Callable[[], object]:
    """Claims from a ledger that was given these events as a file."""
    repo = repository(os.path.join(report.folder, name))
    write_file(os.path.join(events_folder(repo), "given.jsonl"), events)
    ledger = open_ledger(repo).ledger
    ledger.refresh()
    request = Request(command=c.ClaimTask(agent=_BARRED), actor=_BARRED, branch="main")
    return lambda: accepted(ledger.ask(request))
