"""The queues that are measured side by side: ours in both modes, and peers through their own storage calls."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from huey.storage import SqliteStorage
from litequeue import LiteQueue

from benchmarks.scratch import accepted, adding, ask_all, locking_out
from remand.adapters.coordinator.remote_ledger import RemoteLedger
from remand.app.requests import Answer, Request
from remand.domain import commands as c
from remand.wiring.ledger import open_ledger

PAYLOAD = b"x" * 300
LIBRARY, COORDINATOR = "remand, library", "remand, coordinator"
FLOOR = "floor: a coordinator that decides and records nothing"
HUEY, LITEQUEUE = "SqliteHuey", "litequeue"
PROCRASTINATE, PGQUEUER = "procrastinate", "pgqueuer"
_LOCKED_OUT_SHARE = 10
"""One task in so many locks an agent out, in our queues alone: the peers know nothing of the kind."""
_CHUNK = 2000


@dataclass(slots=True)
class Claimed:
    """What one process claimed in one go."""

    seconds: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    in_time: int = 0
    failures: int = 0
    finished: float = 0.0


class Until:
    """Says when to stop: after a number of claims, or at a time."""

    def __init__(self, *, count: int = 0, end: float = 0.0) -> None:
        self._count = count
        self.end = end

    def is_over(self, done: int) -> bool:
        """True when no further claim should start."""
        return done >= self._count if self._count else time.perf_counter() >= self.end

    def note(self, claimed: Claimed, start: float, name: str) -> None:
        """Keeps a claim with its time; one that ended too late does not count for the rate."""
        now = claimed.finished = time.perf_counter()
        claimed.seconds.append(now - start)
        if not name:
            claimed.failures += 1
            return
        claimed.names.append(name)
        claimed.in_time += not self.end or now <= self.end


def merged(found: Sequence[Claimed]) -> Claimed:
    """What several clients claimed, as one."""
    whole = Claimed()
    for one in found:
        whole.seconds += one.seconds
        whole.names += one.names
        whole.in_time += one.in_time
        whole.failures += one.failures
    return whole


def thread_claims(clients: int, seconds: float, claim: Callable[[int], str]) -> Claimed:
    """What threads claim for a while, each for the client of its number."""
    until, found = Until(end=time.perf_counter() + seconds), [Claimed() for _ in range(clients)]

    def run(number: int, claimed: Claimed) -> None:
        while not until.is_over(len(claimed.seconds)):
            start = time.perf_counter()
            until.note(claimed, start, claim(number))

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(found)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return merged(found)


class Queue(Protocol):
    """A queue as one process sees it."""

    def claims(self, until: Until) -> Claimed:
        """Claims one after the other until it is time to stop."""

    def fill(self, count: int) -> None:
        """Adds that many tasks, as fast as it goes."""

    def close(self) -> None:
        """Lets go of it."""


def _claims(claim: Callable[[], str], until: Until) -> Claimed:
    claimed = Claimed()
    while not until.is_over(len(claimed.seconds)):
        start = time.perf_counter()
        until.note(claimed, start, claim())
    return claimed


class OurQueue:
    """A Remand ledger, opened here or asked through its coordinator."""

    def __init__(self, repo: str, agent: str, socket: str = "", others: Sequence[str] = ()) -> None:
        self._ledger: Any
        self._close: Callable[[], None]
        if socket:
            self._ledger = RemoteLedger(socket)
            self._close = self._ledger.close
        else:
            opened = open_ledger(repo)
            self._ledger, self._close = opened.ledger, opened.store.close
        self._request = Request(command=c.ClaimTask(agent=agent), actor=agent, branch="main")
        self._others = others

    def claims(self, until: Until) -> Claimed:
        """Claims the next task, each time."""
        return _claims(self._claim, until)

    def _claim(self) -> str:
        answer: Answer = self._ledger.ask(self._request)
        return accepted(answer).task.id

    def fill(self, count: int) -> None:
        """Adds tasks in batches; some lock an agent out."""
        done = ask_all(self._ledger, adding(count))
        if self._others:
            ask_all(
                self._ledger,
                locking_out([answer.task.id for answer in done[::_LOCKED_OUT_SHARE]], self._others),
            )

    def close(self) -> None:
        """Closes the ledger, or the way to it."""
        self._close()


class HueyQueue:
    """SqliteHuey's storage with its default settings, which are durable."""

    def __init__(self, path: str) -> None:
        self._storage = SqliteStorage("bench", filename=path)

    def claims(self, until: Until) -> Claimed:
        """Dequeues."""
        return _claims(self._claim, until)

    def _claim(self) -> str:
        try:
            data = self._storage.dequeue()
        except sqlite3.OperationalError:
            return ""
        return bytes(data[:16]).decode() if data else ""

    def fill(self, count: int) -> None:
        """Inserts in one transaction, as its own enqueue does one by one."""
        rows = [("bench", uuid.uuid4().hex[:16].encode() + PAYLOAD, n % 4) for n in range(count)]
        with self._storage.db(commit=True) as cursor:
            cursor.executemany("insert into task (queue, data, priority) values (?, ?, ?)", rows)

    def close(self) -> None:
        """Closes the file."""
        self._storage.close()


