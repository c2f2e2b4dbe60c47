"""The events of the embedded ledger: lines, signed groups, unconfirmed events and traces."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain
from operator import itemgetter

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_schema import Row, Statements, StoredText, Table
from remand.domain.events.event import Event
from remand.domain.events.tasks import HandoffInitiated, TaskClaimed
from remand.domain.instant import Instant
from remand.ledger import codec, signatures
from remand.ledger.event_tables import (
    EventEntry,
    KeptLine,
    SignedGroup,
    UnconfirmedEvent,
    as_objection,
    as_unconfirmed,
)
from remand.ledger.problems import BadLine
from remand.ledger.signatures import MAX_GROUP, MAX_SEQ, VOID, Doubt, EventGroup
from remand.ledger.traces import ARCHIVED, REPAIRED, TRACED, FiledRejection, Trace, trace_event

_FEW = 100
"""Up to so many groups or events are added one by one."""
_ADD_GROUP = """
INSERT INTO signed_group(session, first, last, hash, doubt, line) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT(session, first, hash) DO UPDATE SET doubt = excluded.doubt RETURNING n
"""
_ADD_NEW_GROUP = (
    "INSERT INTO signed_group(n, session, first, last, hash, doubt, line) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_LAST_GROUP = "SELECT ifnull(max(n), 0) FROM signed_group"
_HAS_GROUPS = "SELECT 1 FROM signed_group WHERE session = ? AND first BETWEEN ? AND ? LIMIT 1"
_DOUBTS_OF_GROUPS = """
SELECT hash, doubt FROM signed_group WHERE session = ? AND first IN (SELECT value FROM json_each(?))
"""
_COUNT_GROUPS = f"""
SELECT (SELECT count(*) FROM signed_group WHERE session = ?1 AND first BETWEEN ?2 AND ?3) + (
    SELECT count(*) FROM signed_group WHERE session = ?1 AND first BETWEEN ?2 - {MAX_GROUP} AND ?2 - 1 AND last >= ?2
)
"""  # noqa: S608 - a number of ours
ADD_GROUP_TASK = "INSERT OR IGNORE INTO group_task VALUES (?, ?)"
_LARGE_GROUP, _MOST_KNOWN = 16, 64
"""From how many events on a group is cached in memory, and how many such groups are."""
_WRONG_GROUPS = """
SELECT line, doubt FROM signed_group WHERE session = ? AND doubt = 'wrong_signature' ORDER BY first
"""
_GROUPS = "SELECT line, doubt FROM signed_group ORDER BY session, first"
_GROUP_LINES = "SELECT CAST(line AS BLOB) FROM signed_group"
_SOUND_LINES = f"{_GROUP_LINES} WHERE doubt = '' ORDER BY session, first"
_IMPORT_GROUPS = """
SELECT line, doubt FROM signed_group WHERE session BETWEEN 'import-' AND 'import-~' ORDER BY session, first
"""
_GROUPS_OF_SESSION = f"""
SELECT line, doubt FROM signed_group WHERE session = ?1 AND first BETWEEN ?2 - {MAX_GROUP} AND ?3 AND last >= ?2
ORDER BY first
"""  # noqa: S608 - a number of ours
_SPANS = f"""
SELECT first, last FROM signed_group WHERE session = ?1 AND first > ?2 - {MAX_GROUP} AND last >= ?2
AND doubt = '' AND typeof(first) = 'integer' AND typeof(last) = 'integer' ORDER BY first
"""  # noqa: S608 - a number of ours


known_groups: dict[bytes, tuple[EventGroup, bytes]] = {}
"""Large groups by the hashes of their lines: one is read for each of its tasks."""


class SqliteGroups(Table):
    """The signed groups."""

    def add(self, groups: Iterable[SignedGroup]) -> None:
        groups = list(groups)
        if len(groups) > _FEW:
            known = self.doubts((one.group, one.line) for one in groups)
            self._add_new([one for one in groups if one.group not in known])
            groups = [one for one in groups if one.group in known]
        for group, line, doubt in groups:
            row = (group.session, group.first, group.last, sha256(line).digest(), doubt.value, line)
            n = self._db.value(_ADD_GROUP, row)
            self._db.run_many(ADD_GROUP_TASK, [(task, n) for task in named_tasks(group)])

    def _add_new(self, groups: Sequence[SignedGroup]) -> None:
        """Adds new groups all at once."""
        start = self._db.value(_LAST_GROUP) + 1
        self._db.run_many(
            _ADD_NEW_GROUP,
            [
                (n, group.session, group.first, group.last, sha256(line).digest(), doubt.value, line)
                for n, (group, line, doubt) in enumerate(groups, start)
            ],
        )
        # In the order of the table, the rows of a task are on few pages.
        tasks = sorted((task, n) for n, one in enumerate(groups, start) for task in named_tasks(one.group))
        self._db.run_many(ADD_GROUP_TASK, tasks)

    def of_task(self, task_id: str) -> list[SignedGroup]:
        rows = self.rows_of_task(task_id)
        found = ((self._known_group(n, digest), doubt) for n, digest, doubt in rows)
        return [SignedGroup(group[0], group[1], _as_group_doubt(doubt)) for group, doubt in found if group]

    def rows_of_task(self, task_id: str) -> list[Row]:
        """Number, hash and doubt of the groups that name a task."""
        return self._db.all(sql.GROUPS_OF_TASK, (task_id,))

    def group_rows(self, n: int) -> list[Row]:
        """Line and doubt of a group by its number."""
        return self._db.all(sql.GROUP_AT, (n,))

    def _known_group(self, n: int, digest: bytes) -> tuple[EventGroup, bytes] | None:
        """A group by its number, from the cache if it was read before and is large.

        None if its line was damaged: then it covers nothing.
        """
        known = known_groups.get(digest)
        if known is None:
            read = next(_groups(self.group_rows(n)), None)
            known = read[:2] if read else None
            if known and len(known[0].events) > _LARGE_GROUP:
                if len(known_groups) >= _MOST_KNOWN:
                    known_groups.clear()
                known_groups[digest] = known
        return known

    def doubts(self, groups: Iterable[tuple[EventGroup, bytes]]) -> dict[EventGroup, Doubt]:
        sessions: dict[str, list[tuple[EventGroup, bytes]]] = defaultdict(list)
        for one in groups:
            sessions[one[0].meta.session].append(one)
        found: dict[EventGroup, Doubt] = {}
        for session, own in sessions.items():
            firsts = [group.first for group, _ in own]
            if self._db.value(_HAS_GROUPS, (session, min(firsts), max(firsts))) is None:
                continue
            places = json.dumps(firsts)
            kept: dict[bytes, str] = dict(self._db.all(_DOUBTS_OF_GROUPS, (session, places)))
            for group, line in own:
                doubt = kept.get(sha256(line).digest())
                if doubt is not None:
                    found[group] = _as_group_doubt(doubt)
        return found

    def count(self, session: str, first: int, last: int) -> int:
        return int(self._db.value(_COUNT_GROUPS, (session, first, last)))

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        return list(_groups(self._db.rows(_GROUPS_OF_SESSION, (session, first, last))))

    def lines(self, *, are_sound: bool = False) -> Iterator[bytes]:
        return map(_first, self._db.rows(_SOUND_LINES if are_sound else _GROUP_LINES))

    def sound_spans(self, session: str, since: int = 0) -> list[tuple[int, int]]:
        return self._db.all(_SPANS, (session, since))

    def wrongly_signed(self, session: str) -> list[SignedGroup]:
        return list(_groups(self._db.rows(_WRONG_GROUPS, (session,))))

    def imports(self) -> list[SignedGroup]:
        return list(_groups(self._db.rows(_IMPORT_GROUPS)))

    def every(self) -> Iterator[SignedGroup]:
        return _groups(self._db.rows(_GROUPS), signatures.decode_group)


def named_tasks(group: EventGroup) -> set[str]:
    """The tasks whose events a group names."""
    if len(group.events) == 1:
        task = group.events[0].task
        return {task} if task and task != VOID else set()
    return {name.task for name in group.events} - {"", VOID}


def _groups(
    rows: Iterable[Row], read: Callable[[bytes], EventGroup] = signatures.decode_stored_group
) -> Iterator[SignedGroup]:
    """The groups of these rows, without those whose line was damaged: they cover nothing."""
    for line, doubt in rows:
        if isinstance(line, bytes):
            try:
                group = read(line)
            except BadLine:
                continue
            yield SignedGroup(group, line, _as_group_doubt(doubt))


def _as_group_doubt(text: object) -> Doubt:
    return Doubt.NONE if text == "" else as_doubt(text)


def as_doubt(text: object) -> Doubt:
    """The doubt that a row stores. If the row was damaged, the event stays doubted."""
    return next((doubt for doubt in Doubt if doubt and doubt == text), Doubt.UNSIGNED)


_FEW_FORKS = 16
"""How many events with the same number are compared one by one."""
SEQ_BITS = 40
_SEQ_MASK = (1 << SEQ_BITS) - 1
_HANDING = frozenset({TaskClaimed, HandoffInitiated})
_LOG_EVENTS = frozenset({REPAIRED, ARCHIVED})
_first: Callable[[Row], bytes] = itemgetter(0)
_as_trace: Callable[[Row], Trace] = partial(tuple.__new__, Trace)
_as_filing: Callable[[Row], FiledRejection] = partial(tuple.__new__, FiledRejection)
_as_kept: Callable[[Row], KeptLine] = partial(tuple.__new__, KeptLine)
"""Makes a `KeptLine` of a row, faster than `_make`."""


class SqliteEvents(Table):
    """The events, numbered so that each session's are together and in order: session, then place in it.

    The number identifies an event. A session that was written twice (its ledger was copied) forks: events
    that differ from the first writing get numbers of their own.
    """

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements)
        self._numbers: dict[tuple[str, int], int] = {}
        self._waiting: list[EventEntry] = []
        self._waiting_tasks: set[str] = set()
        """What the events that wait are about."""
        self.new_handoffs: dict[str, str] = {}
        """The tasks of handoffs that begin with events that wait."""
        self.recent_handoffs: set[str] = set()
        """The handoffs of one second that are known (`SqliteNames.is_new_handoff`), and perhaps others."""

    def add(self, entries: Sequence[EventEntry]) -> None:
        """Adds events. A few are queued until a query depends on them, or the change ends."""
        self._waiting += entries
        if len(self._waiting) > _FEW:
            self._db.keep_waiting = None
            self._keep_waiting()
            return
        self._db.keep_waiting = self._keep_waiting
        for event, _, subject, doubt, _ in entries:
            self._waiting_tasks.add(subject)
            if type(event) in _HANDING and subject and not doubt:
                self.new_handoffs.setdefault(event.handoff_id, subject)  # type: ignore[attr-defined]  # both kinds have it

    def _keep_waiting(self) -> None:
        entries, self._waiting = self._waiting, []
        self._waiting_tasks.clear()
        self.new_handoffs.clear()
        if len(entries) > 1:
            entries = self._add_new(entries)
        for entry in entries:
            meta = entry.event.meta
            is_numbered = meta.seq > 0
            n = (
                self._number(meta.session) << SEQ_BITS | meta.seq
                if is_numbered
                else self._next_unnumbered(meta.id)
            )
            if not n:
                continue
            if not self._db.try_change(sql.ADD_EVENT, event_row(n, entry)):
                self._add_again(n, entry)
            else:
                self.follow([(n, entry)])

    def _add_new(self, entries: Sequence[EventEntry]) -> list[EventEntry]:
        """Adds the events whose numbers are free, all at once. Returns the others, which need a closer look."""
        numbers: list[int] = []
        session, start = "", 0
        for entry in entries:
            meta = entry.event.meta
            if meta.seq > 0 and meta.session != session:
                session, start = meta.session, self._number(meta.session) << SEQ_BITS
            numbers.append(start | meta.seq if meta.seq > 0 else 0)
        taken: set[int] = set()
        if self._db.value(sql.LAST_OF, (min(filter(None, numbers), default=0), max(numbers))):
            taken.update(self._db.column(sql.TAKEN, (json.dumps(numbers),)))
        free: dict[int, EventEntry] = {}
        left: list[EventEntry] = []
        for n, entry in zip(numbers, entries, strict=True):
            if not n or n in taken or n in free:
                left.append(entry)
            else:
                free[n] = entry
        self._db.run_many(sql.ADD_EVENT, [event_row(n, entry) for n, entry in free.items()])
        self.follow(free.items())
        return left

    def follow(self, entries: Iterable[tuple[int, EventEntry]]) -> None:
        """Writes what belongs to events: the doubt of an unconfirmed one, else its trace and the task of its handoff."""
        unconfirmed: list[Row] = []
        objections: list[Row] = []
        handoffs: list[Row] = []
        traces: list[Row] = []
        for n, (event, line, subject, doubt, signer) in entries:
            kind = type(event)
            if doubt:
                unconfirmed.append((n, *as_unconfirmed(EventEntry(event, line, subject, doubt, signer))[:-1]))
                objection = as_objection(event, subject, doubt, signer)
                if objection is not None:
                    objections.append((n, *objection))
            elif kind in _HANDING:
                if subject:
                    handoffs.append((event.handoff_id, subject))  # type: ignore[attr-defined]  # both kinds have it
            elif kind in TRACED and (left := trace_event(event, subject)):
                traces.append(left)
        self.recent_handoffs.update([handoff for handoff, _ in handoffs])
        for statement, rows in (
            (sql.ADD_UNCONFIRMED, unconfirmed),
            (sql.ADD_OBJECTION, objections),
            (sql.ADD_HANDOFF, handoffs),
            (sql.ADD_TRACE, traces),
        ):
            if rows:
                self._db.run_many(statement, rows)

    def _number(self, session: str, fork: int = 0) -> int:
        """The number of a session, assigned at its first event."""
        known = self._numbers.get((session, fork))
        if known is None:
            known = self._db.value(sql.GET_SESSION, (session, fork)) or self._db.value(
                sql.ADD_SESSION, (session, fork)
            )
            self._numbers[session, fork] = known
        return known

    def _known_number(self, session: str, fork: int) -> int:
        """The number of a session; 0 if it is unknown."""
        known = self._numbers.get((session, fork))
        return known or self._db.value(sql.GET_SESSION, (session, fork)) or 0

    def numbers(self, session: str) -> list[int]:
        """The numbers of a session and its forks."""
        found: list[int] = []
        while number := self._known_number(session, len(found)):
            found.append(number)
        return found

    def _next_unnumbered(self, event_id: str) -> int:
        """A number for an event that has none; 0 if it is stored already."""
        if not self._db.try_change(sql.ADD_UNNUMBERED, (event_id,)):
            return 0
        first = self._number("") << SEQ_BITS
        last: int | None = self._db.value(sql.LAST_OF, (first, first | _SEQ_MASK))
        return (last or first) + 1

    def _add_again(self, n: int, entry: EventEntry) -> None:
        """Handles a number that is taken: by this event, or by another of a session that forked.

        A forger can write very many lines with one number. Beyond a few, stored events are found by their id.
        """
        meta, fork = entry.event.meta, 0
        while self._db.value(sql.LINE_AT, (n,)) != entry.line:
            fork += 1
            if fork == _FEW_FORKS:
                if not self._db.try_change(sql.ADD_UNNUMBERED, (meta.id,)):
                    return
                fork = self._free_fork(meta.session, meta.seq)
            n = self._number(meta.session, fork) << SEQ_BITS | meta.seq
            if self._db.try_change(sql.ADD_EVENT, event_row(n, entry)):
                self.follow([(n, entry)])

    def _free_fork(self, session: str, seq: int) -> int:
        """The first fork in which a number is free."""

        def is_taken(fork: int) -> bool:
            known = self._known_number(session, fork)
            return bool(known) and self._db.value(sql.LINE_AT, (known << SEQ_BITS | seq,)) is not None

        end = _FEW_FORKS
        while is_taken(end):
            end *= 2
        return bisect_left(range(end), True, _FEW_FORKS, key=lambda fork: not is_taken(fork))

    def number_of(self, entry: EventEntry) -> int:
        """The number of a stored event; 0 if it is not stored."""
        if entry.event.is_legacy:
            first = self._known_number("", 0) << SEQ_BITS
            return self._db.value(sql.NUMBER_OF_LINE, (first, first | _SEQ_MASK, entry.line)) or 0
        meta, fork = entry.event.meta, 0
        while session := self._known_number(meta.session, fork):
            n: int = session << SEQ_BITS | meta.seq
            if self._db.value(sql.LINE_AT, (n,)) == entry.line:
                return n
            fork += 1
        return 0

    def numbers_of(self, entries: Iterable[EventEntry]) -> Iterator[tuple[int, EventEntry]]:
        """Stored events with their numbers."""
        first = self._known_number("", 0) << SEQ_BITS
        unnumbered: dict[bytes, int] = {}
        for entry in entries:
            if not entry.event.is_legacy:
                yield self.number_of(entry), entry
                continue
            if not unnumbered:
                rows = self._db.rows(sql.NUMBERED_LINES, (first, first | _SEQ_MASK))
                unnumbered = {line: n for n, line in rows}
            yield unnumbered[entry.line], entry

    def count(self, task_id: str = "") -> int:
        found = (sql.COUNT_OF_TASK, (task_id,)) if task_id else (sql.COUNT_EVENTS, ())
        count: int = self._db.value(*found)
        return count

    def of_task(self, task_id: str, beside: Collection[str] = ()) -> list[bytes]:  # noqa: ARG002 - one read costs little here
        if task_id in self._waiting_tasks:
            self._db.settle()
        return self._db.column(sql.EVENTS_OF_TASK, (task_id,))

    def of_key(self, key: str) -> list[bytes]:
        return [row[0] for row in self._db.rows(sql.EVENTS_OF_KEY, (key,))]

    def lines(self, session: str | None = None, first: int = 0, last: int = MAX_SEQ) -> Iterator[bytes]:
        if session is None:
            return map(_first, self._db.rows(sql.LINES))
        spans = [
            (number << SEQ_BITS | first, number << SEQ_BITS | min(last, _SEQ_MASK))
            for number in self.numbers(session)
        ]
        rows = chain.from_iterable(self._db.rows(sql.LINES_BETWEEN, span) for span in spans)
        return map(_first, rows)

    def rows(
        self,
        *,
        kind: type[Event] | None = None,
        lines: Collection[bytes] | None = None,
        have_task: bool | None = None,
    ) -> Iterator[KeptLine]:
        if have_task is not None:
            return map(_as_kept, self._db.rows(sql.ROWS_BY_TASK if have_task else sql.ROWS_OF_NO_TASK))
        if lines is not None:
            entries = [EventEntry(codec.decode_stored_line(line), line, "") for line in lines]
            numbers = sorted(n for n, _ in self.numbers_of(entries))
            return map(_as_kept, (row for n in numbers for row in self._db.all(sql.ROW_AT, (n,))))
        if kind is not None:
            return map(_as_kept, self._db.all(sql.ROWS_OF_KIND, codec.bounds_of_kind(kind)))
        return map(_as_kept, self._db.rows(sql.ROWS))

    def drop(self, lines: Collection[bytes]) -> None:
        self._db.run_many(sql.DROP_LINE, ((line,) for line in lines))

    def remove(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            event = codec.decode_stored_line(line)
            n = self.number_of(EventEntry(event, line, ""))
            self._db.run(sql.DROP_EVENT, (n,))
            self._db.run(sql.DROP_UNCONFIRMED, (n,))
            self._db.run(sql.DROP_UNNUMBERED, (event.meta.id,))

    def tail(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        for number, _, _ in self._db.all(sql.SESSIONS):
            span = (number << SEQ_BITS, number << SEQ_BITS | _SEQ_MASK, count)
            found += [row[0] for row in self._db.rows(sql.LAST_LINES_BETWEEN, span)]
        return found

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        first = self._known_number("", 0) << SEQ_BITS
        for n, line in self._db.all(sql.UNASSIGNED, (first, first | _SEQ_MASK)) if first else ():
            task = task_of(line)
            if task:
                self._db.run(sql.CHANGE_EVENT, (n, task, ""))


def event_row(n: int, entry: EventEntry) -> Row:
    """An event's row. A doubted event belongs to no task and no idempotency key."""
    if entry.doubt:
        return (n, "", "", entry.line)
    return (n, entry.subject, entry.event.meta.key, entry.line)


