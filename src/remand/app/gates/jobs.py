"""Jobs that any process of a ledger may do, periodically or once for each request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from remand.app.errors import EnvironmentFault, RemandError
from remand.domain.record import NamedTuple, Record

GATE_RUN = "gates"
"""The kind of job that measures a done claim. Its arguments are the request."""
EVIDENCE_CHECK = "evidence"
"""The kind of job that runs a rejection's evidence again."""
JOB_KINDS = (GATE_RUN, EVIDENCE_CHECK)
DEAD_SECONDS = 30.0
"""A worker without a sign of life for so many seconds counts as dead, and another one gets its job."""


class QueuedJob(Record, kw_only=True):
    """One job. It may run twice, so its key is one under which the ledger records it only once."""

    kind: str
    key: str
    arguments: str = ""
    labels: tuple[str, ...] = ()
    """What a worker needs to take it."""
    lock: str = ""
    """Jobs with the same lock never run at the same time; if empty, any number may."""
    number: int = 0
    """Its number in the queue; 0 before it is added."""
    epoch: int = 0
    """How often it was given out before. Whoever holds an earlier epoch has lost it."""


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class JobTaken(Exception):  # noqa: N818 - a state of the job, not a fault
    """The job was given to another worker meanwhile: this one's result must not count."""


class LabelsMissing(EnvironmentFault):
    """The worker lacks labels that the job now needs: the job returns to the queue for a worker that has them."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(f"It needs a worker with the labels {', '.join(labels)} by now.")
        self.labels = tuple(labels)


JobHandler = Callable[[QueuedJob], None]
"""Does a job. An exception returns the job to the queue for later; a refusal also ends the worker."""


class Chore:
    """Periodic work, one run at a time, in a thread of its own because it may wait for a network."""

    def __init__(self, name: str, seconds: float, work: Callable[[], str | None]) -> None:
        self.name = name
        self.trouble = ""
        """Why it could not be done; empty if it was done."""
        self.seconds = seconds
        self._work = work
        """Does the work; returns why it could not be done, if so."""
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def start_if_due(self, now: float) -> None:
        """Starts it if it is due and not running."""
        if now >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = now + self.seconds
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def run_now(self) -> None:
        self._next = time.monotonic() + self.seconds
        self._run()

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self.trouble = self._work() or ""
        except (RemandError, OSError) as error:
            self.trouble = str(error)


class WorkerTerms(NamedTuple):
    """The work of a worker, and until when it works."""

    handlers: Mapping[str, JobHandler]
    """The handlers by kind of job."""
    stop: threading.Event
    """When set, the worker ends and returns its running jobs at once."""
    labels: tuple[str, ...] = ()
    chores: Sequence[Chore] = ()
    """Periodic work that one of all the workers does."""
    is_once: bool = False
    """True to end when no job is waiting."""
    report: Callable[[str], None] = lambda _: None
    """Receives error messages."""


class JobQueue(Protocol):
    """Gives each job to one worker at a time, and to another if that one fails."""

    def add(self, job: QueuedJob) -> None:
        """Adds a job, unless one with its key is running, or is waiting with the same labels.

        Ends waiting jobs with its lock, which it replaces.
        """

    def state(self, name: str) -> JobState | None:
        """The state of the jobs with this key or lock; a running one decides. None if there is none."""

    def is_current(self, job: QueuedJob) -> bool:
        """True while a job still belongs to the worker that got it, so that its result may count."""

    def unclaimed_jobs(self) -> tuple[QueuedJob, ...]:
        """The waiting jobs for whose labels there is no worker."""

    def work(self, terms: WorkerTerms) -> None:
        """Does jobs and chores until told to stop."""


def first_line(fault: BaseException) -> str:
    """The first line of a fault's message."""
    return (str(fault).splitlines() or [type(fault).__name__])[0]


def can_take(labels: Iterable[str], needed: Iterable[str]) -> bool:
    """True if a worker with these labels can do a job that needs those."""
    return set(needed) <= set(labels)