class LiteQueueQueue:
    """litequeue, which is not durable per operation: it sets synchronous = NORMAL."""

    def __init__(self, path: str) -> None:
        self._queue = LiteQueue(path, timeout=60)

    def claims(self, until: Until) -> Claimed:
        """Pops."""
        return _claims(self._claim, until)

    def _claim(self) -> str:
        try:
            message = self._queue.pop()
        except sqlite3.OperationalError:
            return ""
        return message.message_id if message else ""

    def fill(self, count: int) -> None:
        """Puts in one transaction."""
        with self._queue.transaction():
            for _ in range(count):
                self._queue.put(PAYLOAD.decode())

    def close(self) -> None:
        """Closes the file."""
        self._queue.close()


class AsyncQueue:
    """A queue with an event loop of its own; times are taken inside it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """With a loop it shares that with others."""
        self._loop = loop or asyncio.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs to the end."""
        return self._loop.run_until_complete(coroutine)

    def claims(self, until: Until) -> Claimed:
        """Claims inside the loop."""
        claimed: Claimed = self.run(self.claim_until(until))
        return claimed

    async def claim_until(self, until: Until) -> Claimed:
        """Claims one after the other."""
        claimed = Claimed()
        while not until.is_over(len(claimed.seconds)):
            start = time.perf_counter()
            until.note(claimed, start, await self.claim())
        return claimed

    async def claim(self) -> str:
        """Claims one task; gives its name."""
        raise NotImplementedError

    async def shut(self) -> None:
        """Closes the connection."""
        raise NotImplementedError

    def fill(self, count: int) -> None:
        """Queues so many tasks."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the connection and the loop."""
        self.run(self.shut())
        self._loop.close()


class ProcrastinateQueue(AsyncQueue):
    """procrastinate's own job manager."""

    def __init__(self, conninfo: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop)
        self.run(self._open(conninfo))

    async def _open(self, conninfo: str) -> None:
        import procrastinate

        connector = procrastinate.PsycopgConnector(conninfo=conninfo, min_size=1, max_size=1)
        self._app = procrastinate.App(connector=connector)
        await self._app.open_async()
        if not await self._app.check_connection_async():
            await self._app.schema_manager.apply_schema_async()
        self._worker = await self._app.job_manager.register_worker()

    async def claim(self) -> str:
        """Fetches a job."""
        job = await self._app.job_manager.fetch_job(queues=None, worker_id=self._worker)
        return str(job.id) if job else ""

    async def shut(self) -> None:
        """Closes the connection."""
        await self._app.close_async()

    def fill(self, count: int) -> None:
        """Defers jobs in batches."""
        from procrastinate.jobs import Job

        jobs = [
            Job(
                queue="bench",
                task_name="mend",
                lock=None,
                queueing_lock=None,
                priority=n % 4,
                task_kwargs={"text": PAYLOAD.decode()},
            )
            for n in range(count)
        ]
        for start in range(0, count, _CHUNK):
            self.run(self._app.job_manager.batch_defer_jobs_async(jobs[start : start + _CHUNK]))


class PgQueuerQueue(AsyncQueue):
    """pgqueuer's own queries."""

    def __init__(self, conninfo: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop)
        self.run(self._open(conninfo))

    async def _open(self, conninfo: str) -> None:
        import psycopg
        from pgqueuer.ports.repository import EntrypointExecutionParameter
        from pgqueuer.queries import Queries

        self._connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        self._queries = Queries.from_psycopg_connection(self._connection)
        if not await self._queries.has_table("pgqueuer"):
            await self._queries.install()
        self._entrypoints: Any = {"bench": EntrypointExecutionParameter(concurrency_limit=0)}
        self._manager: Any = uuid.uuid4()

    async def claim(self) -> str:
        """Dequeues one job."""
        jobs = await self._queries.dequeue(
            batch_size=1,
            entrypoints=self._entrypoints,
            queue_manager_id=self._manager,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(minutes=30),
        )
        return str(jobs[0].id) if jobs else ""

    async def shut(self) -> None:
        """Closes the connection."""
        await self._connection.close()

    def fill(self, count: int) -> None:
        """Enqueues jobs in batches."""
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            self.run(self._queries.enqueue(["bench"] * size, [PAYLOAD] * size, [n % 4 for n in range(size)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where each queue lives."""

    folder: str
    socket: str = ""
    floor_socket: str = ""
    conninfo: str = ""
    agents: int = 32

    @property
    def names(self) -> list[str]:
        """The queues there are."""
        ours = [LIBRARY, *([COORDINATOR] if self.socket else []), *([FLOOR] if self.floor_socket else [])]
        peers = [PROCRASTINATE, PGQUEUER] if self.conninfo else []
        return [*ours, HUEY, LITEQUEUE, *peers]

    def path(self, name: str) -> str:
        """The path of something in the folder."""
        return os.path.join(self.folder, name)

    def open(self, name: str, number: int) -> Queue:
        """Opens a queue for the process with that number."""
        agent = f"agent-{number:02d}"
        others = tuple(f"agent-{other:02d}" for other in range(self.agents))
        openers: dict[str, Callable[[], Queue]] = {
            LIBRARY: lambda: OurQueue(self.path("library"), agent, others=others),
            COORDINATOR: lambda: OurQueue(self.path("coordinated"), agent, self.socket, others),
            FLOOR: lambda: OurQueue(self.path("floor"), agent, self.floor_socket),
            HUEY: lambda: HueyQueue(self.path("huey.db")),
            LITEQUEUE: lambda: LiteQueueQueue(self.path("litequeue.db")),
            PROCRASTINATE: lambda: ProcrastinateQueue(self.conninfo),
            PGQUEUER: lambda: PgQueuerQueue(self.conninfo),
        }
        return openers[name]()
