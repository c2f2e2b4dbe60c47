"""What the ledger asks of a store: events and the tables made from them, changed in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from remand.domain.events import Event
from remand.domain.instant import BEGINNING, Instant
from remand.domain.record import Record
from remand.domain.roles import Actor
from remand.domain.task import Status, Task
from remand.ledger.filings import Filing
from remand.ledger.missing_tables import MissingTable, RewrittenTable
from remand.ledger.objections import ObjectionTable
from remand.ledger.problems import Problem, TableDifference
from remand.ledger.record_tables import LogLines, Outdated
from remand.ledger.signatures import MAX_SEQ, Doubt, Group
from remand.ledger.traces import Trace

_MAX_TEXT = 200


class FileMark(NamedTuple):
    """A file as it was when it was read."""

    path: str
    size: int
    mtime: int
    inode: int


class Entry(NamedTuple):
    """An event on its way into the log: itself, its line, the task it belongs to (or none), and what is doubted."""

    event: Event
    line: bytes
    subject: str
    doubt: Doubt = Doubt.NONE
    signer: str = ""
    """The key that is said to have signed it, when that is doubted."""


class Unconfirmed(NamedTuple):
    """An event that is kept without effect, and why."""

    event_id: str
    task: str
    signer: str
    doubt: Doubt
    line: bytes


def as_unconfirmed(entry: Entry) -> Unconfirmed:
    """A doubted event as it is kept. Names that no file had to keep short are cut."""
    meta = entry.event.meta
    return Unconfirmed(meta.id, entry.subject[:_MAX_TEXT], entry.signer[:_MAX_TEXT], entry.doubt, entry.line)


class Head(Record, kw_only=True):
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


class KeptLine(NamedTuple):
    """An event's line as it is kept, with the task and the idempotency key under which it is found."""

    line: bytes
    subject: str
    key: str


