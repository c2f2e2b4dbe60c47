"""What the ledger asks of a store about events: log, groups, unconfirmed and missing lines, objections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from remand.domain.decisions.objections import objected_work
from remand.domain.events.event import Event
from remand.domain.events.log import MissingLines
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger.problems import Problem
from remand.ledger.signatures import MAX_SEQ, Doubt, EventGroup
from remand.ledger.traces import FiledRejection, Trace

_MAX_TEXT = 200


class FileMark(NamedTuple):
    """A file as it was when it was read."""

    path: str
    size: int
    mtime: int
    inode: int


class EventEntry(NamedTuple):
    """An event on its way into the log: itself, its line, the task it belongs to (or none), and what is doubted."""

    event: Event
    line: bytes
    subject: str
    doubt: Doubt = Doubt.NONE
    signer: str = ""
    """The key that is said to have signed it, when that is doubted."""


class UnconfirmedEvent(NamedTuple):
    """An event that is kept without effect, and why."""

    event_id: str
    task: str
    signer: str
    doubt: Doubt
    line: bytes


def as_unconfirmed(entry: EventEntry) -> UnconfirmedEvent:
    """A doubted event as it is kept. Names that no file had to keep short are cut."""
    meta = entry.event.meta
    return UnconfirmedEvent(
        meta.id, entry.subject[:_MAX_TEXT], entry.signer[:_MAX_TEXT], entry.doubt, entry.line
    )


class KeptLine(NamedTuple):
    """An event's line as it is kept, with the task and the idempotency key under which it is found."""

    line: bytes
    subject: str
    key: str


class EventTable(Protocol):
    """The events, each known by its id."""

    def add(self, entries: Sequence[EventEntry]) -> None:
        """Keeps the events that are not kept yet, and the traces they leave.

        One that is doubted is kept as unconfirmed: as the event of no task and no key, without a trace.
        """

    def count(self) -> int:
        """How many events there are."""

    def of_task(self, task_id: str) -> list[bytes]:
        """The lines of a task's events, in no order."""

    def of_key(self, key: str) -> list[bytes]:
        """The lines that an idempotency key led to, in their order."""

    def lines(self, session: str | None = None, first: int = 0, last: int = MAX_SEQ) -> Iterator[bytes]:
        """Every line, session by session; or those under the name of one session with these numbers.

        Lines of GoT tools have an empty session and no numbers. Whoever writes a file can give an event any session and
        number. Of several with one number, the groups tell which is the session's own.
        """


class EventRows(Protocol):
    """The rows that events are kept in, for whoever recreates the tables or looks at the newest alone."""

    def rows(self) -> Iterator[KeptLine]:
        """Every line, session by session, with the task and key under which it is found."""

    def drop(self, lines: Collection[bytes]) -> None:
        """Forgets lines that were damaged or changed."""

    def remove(self, lines: Iterable[bytes]) -> None:
        """Forgets events by their lines. All tables are to be recreated."""

    def tail(self, count: int) -> list[bytes]:
        """At least the latest lines, in no order."""

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        """Gives lines of GoT tools that belong to no task yet to the task they turn out to belong to, if any."""


class SignedGroup(NamedTuple):
    """A group as it is kept: itself, its line, and why its signature does not count, if it does not."""

    group: EventGroup
    line: bytes
    doubt: Doubt = Doubt.NONE


class GroupTable(Protocol):
    """The signed groups, each known by its line."""

    def add(self, groups: Iterable[SignedGroup]) -> None:
        """Keeps groups; one that is kept already gets the doubt that is given now."""

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers, by their first."""

    def of_task(self, task_id: str) -> list[SignedGroup]:
        """Those that name an event of a task, session by session."""

    def imports(self) -> list[SignedGroup]:
        """Those that name imported lines of GoT tools."""

    def every(self) -> Iterator[SignedGroup]:
        """All of them, session by session, by their first."""


class GroupDoubts(Protocol):
    """Which of the signed groups count."""

    def doubts(self, groups: Iterable[tuple[EventGroup, bytes]]) -> dict[EventGroup, Doubt]:
        """Of the groups that are kept, by themselves and their lines, why each does not count."""

    def count(self, session: str, first: int, last: int) -> int:
        """How many of a session's groups name one of these numbers."""

    def lines(self) -> Iterator[bytes]:
        """The lines of all groups, in no order."""

    def sound_spans(self, session: str) -> list[tuple[int, int]]:
        """The first and last number of a session's groups that count, by their first."""

    def wrongly_signed(self, session: str) -> list[SignedGroup]:
        """A session's groups whose signature is wrong, by their first."""


class UnconfirmedTable(Protocol):
    """The events without effect, and the trust by which they were judged."""

    trust: str
    base: str
    """The tip of the base that has this trust, where several machines judge; empty when nobody has said."""
    """As `Trust.text` says it; empty when nothing was judged yet."""
    writer: str
    """The id of the key that signs here, while the base does not trust it; empty when it does."""

    def every(self) -> list[UnconfirmedEvent]:
        """All of them, in no order."""

    def of_task(self, task_id: str, most: int = -1) -> list[UnconfirmedEvent]:
        """Those that name a task, in no order; no more than `most`."""

    def of_session(self, session: str, first: int, last: int) -> list[UnconfirmedEvent]:
        """Those of a session with these numbers, in no order."""

    def verdict(self, entry: EventEntry) -> Doubt | None:
        """What is doubted about an event that is kept; None when it is not kept, and so was never judged."""

    def judge(self, entries: Iterable[EventEntry]) -> None:
        """Doubts events that are kept, or doubts them no more. Their tasks are to be folded anew.

        One that is doubted no more leaves its trace, and names its handoff. Where one is doubted that was not before,
        all tables are to be recreated.
        """


