"""Jobs on PostgreSQL, by Procrastinate: its queue, retries, schedules, locks and heartbeats, with a fence around them.

Procrastinate gives a job of a worker that is gone to another one, but lets the first, should it come back, end the job in
the other's place. Its count of attempts is therefore our epoch: a worker ends or gives back only what it still holds.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib.metadata import version
from itertools import chain, combinations
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions
from procrastinate.jobs import Job as StoredJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.schema import SchemaManager, migrations_path
from procrastinate.worker import Worker

from remand.app.errors import EnvironmentFault, RemandError, StoreAway
from remand.app.gates.jobs import (
    Chore,
    JobHandler,
    JobState,
    JobTaken,
    LabelsMissing,
    QueuedJob,
    WorkerTerms,
    can_take,
    first_line,
)
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused

MAX_LABELS = 8
"""A worker listens to a queue for each set of its labels."""
KEPT_HOURS = 24
MAX_DELAY = 60
"""How many seconds a job that failed waits at most before the next try."""
REFUSED_DELAY = 30
LOOK_SECONDS = 0.1
RESTART_SECONDS = 1.0
FORGET_SECONDS = 86400.0
"""When the row of a worker without a sign is removed: long after others have its job, as each has its own time."""
SCHEMA_LOCK = 7_301_180_001
_SCHEMA = """
CREATE TABLE IF NOT EXISTS job_schema (version text NOT NULL);
CREATE TABLE IF NOT EXISTS job_workers (
    id bigint PRIMARY KEY REFERENCES procrastinate_workers (id) ON DELETE CASCADE,
    labels text[] NOT NULL
);
ALTER TABLE job_workers ADD COLUMN IF NOT EXISTS dead double precision;
CREATE INDEX IF NOT EXISTS job_keys ON procrastinate_jobs ((args->>'key'));
CREATE INDEX IF NOT EXISTS job_locks ON procrastinate_jobs (lock);
"""
_HELD = """
SELECT id FROM procrastinate_jobs WHERE id = %(job_id)s AND status = 'doing' AND attempts = %(epoch)s FOR UPDATE
"""
_END = """
SELECT procrastinate_finish_job_v1(id, %(status)s, %(is_deleted)s) FROM procrastinate_jobs
WHERE id = %(job_id)s AND status = 'doing' AND attempts = %(epoch)s FOR UPDATE
"""
_GIVE_BACK = """
SELECT procrastinate_retry_job_v2(id, %(retry_at)s, NULL, NULL, NULL) FROM procrastinate_jobs
WHERE id = %(job_id)s AND status = 'doing' AND attempts = %(epoch)s FOR UPDATE
"""
_SWEEP = """
SELECT procrastinate_retry_job_v2(job.id, now(), NULL, NULL, NULL) FROM procrastinate_jobs job
WHERE job.status = 'doing' AND NOT EXISTS (
    SELECT FROM procrastinate_workers worker LEFT JOIN job_workers own USING (id)
    WHERE worker.id = job.worker_id
    AND worker.last_heartbeat >= now() - make_interval(secs => coalesce(own.dead, %(seconds)s))
) FOR UPDATE OF job SKIP LOCKED
"""
"""Returns the jobs of dead workers, by the time limit that each worker has set itself. As one statement, it returns each job once, however many workers sweep."""
_LEAVE_OUT = """
UPDATE procrastinate_jobs job SET status = 'cancelled'
WHERE job.status = 'todo' AND job.task_name = ANY(%(kinds)s) AND EXISTS (
    SELECT FROM procrastinate_jobs later
    WHERE later.lock = job.lock AND later.status = 'todo' AND later.task_name = ANY(%(kinds)s) AND later.id > job.id
)
"""
"""Ends jobs that were given back when a later one with their lock waited already: it would wait for them."""
_SAME_KEY = """
SELECT id, args->'labels', status FROM procrastinate_jobs WHERE args->>'key' = %s AND status IN ('todo', 'doing')
ORDER BY (status = 'doing') DESC, id DESC LIMIT 1
"""
_END_WAITING = """
UPDATE procrastinate_jobs SET status = 'cancelled'
WHERE status = 'todo' AND task_name = %(kind)s AND (lock = %(lock)s OR args->>'key' = %(key)s)
AND id < coalesce(%(before)s, id + 1)
"""
_MOVE = """
UPDATE procrastinate_jobs SET args = args || jsonb_build_object('labels', %(labels)s::text[]), queue_name = %(queue)s
WHERE id = %(job_id)s AND status = 'doing' AND attempts = %(epoch)s
"""
_STATE = """
SELECT status FROM procrastinate_jobs WHERE args->>'key' = %(name)s OR lock = %(name)s
ORDER BY (status = 'doing') DESC, (status = 'todo') DESC LIMIT 1
"""
_WAITING = """
SELECT task_name, lock, args FROM procrastinate_jobs WHERE status = 'todo' AND task_name = ANY(%s) ORDER BY id
"""
ANNOUNCE = """
INSERT INTO job_workers
SELECT id, %(labels)s, %(dead)s FROM procrastinate_workers WHERE id = %(id)s FOR SHARE
"""
"""Announces a worker, unless it has ended meanwhile: one that works once may end at any time."""
_WORKERS = """
SELECT labels FROM job_workers JOIN procrastinate_workers USING (id)
WHERE last_heartbeat >= now() - make_interval(secs => coalesce(dead, %s))
"""


class JobTimes(NamedTuple):
    """How often a worker shows that it is there, and after how many seconds it is taken for dead."""

    heartbeat: float
    dead: float
    sweep: float
    poll: float

    @classmethod
    def of(cls, dead: float) -> JobTimes:
        """Several heartbeats in the time after which a worker is taken for dead."""
        return cls(heartbeat=dead / 6, dead=dead, sweep=dead / 6, poll=min(2.0, dead / 6))


class ProcrastinateJobs:
    """The jobs of a ledger on PostgreSQL; the tables are created when it is first opened."""

    def __init__(self, address: str, kinds: Sequence[str], times: JobTimes) -> None:
        self._address = address
        self._kinds = tuple(kinds)
        self._times = times
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection] = []
        """The one that is open, if any."""
        weakref.finalize(self, _close, self._connections)
        try:
            _apply_schema(address)
        except psycopg.Error as error:
            raise StoreAway(f"PostgreSQL cannot be reached: {error}") from None

    def add(self, job: QueuedJob) -> None:
        stored = StoredJob(
            id=None,
            lock=job.lock or None,
            queueing_lock=None,
            task_name=job.kind,
            task_kwargs={"key": job.key, "arguments": job.arguments, "labels": list(job.labels)},
            queue=queue_name(job.labels),
        )
        try:
            with psycopg.connect(self._address) as connection:
                # One adds to a task at a time: who looks first would else not see what the other adds.
                connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))",
                    (job.lock or job.key, SCHEMA_LOCK),
                )
                if not _supersede(connection, job):
                    JobManager(procrastinate.SyncPsycopgConnector()).defer_job(stored, connection)
        except (exceptions.ConnectorException, psycopg.Error) as error:
            raise StoreAway(f"The job could not be queued: {error}") from None

    def state(self, name: str) -> JobState | None:
        rows = self._read(_STATE, {"name": name})
        states = {"todo": JobState.WAITING, "doing": JobState.RUNNING}
        return states.get(rows[0][0], JobState.ENDED) if rows else None

    def is_current(self, job: QueuedJob) -> bool:
        return bool(self._read(_HELD, {"job_id": job.number, "epoch": job.epoch}))

    def unclaimed_jobs(self) -> tuple[QueuedJob, ...]:
        workers = [labels for (labels,) in self._read(_WORKERS, (self._times.dead,))]
        rows = self._read(_WAITING, (list(self._kinds),))
        return tuple(
            QueuedJob(kind=kind, key=args["key"], labels=tuple(args["labels"]), lock=lock or "")
            for kind, lock, args in rows
            if not any(can_take(labels, args["labels"]) for labels in workers)
        )

    def work(self, terms: WorkerTerms) -> None:
        require_few(terms.labels)
        for name in (
            "procrastinate",
            "psycopg.pool",
        ):  # they log arguments and addresses; `report` is told what matters
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        for chore in terms.chores if terms.is_once else ():
            chore.run_now()
        asyncio.run(_Session(self._address, self._times, terms).run())

    def _read(self, query: str, arguments: Any) -> list[Any]:
        """Rows, over one connection that is kept; one that was cut is made again."""
        with self._lock:
            is_kept = bool(self._connections)
            try:
                if not is_kept:
                    self._connections.append(psycopg.connect(self._address, autocommit=True))
                return self._connections[0].execute(query.encode(), arguments).fetchall()
            except psycopg.Error as error:
                _close(self._connections)
                if not is_kept:
                    raise StoreAway(f"The queue of jobs cannot be read: {error}") from None
        return self._read(query, arguments)


def _supersede(connection: psycopg.Connection, job: QueuedJob) -> bool:
    """Ends the jobs that wait in the place of one that is added; True when that one is there already."""
    same = connection.execute(_SAME_KEY, (job.key,)).fetchone()
    is_there = same is not None and (same[2] == "doing" or sorted(same[1]) == sorted(job.labels))
    if same is None or same[2] != "doing":
        before = same[0] if same is not None and is_there else None
        names = {"kind": job.kind, "lock": job.lock or None, "key": job.key, "before": before}
        connection.execute(_END_WAITING, names)
    return is_there


def _close(connections: list[psycopg.Connection]) -> None:
    while connections:
        connections.pop().close()


def require_few(labels: Sequence[str]) -> None:
    """Raises EnvironmentFault for a worker with more labels than it can listen to."""
    if len(set(labels)) > MAX_LABELS:
        raise EnvironmentFault(
            f"A worker has at most {MAX_LABELS} labels; leave out those that no gate names."
        )


def queue_name(labels: Sequence[str]) -> str:
    """The queue of jobs that need these labels: short, as PostgreSQL announces it on a channel with a name of at most 63 bytes."""
    return f"jobs-{sha256(','.join(sorted(set(labels))).encode()).hexdigest()[:16]}" if labels else "jobs"


def queue_names(labels: Sequence[str]) -> list[str]:
    """The queues from which a worker with these labels can take jobs."""
    own = sorted(set(labels))
    return [
        queue_name(some) for some in chain.from_iterable(combinations(own, n) for n in range(len(own) + 1))
    ]


class _GivenBack(Exception):  # noqa: N818 - a state of the job, not a fault
    """The worker stops, and another one does the job."""


class _JobRetries(BaseRetryStrategy):
    """A job that was not done is done later: at once where its worker stops, ever later where it fails again and again."""

    def get_retry_decision(self, *, exception: BaseException, job: StoredJob) -> RetryDecision:
        delay = 0 if isinstance(exception, _GivenBack) else min(2**job.attempts, MAX_DELAY)
        delay = REFUSED_DELAY if isinstance(exception, Refused) else delay
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=delay))


class _FencedManager(JobManager):
    """Ends a job, or gives it back, only for the worker that still holds it."""

    async def finish_job(self, job: StoredJob, status: Status, delete_job: bool) -> None:
        await self.connector.execute_query_async(
            _END, job_id=job.id, epoch=job.attempts, status=status.value, is_deleted=delete_job
        )

    async def retry_job(
        self,
        job: StoredJob,
        retry_at: datetime | None = None,
        priority: int | None = None,  # noqa: ARG002 - as it is called
        queue: str | None = None,  # noqa: ARG002
        lock: str | None = None,  # noqa: ARG002
    ) -> None:
        at = retry_at or datetime.now(UTC)
        await self.connector.execute_query_async(_GIVE_BACK, job_id=job.id, epoch=job.attempts, retry_at=at)
        await self.connector.execute_query_async(_LEAVE_OUT, kinds=[job.task_name])


class _Session:
    """One worker; restarted after each outage of PostgreSQL, until it is told to stop."""

    def __init__(self, address: str, times: JobTimes, terms: WorkerTerms) -> None:
        self._address = address
        self._times = times
        self._terms = terms
        self._connector: procrastinate.PsycopgConnector | None = None
        self._refusal: Refused | None = None
        self._released = asyncio.Event()
        """Set when jobs that are under way are given back."""

    async def run(self) -> None:
        while not self._terms.stop.is_set():
            self._released.clear()
            try:
                await self._run_once()
            except (exceptions.ConnectorException, psycopg.Error, OSError) as fault:
                self._terms.report(
                    f"The queue of jobs cannot be reached: {first_line(fault.__cause__ or fault)}"
                )
            else:
                if self._terms.is_once:
                    break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wait_for_stop(), RESTART_SECONDS)
        if self._refusal is not None:
            raise self._refusal

    async def _run_once(self) -> None:
        """Works until it is told to stop, or PostgreSQL fails. Chores do not wait for long jobs."""
        connector = procrastinate.PsycopgConnector(conninfo=self._address, min_size=1, max_size=4)
        self._connector = connector
        app = procrastinate.App(connector=connector)
        app.job_manager = _FencedManager(connector)
        self._add_tasks(app)
        async with app.open_async():
            await self._sweep(app)
            workers = [self._make_worker(app, queue_names(self._terms.labels))]
            if self._terms.chores and not self._terms.is_once:
                workers.append(self._make_worker(app, [_chore_queue(chore) for chore in self._terms.chores]))
            at_work = [asyncio.create_task(worker.run()) for worker in workers]  # type: ignore[no-untyped-call] # untyped there
            stopped = asyncio.create_task(self._wait_for_stop())
            attending = asyncio.create_task(self._attend(app, workers))
            await asyncio.wait((*at_work, stopped, attending), return_when=asyncio.FIRST_COMPLETED)
            for worker in workers:
                worker.stop()  # type: ignore[no-untyped-call] # untyped there
            attending.cancel()
            # Where PostgreSQL was away, what is under way ends by itself: only a stop gives it back, and only once
            # nothing is taken any more.
            everyone = asyncio.gather(*at_work, attending, return_exceptions=True)
            await asyncio.wait((everyone, stopped), return_when=asyncio.FIRST_COMPLETED)
            self._released.set()
            stopped.cancel()
            ended = await everyone
        for fault in ended:
            if isinstance(fault, Exception):
                raise fault

    def _make_worker(self, app: procrastinate.App, queues: list[str]) -> Worker:
        return Worker(
            app,
            queues,
            name="remand",
            wait=not self._terms.is_once,
            fetch_job_polling_interval=self._times.poll,
            install_signal_handlers=False,
            update_heartbeat_interval=self._times.heartbeat,
            stalled_worker_timeout=max(self._times.dead, FORGET_SECONDS),
        )

    def _add_tasks(self, app: procrastinate.App) -> None:
        for kind, handler in self._terms.handlers.items():
            task = _make_task(handler, self._run_in_thread)
            app.task(name=kind, pass_context=True, retry=_JobRetries())(task)
        if self._terms.is_once:
            return
        for chore in self._terms.chores:
            task = _make_task(_chore_handler(chore, self._terms.report), self._run_in_thread)
            cron = cron_text(chore.seconds)
            queue = _chore_queue(chore)
            added = app.task(name=queue, queue=queue, pass_context=True)(task)
            app.periodic(cron=cron, lock=chore.name)(added)

    async def _attend(self, app: procrastinate.App, workers: Sequence[Worker]) -> None:
        """Announces the labels and the time limit of the worker, and sweeps on a timer, without a lock that a dying worker could keep."""
        labels = list(self._terms.labels)
        for worker in workers:
            while worker.worker_id is None:  # noqa: ASYNC110 - Procrastinate announces it nowhere
                await asyncio.sleep(LOOK_SECONDS)
            await app.connector.execute_query_async(
                ANNOUNCE, id=worker.worker_id, labels=labels, dead=self._times.dead
            )
        while True:
            await asyncio.sleep(self._times.sweep)
            await self._sweep(app)

    async def _sweep(self, app: procrastinate.App) -> None:
        await app.connector.execute_query_async(_SWEEP, seconds=self._times.dead)
        await app.connector.execute_query_async(_LEAVE_OUT, kinds=list(self._terms.handlers))
        await app.job_manager.delete_old_jobs(
            nb_hours=KEPT_HOURS, include_failed=True, include_cancelled=True
        )

    async def _wait_for_stop(self) -> None:
        while not self._terms.stop.is_set():  # noqa: ASYNC110 - another thread, or a signal, sets it
            await asyncio.sleep(LOOK_SECONDS)

    async def _run_in_thread(self, handler: JobHandler, job: QueuedJob) -> None:
        """Does a job in its own thread, which is left alone when the worker stops: the process ends then."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(fault: BaseException | None) -> None:
            if done.done():
                return
            if fault is None:
                done.set_result(None)
            else:
                done.set_exception(fault)

        def run() -> None:
            fault: BaseException | None = None
            try:
                handler(job)
            except (RemandError, OSError, Refused, JobTaken) as error:
                fault = error
            finally:
                # What nobody foresaw gives the job back as well, and its traceback is printed.
                with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                    loop.call_soon_threadsafe(settle, fault or sys.exc_info()[1])

        threading.Thread(target=run, name=job.kind, daemon=True).start()
        released = asyncio.create_task(self._released.wait())
        await asyncio.wait((done, released), return_when=asyncio.FIRST_COMPLETED)
        released.cancel()
        if not done.done():
            done.cancel()
            raise _GivenBack
        fault = done.exception()
        if fault is None or isinstance(fault, JobTaken):
            return  # ending a job that another holds changes nothing
        if isinstance(fault, Refused):
            self._refusal = fault
            self._terms.stop.set()
        else:
            self._terms.report(f"{job.kind} {job.key}: {first_line(fault)}")
        if isinstance(fault, LabelsMissing) and self._connector is not None:
            queue, labels = queue_name(fault.labels), list(fault.labels)
            await self._connector.execute_query_async(
                _MOVE, job_id=job.number, epoch=job.epoch, labels=labels, queue=queue
            )
        raise fault