class EventLog(Protocol):
    """The events, each known by its id."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Keeps the events that are not kept yet, and the traces they leave.

        One that is doubted is kept as unconfirmed: as the event of no task and no key, without a trace.
        """

    def count(self) -> int:
        """How many events there are."""

    def of_task(self, task_id: str) -> list[bytes]:
        """The lines of a task's events, in no order."""

    def of_key(self, key: str) -> list[bytes]:
        """The lines that an idempotency key led to, in their order."""

    def lines(self, session: str = "", first: int = 0) -> Iterator[bytes]:
        """Every line, session by session; with a session, all under its name from that number on.

        Whoever writes a file can give an event any session and number. Of several with one number, the groups tell
        which is the session's own.
        """

    def rows(self) -> Iterator[KeptLine]:
        """Every line, session by session, with the task and key under which it is found."""

    def at(self, session: str, seq: int) -> list[bytes]:
        """The lines that are kept as a session's nth event; several where it forked."""

    def drop(self, lines: Collection[bytes]) -> None:
        """Forgets lines that were damaged or changed."""

    def ids(self, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
        """The ids of a session's events with these numbers, in whichever version; without a session, of GoT tools' lines."""

    def remove(self, lines: Iterable[bytes]) -> None:
        """Forgets events by their lines. All tables are to be made anew."""

    def tail(self, count: int) -> list[bytes]:
        """At least the latest lines, in no order."""

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        """Gives lines of GoT tools that belong to no task yet to the task they turn out to belong to, if any."""


class SignedGroup(NamedTuple):
    """A group as it is kept: itself, its line, and why its signature does not count, if it does not."""

    group: Group
    line: bytes
    doubt: Doubt = Doubt.NONE


class GroupTable(Protocol):
    """The signed groups, each known by its line."""

    def add(self, groups: Iterable[SignedGroup]) -> None:
        """Keeps groups; one that is kept already gets the doubt that is given now."""

    def doubt(self, group: Group) -> Doubt | None:
        """Why a kept group does not count; None when it is not kept."""

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers, by their first."""

    def spans(self, session: str) -> list[tuple[int, int]]:
        """The first and last number of a session's groups that count, by their first."""

    def wrong(self, session: str) -> list[SignedGroup]:
        """A session's groups whose signature is wrong, by their first."""

    def of_task(self, task_id: str) -> list[SignedGroup]:
        """Those that name an event of a task, session by session."""

    def differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:
        """Of these, which are all: the tasks whose groups are not found by `of_task`, or that find others'."""

    def index(self) -> None:
        """Finds out anew which groups name which task. What is not as it was written is dropped."""

    def imports(self) -> list[SignedGroup]:
        """Those that name imported lines of GoT tools."""

    def every(self) -> Iterator[SignedGroup]:
        """All of them, session by session, by their first."""


class UnconfirmedTable(Protocol):
    """The events without effect, and the trust by which they were judged."""

    trust: str
    """As `Trust.text` says it; empty when nothing was judged yet."""
    writer: str
    """The id of the key that signs here, while the base does not trust it; empty when it does."""

    def every(self) -> list[Unconfirmed]:
        """All of them, in no order."""

    def of_task(self, task_id: str, most: int = -1) -> list[Unconfirmed]:
        """Those that name a task, in no order; no more than `most`."""

    def of_session(self, session: str, first: int, last: int) -> list[Unconfirmed]:
        """Those of a session with these numbers, in no order."""

    def verdict(self, entry: Entry) -> Doubt | None:
        """What is doubted about an event that is kept; None when it is not kept, and so was never judged."""

    def judge(self, entries: Iterable[Entry]) -> None:
        """Doubts events that are kept, or doubts them no more. Their tasks are to be folded anew.

        One that is doubted no more leaves its trace, and names its handoff. Where one is doubted that was not before,
        all tables are to be made anew.
        """


class TraceTable(Protocol):
    """The events about rejections and about what came of them, in brief."""

    def filings(self, since: Instant) -> Iterator[Filing]:
        """Every rejection filed since then, in no order, with what is known of it."""

    def every(self, *events: str) -> Iterator[Trace]:
        """The traces of events of these names, in no order."""

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        """The latest rejections an agent filed, newest first."""

    def latest(self, most: int) -> list[Trace]:
        """The rejections noted last, newest first."""

    def replace_all(self, traces: Iterable[Trace]) -> None:
        """Throws the traces away and keeps these."""

    def differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        """Where the traces that are kept are not these."""


class TaskTable(Protocol):
    """The tasks, folded."""

    def get(self, task_id: str) -> Task | None:
        """A task by its id."""

    def put(self, task: Task) -> None:
        """Keeps a task as it is now, in every table made from it."""

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        """Throws the tables away and makes them anew; each handoff comes with its task."""

    def differences(
        self, tasks: Mapping[str, Task], handoffs: Mapping[str, str]
    ) -> Iterator[TableDifference]:
        """Where the tables are not what `replace_all` would make of these."""

    def named(self, name: str) -> str:
        """The task an alias or a handoff belongs to; empty when there is none."""

    def every(self) -> Iterator[Task]:
        """All tasks, by id."""

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        """The statuses of tasks by id: of these, and perhaps of others."""

    def leading_to(self, task_id: str, most: int) -> list[Task]:
        """The tasks that wait for this one, were split into it, or were reformulated as it by a director's decision.

        They come by id, no more than `most`.
        """

    def sent_back(self) -> list[Task]:
        """The tasks of which work was rejected in a review, by id."""

    def handed_in(self, commit: str, pr: int) -> list[Task]:
        """The tasks whose last submission is a commit, or that have a pull request, by id."""

    def escalated(self) -> list[Task]:
        """The tasks that wait for the user, by id."""

    def active(self, status: Status, most: int = -1) -> list[Task]:
        """The tasks that are blocked, claimed, failed, provisional or rejected, by id; no more than `most`."""

    def count_active(self, status: Status) -> int:
        """How many of those there are."""

    def running(self) -> list[Task]:
        """The tasks that an agent's process is at work on, by id."""

    def with_outages(self) -> list[Task]:
        """The tasks for which a gate could not be measured, and that was not measured since, by id."""

    def with_errand(self, names: Collection[str]) -> list[Task]:
        """The tasks that have one of these errands on the forge (`domain/forging.errands`), by id."""

    def counts(self) -> Mapping[str, int]:
        """How many tasks there are of each status that any has."""


class NameTable(Protocol):
    """The names of everyone who has a part in a task, each found by its keys (`domain/names`)."""

    def having(self, key: str) -> list[str]:
        """The names with a key, sorted: spellings of one name, or names that look alike."""


class Queue(Protocol):
    """The ready set: what can be claimed, what is due, and what waits for what."""

    def next(self, agent: Actor, *, has_team: bool) -> str:
        """The first task in the queue's order that suits the agent; empty when there is none."""

    def due(self, now: Instant) -> list[str]:
        """The tasks with a lease, an offer or a wait that has ended."""

    def ready(self) -> list[str]:
        """Every task that could be claimed, in the queue's order."""

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        """What the task still waits for; a dependency that closes a circle does not count."""

    def path(self, source: str, target: str) -> tuple[str, ...]:
        """How `source` comes to wait for `target`; empty when it does not."""


class RejectedTasks(Protocol):
    """The tasks that were ever rejected, by an agent or a reviewer, found by the words of `app/words`."""

    def count(self) -> int:
        """How many there are."""

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        """In how many of them each word stands; words that stand in none are left out."""

    def sharing(self, weights: Mapping[str, float], most: int) -> list[Task]:
        """Those that share the most weight with these words; a bounded search, by the rarest words first."""


class FileBook(Protocol):
    """Which event files were read, and what was wrong with them."""

    def marks(self) -> dict[str, FileMark]:
        """Every file that was read, as it was then."""

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        """Remembers that a file was read, and what was wrong with it."""

    def problems(self) -> list[Problem]:
        """Everything that was wrong with the files."""

    def hold_back(self, event: Event, line: bytes) -> None:
        """Keeps an event from too far ahead aside, without effect."""

    def held(self) -> list[bytes]:
        """The lines held back, in no order."""

    def earliest_held(self) -> Instant:
        """The earliest time held back; empty when there is none."""

    def held_ids(self) -> set[str]:
        """The ids of the events that are held back."""

    def ripe(self, horizon: Instant) -> list[bytes]:
        """Takes out the lines held back whose time has come near enough."""


class Transaction(Protocol):
    """One change of the ledger: all of it happens, or nothing."""

    events: EventLog
    groups: GroupTable
    unconfirmed: UnconfirmedTable
    missing: MissingTable
    rewritten: RewrittenTable
    objections: ObjectionTable
    traces: TraceTable
    tasks: TaskTable
    names: NameTable
    queue: Queue
    rejected: RejectedTasks
    files: FileBook
    outdated: Outdated
    log_lines: LogLines
    head: Head

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """What to take back outside the store, should the change not come to be."""


class Store(Protocol):
    """Where the ledger lives."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a change, alone among all writers; leaving it without an error makes it so."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a view of one moment."""

    def changes(self) -> int:
        """A number that is another one once anybody has changed something; it costs next to nothing."""
