"""The contract of every job queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from remand.app.errors import EnvironmentFault, RemandError
from remand.app.gates.jobs import Chore, JobQueue, JobState, JobTaken, LabelsMissing, QueuedJob, WorkerTerms
from remand.domain.preconditions import require_trusted_key
from remand.domain.refusals import Refused

KIND = "gates"
SECONDS = 30.0
"""How long something that should happen soon may take."""


def a_job(key: str = "k1", *, labels: tuple[str, ...] = (), arguments: str = "", lock: str = "") -> QueuedJob:
    return QueuedJob(kind=KIND, key=key, labels=labels, arguments=arguments, lock=lock)


def run_once(
    queue: JobQueue, handler: Callable[[QueuedJob], None], *labels: str, chores: tuple[Chore, ...] = ()
) -> list[str]:
    """Lets a worker run the waiting jobs; returns what it reported."""
    reported: list[str] = []
    terms = WorkerTerms({KIND: handler}, threading.Event(), labels, chores, True, reported.append)
    queue.work(terms)
    return reported


class ThreadWorker:
    """A worker in a thread."""

    def __init__(
        self,
        queue: JobQueue,
        handler: Callable[[QueuedJob], None],
        *labels: str,
        chores: tuple[Chore, ...] = (),
    ) -> None:
        self.stop = threading.Event()
        self.fault: RemandError | Refused | None = None
        terms = WorkerTerms({KIND: handler}, self.stop, labels, chores)

        def work() -> None:
            try:
                queue.work(terms)
            except (RemandError, Refused) as error:
                self.fault = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def end(self) -> bool:
        """Stops it; True if it has ended."""
        self.stop.set()
        self._thread.join(SECONDS)
        return not self._thread.is_alive()


class JobContract:
    """Inherit it, and provide a fixture `queue`."""

    def test_a_job_is_done_with_what_it_was_added_with(self, queue: JobQueue) -> None:
        jobs: list[QueuedJob] = []
        queue.add(a_job(arguments='{"a": "é"}', labels=("linux",), lock="task"))

        run_once(queue, jobs.append, "linux", "node22")

        assert [(job.kind, job.key, job.arguments, job.labels) for job in jobs] == [
            (KIND, "k1", '{"a": "é"}', ("linux",))
        ]

    def test_a_job_is_waiting_then_running_then_ended(self, queue: JobQueue) -> None:
        states = [queue.state("k1")]
        queue.add(a_job(lock="T-1"))
        states.append(queue.state("k1"))

        run_once(queue, lambda job: states.extend((queue.state(job.key), queue.state("T-1"))))

        states += [queue.state("k1"), queue.state("T-1")]
        expected = [
            None,
            JobState.WAITING,
            JobState.RUNNING,
            JobState.RUNNING,
            JobState.ENDED,
            JobState.ENDED,
        ]
        assert states == expected

    def test_a_key_that_waits_is_not_added_again_and_one_that_ended_is(self, queue: JobQueue) -> None:
        jobs: list[QueuedJob] = []
        queue.add(a_job())
        queue.add(a_job())
        run_once(queue, jobs.append)
        assert len(jobs) == 1

        queue.add(a_job())
        run_once(queue, jobs.append)

        assert len(jobs) == 2

    def test_a_job_that_failed_is_given_back_in_another_epoch(self, queue: JobQueue) -> None:
        jobs: list[QueuedJob] = []

        def fail_first(job: QueuedJob) -> None:
            jobs.append(job)
            if len(jobs) == 1:
                raise EnvironmentFault("the disk is full")

        queue.add(a_job())
        worker = ThreadWorker(queue, fail_first)
        while len(jobs) < 2:
            assert not worker.stop.wait(0.02)

        assert worker.end()
        assert jobs[0].epoch < jobs[1].epoch
        assert not queue.is_current(jobs[0])

    def test_a_job_is_current_while_it_is_done_and_not_afterwards(self, queue: JobQueue) -> None:
        seen: list[tuple[QueuedJob, bool]] = []
        queue.add(a_job())

        run_once(queue, lambda job: seen.append((job, queue.is_current(job))))

        assert [is_current for _, is_current in seen] == [True]
        assert not queue.is_current(seen[0][0])

    def test_a_job_that_another_worker_has_by_now_is_left_to_it(self, queue: JobQueue) -> None:
        def lose(_: QueuedJob) -> None:
            raise JobTaken

        queue.add(a_job())

        assert run_once(queue, lose) == []

    def test_a_worker_takes_only_jobs_whose_labels_it_has(self, queue: JobQueue) -> None:
        seen: list[str] = []
        queue.add(a_job("both", labels=("node22", "linux")))
        queue.add(a_job("one", labels=("linux",)))
        queue.add(a_job("none"))

        run_once(queue, lambda job: seen.append(job.key), "linux")
        assert sorted(seen) == ["none", "one"]

        run_once(queue, lambda job: seen.append(job.key), "gpu", "linux", "node22")
        assert sorted(seen) == ["both", "none", "one"]

    def test_a_later_job_with_the_same_lock_does_not_wait_for_one_that_no_worker_takes(
        self, queue: JobQueue
    ) -> None:
        seen: list[str] = []
        queue.add(a_job("k1", labels=("gone",), lock="T-1"))
        queue.add(a_job("k2", lock="T-1"))
        queue.add(a_job("k3", labels=("gone",), lock="T-2"))

        run_once(queue, lambda job: seen.append(job.key))

        assert seen == ["k2"]
        assert queue.state("k1") is JobState.ENDED
        assert queue.state("T-1") is JobState.ENDED
        assert queue.state("k3") is JobState.WAITING

    def test_a_job_that_is_added_again_with_other_labels_waits_for_those(self, queue: JobQueue) -> None:
        jobs: list[QueuedJob] = []
        queue.add(a_job(labels=("gone",)))
        queue.add(a_job(labels=("linux",)))

        run_once(queue, jobs.append, "linux")

        assert [job.labels for job in jobs] == [("linux",)]
        assert queue.state("k1") is JobState.ENDED

    def test_a_job_that_is_given_back_is_left_out_where_a_later_one_waits(self, queue: JobQueue) -> None:
        seen: list[str] = []

        def work(job: QueuedJob) -> None:
            seen.append(job.key)
            if job.key == "k1":
                queue.add(a_job("k2", lock="T-1"))
                queue.add(a_job("k1", lock="T-1"))
                raise EnvironmentFault("the disk is full")

        queue.add(a_job("k1", lock="T-1"))
        worker = ThreadWorker(queue, work)
        while queue.state("k2") is not JobState.ENDED:
            assert not worker.stop.wait(0.02)

        assert worker.end()
        assert seen == ["k1", "k2"]
        assert queue.state("k1") is JobState.ENDED

    def test_a_job_that_turns_out_to_need_labels_waits_for_a_worker_that_has_them(
        self, queue: JobQueue
    ) -> None:
        def lack(_: QueuedJob) -> None:
            raise LabelsMissing(("gpu",))

        queue.add(a_job())
        said = run_once(queue, lack)

        assert "labels gpu" in said[0]
        assert [job.labels for job in queue.unclaimed_jobs()] == [("gpu",)]
        worker, seen = ThreadWorker(queue, lack), list[str]()
        time.sleep(0.1)
        assert worker.end()
        taker = ThreadWorker(queue, lambda job: seen.append(job.key), "gpu")
        while queue.state("k1") is not JobState.ENDED:
            assert not taker.stop.wait(0.02)
        assert taker.end()
        assert seen == ["k1"]

    def test_what_a_fault_says_is_reported_by_its_first_line(self, queue: JobQueue) -> None:
        def fail(_: QueuedJob) -> None:
            raise EnvironmentFault("the disk is full\nDETAIL: password=secret")

        queue.add(a_job())

        assert [text.partition(": ")[2] for text in run_once(queue, fail)] == ["the disk is full"]

    def test_a_job_for_which_no_worker_is_there_is_named(self, queue: JobQueue) -> None:
        queue.add(a_job("a", labels=("linux",)))
        queue.add(a_job("b", labels=("linux", "gpu")))
        assert [job.key for job in queue.unclaimed_jobs()] == ["a", "b"]

        worker = ThreadWorker(queue, lambda _: None, "linux")
        while len(queue.unclaimed_jobs()) > 1:
            assert not worker.stop.wait(0.02)

        assert [(job.kind, job.key, job.labels) for job in queue.unclaimed_jobs()] == [
            (KIND, "b", ("linux", "gpu"))
        ]
        assert worker.end()

    def test_a_worker_that_stops_gives_the_job_back_at_once(self, queue: JobQueue) -> None:
        begun, event, seen = threading.Event(), threading.Event(), list[int]()

        def hold(job: QueuedJob) -> None:
            begun.set()
            event.wait(SECONDS)
            if not queue.is_current(job):
                raise JobTaken

        queue.add(a_job())
        worker = ThreadWorker(queue, hold)
        assert begun.wait(SECONDS)
        worker.stop.set()
        if not self.is_interruptible:
            event.set()
        assert worker.end()

        run_once(queue, lambda job: seen.append(job.epoch))
        event.set()

        assert seen == ([1] if self.is_interruptible else [])
        assert queue.state("k1") is JobState.ENDED

    is_interruptible = True

    def test_a_refusal_ends_the_worker_and_gives_the_job_back(self, queue: JobQueue) -> None:
        def refuse(_: QueuedJob) -> None:
            require_trusted_key("0123456789abcdef", is_confined=True)

        queue.add(a_job())
        worker = ThreadWorker(queue, refuse)
        while worker.fault is None:
            assert not threading.Event().wait(0.02)

        assert isinstance(worker.fault, Refused)
        assert queue.state("k1") is JobState.WAITING

    def test_a_worker_for_once_does_every_chore_once(self, queue: JobQueue) -> None:
        done: list[str] = []
        chores = (
            Chore("due", 2.0, lambda: done.append("due")),
            Chore("forge", 60.0, lambda: done.append("forge")),
        )

        run_once(queue, lambda _: None, chores=chores)

        assert done == ["due", "forge"]
