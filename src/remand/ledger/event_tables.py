"""What the ledger needs of a store for events: log, groups, unconfirmed and missing lines, objections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
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
    """A file's state when it was read."""

    path: str
    size: int
    mtime: int
    inode: int


class EventEntry(NamedTuple):
    """An event to be added to the log: itself, its line, its task (or none), and what is doubted."""

    event: Event
    line: bytes
    subject: str
    doubt: Doubt = Doubt.NONE
    signer: str = ""
    """The key that allegedly signed it, if that is doubted."""


NO_DOUBT = Doubt.NONE
new_entry: Callable[[tuple[Event, bytes, str, Doubt, str]], EventEntry] = partial(tuple.__new__, EventEntry)
"""Makes an entry of all its values, faster than its class."""


class UnconfirmedEvent(NamedTuple):
    """An event that is stored without effect, and why."""

    event_id: str
    task: str
    signer: str
    doubt: Doubt
    line: bytes


def as_unconfirmed(entry: EventEntry) -> UnconfirmedEvent:
    """A doubted event in the form in which it is stored. Cuts names whose length no file had to limit."""
    meta = entry.event.meta
    return UnconfirmedEvent(
        meta.id, entry.subject[:_MAX_TEXT], entry.signer[:_MAX_TEXT], entry.doubt, entry.line
    )


class KeptLine(NamedTuple):
    """A stored event's line, with the task and the idempotency key under which it is found."""

    line: bytes
    subject: str
    key: str


class EventTable(Protocol):
    """The events, each identified by its id."""

    def add(self, entries: Sequence[EventEntry]) -> None:
        """Adds the events that are not stored yet, and their traces.

        Stores a doubted event as unconfirmed: under no task and no key, without a trace.
        """

    def count(self, task_id: str = "") -> int:
        """The number of events; with a task, of its events and of the groups that name it."""

    def of_task(self, task_id: str, beside: Collection[str] = ()) -> list[bytes]:
        """The lines of a task's events, in any order. `beside` names tasks that are asked for next: one read may do for all."""

    def of_key(self, key: str) -> list[bytes]:
        """The lines that the command with an idempotency key wrote, in order."""

    def lines(self, session: str | None = None, first: int = 0, last: int = MAX_SEQ) -> Iterator[bytes]:
        """Every line, session by session; or those that name one session and these numbers.

        Lines of GoT tools have an empty session and no numbers. Whoever writes a file can put any session and
        number into an event. If several lines have the same number, the groups tell which is the session's
        own.
        """


class EventRows(Protocol):
    """The rows of events, for rebuilding the tables or for reading only the newest."""

    def rows(
        self,
        *,
        kind: type[Event] | None = None,
        lines: Collection[bytes] | None = None,
        have_task: bool | None = None,
    ) -> Iterator[KeptLine]:
        """Every line, session by session, with the task and key under which it is found.

        With a kind, only those that may be of it, by how they begin; with lines, only those, in any order. If they
        have a task: task by task by its id, those of one in any order; if not, those of no task, in any order.
        """

    def drop(self, lines: Collection[bytes]) -> None:
        """Removes lines that were damaged or changed."""

    def remove(self, lines: Iterable[bytes]) -> None:
        """Removes events by their lines. All tables must be rebuilt afterwards."""

    def tail(self, count: int) -> list[bytes]:
        """At least the latest lines, in any order."""

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        """Assigns lines of GoT tools without a task to the task they turn out to belong to, if any."""


class SignedGroup(NamedTuple):
    """A stored group: itself, its line, and the reason if its signature does not count."""

    group: EventGroup
    line: bytes
    doubt: Doubt = Doubt.NONE


class GroupTable(Protocol):
    """The signed groups, each identified by its line."""

    def add(self, groups: Iterable[SignedGroup]) -> None:
        """Adds groups; updates the doubt of those already stored."""

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers, by their first number."""

    def of_task(self, task_id: str) -> list[SignedGroup]:
        """The groups that name an event of a task, session by session."""

    def imports(self) -> list[SignedGroup]:
        """The groups that name imported lines of GoT tools."""

    def every(self) -> Iterator[SignedGroup]:
        """All groups, session by session, by their first number. Their lines are examined again."""


class GroupDoubts(Protocol):
    """Which of the signed groups count."""

    def doubts(self, groups: Iterable[tuple[EventGroup, bytes]]) -> dict[EventGroup, Doubt]:
        """Why each of these stored groups does not count, by group."""

    def count(self, session: str, first: int, last: int) -> int:
        """How many of a session's groups name one of these numbers."""

    def lines(self, *, are_sound: bool = False) -> Iterator[bytes]:
        """The lines of all groups, in any order; or of those that count, session by session, by their first number."""

    def sound_spans(self, session: str, since: int = 0) -> list[tuple[int, int]]:
        """The first and last number of each of a session's groups that count and end there or later, by the first."""

    def wrongly_signed(self, session: str) -> list[SignedGroup]:
        """A session's groups with a wrong signature, by their first number."""


