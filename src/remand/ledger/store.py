"""What the ledger needs of a store: transactions, tasks, names, the ready queue and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from remand.domain.access.team import Actor
from remand.domain.instant import BEGINNING, Instant
from remand.domain.record import NamedTuple, Record
from remand.domain.task import EventConflict, Status, Task, task_label
from remand.ledger import event_tables as tables
from remand.ledger.event_tables import SignedGroup
from remand.ledger.problems import TableDifference
from remand.ledger.traces import Trace


class LogLine(NamedTuple):
    """A line of the orchestration log with its place: its time, then what else distinguishes it."""

    place: str
    text: str


EDITED = "*"
"""Stands for the tasks whose files were changed by anybody else."""


class OutdatedTasks(Protocol):
    """The tasks whose files differ from the ledger."""

    mark: str
    """The state in which the files' folders were left; empty if they were never written."""
    log_mark: str
    """The place of the last line in the orchestration log's file, and that file's state; empty if unknown."""

    def note(self, task_id: str = "") -> None:
        """Marks a task's files as outdated; without a task, all files; with `EDITED`, those that were edited, if any."""

    def every(self) -> list[str]:
        """The tasks with outdated files; the empty name stands for all."""

    def has_notes(self) -> bool:
        """True if any file is outdated."""

    def notes(self) -> list[str]:
        """The notes, each by itself: whoever writes the files clears these, and no later ones."""

    def clear(self, notes: Sequence[str] | None = None) -> None:
        """Clears notes, or all: the files match the ledger."""


class LogLineTable(Protocol):
    """The lines of the orchestration log, each identified by its task and its place."""

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        """Replaces a task's lines; returns the days of old and new lines."""

    def of_task(self, task_id: str) -> list[LogLine]:
        """A task's lines, in order."""

    def day(self, day: str) -> list[str]:
        """The lines of a day, in order."""

    def days(self) -> list[str]:
        """The days that have lines."""

    def clear(self) -> None:
        """Removes all lines."""


class LedgerHead(Record, kw_only=True):
    """The end of the ledger's own session, and the segment to which it is written."""

    session: str
    seq: int = 0
    tip: str = ""
    clock: Instant = BEGINNING
    segment: str = ""
    first: int = 0
    """The number of the segment's first event."""
    size: int = 0
    inode: int = 0
    changed: int = 0
    """When the segment's file was last changed, in nanoseconds of its file system; 0 if unknown."""
    chain: str = ""
    """The value of the session's chain after its last event (`ledger/signatures`)."""
    key: str = ""
    """The id of the key that signs this session; empty before the first signature."""
    project: str = ""
    """The project to which the session's signatures are bound."""
    bounded_from: Instant = BEGINNING
    """The ledger's clock when it first knew `policy.clock_skew`: events up to then may be a day ahead."""


class TaskTable(Protocol):
    """The folded tasks."""

    def get(self, task_id: str) -> Task | None:
        """A task by its id."""

    def put(self, task: Task) -> None:
        """Stores a task in its current state, in every table derived from it."""

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        """Replaces the tables' content by these tasks and handoffs; each handoff comes with its task."""

    def every(self) -> Iterator[Task]:
        """All tasks, by id."""

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        """The statuses by id of these tasks, and perhaps of others."""


class OutlineDetails(Record, kw_only=True):
    """Since when a task is there, and its names."""

    created_at: Instant = ""
    aliases: tuple[str, ...] = ()


class OutlineSubmission(Record, kw_only=True):
    """Who submitted work."""

    agent: str


class OutlineReviews(Record, kw_only=True):
    """How often work was rejected."""

    rounds: tuple[msgspec.Raw, ...] = ()


class OutlineInbox(Record, kw_only=True):
    """The events that could not be applied."""

    conflicts: tuple[EventConflict, ...] = ()


class TaskOutline(Record, kw_only=True):
    """What reports need of a task: some of the fields of `Task`, under the same names, so that its state is read faster."""

    id: str
    title: str
    status: Status = Status.INCOMING
    details: OutlineDetails = OutlineDetails()
    submission: OutlineSubmission | None = None
    reviews: OutlineReviews = OutlineReviews()
    inbox: OutlineInbox = OutlineInbox()
    is_legacy: bool = False

    @property
    def label(self) -> str:
        """The name of the task for people."""
        return task_label(self.id, self.details.aliases)


class TaskFilter(Record, kw_only=True):
    """Which tasks a page shows; an empty field does not restrict them."""

    statuses: tuple[str, ...] = ()
    """Any of these."""
    agent: str = ""
    """Who holds the task, or submitted what is under review."""
    skill: str = ""
    """A skill that the task asks for."""
    text: str = ""
    """Words in its id, its title or an alias, ignoring case."""


class TaskPages(Protocol):
    """The tasks for people: page by page, or those that wait for somebody."""

    def page(self, wanted: TaskFilter, most: int, after: str = "") -> list[Task]:
        """The first matching tasks by id after the id `after`, at most `most` (-1: all)."""

    def outlines(self) -> Iterator[TaskOutline]:
        """All tasks by id, with what reports need of each."""

    def waiting_tasks(self) -> list[Task]:
        """Every task that a person may have to decide about: escalated, blocked, held, or with an alert; and few others."""


class TaskLists(Protocol):
    """The tasks that need attention, each list by id."""

    pages: TaskPages

    def with_status(self, status: Status, most: int = -1) -> list[Task]:
        """The tasks with a status, at most `most`."""

    def running_tasks(self) -> list[Task]:
        """The tasks on which an agent's process is working."""

    def rejected_in_review(self) -> list[Task]:
        """The tasks with work that was rejected in a review."""

    def with_outages(self) -> list[Task]:
        """The tasks with a gate that could not be measured and was not measured since."""

    def with_due(self, names: Collection[str]) -> list[Task]:
        """The tasks that may have one of these actions due on the forge (`domain/decisions/forge_actions.due_kinds`)."""