def _make_task(handler: JobHandler, run: Callable[..., Any]) -> Callable[..., Any]:
    async def task(context: procrastinate.JobContext, **given: Any) -> None:
        stored = context.job
        job = QueuedJob(
            kind=stored.task_name,
            key=given.get("key", ""),
            arguments=given.get("arguments", ""),
            labels=tuple(given.get("labels", ())),
            lock=stored.lock or "",
            number=stored.id or 0,
            epoch=stored.attempts,
        )
        await run(handler, job)

    return task


def _chore_queue(chore: Chore) -> str:
    """A queue for each chore: not every host can do every one, as it may lack the addresses or the token."""
    return f"chore-{chore.name}"


def _chore_handler(chore: Chore, report: Callable[[str], None]) -> JobHandler:
    def handle(_: QueuedJob) -> None:
        before = chore.trouble
        chore.run_now()
        if chore.trouble and chore.trouble != before:
            report(f"{chore.name}: {chore.trouble}")

    return handle


def cron_text(seconds: float) -> str:
    """The schedule of something done so often: a divisor of a minute in seconds, else whole minutes up to an hour."""
    if seconds < 60:
        step = max(n for n in (1, 2, 3, 5, 6, 10, 15, 20, 30) if n <= max(seconds, 1))
        return f"* * * * * */{step}"
    return f"*/{min(round(seconds / 60), 59)} * * * *"


def _apply_schema(address: str) -> None:
    """Creates the tables, or migrates them to this version of Procrastinate; only one process at a time."""
    own = version("procrastinate")
    with psycopg.connect(address) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
        row = connection.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL").fetchone()
        if not row or not row[0]:
            connection.execute(SchemaManager.get_schema().encode())
            connection.execute(_SCHEMA.encode())
            connection.execute("INSERT INTO job_schema VALUES (%s)", (own,))
            return
        connection.execute(_SCHEMA.encode())
        known = connection.execute("SELECT version FROM job_schema").fetchone()
        for name in migration_names(known[0] if known else own, own):
            connection.execute((migrations_path / name).read_bytes())
        connection.execute("DELETE FROM job_schema")
        connection.execute("INSERT INTO job_schema VALUES (%s)", (own,))


def migration_names(since: str, until: str) -> list[str]:
    """The files that bring the tables of one version of Procrastinate to those of another, in their order."""
    files = sorted(path.name for path in migrations_path.glob("*.sql"))
    return [name for name in files if _parts(since) < _parts(name.partition("_")[0]) <= _parts(until)]


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())
