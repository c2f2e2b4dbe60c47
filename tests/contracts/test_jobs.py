"""Holds every queue of jobs to the contract of the port, and the one on PostgreSQL to what a dead worker means."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from remand.adapters.gates.procrastinate_jobs import (
    ANNOUNCE,
    JobTimes,
    ProcrastinateJobs,
    cron_text,
    migration_names,
    queue_name,
)
from remand.app.errors import EnvironmentFault
from remand.app.gates.jobs import Chore, JobState, QueuedJob

pytest.register_assert_rewrite("tests.support.job_contract")

from tests.support.job_contract import (  # noqa: E402 - only now are asserts explained
    KIND,
    SECONDS,
    JobContract,
    MemoryJobs,
    ThreadWorker,
    a_job,
    run_once,
)

TIMES = JobTimes.of(1.0)._replace(dead=60.0)
"""Workers look often, and none that a busy machine delays is taken for dead."""
HASTY = JobTimes.of(1.0)


class TestMemoryJobs(JobContract):
    is_interruptible = False

    @pytest.fixture
    def queue(self) -> MemoryJobs:
        return MemoryJobs()


class TestProcrastinateJobs(JobContract):
    @pytest.fixture
    def queue(self, database: str) -> ProcrastinateJobs:
        return ProcrastinateJobs(database, [KIND], TIMES)

    def test_a_job_of_a_dead_worker_is_given_to_another_and_the_first_cannot_end_it(
        self, queue: ProcrastinateJobs, database: str
    ) -> None:
        first, second, go = list[QueuedJob](), list[QueuedJob](), threading.Event()

        def hold(job: QueuedJob) -> None:
            first.append(job)
            go.wait(SECONDS)

        def take(job: QueuedJob) -> None:
            second.append(job)
            assert queue.is_current(job)
            assert not queue.is_current(first[0])
            go.set()
            ended.wait(SECONDS)

        ended = threading.Event()
        queue.add(a_job())
        slow = ThreadWorker(queue, hold)
        while not first:
            assert not slow.stop.wait(0.02)
        with psycopg.connect(database, autocommit=True) as connection:
            # As if the process had been stopped for long: its heartbeat does not reach the table any more.
            connection.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
            connection.execute(
                "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$"
            )
            connection.execute(
                f"CREATE TRIGGER keep BEFORE UPDATE ON procrastinate_workers FOR EACH ROW WHEN (OLD.id = {_first_worker(connection)})"
                " EXECUTE FUNCTION keep()"
            )
        other = ThreadWorker(queue, take)
        while not second:
            assert not other.stop.wait(0.02)
        assert slow.end()

        assert queue.state("k1") is JobState.RUNNING
        ended.set()
        while queue.state("k1") is JobState.RUNNING:
            assert not other.stop.wait(0.02)
        assert other.end()
        assert second[0].epoch == first[0].epoch + 1
        assert queue.state("k1") is JobState.ENDED

    def test_a_worker_that_has_ended_is_not_announced(self, queue: ProcrastinateJobs, database: str) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            row = connection.execute(
                "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id"
            ).fetchone()
            assert row is not None
            here, gone = row[0], row[0] + 1
            for worker in (here, gone):
                connection.execute(ANNOUNCE, {"id": worker, "labels": ["linux"], "dead": 1.0})
            assert connection.execute("SELECT id FROM job_workers").fetchall() == [(here,)]

    def test_many_workers_that_sweep_at_once_give_a_job_back_once(
        self, queue: ProcrastinateJobs, database: str
    ) -> None:
        seen: list[int] = []
        queue.add(a_job())
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE procrastinate_jobs SET status = 'doing'")
        workers = [ThreadWorker(queue, lambda job: seen.append(job.epoch)) for _ in range(3)]
        while queue.state("k1") is not JobState.ENDED:
            assert not workers[0].stop.wait(0.02)

        assert all(worker.end() for worker in workers)
        assert seen == [1]

    def test_a_worker_is_dead_by_its_own_time_and_not_by_another_s(
        self, queue: ProcrastinateJobs, database: str
    ) -> None:
        patient = ProcrastinateJobs(database, [KIND], JobTimes.of(600.0))
        impatient = ProcrastinateJobs(database, [KIND], HASTY)
        begun, go, seen = threading.Event(), threading.Event(), list[int]()

        def hold(job: QueuedJob) -> None:
            seen.append(job.epoch)
            begun.set()
            go.wait(SECONDS)

        queue.add(a_job())
        slow = ThreadWorker(patient, hold)
        assert begun.wait(SECONDS)
        with psycopg.connect(database, autocommit=True) as connection:
            while not connection.execute("SELECT FROM job_workers").fetchall():
                assert not slow.stop.wait(0.02)
            connection.execute(
                "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '20 seconds'"
            )
        hasty = ThreadWorker(impatient, hold)
        go.wait(3 * HASTY.sweep + HASTY.dead)
        go.set()

        assert slow.end()
        assert hasty.end()
        assert seen == [0]

    def test_many_that_add_a_job_at_once_add_it_once(self, queue: ProcrastinateJobs, database: str) -> None:
        together = threading.Barrier(8)

        def add(_: int) -> None:
            together.wait(SECONDS)
            queue.add(a_job(lock="T-1"))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(8)))

        with psycopg.connect(database) as connection:
            [row] = connection.execute("SELECT count(*) FROM procrastinate_jobs").fetchall()
        assert row[0] == 1

    def test_jobs_with_one_lock_are_done_one_after_the_other(self, queue: ProcrastinateJobs) -> None:
        at_work, most, done = list[str](), list[int](), list[str]()

        def work(job: QueuedJob) -> None:
            at_work.append(job.key)
            most.append(len(at_work))
            if len(most) < 3:
                queue.add(a_job(f"k{len(most)}", lock="T-1"))
            threading.Event().wait(0.1)
            at_work.remove(job.key)
            done.append(job.key)

        queue.add(a_job("k0", lock="T-1"))
        workers = [ThreadWorker(queue, work) for _ in range(2)]
        while len(done) < 3:
            assert not workers[0].stop.wait(0.02)

        assert all(worker.end() for worker in workers)
        assert max(most) == 1

    def test_a_worker_goes_on_when_its_connections_were_cut(
        self, queue: ProcrastinateJobs, database: str
    ) -> None:
        seen: list[str] = []
        worker = ThreadWorker(queue, lambda job: seen.append(job.key))
        for number in range(3):
            queue.add(a_job(f"k{number}"))
            while queue.state(f"k{number}") is not JobState.ENDED:
                assert not worker.stop.wait(0.02)
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

        assert worker.end()
        assert sorted(set(seen)) == ["k0", "k1", "k2"]

    def test_the_tables_are_made_once_by_many_that_open_them_together(self, database: str) -> None:
        with ThreadPoolExecutor(4) as pool:
            queues = list(pool.map(lambda _: ProcrastinateJobs(database, [KIND], TIMES), range(4)))

        queues[0].add(a_job())
        assert run_once(queues[1], lambda _: None) == []

    def test_a_chore_is_done_by_one_of_the_workers_that_have_it_while_a_long_job_runs(
        self, queue: ProcrastinateJobs
    ) -> None:
        done, at_work, go = list[str](), threading.Event(), threading.Event()

        def hold(_: QueuedJob) -> None:
            at_work.set()
            go.wait(SECONDS)

        queue.add(a_job())
        chores = (Chore("due", 1.0, lambda: done.append("due")),)
        without, having = ThreadWorker(queue, hold), ThreadWorker(queue, hold, chores=chores)
        assert at_work.wait(SECONDS)
        while len(done) < 2:
            assert not having.stop.wait(0.02)
        go.set()

        assert without.end()
        assert having.end()

    def test_labels_of_any_length_have_a_queue(self, queue: ProcrastinateJobs) -> None:
        labels = tuple("x" * 60 + str(number) for number in range(4))
        seen: list[str] = []
        queue.add(a_job(labels=labels))

        run_once(queue, lambda job: seen.append(job.key), *labels)

        assert seen == ["k1"]

    def test_a_worker_with_too_many_labels_does_not_start(self, queue: ProcrastinateJobs) -> None:
        with pytest.raises(EnvironmentFault, match="at most 8 labels"):
            run_once(queue, lambda _: None, *"abcdefghi")


def _first_worker(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT min(id) FROM procrastinate_workers").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.5, "* * * * * */1"),
        (2, "* * * * * */2"),
        (45, "* * * * * */30"),
        (60, "*/1 * * * *"),
        (9000, "*/59 * * * *"),
    ],
)
def test_a_schedule_is_said_in_cron_s_words(seconds: float, expected: str) -> None:
    assert cron_text(seconds) == expected


def test_tables_of_an_earlier_version_are_brought_to_the_installed_one() -> None:
    assert migration_names("3.3.0", "3.10.0") == [
        "03.04.00_01_pre_add_retry_failed_job_procedure.sql",
        "03.04.00_50_post_add_retry_failed_job_procedure.sql",
    ]
    assert migration_names("3.10.0", "3.10.0") == []


def test_the_order_of_labels_does_not_name_another_queue() -> None:
    assert queue_name(("b", "a")) == queue_name(("a", "b")) != queue_name(("a",))
