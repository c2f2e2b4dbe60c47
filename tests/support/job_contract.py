"""The contract of every job queue, and a queue in memory that keeps it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, RemandError
from remand.app.gates.jobs import (
    Chore,
    JobQueue,
    JobState,
    JobTaken,
    LabelsMissing,
    QueuedJob,
    WorkerTerms,
    can_take,
    first_line,
)
from remand.domain.preconditions import require_trusted_key
from remand.domain.refusals import Refused

KIND = "gates"
SECONDS = 180.0
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


LOOK_SECONDS = 0.05


class MemoryJobs:
    """A queue in memory, whose jobs end with the process. One worker works at a time."""

    def __init__(self) -> None:
        self._waiting: list[QueuedJob] = []
        self._current: QueuedJob | None = None
        self._ended: set[str] = set()
        self._labels: tuple[str, ...] | None = None
        self._moved: tuple[str, ...] = ()
        """The labels that a job turned out to need."""
        self._count = 0
        self._lock = threading.Lock()

    def add(self, job: QueuedJob) -> None:
        with self._lock:
            if self._current is not None and self._current.key == job.key:
                return
            same = next(
                (one for one in self._waiting if one.key == job.key and set(one.labels) == set(job.labels)),
                None,
            )
            ended = [one for one in self._waiting if one is not same and _supersedes(same or job, one)]
            self._waiting = [one for one in self._waiting if one not in ended]
            self._ended |= {one.key for one in ended}
            if same is None:
                self._count += 1
                self._waiting.append(replace(job, number=self._count, epoch=0))

    def state(self, name: str) -> JobState | None:
        with self._lock:
            return self._find_state(name)

    def is_current(self, job: QueuedJob) -> bool:
        with self._lock:
            return self._current == job

    def unclaimed_jobs(self) -> tuple[QueuedJob, ...]:
        with self._lock:
            labels = self._labels
            return tuple(job for job in self._waiting if labels is None or not can_take(labels, job.labels))

    def work(self, terms: WorkerTerms) -> None:
        self._labels = terms.labels
        try:
            while not terms.stop.is_set():
                for chore in terms.chores:
                    if terms.is_once:
                        chore.run_now()
                    else:
                        chore.start_if_due(time.monotonic())
                has_worked = self._run_waiting(terms)
                if terms.is_once:
                    return
                if not has_worked:
                    terms.stop.wait(LOOK_SECONDS)
        finally:
            self._labels = None

    def _run_waiting(self, terms: WorkerTerms) -> bool:
        """Does every job that waits now, each once; True when there was one."""
        with self._lock:
            asked = [job for job in self._waiting if can_take(terms.labels, job.labels)]
        for job in asked:
            if terms.stop.is_set():
                break
            with self._lock:
                if job not in self._waiting:
                    continue  # another stands for it by now
                self._waiting.remove(job)
                self._current = job
            is_done = self._run(job, terms)
            with self._lock:
                self._current = None
                # One that was added meanwhile stands for it.
                is_superseded = any(_supersedes(one, job) for one in self._waiting)
                if is_done or is_superseded:
                    self._ended |= {job.key, job.lock} - {""}
                else:
                    self._waiting.append(replace(job, labels=self._moved or job.labels, epoch=job.epoch + 1))
                self._moved = ()
        return bool(asked)

    def _run(self, job: QueuedJob, terms: WorkerTerms) -> bool:
        try:
            terms.handlers[job.kind](job)
        except JobTaken:
            return True
        except Refused:
            with self._lock:
                self._current = None
                self._waiting.append(replace(job, epoch=job.epoch + 1))
            raise
        except (RemandError, OSError) as fault:
            terms.report(f"{job.kind}: {first_line(fault)}")
            self._moved = fault.labels if isinstance(fault, LabelsMissing) else ()
            return False
        return True

    def _find_state(self, name: str) -> JobState | None:
        if self._current is not None and name in (self._current.key, self._current.lock):
            return JobState.RUNNING
        if any(name in (job.key, job.lock) for job in self._waiting):
            return JobState.WAITING
        return JobState.ENDED if name in self._ended else None


def _supersedes(later: QueuedJob, earlier: QueuedJob) -> bool:
    """True when a job is ended by another that was added after it."""
    is_same = later.key == earlier.key or (bool(later.lock) and later.lock == earlier.lock)
    return is_same and (later.number == 0 or later.number > earlier.number)
