"""What a durable, signed command costs before any rule: the same lines, signature, sync and rows, with nothing looked up."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from queue import SimpleQueue

import apsw
from msgspec.structs import replace

from benchmarks.history import Author, Clock, added, task_name
from remand.adapters.stores import sqlite_schema as sql
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Acceptance, Request
from remand.domain.commands import ClaimTask
from remand.domain.events.event import Meta
from remand.domain.events.tasks import TaskClaimed
from remand.domain.text.redaction import NO_PATHS
from remand.interfaces.cli.entry import main
from remand.ledger import codec

_EVENT = TaskClaimed(
    task_id=task_name(0),
    handoff_id="H-20260101-000000-00000000",
    agent="Alice",
    attempt=1,
    epoch=1,
    lease_expires_at="",
)
_STATE = codec.encode_event(added(0), Meta(id="", session="", seq=1, actor="user", prev=""))[1].decode()


def writing(folder: str, tasks: int, size: int = 1) -> Callable[[], None]:
    """Records that many claims, of other tasks each time, with one signature, one append, one sync and one transaction."""
    os.makedirs(folder)
    author, clock, session = Author(1), Clock(), "20260101-000000-00000001"
    handle = os.open(os.path.join(folder, "log.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    database = _database(os.path.join(folder, "floor.db"), tasks)
    numbers = count(1)
    jobs, ends = SimpleQueue[int](), SimpleQueue[None]()

    def sync() -> None:
        while True:
            os.fdatasync(jobs.get())
            ends.put(None)

    threading.Thread(target=sync, daemon=True).start()

    def write() -> None:
        at, first, stamped, lines = clock.tick(), 0, [], []
        for _ in range(size):
            number = next(numbers)
            first = first or number
            meta = Meta(id="", session=session, seq=number, actor="Alice", branch="main", prev="")
            event, line = codec.encode_stamped(
                replace(_EVENT, task_id=task_name(number), ts=at, meta=meta), NO_PATHS
            )
            stamped.append(event)
            lines.append(line)
        signed = list(author.sign(stamped, lines, size))
        os.write(handle, b"\n".join(signed) + b"\n")
        jobs.put(handle)
        names = [task_name(first + place) for place in range(size)]
        database.execute("BEGIN IMMEDIATE")
        database.executemany(
            sql.ADD_EVENT, [(first + place, names[place], "", line) for place, line in enumerate(lines)]
        )
        database.executemany(
            sql.CHANGE_TASK, [(name, "claimed", at, None, None, "", _STATE, 0) for name in names]
        )
        database.execute(_ADD_GROUP, (first, session, first, first + size - 1, signed[0]))
        database.executemany("INSERT INTO group_task VALUES (?, ?)", [(name, first) for name in names])
        database.execute(sql.PUT_HEAD, (session, first, "", at, session, 1, 0, 0, 0, "", "", "", at))
        database.execute("COMMIT")
        ends.get()

    return write


_ADD_GROUP = (
    "INSERT INTO signed_group(n, session, first, last, hash, doubt, line) VALUES (?1, ?2, ?3, ?4, ?1, '', ?5)"
)


def _database(path: str, tasks: int) -> apsw.Connection:
    database = apsw.Connection(path)
    database.execute(f"PRAGMA journal_mode = WAL; {sql.SETTINGS}").fetchall()
    database.execute(sql.SCHEMA)
    rows = (
        (task_name(n), "queued", None, f"2{n:08d}", "[null,[]]", "", _STATE, 0) for n in range(1, tasks + 1)
    )
    with database:
        database.executemany(sql.ADD_TASK, rows)
    return database


def answer_at_once() -> None:
    """Runs a coordinator that decides its first claim only, and answers every other with the same task under another id."""
    decide, numbers = Ledger.decide_all, count()
    first: list[Acceptance] = []

    def repeat(
        ledger: Ledger, requests: Sequence[Request], on_decided: Decided = lambda: None
    ) -> UnsyncedAnswers:
        are_claims = all(isinstance(request.command, ClaimTask) for request in requests)
        if not first or not are_claims:
            found = decide(ledger, requests, on_decided)
            if are_claims:
                first.extend(one for one in found.answers if isinstance(one, Acceptance))
            return found
        tasks = (replace(first[0].task, id=task_name(next(numbers))) for _ in requests)
        return UnsyncedAnswers([replace(first[0], task=task) for task in tasks], None, False)

    Ledger.decide_all = repeat  # type: ignore[assignment, method-assign]
    main()


Decided = Callable[[], None]

if __name__ == "__main__":
    answer_at_once()
