"""Jobs in the process itself: what the embedded ledger needs, where no other process does any."""

from __future__ import annotations

import threading
import time

from msgspec.structs import replace

from remand.app.errors import RemandError
from remand.app.gates.jobs import (
    JobState,
    JobTaken,
    LabelsMissing,
    QueuedJob,
    WorkerTerms,
    can_take,
    first_line,
)
from remand.domain.refusals import Refused

LOOK_SECONDS = 0.05


class EmbeddedJobs:
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
