"""Durable commands: one writer, one by one and in batches, beside the disk itself and plain SQLite."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count

import apsw

from benchmarks.embedded_floors import writing
from benchmarks.measure import LINE, Quiet, Times, appending, interleaved, timed
from benchmarks.report import Report, figure, micros, per_second
from benchmarks.scratch import accepted, adding, ask_all, new_ledger
from remand.app.ledger import Ledger
from remand.app.requests import Request
from remand.domain import commands as c

BATCH = 100
RAW = "raw append + fdatasync"
RAW_BATCH = f"raw, {BATCH} lines, one fdatasync"
SQLITE = "SQLite WAL FULL, 1 row"
SQLITE_BATCH = f"SQLite WAL FULL, {BATCH} rows"
ADD, CLAIM, EDIT = "remand: add a task", "remand: claim the next task", "remand: edit a held task"
FLOOR, FLOOR_BATCH = "floor: no rule, no look-up", f"floor: {BATCH} commands, no rule, no look-up"
ADD_BATCH = f"remand: add {BATCH} tasks at once"
CLAIM_BATCH = f"remand: claim {BATCH} tasks at once"


def run(report: Report) -> None:
    """Prints the tables."""
    report.heading("Durable commands, one writer (read models in step, one event of about 500 bytes each)")
    _single(report)
    _batches(report)


def _single(report: Report) -> None:
    ledger = new_ledger(os.path.join(report.folder, "append")).ledger
    ask_all(ledger, adding(report.scale.rounds * 2 + 100))
    held = accepted(ledger.ask(_claim("Walter"))).task.id
    edit = Request(command=c.EditTask(task_id=held, scope="Only in dry weather."), actor="user")
    quiet = report.quiet()
    times = interleaved(
        {
            RAW: timed(appending(os.path.join(report.folder, "raw"))),
            SQLITE: timed(_inserting(os.path.join(report.folder, "one.db"))),
            FLOOR: timed(writing(os.path.join(report.folder, "floor"), report.scale.rounds + 10)),
            ADD: timed(_asking(ledger, adding(1))),
            CLAIM: timed(_asking(ledger, [_claim("Alice")])),
            EDIT: timed(_asking(ledger, [edit])),
        },
        report.scale.rounds,
        quiet,
    )
    _print(report, times, dict.fromkeys(times, 1), quiet)
    slowest = max(times[name].p50 for name in (ADD, CLAIM, EDIT))
    report.goal(
        "durable command, 1 writer, the slowest of three / raw append + fdatasync",
        times[RAW].p50 / slowest,
        quiet,
        least=0.6,
    )


def _batches(report: Report) -> None:
    ledger = new_ledger(os.path.join(report.folder, "batches")).ledger
    rounds = max(report.scale.rounds // 10, 20)
    ask_all(ledger, adding((rounds + 6) * BATCH))
    sizes = {RAW: 1} | dict.fromkeys((RAW_BATCH, SQLITE_BATCH, FLOOR_BATCH, ADD_BATCH, CLAIM_BATCH), BATCH)
    quiet = report.quiet()
    times = interleaved(
        {
            RAW: timed(appending(os.path.join(report.folder, "raw"))),
            RAW_BATCH: timed(appending(os.path.join(report.folder, "raw-batch"), BATCH)),
            SQLITE_BATCH: timed(_inserting(os.path.join(report.folder, "many.db"), BATCH)),
            FLOOR_BATCH: timed(writing(os.path.join(report.folder, "floors"), (rounds + 10) * BATCH, BATCH)),
            ADD_BATCH: timed(_asking(ledger, adding(BATCH))),
            CLAIM_BATCH: timed(_asking(ledger, [_claim("Alice")] * BATCH)),
        },
        rounds,
        quiet,
    )
    _print(report, times, sizes, quiet)
    slowest = max(times[name].p50 for name in (ADD_BATCH, CLAIM_BATCH))
    report.goal(
        "batches of 100, commands/s / raw single appends/s", BATCH * times[RAW].p50 / slowest, quiet, least=10
    )


def _print(report: Report, times: dict[str, Times], sizes: dict[str, int], quiet: Quiet) -> None:
    base = times[RAW].p50
    rows = [
        (
            name,
            micros(found.p50),
            micros(found.p99),
            per_second(found, sizes[name]),
            figure(base * sizes[name] / found.p50),
        )
        for name, found in times.items()
    ]
    report.table(("operation", "p50 µs", "p99 µs", "events/s", "rate / raw"), rows, quiet)


def _claim(agent: str) -> Request:
    return Request(command=c.ClaimTask(agent=agent), actor=agent)


def _asking(ledger: Ledger, requests: list[Request]) -> Callable[[], None]:
    def ask() -> None:
        for answer in ledger.ask_all(requests):
            accepted(answer)

    return ask


def _inserting(path: str, rows: int = 1) -> Callable[[], None]:
    """Inserts rows of 500 bytes in one durable transaction."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").fetchall()
    connection.execute("CREATE TABLE line(n INTEGER PRIMARY KEY, text BLOB)")
    numbers = count()

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO line VALUES (?, ?)", ((next(numbers), LINE) for _ in range(rows)))
        connection.execute("COMMIT")

    return insert
