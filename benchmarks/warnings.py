"""Warnings at handoff time in a ledger of rejected tasks, beside a search over all of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from math import log, sqrt

import apsw

from benchmarks.history import Author, Clock, added, task_name, write_file
from benchmarks.measure import Operation, Times, interleaved, timed
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import SCOPE, coordinator, events_folder, repository
from remand.app.analysis.warnings import handoff_warnings
from remand.app.tasks.similarity import similar_rejected
from remand.domain.events.event import Event
from remand.domain.events.tasks import (
    Decision,
    HandoffRejected,
    RejectionAnswered,
    TaskBlocked,
    TaskClaimed,
    TaskWaiting,
)
from remand.domain.task import Task, make_task
from remand.wiring.ledger import open_ledger
from remand.wiring.open_ledger import OpenLedger

CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
AGENT = "agent-07"
FULL_TEXT, SCAN = "FTS5 over all tasks, bm25, best 5", "TF-IDF and cosine over all tasks, in Python"
_SYLLABLES = (
    "ba",
    "ke",
    "ti",
    "mo",
    "ru",
    "sa",
    "ve",
    "li",
    "no",
    "pa",
    "gu",
    "fe",
    "dor",
    "mint",
    "stel",
    "var",
)
_RECORD = {
    "reason_type": "BLOCKER",
    "reason_summary": "The render service answers 503",
    "what_attempted": ["Called it three times", "Read its log"],
    "blocking_factor": "render.example.org answers 503 since 9:00",
}


class Texts:
    """Made-up tasks in a made-up language, whose words are as rare and as common as in a real one."""

    def __init__(self, seed: int = 5, words: int = 8000) -> None:
        self._rng = random.Random(seed)
        self._words = [
            "".join(self._rng.choices(_SYLLABLES, k=self._rng.randint(2, 4))) for _ in range(words)
        ]
        self._shares = list(accumulate(1 / (place + 5) for place in range(words)))

    def text(self, words: int) -> str:
        """So many words, common ones more often."""
        return " ".join(self._rng.choices(self._words, cum_weights=self._shares, k=words))


def run(report: Report) -> None:
    """Prints the tables."""
    count = report.scale.tasks
    texts = Texts()
    mixed = [(texts.text(6), texts.text(35)) for _ in range(count)]
    alike = [(f"Mend roof {number}", SCOPE) for number in range(count)]
    for name, said, share in (
        ("every one rejected", mixed, 1.0),
        ("one in ten rejected", mixed, 0.1),
        ("every one rejected, all with the same text", alike, 1.0),
    ):
        _search(report, name, said, share, texts)
    _commands(report, mixed, texts)


def _search(report: Report, name: str, said: list[tuple[str, str]], share: float, texts: Texts) -> None:
    report.heading(f"Warnings among {len(said):,} past tasks, {name}")
    _, opened = _ledger(report, f"w-{len(os.listdir(report.folder))}", said, share)
    fresh = iter(_new_tasks(said, texts))
    plain = _Scan(said)
    full_text = _full_text(said)

    def remand() -> object:
        task = next(fresh)
        with opened.store.read() as view:
            return handoff_warnings(view, task, AGENT)

    def similar() -> object:
        task = next(fresh)
        with opened.store.read() as view:
            return similar_rejected(view, task, 5)

    times = interleaved(
        {
            "remand: all warnings of a handoff": timed(remand),
            "remand: similar tasks alone": timed(similar),
            FULL_TEXT: timed(lambda: _best_of(full_text, next(fresh))),
        },
        max(report.scale.rounds // 8, 20),
    )
    times |= interleaved({SCAN: timed(lambda: plain.best(next(fresh)))}, 3, warm_up=1)
    base = times["remand: all warnings of a handoff"]
    report.table(
        (name, "p50 ms", "p99 ms", "time / remand"),
        [(what, millis(t.p50), millis(t.p99), figure(t.p50 / base.p50)) for what, t in times.items()],
    )
    what = f"warnings of a handoff, {len(said):,} past tasks, {name}"
    report.goal(f"{what}: median", base.p50 * 1e3, most=50, unit="ms")
    report.goal(f"{what}: p99", base.p99 * 1e3, most=50, unit="ms")
    opened.store.close()


def _ledger(report: Report, name: str, said: list[tuple[str, str]], share: float) -> tuple[str, OpenLedger]:
    repo = repository(os.path.join(report.folder, name))
    author, clock = Author(0), Clock()
    with open(os.path.join(events_folder(repo), "past.jsonl"), "wb") as file:
        file.writelines(
            author.write(event, clock.tick(), getattr(event, "agent", "user")) + b"\n"
            for event in _past(said, share)
        )
    opened = open_ledger(repo)
    opened.ledger.refresh()
    with opened.store.read() as view:
        if abs(view.rejected.count() - share * len(said)) > len(said) / 50:
            raise AssertionError(f"{view.rejected.count()} tasks are rejected")
    return repo, opened


def _past(said: list[tuple[str, str]], share: float) -> Iterator[Event]:
    """Tasks, of which a share was handed to an agent and rejected."""
    rng = random.Random(9)
    for number, (title, scope) in enumerate(said):
        yield added(number, title=title, description=scope)
        is_rejected = rng.random() < share
        yield from _life(number, f"agent-{rng.randrange(64):02d}", is_rejected=is_rejected)


def _life(number: int, agent: str, *, is_rejected: bool) -> Iterator[Event]:
    """A task that is taken and stopped, after a rejection or without one; as many events either way."""
    task, handoff = task_name(number), f"H-{number}"
    until = "2026-01-02T00:00:00.000000Z"
    held = {"task_id": task, "handoff_id": handoff, "agent": agent}
    yield TaskClaimed(**held, attempt=1, epoch=1, lease_expires_at=until)
    if is_rejected:
        decision = Decision(decision_type="ACCEPT_AND_DEFER")
        yield HandoffRejected(**held, rejection_id=f"R-{number}", rejection=_RECORD)
        yield RejectionAnswered(
            task_id=task, handoff_id=handoff, rejection_id=f"R-{number}", decision=decision
        )
    else:
        yield TaskWaiting(**held, waiting_for=str(_RECORD))
        yield TaskWaiting(**held, waiting_for="nothing")
    yield TaskBlocked(task_id=task)


def _new_tasks(said: list[tuple[str, str]], texts: Texts) -> Iterator[Task]:
    """Tasks that are half like one of the past."""
    rng = random.Random(3)
    while True:
        title, scope = rng.choice(said)
        words = title.split()
        rng.shuffle(words)
        new = f"{' '.join(words[:5])} {texts.text(1)}"
        half = scope[: len(scope) // 2]
        yield make_task(
            id="T-new", title=new, scope=f"{half} {texts.text(15)}", created_at="2026-01-02T00:00:00.000000Z"
        )


def _full_text(said: list[tuple[str, str]]) -> apsw.Connection:
    """What one would try first: a full-text index over all tasks, in memory."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE past USING fts5(title, scope)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO past VALUES (?, ?)", said)
    connection.execute("COMMIT")
    return connection


