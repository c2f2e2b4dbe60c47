"""What the ledger asks of a store: transactions, tasks, names, the ready queue and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from remand.domain.access.team import Actor
from remand.domain.instant import BEGINNING, Instant
from remand.domain.record import NamedTuple, Record
from remand.domain.task import Status, Task
from remand.ledger import event_tables as tables
from remand.ledger.event_tables import SignedGroup
from remand.ledger.problems import TableDifference
from remand.ledger.traces import Trace


class LogLine(NamedTuple):
    """A line of the orchestration log, and where it stands: its time first, whatever else tells it apart after."""

    place: str
    text: str


class OutdatedTasks(Protocol):
    """The tasks whose files are not as the ledger has it."""

    mark: str
    """How the folders of those files were left; empty when they were never written."""
    log_mark: str
    """Where the last line of the orchestration log stands, and how its file was left; empty when that is not known."""

    def note(self, task_id: str = "") -> None:
        """Has a task's files made again; without a task, all files."""

    def every(self) -> list[str]:
        """The tasks that were noted; the empty name stands for all."""

    def notes(self) -> list[str]:
        """What was noted, each time by itself: who makes the files forgets these, and no later ones."""

    def clear(self, notes: Sequence[str] | None = None) -> None:
        """Forgets notes, or all: the files are as the ledger has it."""


class LogLineTable(Protocol):
    """The lines of the orchestration log, each known by its task and its place."""

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        """Replaces a task's lines; the days that had or have one of them."""

    def of_task(self, task_id: str) -> list[LogLine]:
        """A task's lines, in their order."""

    def day(self, day: str) -> list[str]:
        """The lines of a day, in their order."""

    def days(self) -> list[str]:
        """The days that have lines."""

    def clear(self) -> None:
        """Throws all lines away."""


class LedgerHead(Record, kw_only=True):
    """How far the ledger's own session has come, and the segment it is written to."""

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
    """When the segment's file was last changed, in nanoseconds of its file system; 0 when that is not known."""
    chain: str = ""
    """The value of the session's chain after its last event (`ledger/signatures`)."""
    key: str = ""
    """The id of the key that signs this session; empty before the first signature."""
    project: str = ""
    """The project that the session's signatures are for."""
    bounded_from: Instant = BEGINNING
    """The ledger's clock when it first knew `policy.clock_skew`: events up to then may be a day ahead."""


class TaskTable(Protocol):
    """The tasks, folded."""

    def get(self, task_id: str) -> Task | None:
        """A task by its id."""

    def put(self, task: Task) -> None:
        """Keeps a task as it is now, in every table made from it."""

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        """Throws the tables away and recreates them; each handoff comes with its task."""

    def every(self) -> Iterator[Task]:
        """All tasks, by id."""

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        """The statuses of tasks by id: of these, and perhaps of others."""


class TaskFilter(Record, kw_only=True):
    """Which tasks a page is to show; what is empty asks for nothing."""

    statuses: tuple[str, ...] = ()
    """Any of these."""
    agent: str = ""
    """Who holds the task, or has submitted what is under review."""
    skill: str = ""
    """A skill that the task asks for."""
    text: str = ""
    """Words that stand in its id, its title or an alias, small or capital."""


class TaskPages(Protocol):
    """The tasks as people look at them: a page at a time, or those that wait for somebody."""

    def page(self, wanted: TaskFilter, most: int, after: str = "") -> list[Task]:
        """The first tasks by id that are wanted, no more than `most` (-1: all), of those behind the id `after`."""

    def waiting_tasks(self) -> list[Task]:
        """Every task that a person may have to decide about: escalated, blocked, held, or with an alert; and few others."""


class TaskLists(Protocol):
    """The tasks that somebody has to look at or do something about, each list by id."""

    pages: TaskPages

    def with_status(self, status: Status, most: int = -1) -> list[Task]:
        """The tasks of a status, no more than `most`."""

    def running_tasks(self) -> list[Task]:
        """The tasks that an agent's process is at work on."""

    def rejected_in_review(self) -> list[Task]:
        """The tasks of which work was rejected in a review."""

    def with_outages(self) -> list[Task]:
        """The tasks for which a gate could not be measured, and that was not measured since."""

    def with_due(self, names: Collection[str]) -> list[Task]:
        """The tasks that may have one of these due on the forge (`domain/decisions/forge_actions.due_kinds`)."""


