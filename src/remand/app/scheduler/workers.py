"""Worker threads for the steps of runs that block: jobs go out to them, results come back through one queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import CannotRun, Executor
from remand.app.scheduler.runs import ActiveRun, EndedRun, RunAssignment, StopAnswer
from remand.domain.access.team import Member


class NotStarted(NamedTuple):
    """A run that could not start; `is_recorded` once the ledger knows."""

    assignment: RunAssignment
    fault: CannotRun
    is_recorded: bool = False


JobResult = ActiveRun | NotStarted | EndedRun | StopAnswer | CannotRun | EnvironmentFault | OSError | None
"""What came of a job; None when it failed in a way that nobody foresaw, which the executor reports."""


@dataclass(frozen=True, slots=True, eq=False)
class RunJob:
    """Something that blocks, done in a worker thread. Until its result is handled, its task is busy."""

    task_id: str
    member: Member
    work: Callable[[], JobResult]
    since: float = 0.0
    """When it was submitted, by the scheduler's clock."""
    starts: RunAssignment | None = None
    """The run that it starts."""
    is_slow: bool = False
    """It measures a done claim, which takes minutes."""
    is_retried: bool = False
    """It records something: as long as the ledger cannot take it, it is done again."""


class Workers:
    """Does jobs in threads. Only the loop's thread calls this, but for `note_process_end`."""

    def __init__(self, executor: Executor, slow_executor: Executor) -> None:
        """`slow_executor` is for what takes minutes, so that no start or end has to wait for it."""
        self._executor = executor
        self._slow_executor = slow_executor
        self._inbox: SimpleQueue[str | tuple[RunJob, JobResult]] = SimpleQueue()
        self._jobs: dict[RunJob, None] = {}
        self.woken = threading.Event()
        """Set when there is something in the queue."""

    @property
    def jobs(self) -> list[RunJob]:
        """The jobs whose results are not handled yet. The copy is made in one step, so any thread may ask."""
        return list(self._jobs)

    @property
    def is_idle(self) -> bool:
        """True when nothing is being done, and nothing waits in the queue."""
        return not self._jobs and self._inbox.empty()

    def submit(self, job: RunJob) -> None:
        self._jobs[job] = None
        (self._slow_executor if job.is_slow else self._executor).execute(partial(self._work, job))

    def _work(self, job: RunJob) -> None:
        result: JobResult = None
        try:
            result = job.work()
        except (CannotRun, EnvironmentFault, OSError) as error:
            result = error
        finally:
            self._inbox.put((job, result))
            self.woken.set()

    def note_process_end(self, run_id: str) -> None:
        """Called by whichever thread sees the process of a run end."""
        self._inbox.put(run_id)
        self.woken.set()

    def results(self) -> Iterator[str | tuple[RunJob, JobResult]]:
        """Takes what is in the queue: ids of runs whose process has ended, and results of jobs."""
        while True:
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return
            if not isinstance(item, str):
                del self._jobs[item[0]]
            yield item
