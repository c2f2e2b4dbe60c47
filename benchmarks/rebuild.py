"""Making everything anew from the events: the whole log, a fresh clone, and a little news."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.child import Cost, command_cost, cost
from benchmarks.history import write_stories
from benchmarks.report import Report, figure
from benchmarks.scratch import events_folder, repository
from remand.app.events.task_folds import rebuild_tables
from remand.domain.events.catalogue import event_task_id
from remand.ledger.codec import decode_trusted_line
from remand.ledger.signatures import decode_stored_group, is_group
from remand.wiring.ledger import open_ledger

JSON = "json.loads over the lines alone"
COMMAND, CALL = "remand log rebuild (the command)", "the same as a call in an open ledger"
FRESH, NEWS = "a fresh ledger reads the files", "1 % new events arrive as files"
LEAST = "the least in this Python: decode and hash each line, a row an event and a task"
CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")


def run(report: Report) -> None:
    """Prints the table."""
    scale = report.scale
    report.heading(f"Rebuild of {scale.events:,} events")
    repo, news = _prepare(report)
    found: dict[str, list[Cost]] = {name: [] for name in (JSON, LEAST, COMMAND, CALL, FRESH, NEWS)}
    base = cost(read_json, repo).seconds
    found[FRESH].append(cost(read_files, repo))
    fresh = found[FRESH][0].seconds / base
    for paths in news:
        for path in paths:
            os.rename(path, os.path.join(events_folder(repo), os.path.basename(path)))
        found[NEWS].append(cost(read_files, repo))
    command_cost([*CLI, "-C", repo, "log", "rebuild"])  # the first command makes the files for people
    for _ in range(scale.repeats):
        found[JSON].append(cost(read_json, repo))
        found[LEAST].append(cost(read_least, repo))
        found[COMMAND].append(command_cost([*CLI, "-C", repo, "log", "rebuild"]))
        found[CALL].append(cost(make_anew, repo))
    _print(report, found, fresh)


def _prepare(report: Report) -> tuple[str, list[list[str]]]:
    """A repository with nearly all events as files, and the files of three times one per cent more."""
    count = report.scale.events
    repo = repository(os.path.join(report.folder, "rebuild"))
    apart = os.path.join(report.folder, "news")
    share = count // 100
    start = time.perf_counter()
    parts = write_stories(apart, count, (count - 3 * share, share, share, share))
    for path in parts[0]:
        os.rename(path, os.path.join(events_folder(repo), os.path.basename(path)))
    os.sync()
    size = sum(path.stat().st_size for path in Path(events_folder(repo)).iterdir()) / (count - 3 * share)
    print(f"{size:.0f} bytes an event, 4 sessions; made in {time.perf_counter() - start:.0f} s\n", flush=True)
    return repo, parts[1:]


def _print(report: Report, found: dict[str, list[Cost]], fresh: float) -> None:
    seconds = {name: median(one.seconds for one in costs) for name, costs in found.items()}
    peaks = {name: max(one.peak for one in costs) / 1e6 for name, costs in found.items()}
    ratios = {
        name: median(one.seconds / other.seconds for one, other in zip(found[name], found[JSON], strict=True))
        for name in (JSON, LEAST, COMMAND, CALL)
    } | {FRESH: fresh, NEWS: seconds[NEWS] / seconds[JSON]}
    report.table(
        ("what", "s", "events/s", "time / json.loads", "peak MB"),
        [
            (
                name,
                figure(seconds[name]),
                "" if name == NEWS else f"{report.scale.events / seconds[name]:,.0f}",
                figure(ratios[name]),
                f"{peaks[name]:.0f}",
            )
            for name in found
        ],
    )
    size = f"{report.scale.events:,} events"
    report.goal(f"log rebuild of {size}, time / json.loads", ratios[COMMAND], most=1.6)
    report.goal(f"log rebuild of {size}, peak memory", peaks[COMMAND], most=600, unit="MB")
    report.goal(f"a fresh ledger reads {size}, time / json.loads", ratios[FRESH], most=3)
    report.goal(f"1 % new on {size}, time / full rebuild", seconds[NEWS] / seconds[CALL], most=0.2)


def read_json(repo: str) -> float:
    """Decodes every line, and does nothing with it."""
    start = time.perf_counter()
    for path in Path(events_folder(repo)).iterdir():
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
    return time.perf_counter() - start


def read_least(repo: str) -> float:
    """Does what no reader of the files in this Python could leave out: nothing is judged, folded or compared."""
    start = time.perf_counter()
    rows: list[tuple[bytes, str, bytes]] = []
    tasks: dict[str, bytes] = {}
    for path in Path(events_folder(repo)).iterdir():
        with path.open("rb") as file:
            for line in file:
                if is_group(line):
                    decode_stored_group(line)
                else:
                    event = decode_trusted_line(line)
                    task = event_task_id(event)
                    rows.append((sha256(line).digest(), task, line))
                    tasks[task] = line
    with TemporaryDirectory(dir=repo) as folder:
        connection = sqlite3.connect(os.path.join(folder, "least.db"))
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE event(hash BLOB, task TEXT, line BLOB)")
        connection.execute("CREATE TABLE task(id TEXT PRIMARY KEY, state BLOB)")
        connection.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
        connection.executemany("INSERT INTO task VALUES (?, ?)", tasks.items())
        connection.commit()
        connection.close()
    return time.perf_counter() - start


def make_anew(repo: str) -> float:
    """Makes the tables anew from the events in the ledger."""
    opened = open_ledger(repo)
    start = time.perf_counter()
    with opened.store.write() as tx:
        rebuild_tables(tx)
    seconds = time.perf_counter() - start
    opened.store.close()
    return seconds


def read_files(repo: str) -> float:
    """Reads in all files that are new."""
    start = time.perf_counter()
    opened = open_ledger(repo)
    opened.ledger.refresh()
    seconds = time.perf_counter() - start
    opened.store.close()
    return seconds
