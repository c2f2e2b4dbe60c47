"""Jobs: work that any process of a ledger may do, now and then or once for each thing that asks for it."""

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
"""The kind of job that runs what a rejection names as evidence again."""
JOB_KINDS = (GATE_RUN, EVIDENCE_CHECK)
DEAD_SECONDS = 30.0
"""After how many seconds without a sign a worker is taken for dead, and its job given to another."""


class QueuedJob(Record, kw_only=True):
    """One thing to do. It may be done twice, so its key is one under which the ledger records it once."""

    kind: str
    key: str
    arguments: str = ""
    labels: tuple[str, ...] = ()
    """What a worker must have to take it."""
    lock: str = ""
    """No two jobs with the same lock are under way at once; empty: any number."""
    number: int = 0
    """Its number in the queue; 0 before it is there."""
    epoch: int = 0
    """How often it was given out before. Whoever holds an earlier epoch has lost it."""


class JobState(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class JobTaken(Exception):  # noqa: N818 - a state of the job, not a fault
    """The job was given to another worker meanwhile: what was found here must not count."""


class LabelsMissing(EnvironmentFault):
    """The worker lacks labels that the job needs by now: it is given back, for one that has them."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(f"It needs a worker with the labels {', '.join(labels)} by now.")
        self.labels = tuple(labels)


JobHandler = Callable[[QueuedJob], None]
"""Does a job; what it raises gives the job back, to be done later. A refusal ends the worker as well."""


class Chore:
    """Something done now and then, one at a time, in its own thread: it may wait for a network."""

    def __init__(self, name: str, seconds: float, work: Callable[[], str | None]) -> None:
        self.name = name
        self.trouble = ""
        """What kept it from being done; empty when nothing did."""
        self.seconds = seconds
        self._work = work
        """Returns what kept it from being done, if anything."""
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def start_if_due(self, now: float) -> None:
        """Starts it when its time has come and it is not under way."""
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
    """What a worker does, and until when."""

    handlers: Mapping[str, JobHandler]
    """By the kind of job."""
    stop: threading.Event
    """Set to end: jobs under way are given back at once."""
    labels: tuple[str, ...] = ()
    chores: Sequence[Chore] = ()
    """Done now and then by one of all the workers."""
    is_once: bool = False
    """It ends when nothing waits any more."""
    report: Callable[[str], None] = lambda _: None
    """Is told what goes wrong."""


class JobQueue(Protocol):
    """Gives each job to one worker at a time, and to another one when that is gone."""

    def add(self, job: QueuedJob) -> None:
        """Adds a job, unless one with its key is under way, or waits for the same labels. Earlier ones with its lock that wait are ended: it stands for them."""

    def state(self, name: str) -> JobState | None:
        """How far the jobs are that have a name as their key or lock: one at work comes first; None when there is none."""

    def is_current(self, job: QueuedJob) -> bool:
        """True while a job is still with whoever was given it, so that its result may count."""

    def unclaimed_jobs(self) -> tuple[QueuedJob, ...]:
        """The jobs that wait although no worker is there that has their labels."""

    def work(self, terms: WorkerTerms) -> None:
        """Does jobs and chores until it is told to stop."""


def first_line(fault: BaseException) -> str:
    """What a fault says, without what follows in further lines."""
    return (str(fault).splitlines() or [type(fault).__name__])[0]


def can_take(labels: Iterable[str], needed: Iterable[str]) -> bool:
    """True when a worker with these labels can do what needs those."""
    return set(needed) <= set(labels)