class NameTable(Protocol):
    """Look-ups by other names than ids: tasks by alias, handoff, commit or pull request, and people."""

    def find_task_id(self, name: str) -> str:
        """The task with an alias or a handoff; empty if there is none."""

    def ids_with_end(self, end: str, *, are_handoffs: bool = False) -> list[str]:
        """The first few ids of tasks, or of handoffs, with this end, sorted."""

    def find_submitted(self, commit: str, pr: int) -> list[Task]:
        """The tasks whose last submission is a commit, or that have a pull request, by id."""

    def names_with_key(self, key: str) -> list[str]:
        """The names with a look-up key (`lookup_keys`) among everyone who has a part in a task, sorted.

        They are spellings of one name, or names that look alike.
        """

    def is_new_handoff(self, name: str) -> bool:
        """True if no handoff has this generated id; a store may find that out later, and then the change fails."""


class ReadyQueue(Protocol):
    """The ready tasks: what can be claimed, what is due, and the number of tasks."""

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """The first task in the queue's order that suits the agent; empty if there is none."""

    def due(self, now: Instant) -> list[str]:
        """The tasks with a lease, an offer or a wait that has ended."""

    def ready(self) -> list[str]:
        """Every claimable task, in the queue's order."""

    def count(self, status: Status | None = None) -> int:
        """The number of tasks with a status, or claimable; reads no task."""

    def counts(self) -> Mapping[str, int]:
        """The number of tasks by status."""


class Dependencies(Protocol):
    """Which task waits for which."""

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        """What the task still waits for; a dependency that closes a cycle does not count."""

    def path(self, source: str, target: str) -> tuple[str, ...]:
        """The path by which `source` waits for `target`; empty if it does not."""

    def predecessors(self, task_id: str, most: int) -> list[Task]:
        """The tasks that wait for this one, were split into it, or were reformulated as it by a director's
        decision.

        By id, at most `most`.
        """


class RejectedTaskTable(Protocol):
    """The tasks that an agent or a reviewer ever rejected, found by the words of `app/words`."""

    def count(self) -> int:
        """How many there are."""

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        """In how many of them each word occurs; leaves out words that occur in none."""

    def most_similar(self, weights: Mapping[str, float], most: int) -> list[Task]:
        """The tasks that share the most weight with these words; a bounded search, rarest words first."""


class TableAudit(Protocol):
    """Compares the tables with the events, for `remand log verify` and `repair`."""

    def task_differences(
        self, tasks: Mapping[str, Task], handoffs: Mapping[str, str]
    ) -> Iterator[TableDifference]:
        """Where the tables differ from what `TaskTable.replace_all` would write. The order of the tasks does not matter."""

    def trace_differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        """Where the stored traces differ from these."""

    def group_differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:
        """Given all groups: the tasks for which `GroupTable.of_task` misses groups or finds wrong ones."""

    def reindex_groups(self) -> None:
        """Rebuilds the index of which groups name which task. Removes rows that differ from what was written."""


class Transaction(Protocol):
    """One atomic change of the ledger."""

    events: tables.EventTable
    event_rows: tables.EventRows
    groups: tables.GroupTable
    group_doubts: tables.GroupDoubts
    unconfirmed: tables.UnconfirmedTable
    missing: tables.MissingTable
    rewritten: tables.RewrittenTable
    objections: tables.ObjectionTable
    traces: tables.TraceTable
    tasks: TaskTable
    task_lists: TaskLists
    names: NameTable
    queue: ReadyQueue
    dependencies: Dependencies
    rejected: RejectedTaskTable
    files: tables.FileTable
    held: tables.HeldEvents
    outdated: OutdatedTasks
    log_lines: LogLineTable
    head: LedgerHead

    @property
    def audit(self) -> TableAudit:
        """Compares the tables with the events."""

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Registers what to undo outside the store if the change fails."""

    def fence_writers(self) -> None:
        """Waits for every other change, and makes later writers read the ledger again first."""


class ChangeScope(NamedTuple):
    """The rows that a change may write or depend on, as far as its requests show."""

    names: Collection[str] = ()
    """Names that only one task or request may have."""
    tasks: Collection[str] = ()
    """Ids or aliases."""
    handoffs: Collection[str] = ()
    is_linking: bool = False
    """Whether it may add dependencies."""
    claims: int = 0
    """How many of the requests want any task that is ready."""


class SharedTransaction(Protocol):
    """A change of a ledger in which several processes change different tasks at once."""

    def prepare(self, scope: ChangeScope, on_decided: Callable[[], None]) -> None:
        """Waits for changes of the same names, tasks or graph, unless the change has begun with them.

        `on_decided` is called once the change is written and only its commit is left: then others may be decided.
        """


class SharedStore(Protocol):
    """Where a ledger is stored in which several processes change different tasks at once."""

    def write(self, ahead: ChangeScope | None = None) -> AbstractContextManager[Transaction]:
        """Opens a change; `ahead` is what it locks at once, so that `prepare` need not."""


class Store(Protocol):
    """Where the ledger is stored."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a change, alone among all writers; leaving it without an exception commits it."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a consistent snapshot for reading."""

    def note_progress(self, text: str) -> None:
        """Shows how far a long change has come, to the user and to those who wait for the lock."""

    def changes(self) -> int:
        """A number that changes whenever anybody changes something; cheap."""