class TraceTable(Protocol):
    """The events about rejections and about what came of them, in brief."""

    def filed_rejections(self, since: Instant) -> Iterator[FiledRejection]:
        """Every rejection filed since then, in no order, with what is known of it."""

    def every(self, *events: str) -> Iterator[Trace]:
        """The traces of events of these names, in no order."""

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        """The latest rejections an agent filed, newest first."""

    def latest(self, most: int) -> list[Trace]:
        """The rejections noted last, newest first."""

    def replace_all(self, traces: Iterable[Trace]) -> None:
        """Throws the traces away and keeps these."""


class FileTable(Protocol):
    """Which event files were read, and what was wrong with them."""

    place: str
    """How far files were read in that another change continues with; empty when the tables have all that was read."""

    def marks(self) -> dict[str, FileMark]:
        """Every file that was read, as it was then."""

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        """Remembers that a file was read, and what was wrong with it."""

    def problems(self) -> list[Problem]:
        """Everything that was wrong with the files."""


class HeldEvents(Protocol):
    """The events from too far ahead: kept without effect until their time has come near."""

    def add(self, event: Event, line: bytes) -> None:
        """Holds an event back."""

    def lines(self) -> list[bytes]:
        """The lines held back, in no order."""

    def earliest(self) -> Instant:
        """The earliest time held back; empty when there is none."""

    def ids(self) -> set[str]:
        """The ids of the events that are held back."""

    def take_due(self, horizon: Instant) -> list[bytes]:
        """Takes out the lines held back whose time has come near enough."""


class MissingTable(Protocol):
    """The lines of the log that are known to be missing and were not given up (`app/events/missing_lines`)."""

    archives_here: str
    """The hashes of the archives whose files were all read in, with spaces between them."""

    def replace(self, missing: Mapping[str, Iterable[MissingLines]]) -> None:
        """Keeps these as what is missing of each session, and finds out which of all are faults.

        The others are lines of tasks of which nothing is here.
        """

    def drop(self, ids: Iterable[str]) -> None:
        """Forgets events that have come."""

    def every(self, session: str | None = None) -> list[MissingLines]:
        """All that is missing, session by session; or what is missing of one, by its numbers."""

    def of_tasks(self, tasks: Collection[str]) -> list[MissingLines]:
        """What is missing of one of these tasks, or of nobody knows which."""

    def faults(self) -> list[MissingLines]:
        """Those that are faults."""


class RewrittenLine(NamedTuple):
    """A line that a published event file had once, and has no more or not as it was."""

    commit: str
    """The commit on the base that took it away; empty when only the file here lacks it."""
    file: str
    line: int
    hash: str
    """What tells the line from others."""


class RewrittenTable(Protocol):
    """Published lines that are gone from their files, and how far the base's history was looked at."""

    looked_at: str
    """The ref of the base and its commit then; empty when nothing was looked at."""

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        """Keeps lines that were found."""

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        """Forgets lines that are there again, or were given up."""

    def every(self) -> list[RewrittenLine]:
        """All of them, by file and line."""


MAX_OBJECTIONS = 5000
"""How many objections to one task are told at most, the latest.

It is far more than the user can have answered one by one, so that one which waits for an answer is among them: an answer
to all keys is to everything that was said until then.
"""
_UNTRUSTED = (Doubt.UNKNOWN_SIGNER, Doubt.REVOKED)
"""What is doubted of events whose key is not trusted: never, or not any more."""


class KeptObjection(NamedTuple):
    """What a key that is not trusted says against one piece of work on a task (`domain/objection`)."""

    signer: str
    work: str
    at: Instant
    """The latest time that its events have."""
    events: int
    """How many events say so."""
    place: int
    """Where the first of them is kept: those that came earlier have lower ones."""


class ObjectionRow(NamedTuple):
    """One event that is an objection."""

    task: str
    signer: str
    work: str
    at: Instant


def as_objection(event: Event, task: str, doubt: Doubt, signer: str) -> ObjectionRow | None:
    """An event as the objection that it is; None when it is none."""
    work = objected_work(event) if doubt in _UNTRUSTED and task else None
    if work is None:
        return None
    return ObjectionRow(task[:_MAX_TEXT], signer[:_MAX_TEXT], work[:_MAX_TEXT], event.ts)


class ObjectionTable(Protocol):
    """The noes among the unconfirmed events whose key is not trusted. They come and go with those."""

    def tasks(self) -> list[Task]:
        """The tasks that have some and have not ended, by id."""

    def keys(self, task_id: str) -> list[KeptObjection]:
        """The keys that object to a task, each with all that it said, the latest first (`MAX_OBJECTIONS`)."""

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        """Those to these works, or of this key, or both: one for each key and work, the latest first."""

    def line(self, place: int) -> bytes:
        """The line of the event that is kept there."""