class SqliteUnconfirmed(Table):
    """The events without effect."""

    trust = StoredText("trust")
    base = StoredText("trust_base")
    writer = StoredText("writer")

    def __init__(self, statements: Statements, events: SqliteEvents) -> None:
        super().__init__(statements)
        self._events = events

    def every(self) -> list[UnconfirmedEvent]:
        return [_as_unconfirmed(row) for row in self._db.rows(sql.EVERY_UNCONFIRMED)]

    def of_task(self, task_id: str, most: int = -1) -> list[UnconfirmedEvent]:
        return [_as_unconfirmed(row) for row in self._db.rows(sql.UNCONFIRMED_OF_TASK, (task_id, most))]

    def of_session(self, session: str, first: int, last: int) -> list[UnconfirmedEvent]:
        return [
            _as_unconfirmed(row)
            for number in self._events.numbers(session)
            for row in self._db.all(
                sql.UNCONFIRMED_BETWEEN, (number << SEQ_BITS | first, number << SEQ_BITS | last)
            )
        ]

    def verdict(self, entry: EventEntry) -> Doubt | None:
        n = self._events.number_of(entry)
        if not n:
            return None
        found = self._db.value(sql.DOUBT_AT, (n,))
        return Doubt.NONE if found is None else as_doubt(found)

    def judge(self, entries: Iterable[EventEntry]) -> None:
        for n, entry in self._events.numbers_of(entries):
            _, subject, key, _ = event_row(n, entry)
            self._db.run(sql.CHANGE_EVENT, (n, subject, key))
            self._db.run(sql.DROP_OBJECTION, (n,))
            if self._db.try_change(sql.DROP_UNCONFIRMED, (n,)) or entry.doubt:
                self._events.follow([(n, entry)])


def _as_unconfirmed(row: Row) -> UnconfirmedEvent:
    event_id, task, signer, doubt, line = row
    return UnconfirmedEvent(event_id, task, signer, as_doubt(doubt), line)


class SqliteTraces(Table):
    """Short records of the events about rejections."""

    def filed_rejections(self, since: Instant) -> Iterator[FiledRejection]:
        return map(_as_filing, self._db.rows(sql.FILINGS, (since,)))

    def every(self, *events: str) -> Iterator[Trace]:
        statement = sql.LOG_TRACES if _LOG_EVENTS.issuperset(events) else sql.TRACES
        return map(_as_trace, self._db.rows(statement, (json.dumps(events),)))

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        return list(map(Trace._make, self._db.rows(sql.TRACES_OF_AGENT, (agent, most))))

    def latest(self, most: int) -> list[Trace]:
        return list(map(Trace._make, self._db.rows(sql.LATEST_TRACES, (most,))))

    def replace_all(self, traces: Iterable[Trace]) -> None:
        self._db.run(sql.DROP_TRACES)
        self._db.run_many(sql.ADD_TRACE, traces)
