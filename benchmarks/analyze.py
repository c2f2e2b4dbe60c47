"""Learning from rejections in a large ledger, beside plain passes over the same events."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

from benchmarks.child import Cost, command_cost, cost
from benchmarks.history import write_stories
from benchmarks.rejecting import rejected_life
from benchmarks.report import Report, figure
from benchmarks.scratch import events_folder, repository
from remand.wiring.ledger import open_ledger

JSON = "json.loads over the files, and a Counter"
SQL = "SQLite's json_extract over the ledger's lines, grouped"
COMMAND, TABLES = "remand analyze rejections --json", "the same for people"
BY_TASK = "the same --by task"
CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
REPORTS = dict.fromkeys(
    ("analyze runs", "analyze rework", "graph stats", "task list", "review list"), (3.0, 200)
) | dict.fromkeys(("lockout list", "inbox", "top", "log verify"), (0.0, 0))
"""The other commands that read much of a ledger, with the most CPU seconds and megabytes that each should take at full size."""
MOST_PRINTED = 64
"""How many kilobytes a report for people has at most: it is a page, however large the ledger is."""
_COUNTED = """
SELECT json_extract(CAST(line AS TEXT), '$.rejection.reason_type'), json_extract(CAST(line AS TEXT), '$.agent'), count(*)
FROM event
WHERE json_extract(CAST(line AS TEXT), '$.event') IN ('handoff.reject', 'handoff.reject.invalid')
GROUP BY 1, 2
"""


def run(report: Report) -> None:
    """Prints one table for each size, and how the time grows."""
    sizes = (report.scale.events // 10, report.scale.events, report.scale.events * 2)
    seconds = [_size(report, size, is_main=size == report.scale.events) for size in sizes]
    growth = seconds[2] / seconds[1]
    report.table(
        ("events", *(f"{size:,}" for size in sizes)),
        [("CPU s", *map(figure, seconds)), ("CPU µs an event", *_per_event(seconds, sizes))],
    )
    report.goal("analyze rejections, twice the events: CPU / CPU", growth, most=2.2)


def _per_event(seconds: list[float], sizes: tuple[int, ...]) -> list[str]:
    return [figure(taken / size * 1e6) for taken, size in zip(seconds, sizes, strict=True)]


def _size(report: Report, events: int, *, is_main: bool) -> float:
    report.heading(f"Analysis of the rejections among {events:,} events")
    repo = repository(os.path.join(report.folder, f"analyze-{events}"))
    # In a process of its own: a command's peak memory starts with that of the process that starts it.
    print(f"written and read in {cost(prepare, f'{events}:{repo}').seconds:.0f} s\n", flush=True)
    commands = {COMMAND: ("--json",), TABLES: (), BY_TASK: ("--json", "--by", "task")}
    found: dict[str, list[Cost]] = {name: [] for name in (JSON, SQL, *commands)}
    for turn in range(report.scale.repeats + 1):
        for name, options in commands.items():
            one = command_cost([*CLI, "-C", repo, "analyze", "rejections", *options])
            found[name] += [one] if turn else []
    for _ in range(report.scale.repeats if is_main else 1):
        found[JSON].append(cost(count_in_files, repo))
        found[SQL].append(cost(count_in_ledger, repo))
    if is_main:
        _print_reports(report, repo, events)
    return _print(report, found, events, is_main=is_main)


def _print_reports(report: Report, repo: str, events: int) -> None:
    """The other reports on a ledger of this size; the goals are for a million events, in proportion."""
    costs = {name: command_cost([*CLI, "-C", repo, *name.split()]) for name in REPORTS}
    report.table(
        ("report for people", "s", "CPU s", "peak MB", "kB printed"),
        [
            (
                name,
                figure(one.seconds),
                figure(one.cpu),
                f"{one.peak / 1e6:.0f}",
                figure(one.printed / 1e3),
            )
            for name, one in costs.items()
        ],
    )
    for name, (seconds, megabytes) in REPORTS.items():
        what = f"{name}, {events:,} events"
        if seconds:
            report.goal(f"{what}: CPU", costs[name].cpu, most=seconds * events / 1e6, unit="s")
        if megabytes:
            report.goal(f"{what}: peak memory", costs[name].peak / 1e6, most=megabytes, unit="MB")
    longest = max(one.printed for one in costs.values()) / 1e3
    report.goal(f"the longest report for people, {events:,} events", longest, most=MOST_PRINTED, unit="kB")


def prepare(argument: str) -> float:
    """Writes so many events into a repository's event files, and has its ledger read them."""
    count, _, repo = argument.partition(":")
    start = time.perf_counter()
    write_stories(events_folder(repo), int(count), (int(count),), tell=rejected_life)
    opened = open_ledger(repo)
    opened.ledger.refresh()
    with opened.store.read() as view:
        print(f"{sum(1 for _ in view.traces.filed_rejections('')):,} rejections; ", end="", flush=True)
    opened.store.close()
    return time.perf_counter() - start


def _print(report: Report, found: dict[str, list[Cost]], events: int, *, is_main: bool) -> float:
    seconds = {name: median(one.seconds for one in costs) for name, costs in found.items()}
    cpu = {name: median(one.cpu for one in costs) for name, costs in found.items()}
    report.table(
        ("what", "s", "CPU s", "CPU / json.loads", "peak MB"),
        [
            (
                name,
                figure(seconds[name]),
                figure(cpu[name]),
                figure(cpu[name] / cpu[JSON]),
                f"{max(one.peak for one in found[name]) / 1e6:.0f}",
            )
            for name in found
        ],
    )
    if is_main:
        what = f"analyze rejections, a tenth of {events:,} events"
        report.goal(what, seconds[COMMAND], most=2.0, unit="s")
        report.goal(f"{what}, CPU / json.loads and a Counter", cpu[COMMAND] / cpu[JSON], most=0.5)
    return cpu[COMMAND]


def count_in_files(repo: str) -> float:
    """Decodes every line and counts rejections by reason and agent, and answers by type."""
    start = time.perf_counter()
    counts: Counter[tuple[str, str]] = Counter()
    for path in Path(events_folder(repo)).iterdir():
        with path.open("rb") as file:
            for line in file:
                event = json.loads(line)
                if event["event"] in ("handoff.reject", "handoff.reject.invalid"):
                    counts["reason", event["rejection"]["reason_type"]] += 1
                    counts["agent", event["agent"]] += 1
                elif event["event"] == "handoff.reject.response":
                    counts["decision", event["decision"]["decision_type"]] += 1
    return time.perf_counter() - start


def count_in_ledger(repo: str) -> float:
    """Has SQLite look into every line."""
    start = time.perf_counter()
    connection = sqlite3.connect(os.path.join(repo, ".got", "ledger.db"))
    connection.execute(_COUNTED).fetchall()
    connection.close()
    return time.perf_counter() - start
