"""The archive: what a year of events takes in the work tree, and how soon a fresh clone of it can be used."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from benchmarks.child import cost
from benchmarks.history import Author, Clock, life, write_stories
from benchmarks.report import Report, figure
from benchmarks.scratch import events_folder, repository
from remand.app.log.archive import archived_task
from remand.domain.events.event import Event, Meta
from remand.domain.events.log import ArchivedFile, ArchivedSession, LogArchived, TaskArchived
from remand.domain.events.reviews import ReviewApproved, ReviewRejected
from remand.domain.events.tasks import TaskSubmitted
from remand.domain.events.work import GatePassed
from remand.domain.evolve import replay
from remand.ledger import codec
from remand.ledger.signatures import MAX_GROUP
from remand.wiring.ledger import machine_keys, open_ledger

EVENTS_A_DAY, EVENTS_A_TASK, KEPT_DAYS = 10_000, 25, 7
"""A team's day; how many events a task has from its first to its last; how long nothing is archived."""
_FILE = ArchivedFile(name="20260101-000000-00000001.jsonl", size=1, sha256="0" * 64)
CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost")


def run(report: Report) -> None:
    """Prints the table."""
    report.heading("A year of 10,000 events a day, archived")
    year = 365 * EVENTS_A_DAY
    tasks = year // EVENTS_A_TASK if report.scale.name == "full" else report.scale.events // 20
    event_size, task_size = _archived_sizes(report)
    repo = repository(os.path.join(report.folder, "year"))
    path = os.path.join(events_folder(repo), "20270101-000000-00000001.gz.jsonl")
    write_archive(path, tasks)
    packed = os.path.getsize(path) / tasks
    fresh = cost(read_files, repo)
    size = os.path.getsize(os.path.join(repo, ".got", "ledger.db")) / tasks
    tree = (year / EVENTS_A_TASK * packed + KEPT_DAYS * EVENTS_A_DAY * event_size) / 1e6
    seconds = fresh.seconds * year / EVENTS_A_TASK / tasks
    report.table(
        ("what", "measured", "for a year"),
        [
            ("bytes of an event in files", f"{event_size:.0f}", f"{year * event_size / 1e6:,.0f} MB"),
            (
                "bytes of the archive file for a task of 8 events, with lines of open tasks",
                f"{task_size:.0f}",
                "",
            ),
            (
                f"bytes of one of {EVENTS_A_TASK} events, packed",
                f"{packed:.0f}",
                f"{year / EVENTS_A_TASK * packed / 1e6:.0f} MB",
            ),
            (f"work tree: archived tasks, and {KEPT_DAYS} days of events", "", f"{tree:.0f} MB"),
            (
                "bytes of the ledger for an archived task",
                f"{size:.0f}",
                f"{year / EVENTS_A_TASK * size / 1e6:.0f} MB",
            ),
            (f"a fresh clone reads {tasks:,} archived tasks, s", figure(fresh.seconds), figure(seconds)),
            ("the same, s of a core", figure(fresh.cpu), figure(fresh.cpu * year / EVENTS_A_TASK / tasks)),
        ],
    )
    report.goal("work tree at 10,000 events a day for a year", tree, most=100, unit="MB")
    report.goal("a fresh clone of that is usable", seconds, most=5, unit="s")


def _archived_sizes(report: Report) -> tuple[float, float]:
    """The bytes of an event in files, and of a task once it is archived, by the command on a log of stories."""
    count = report.scale.events // 10
    repo = repository(os.path.join(report.folder, "archive"))
    for path in write_stories(os.path.join(report.folder, "stories"), count, (count,))[0]:
        os.rename(path, os.path.join(events_folder(repo), os.path.basename(path)))
    size = sum(path.stat().st_size for path in Path(events_folder(repo)).iterdir()) / count
    subprocess.run([*_GIT, "add", "-f", ".got/events"], cwd=repo, check=True)
    subprocess.run([*_GIT, "commit", "-qm", "events"], cwd=repo, check=True)
    subprocess.run(
        [*CLI, "log", "archive", "--before", "2026-06-01"], cwd=repo, check=True, capture_output=True
    )
    (packed,) = Path(events_folder(repo)).glob("*.gz.jsonl")
    lines = codec.split_lines(packed.read_bytes())
    return size, packed.stat().st_size / sum(codec.may_have_kinds([line], (TaskArchived,)) for line in lines)


def write_archive(path: str, tasks: int) -> None:
    """Writes the packed file that an archive of so many tasks leaves, as one session would have signed it."""
    session = Author(9)
    key = machine_keys().ensure_key().id
    end = ArchivedSession(
        session="20260101-000000-00000001", key=key, number=tasks * EVENTS_A_TASK, chain="0" * 32
    )
    events: list[Event] = [
        LogArchived(archive="0" * 64, before="2027-01-01T00:00:00.000000Z", sessions=(end,), files=(_FILE,))
    ]
    events += _archived_tasks(tasks, end)
    stamped: list[Event] = []
    lines: list[bytes] = []
    clock, tip = Clock(), ""
    for number, event in enumerate(events, 1):
        meta = Meta(id="", session=session.name, seq=number, actor="user", branch="main", prev=tip)
        one, line = codec.encode_event(replace(event, ts=clock.tick()), meta)
        tip = one.meta.id
        stamped.append(one)
        lines.append(line)
    content = b"".join(line + b"\n" for line in session.sign(stamped, lines, MAX_GROUP))
    Path(path).write_bytes(codec.pack(content))


def _life_until_done(number: int, clock: Clock, rng: random.Random) -> Iterator[tuple[Event, str]]:
    """A task's life; what is rejected comes back as other code, so that in the end it is approved."""
    attempts = 1
    for event, actor in life(number, clock, rng):
        tree, commit = f"{attempts:040x}", f"{attempts:039x}c"
        if isinstance(event, GatePassed):
            yield replace(event, verdict=replace(event.verdict, commit=commit, tree=tree)), actor
        elif isinstance(event, TaskSubmitted | ReviewApproved | ReviewRejected):
            yield replace(event, commit=commit, tree=tree), actor
        else:
            yield event, actor
        attempts += isinstance(event, ReviewRejected)


def _archived_tasks(tasks: int, end: ArchivedSession) -> Iterator[TaskArchived]:
    """Tasks that were done, in the form in which they are archived; the last event is told as often as it takes."""
    rng, clock, seq = random.Random(7), Clock(), 0
    made = 0
    for number in count():
        if made == tasks:
            return
        told: list[Event] = []
        for event, actor in _life_until_done(number, clock, rng):
            seq += 1
            meta = Meta(id=f"{rng.getrandbits(128):032x}", session=end.session, seq=seq, actor=actor)
            told.append(replace(event, ts=clock.tick(), meta=meta))
        task = replay(told)
        if task is None or not task.is_terminal:  # an agent that was locked out was picked again
            continue
        made += 1
        more = [
            replace(told[-1], meta=replace(told[-1].meta, id=f"{rng.getrandbits(128):032x}"))
            for _ in range(EVENTS_A_TASK - len(told))
        ]
        yield archived_task(task, [*more, *told], None, {end.session: end})


def read_files(repo: str) -> float:
    """Opens a ledger that has read nothing yet."""
    start = time.perf_counter()
    opened = open_ledger(repo)
    opened.ledger.refresh()
    seconds = time.perf_counter() - start
    opened.store.close()
    return seconds