class NameTable(Protocol):
    """What is found by another name than its id: tasks by alias, handoff, commit or pull request, and people."""

    def find_task_id(self, name: str) -> str:
        """The task an alias or a handoff belongs to; empty when there is none."""

    def ids_with_end(self, end: str, *, are_handoffs: bool = False) -> list[str]:
        """The first few ids of tasks, or of handoffs, that end so, sorted."""

    def find_submitted(self, commit: str, pr: int) -> list[Task]:
        """The tasks whose last submission is a commit, or that have a pull request, by id."""

    def names_with_key(self, key: str) -> list[str]:
        """Of everyone who has a part in a task, the names with a key (`lookup_keys`), sorted.

        They are spellings of one name, or names that look alike.
        """

    def is_new_handoff(self, name: str) -> bool:
        """True when no handoff has an id that was just made up; where that is found out later, the change fails then."""


class ReadyQueue(Protocol):
    """The ready set: what can be claimed, what is due, and how many tasks there are."""

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """The first task in the queue's order that suits the agent; empty when there is none."""

    def due(self, now: Instant) -> list[str]:
        """The tasks with a lease, an offer or a wait that has ended."""

    def ready(self) -> list[str]:
        """Every task that could be claimed, in the queue's order."""

    def count(self, status: Status | None = None) -> int:
        """How many tasks have a status, or could be claimed; no task is read for it."""

    def counts(self) -> Mapping[str, int]:
        """How many tasks there are of each status that any has."""


class Dependencies(Protocol):
    """Which task waits for which."""

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        """What the task still waits for; a dependency that closes a circle does not count."""

    def path(self, source: str, target: str) -> tuple[str, ...]:
        """How `source` comes to wait for `target`; empty when it does not."""

    def predecessors(self, task_id: str, most: int) -> list[Task]:
        """The tasks that wait for this one, were split into it, or were reformulated as it by a director's decision.

        They come by id, no more than `most`.
        """


class RejectedTaskTable(Protocol):
    """The tasks that were ever rejected, by an agent or a reviewer, found by the words of `app/words`."""

    def count(self) -> int:
        """How many there are."""

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        """In how many of them each word stands; words that stand in none are left out."""

    def most_similar(self, weights: Mapping[str, float], most: int) -> list[Task]:
        """Those that share the most weight with these words; a bounded search, by the rarest words first."""


class TableAudit(Protocol):
    """Compares the tables with what the events make of them, for `remand log verify` and `repair`."""

    def task_differences(
        self, tasks: Mapping[str, Task], handoffs: Mapping[str, str]
    ) -> Iterator[TableDifference]:
        """Where the tables are not what `TaskTable.replace_all` would make of these. The tasks' order means nothing."""

    def trace_differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        """Where the traces that are kept are not these."""

    def group_differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:
        """Of these, which are all: the tasks whose groups are not found by `GroupTable.of_task`, or that find others'."""

    def reindex_groups(self) -> None:
        """Finds out anew which groups name which task. Rows that are not as they were written are dropped."""


class Transaction(Protocol):
    """One change of the ledger: all of it happens, or nothing."""

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
        """What to take back outside the store, should the change not come to be."""

    def fence_writers(self) -> None:
        """Waits for every other change, and has whoever writes after this one look at the ledger anew before."""


class SharedTransaction(Protocol):
    """A change of a ledger that several processes change at once, each other tasks."""

    def prepare(
        self,
        names: Iterable[str],
        tasks: Collection[str],
        handoffs: Collection[str],
        *,
        is_linking: bool,
        claims: int,
        on_decided: Callable[[], None],
    ) -> None:
        """Waits for whoever changes the same: what names stand for, tasks by id or alias, or by handoff, the graph.

        `claims` tells how many want any task that is ready. `on_decided` is called once the change is written and its commit is all that is left: others may be decided then.
        """


class Store(Protocol):
    """Where the ledger lives."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a change, alone among all writers; leaving it without an error makes it so."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a view of one moment."""

    def note_progress(self, text: str) -> None:
        """Shows how far a long change has come, to the user and to those who wait for the lock."""

    def changes(self) -> int:
        """A number that is another one once anybody has changed something; it costs next to nothing."""
