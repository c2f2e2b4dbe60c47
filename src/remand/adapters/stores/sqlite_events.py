"""The events of an embedded ledger."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_groups import as_doubt
from remand.adapters.stores.sqlite_statements import Row, Statements
from remand.domain.events import HandoffInitiated, TaskClaimed
from remand.domain.instant import Instant
from remand.ledger import codec
from remand.ledger.filings import Filing
from remand.ledger.objections import as_objection
from remand.ledger.problems import BadLine, TableDifference
from remand.ledger.signatures import MAX_SEQ, Doubt
from remand.ledger.store import Entry, KeptLine, Unconfirmed, as_unconfirmed
from remand.ledger.traces import TRACED, Trace, trace

_FEW = 100
_FEW_FORKS = 16
"""How many events of one number are compared one by one."""
_SEQ_BITS = 40
_SEQ_MASK = (1 << _SEQ_BITS) - 1
_HANDING = (TaskClaimed, HandoffInitiated)
_as_trace: Callable[[Row], Trace] = partial(tuple.__new__, Trace)
_as_filing: Callable[[Row], Filing] = partial(tuple.__new__, Filing)
_as_kept: Callable[[Row], KeptLine] = partial(tuple.__new__, KeptLine)
"""Makes a row what it is, faster than `_make`."""


class SqliteEvents:
    """The events, numbered so that one session's stand together in their order: session, then place in it.

    The number makes an event known. A session that was written twice (its ledger was copied) forks: what
    differs from the first writing is kept under a number of its own.
    """

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self._numbers: dict[tuple[str, int], int] = {}

    def add(self, entries: Sequence[Entry]) -> None:
        """Keeps the events that are not kept yet, their traces, and which task each handoff belongs to."""
        if len(entries) > _FEW and self._add_run(entries):
            return
        for entry in entries:
            meta = entry.event.meta
            is_numbered = meta.seq > 0
            n = (
                self._number(meta.session) << _SEQ_BITS | meta.seq
                if is_numbered
                else self._unnumbered(meta.id)
            )
            if not n:
                continue
            if not self._db.changed(sql.ADD_EVENT, _row(n, entry)):
                self._add_again(n, entry)
            else:
                self.follow(n, entry)

    def _add_run(self, entries: Sequence[Entry]) -> bool:
        """Keeps a run of one session's events in one go, when none of them is kept yet."""
        first, last = entries[0].event.meta, entries[-1].event.meta
        if first.seq <= 0 or last.seq - first.seq != len(entries) - 1:
            return False
        start = self._number(first.session) << _SEQ_BITS
        is_run = all(
            entry.event.meta.seq == seq and entry.event.meta.session == first.session
            for seq, entry in enumerate(entries, first.seq)
        )
        if not is_run or self._db.value(sql.LAST_OF, (start | first.seq, start | last.seq)):
            return False
        self._db.run_many(sql.ADD_EVENT, (_row(start | entry.event.meta.seq, entry) for entry in entries))
        for entry in entries:
            self.follow(start | entry.event.meta.seq, entry)
        return True

    def follow(self, n: int, entry: Entry) -> None:
        """What else is kept of an event: that it is unconfirmed, or its trace and which task its handoff belongs to."""
        event, subject = entry.event, entry.subject
        if entry.doubt:
            self._db.run(sql.ADD_UNCONFIRMED, (n, *as_unconfirmed(entry)[:-1]))
            objection = as_objection(event, subject, entry.doubt, entry.signer)
            if objection is not None:
                self._db.run(sql.ADD_OBJECTION, (n, *objection))
            return
        if subject and isinstance(event, _HANDING):
            self._db.run(sql.ADD_HANDOFF, (event.handoff_id, subject))
        if type(event) in TRACED:
            left = trace(event, subject)
            if left:
                self._db.run(sql.ADD_TRACE, left)

    def _number(self, session: str, fork: int = 0) -> int:
        """The number of a session, given when it is first seen."""
        known = self._numbers.get((session, fork))
        if known is None:
            known = self._db.value(sql.GET_SESSION, (session, fork)) or self._db.value(
                sql.ADD_SESSION, (session, fork)
            )
            self._numbers[session, fork] = known
        return known

    def _known_number(self, session: str, fork: int) -> int:
        """The number of a session; 0 when it was not seen yet."""
        known = self._numbers.get((session, fork))
        return known or self._db.value(sql.GET_SESSION, (session, fork)) or 0

    def numbers(self, session: str) -> list[int]:
        """The numbers of a session and its forks."""
        found: list[int] = []
        while number := self._known_number(session, len(found)):
            found.append(number)
        return found

    def _unnumbered(self, event_id: str) -> int:
        """A number for an event that has none; 0 when it is kept already."""
        if not self._db.changed(sql.ADD_UNNUMBERED, (event_id,)):
            return 0
        first = self._number("") << _SEQ_BITS
        last: int | None = self._db.value(sql.LAST_OF, (first, first | _SEQ_MASK))
        return (last or first) + 1

    def _add_again(self, n: int, entry: Entry) -> None:
        """The number is taken: by this very event, or by another of a session that forked.

        Whoever forges lines can give very many one number. Beyond a few, what is kept is known by its id.
        """
        meta, fork = entry.event.meta, 0
        while self._db.value(sql.LINE_AT, (n,)) != entry.line:
            fork += 1
            if fork == _FEW_FORKS:
                if not self._db.changed(sql.ADD_UNNUMBERED, (meta.id,)):
                    return
                fork = self._free_fork(meta.session, meta.seq)
            n = self._number(meta.session, fork) << _SEQ_BITS | meta.seq
            if self._db.changed(sql.ADD_EVENT, _row(n, entry)):
                self.follow(n, entry)

    def _free_fork(self, session: str, seq: int) -> int:
        """The first fork in which a number is free. Those before it are all taken."""

        def is_taken(fork: int) -> bool:
            known = self._known_number(session, fork)
            return bool(known) and self._db.value(sql.LINE_AT, (known << _SEQ_BITS | seq,)) is not None

        end = _FEW_FORKS
        while is_taken(end):
            end *= 2
        return bisect_left(range(end), True, _FEW_FORKS, key=lambda fork: not is_taken(fork))

    def number_of(self, entry: Entry) -> int:
        """The number of an event that is kept; 0 when it is not."""
        if entry.event.is_legacy:
            first = self._known_number("", 0) << _SEQ_BITS
            return self._db.value(sql.NUMBER_OF_LINE, (first, first | _SEQ_MASK, entry.line)) or 0
        meta, fork = entry.event.meta, 0
        while session := self._known_number(meta.session, fork):
            n: int = session << _SEQ_BITS | meta.seq
            if self._db.value(sql.LINE_AT, (n,)) == entry.line:
                return n
            fork += 1
        return 0

    def numbers_of(self, entries: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
        """Events that are kept, with their numbers."""
        first = self._known_number("", 0) << _SEQ_BITS
        unnumbered: dict[bytes, int] = {}
        for entry in entries:
            if not entry.event.is_legacy:
                yield self.number_of(entry), entry
                continue
            if not unnumbered:
                rows = self._db.rows(sql.NUMBERED_LINES, (first, first | _SEQ_MASK))
                unnumbered = {line: n for n, line in rows}
            yield unnumbered[entry.line], entry

    def count(self) -> int:
        """How many events there are."""
        count: int = self._db.value(sql.COUNT_EVENTS)
        return count

    def of_task(self, task_id: str) -> list[bytes]:
        """The lines of a task's events."""
        return [row[0] for row in self._db.rows(sql.EVENTS_OF_TASK, (task_id,))]

    def of_key(self, key: str) -> list[bytes]:
        """The lines that an idempotency key led to."""
        return [row[0] for row in self._db.rows(sql.EVENTS_OF_KEY, (key,))]

    def lines(self, session: str = "", first: int = 0) -> Iterator[bytes]:
        """Every line, session by session; with a session, all under its name from that number on."""
        if not session:
            return (row[0] for row in self._db.rows(sql.LINES))
        starts = [number << _SEQ_BITS for number in self.numbers(session)]
        return (
            row[0]
            for start in starts
            for row in self._db.rows(sql.LINES_BETWEEN, (start | first, start | _SEQ_MASK))
        )

    def rows(self) -> Iterator[KeptLine]:
        """Every line, with the task and key under which it is found."""
        return map(_as_kept, self._db.rows(sql.ROWS))

    def at(self, session: str, seq: int) -> list[bytes]:
        """The lines under that number of a session and its forks."""
        numbers = self.numbers(session)
        found = (self._db.value(sql.LINE_AT, (number << _SEQ_BITS | seq,)) for number in numbers)
        return [line for line in found if line is not None]

    def drop(self, lines: Collection[bytes]) -> None:
        """Forgets lines."""
        self._db.run_many(sql.DROP_LINE, ((line,) for line in lines))

    def ids(self, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
        """The ids of a session's events with these numbers, in whichever version."""
        spans = [
            (number << _SEQ_BITS | first, number << _SEQ_BITS | min(last, _SEQ_MASK))
            for number in self.numbers(session)
        ]
        found: set[str] = set()
        for line in (row[0] for span in spans for row in self._db.rows(sql.LINES_BETWEEN, span)):
            with suppress(BadLine):
                found.add(codec.recall(line).meta.id)
        return found

    def remove(self, lines: Iterable[bytes]) -> None:
        """Forgets events by their lines."""
        for line in lines:
            event = codec.recall(line)
            n = self.number_of(Entry(event, line, ""))
            self._db.run(sql.DROP_EVENT, (n,))
            self._db.run(sql.DROP_UNCONFIRMED, (n,))
            self._db.run(sql.DROP_UNNUMBERED, (event.meta.id,))

    def tail(self, count: int) -> list[bytes]:
        """The latest lines of each session, in no order."""
        found: list[bytes] = []
        for number, _, _ in self._db.all(sql.SESSIONS):
            span = (number << _SEQ_BITS, number << _SEQ_BITS | _SEQ_MASK, count)
            found += [row[0] for row in self._db.rows(sql.LAST_LINES_BETWEEN, span)]
        return found

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        """Gives lines of GoT tools that belong to no task yet to the task they turn out to belong to, if any."""
        first = self._known_number("", 0) << _SEQ_BITS
        for n, line in self._db.all(sql.UNASSIGNED, (first, first | _SEQ_MASK)) if first else ():
            task = task_of(line)
            if task:
                self._db.run(sql.CHANGE_EVENT, (n, task, ""))


def _row(n: int, entry: Entry) -> Row:
    """An event's row. One that is doubted belongs to no task and answers no key."""
    if entry.doubt:
        return (n, "", "", entry.line)
    return (n, entry.subject, entry.event.meta.key, entry.line)


class SqliteUnconfirmed:
    """The events without effect."""

    def __init__(self, statements: Statements, events: SqliteEvents) -> None:
        self._db = statements
        self._events = events

    @property
    def trust(self) -> str:
        """The trust by which they were judged."""
        return self._db.value(sql.GET_VALUE, ("trust",)) or ""

    @trust.setter
    def trust(self, text: str) -> None:
        self._db.run(sql.PUT_VALUE, ("trust", text))

    @property
    def writer(self) -> str:
        """The key that signs here, while the base does not trust it."""
        return self._db.value(sql.GET_VALUE, ("writer",)) or ""

    @writer.setter
    def writer(self, key: str) -> None:
        if key != self.writer:
            self._db.run(sql.PUT_VALUE, ("writer", key))

    def every(self) -> list[Unconfirmed]:
        """All of them."""
        return [_as_unconfirmed(row) for row in self._db.rows(sql.EVERY_UNCONFIRMED)]

    def of_task(self, task_id: str, most: int = -1) -> list[Unconfirmed]:
        """Those that name a task."""
        return [_as_unconfirmed(row) for row in self._db.rows(sql.UNCONFIRMED_OF_TASK, (task_id, most))]

    def of_session(self, session: str, first: int, last: int) -> list[Unconfirmed]:
        """Those of a session with these numbers."""
        return [
            _as_unconfirmed(row)
            for number in self._events.numbers(session)
            for row in self._db.all(
                sql.UNCONFIRMED_BETWEEN, (number << _SEQ_BITS | first, number << _SEQ_BITS | last)
            )
        ]

    def verdict(self, entry: Entry) -> Doubt | None:
        """What is doubted about an event that is kept."""
        n = self._events.number_of(entry)
        if not n:
            return None
        found = self._db.value(sql.DOUBT_AT, (n,))
        return Doubt.NONE if found is None else as_doubt(found)

    def judge(self, entries: Iterable[Entry]) -> None:
        """Doubts events that are kept, or doubts them no more."""
        for n, entry in self._events.numbers_of(entries):
            _, subject, key, _ = _row(n, entry)
            self._db.run(sql.CHANGE_EVENT, (n, subject, key))
            self._db.run(sql.DROP_OBJECTION, (n,))
            if self._db.changed(sql.DROP_UNCONFIRMED, (n,)) or entry.doubt:
                self._events.follow(n, entry)


def _as_unconfirmed(row: Row) -> Unconfirmed:
    event_id, task, signer, doubt, line = row
    return Unconfirmed(event_id, task, signer, as_doubt(doubt), line)


class SqliteTraces:
    """The events about rejections, in brief."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def filings(self, since: Instant) -> Iterator[Filing]:
        """Every rejection filed since then, with what is known of it."""
        return map(_as_filing, self._db.rows(sql.FILINGS, (since,)))

    def every(self, *events: str) -> Iterator[Trace]:
        """The traces of events of these names."""
        return map(_as_trace, self._db.rows(sql.TRACES, (json.dumps(events),)))

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        """The latest rejections an agent filed, newest first."""
        return list(map(Trace._make, self._db.rows(sql.TRACES_OF_AGENT, (agent, most))))

    def latest(self, most: int) -> list[Trace]:
        """The rejections noted last, newest first."""
        return list(map(Trace._make, self._db.rows(sql.LATEST_TRACES, (most,))))

    def replace_all(self, traces: Iterable[Trace]) -> None:
        """Throws the traces away and keeps these."""
        self._db.run(sql.DROP_TRACES)
        self._db.run_many(sql.ADD_TRACE, traces)

    def differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        """Where the traces that are kept are not these."""
        wrong = Counter(map(tuple, traces))
        wrong.subtract(self._db.rows(sql.EVERY_TRACE))
        tasks = {str(row[4]) for row, count in wrong.items() if count}
        yield from (TableDifference("trace", task) for task in sorted(tasks))