class UnconfirmedTable(Protocol):
    """The events without effect, and the trust by which they were judged."""

    trust: str
    base: str
    """The tip of the base that has this trust, where several machines judge; empty when nobody has said."""
    """As in `Trust.text`; empty if nothing was judged yet."""
    writer: str
    """The id of the key that signs here, if the base does not trust it; else empty."""

    def every(self) -> list[UnconfirmedEvent]:
        """All of them, in any order."""

    def of_task(self, task_id: str, most: int = -1) -> list[UnconfirmedEvent]:
        """Those that name a task, in any order; at most `most`."""

    def of_session(self, session: str, first: int, last: int) -> list[UnconfirmedEvent]:
        """Those of a session with these numbers, in any order."""

    def verdict(self, entry: EventEntry) -> Doubt | None:
        """The doubt of a stored event; None if it is not stored, and so was never judged."""

    def judge(self, entries: Iterable[EventEntry]) -> None:
        """Updates the doubts of stored events. Their tasks must be folded again.

        An event that is no longer doubted leaves its trace, and names its handoff. If one is newly doubted,
        all tables must be rebuilt.
        """


class TraceTable(Protocol):
    """Short records of the events about rejections and what followed."""

    def filed_rejections(self, since: Instant) -> Iterator[FiledRejection]:
        """Every rejection filed since then, in any order, with what is known about it."""

    def every(self, *events: str) -> Iterator[Trace]:
        """The traces of events with these names, in any order."""

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        """The latest rejections that an agent filed, newest first."""

    def latest(self, most: int) -> list[Trace]:
        """The latest rejections, newest first."""

    def replace_all(self, traces: Iterable[Trace]) -> None:
        """Replaces all traces by these."""


class FileTable(Protocol):
    """Which event files were read, and what was wrong with them."""

    place: str
    """Up to where files were read, for another change to continue; empty if the tables have all that was read."""

    def marks(self) -> dict[str, FileMark]:
        """Every file that was read, with its state at that time."""

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        """Records that a file was read, and its problems."""

    def problems(self) -> list[Problem]:
        """All problems of the files."""


class HeldEvents(Protocol):
    """The events with times too far ahead: stored without effect until their time has come near."""

    def add(self, event: Event, line: bytes) -> None:
        """Holds an event back."""

    def lines(self) -> list[bytes]:
        """The lines held back, in any order."""

    def earliest(self) -> Instant:
        """The earliest time held back; empty if there is none."""

    def ids(self) -> set[str]:
        """The ids of the events held back."""

    def take_due(self, horizon: Instant) -> list[bytes]:
        """Removes and returns the lines whose time has come near enough."""


class MissingTable(Protocol):
    """The lines of the log that are known to be missing and were not given up (`app/events/missing_lines`)."""

    archives_here: str
    """The hashes of the archives whose files were all read, separated by spaces."""

    def replace(self, missing: Mapping[str, Iterable[MissingLines]]) -> None:
        """Replaces what is missing of each session, and determines which of it are faults.

        The others are lines of tasks of which nothing is here.
        """

    def drop(self, ids: Iterable[str]) -> None:
        """Removes events that have arrived."""

    def every(self, session: str | None = None) -> list[MissingLines]:
        """Everything missing, session by session; or of one session, by number."""

    def of_tasks(self, tasks: Collection[str]) -> list[MissingLines]:
        """What is missing of these tasks, or of an unknown task."""

    def faults(self) -> list[MissingLines]:
        """Those that are faults."""


class RewrittenLine(NamedTuple):
    """A line that a published event file had once, and now lacks or has changed."""

    commit: str
    """The commit on the base that removed it; empty if only the file here lacks it."""
    file: str
    line: int
    hash: str
    """A hash that identifies the line."""


class RewrittenTable(Protocol):
    """Published lines that are gone from their files, and up to where the base's history was checked."""

    looked_at: str
    """The ref of the base and its commit at that time; empty if nothing was checked."""

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        """Adds lines that are gone."""

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        """Removes lines that are back, or were given up."""

    def every(self) -> list[RewrittenLine]:
        """All of them, by file and line."""


MAX_OBJECTIONS = 5000
"""How many objections to one task are shown at most, the latest first.

That is far more than a user can have answered one by one, so an objection that waits for an answer is among
them: an answer to all keys covers everything said before it.
"""
_UNTRUSTED = (Doubt.UNKNOWN_SIGNER, Doubt.REVOKED)
"""The doubts about events whose key is not trusted: never, or not any more."""


class KeptObjection(NamedTuple):
    """What an untrusted key says against one piece of work on a task (`domain/objection`)."""

    signer: str
    work: str
    at: Instant
    """The latest time of its events."""
    events: int
    """How many events say so."""
    place: int
    """Where the first of them is stored; earlier ones have lower numbers."""


class ObjectionRow(NamedTuple):
    """One event that is an objection."""

    task: str
    signer: str
    work: str
    at: Instant


def as_objection(event: Event, task: str, doubt: Doubt, signer: str) -> ObjectionRow | None:
    """The objection that an event expresses; None if it is none."""
    work = objected_work(event) if doubt in _UNTRUSTED and task else None
    if work is None:
        return None
    return ObjectionRow(task[:_MAX_TEXT], signer[:_MAX_TEXT], work[:_MAX_TEXT], event.ts)


class ObjectionTable(Protocol):
    """The objections among the unconfirmed events with an untrusted key. They are added and removed with those."""

    def tasks(self) -> list[Task]:
        """The open tasks with objections, by id."""

    def keys(self, task_id: str) -> list[KeptObjection]:
        """The keys that object to a task, each with everything it said, latest first (`MAX_OBJECTIONS`)."""

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        """Objections to these works, or of this key, or both: one for each key and work, latest first."""

    def line(self, place: int) -> bytes:
        """The line of the event that is stored there."""