def _best_of(connection: apsw.Connection, task: Task) -> object:
    words = " OR ".join(
        f'"{word}"' for word in {*task.title.split(), *task.details.scope.split()} if word.isalnum()
    )
    found = connection.execute("SELECT rowid FROM past WHERE past MATCH ? ORDER BY rank LIMIT 5", (words,))
    return found.fetchall()


class _Scan:
    """The plain way: every task as a vector in memory, all compared."""

    def __init__(self, said: list[tuple[str, str]]) -> None:
        sets = [frozenset(f"{title} {scope}".lower().split()) for title, scope in said]
        counts = Counter(word for words in sets for word in words)
        self._weights = {word: log(1 + len(said) / count) for word, count in counts.items()}
        self._past = [(words, sqrt(sum(self._weights[word] ** 2 for word in words))) for words in sets]

    def best(self, task: Task) -> list[tuple[float, int]]:
        """The five most alike."""
        own = {word for word in f"{task.title} {task.details.scope}".lower().split() if word in self._weights}
        squares = {word: self._weights[word] ** 2 for word in own}
        found = (
            (sum(map(squares.__getitem__, own & words)) / length, place)
            for place, (words, length) in enumerate(self._past)
        )
        return sorted(found)[-5:]


def _commands(report: Report, said: list[tuple[str, str]], texts: Texts) -> None:
    """The whole command, in ledgers that differ only in whether the past tasks were rejected."""
    report.heading(f"remand handoff initiate, {len(said):,} past tasks")
    calls = report.scale.calls + 6
    rng = random.Random(4)
    fresh = [(f"{rng.choice(said)[0]} {texts.text(1)}", texts.text(30)) for _ in range(2 * calls)]
    operations: dict[str, Operation] = {}
    served: list[str] = []
    for name, share in (("none rejected", 0.0), ("every one rejected", 1.0)):
        for is_served in (False, True):
            label = f"{name}{', coordinator' if is_served else ''}"
            repo, opened = _ledger(report, f"c-{len(operations)}", said, share)
            path = os.path.join(events_folder(repo), "fresh.jsonl")
            new = (added(len(said) + n, title=t, description=s) for n, (t, s) in enumerate(fresh))
            write_file(path, new, number=1)
            opened.ledger.refresh()
            opened.store.close()
            operations[label] = _initiating(repo, len(said))
            served += [repo] if is_served else []
    with coordinator(served[0]), coordinator(served[1]):
        times = interleaved(operations, report.scale.calls, report.quiet())
    report.table(
        ("remand handoff initiate", "p50 ms", "p99 ms"),
        [(name, millis(found.p50), millis(found.p99)) for name, found in times.items()],
    )
    for kind in ("", ", coordinator"):
        more = _added(times, kind)
        report.goal(
            f"time that warnings add to handoff initiate{kind}: median", more * 1e3, most=50, unit="ms"
        )


def _added(times: dict[str, Times], kind: str) -> float:
    return max(times[f"every one rejected{kind}"].p50 - times[f"none rejected{kind}"].p50, 0.0)


def _initiating(repo: str, first: int) -> Operation:
    numbers = iter(range(first, first + 1_000_000))

    def initiate() -> None:
        command = [*CLI, "-C", repo, "handoff", "initiate", task_name(next(numbers)), "--to", AGENT, "--json"]
        subprocess.run(command, check=True, capture_output=True)

    return timed(initiate)
