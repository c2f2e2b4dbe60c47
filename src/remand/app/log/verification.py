"""Checks of the log (every line, chain and signature, and that nothing seen before is gone), and the digest of the state."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from hashlib import sha256
from itertools import chain, groupby, islice

import msgspec

from remand.app.events.event_files import rewritten_problems
from remand.app.events.intake import (
    file_events,
    file_problems,
    has_unknown_lines,
    is_stored_as,
    signed_voids,
)
from remand.app.events.missing_lines import (
    Repair,
    event_ids,
    find_missing,
    given_up_repairs,
    is_fault,
)
from remand.app.events.signatures import ReadEvent, Verifier, active_voids, judge
from remand.app.events.task_folds import Fold, without_garbage_collection
from remand.app.ports import Clock, Exchange, SessionMarks
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import NO_TASKS, MissingLines
from remand.domain.instant import Instant, is_clock_ahead, latest_event_time
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry, FileMark, KeptLine, SignedGroup, UnconfirmedEvent
from remand.ledger.order import VoidedEvents, next_time
from remand.ledger.problems import LEDGER, BadLine, Problem, TableDifference
from remand.ledger.signatures import ADOPT, IMPORT, ChainPlace, Doubt, EventGroup
from remand.ledger.store import Transaction
from remand.ledger.task_state import flat_state
from remand.ledger.traces import TRACED, Trace, trace_event

_encode = msgspec.json.Encoder().encode


def state_digest(tx: Transaction) -> tuple[str, int]:
    """A digest of all tasks and all signed events without effect on a task, and the number of signed events.

    Voided and restated events are excluded, as another machine need not have seen them.
    """
    voids = active_voids(tx)
    whole = sha256()
    for task in tx.tasks.every():
        whole.update(_encode(flat_state(task)))
    count = 0
    loose: list[str] = []
    doubts = {found.event_id: found.doubt for found in tx.unconfirmed.every()}
    for line in tx.events.lines():
        event = codec.decode_stored_line(line)
        doubt = doubts.get(event.meta.id, Doubt.NONE)
        if doubt is Doubt.VOID and event in voids:
            continue
        if doubt not in (Doubt.NONE, Doubt.VOID):
            continue
        count += 1
        if doubt or event_task_id(event) in NO_TASKS:
            loose.append(event.meta.id)
    whole.update("".join(sorted(loose)).encode())
    return whole.hexdigest(), count


BATCH = 5000
"""How many events or groups are in memory at once."""
_FIND_FILES = "Get the event files of every branch with git fetch, or restore them from a clone or a backup"


class VerificationReport(Record, kw_only=True):
    """The result of checking the log."""

    events: int
    problems: tuple[Problem, ...]
    unconfirmed: tuple[UnconfirmedEvent, ...] = ()
    """Events that no trusted key covers. That alone is not a problem: the user may trust the key later."""
    given_up: tuple[Repair, ...] = ()
    """Missing lines that the user has given up."""
    is_ledger_wrong: bool = False
    """Whether the ledger's own file is damaged, which can be rebuilt."""
    set_aside: tuple[Problem, ...] = ()
    """Lines found after the ledger's own in the open event file and moved out of it."""

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.problems


def verify_log(
    tx: Transaction,
    exchange: Exchange,
    marks: SessionMarks,
    clock: Clock,
    verifier: Verifier,
    *,
    skew: float = Policy().clock_skew_seconds,
    note_progress: Callable[[str], None] = lambda _: None,
) -> VerificationReport:
    """Reads every file and every stored event again, reporting progress."""
    now = clock.now()
    limit = latest_event_time(now, skew, tx.head.bounded_from)
    note_progress("checking signatures")
    known = _LineHashes()
    with without_garbage_collection():
        signed = list(_group_problems(_note_lines(tx.groups.every(), known), exchange, verifier))
        voids = signed_voids(tx)
        unconfirmed = tx.unconfirmed.every()
        chains = _Chains(_ids_without_group(tx.groups.every(), unconfirmed))
        rows = _EventCheck(_Tables(unconfirmed), chains, known, note_progress)
        rows.read(tx, limit, voids)
        known.sort()
        wrong = [*rows.wrong, *rows.tables.differences(tx)]
        files: list[Problem] = []
        for mark in exchange.files():
            note_progress(f"checking {mark.path.rpartition('/')[2]}")
            if has_unknown_lines(exchange, mark.path, known):
                wrong += _lost_events(tx, exchange, mark.path, known)
                files += file_problems(exchange, mark.path, limit, voids, known)
    seen = marks.all()
    lost = find_missing(tx, seen, next_time(now, tx.head.clock))
    problems = (
        *files,
        *_clock_problems(tx, now, skew),
        *signed,
        *wrong,
        *rows.broken,
        *rewritten_problems(tx.rewritten.every()),
        *_missing_problems(tx, [one for lines in lost.values() for one in lines], rows.chains.tasks, marks),
    )
    return VerificationReport(
        events=rows.count,
        problems=problems,
        unconfirmed=tuple(unconfirmed),
        given_up=tuple(given_up_repairs(tx)),
        set_aside=tuple(_set_aside_problems(tx)),
        is_ledger_wrong=bool(wrong) or any(problem.file == LEDGER for problem in signed),
    )


class _EventCheck:
    """Reads every stored event again."""

    def __init__(
        self, tables: _Tables, chains: _Chains, known: _LineHashes, note_progress: Callable[[str], None]
    ) -> None:
        self._note_progress = note_progress
        self.tables = tables
        self.chains = chains
        self._known = known
        self.count = 0
        self.wrong: list[Problem] = []
        """Problems of the ledger's own file."""
        self.broken: list[Problem] = []
        """Problems of the sessions' chains."""

    def read(self, tx: Transaction, limit: Instant, voids: VoidedEvents) -> None:
        """Compares the tables' data about each event with its line and the groups."""
        rows = tx.event_rows.rows()
        while batch := list(islice(rows, BATCH)):
            self._note_progress(f"checking events, {self.count:,}")
            found = [
                (ReadEvent(event, row.line, event_task_id(event)), row) for event, row in self._events(batch)
            ]
            entries = judge(tx, [one for one, _ in found], voids)
            for entry, (_, row) in zip(entries, found, strict=True):
                if entry.event.ts <= limit or entry.event in voids:
                    self._known.add(row.line)
                self.broken += self.chains.check(entry.event, entry.doubt)
                self.wrong += self.tables.check(entry, row)

    def _events(self, rows: Iterable[KeptLine]) -> Iterator[tuple[Event, KeptLine]]:
        for row in rows:
            self.count += 1
            try:
                yield codec.decode_line(row.line), row
            except BadLine as bad:
                about = f" about {row.subject}" if row.subject else ""
                self.wrong.append(_ledger_problem(f"an event{about} {bad}"))


def _set_aside_problems(tx: Transaction) -> list[Problem]:
    marks = tx.files.marks()
    return [
        one
        for one in tx.files.problems()
        if one.file != LEDGER and marks.get(one.file) == FileMark(one.file, 0, 0, 0)
    ]


def _lost_events(tx: Transaction, exchange: Exchange, path: str, known: Container[int]) -> Iterator[Problem]:
    """Events in a file that the ledger lost after reading them."""
    held, legacy = tx.held.ids(), event_ids(tx, "")
    lines = file_events(exchange, path, known)
    while batch := list(islice(lines, BATCH)):
        kept = held | legacy | _kept_among(tx, [event for _, event in batch])
        for number, event in batch:
            if event.meta.id not in kept:
                problem = f"({_event_name(event)}) is no longer in the ledger. Run `remand log rebuild`"
                yield Problem(file=path, line=number, problem=problem)


def _kept_among(tx: Transaction, events: Iterable[Event]) -> set[str]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if not event.is_legacy:
            numbers[event.meta.session].append(event.meta.seq)
    spans = ((session, min(seqs), max(seqs)) for session, seqs in numbers.items())
    return {event_id for span in spans for event_id in event_ids(tx, *span)}


def _missing_problems(
    tx: Transaction, lost: Iterable[MissingLines], tasks: Collection[str], marks: SessionMarks
) -> Iterator[Problem]:
    """Absent events that signed groups name or skip, or that this machine has seen."""
    seen = marks.all()
    for one in lost:
        if not is_fault(one, tasks, tx.head.session):
            continue
        others = ", and others of it are here" if one.task in tasks and one.task else ""
        what = f"{one.description}{others}"
        if not one.id and seen.get(one.session, (0, ""))[0] == one.last:
            what = f"{what}; {one.last} were seen on this machine ({marks.folder}), {one.first - 1} are left"
        if one.session.startswith(IMPORT):
            about = f" about {one.task}" if one.task else ""
            what = f"a line of a GoT tool{about} (id {one.id}) was imported and is missing"
        if one.session.startswith(ADOPT):
            about = f" about {one.task}" if one.task else ""
            what = f"an event{about} (id {one.id}) was adopted and is missing"
        yield _ledger_problem(
            f"{what}. Get the event files of every branch with git fetch, or restore them from a "
            "clone or a backup. If they are lost, give them up: remand log repair"
        )


def _clock_problems(tx: Transaction, now: Instant, skew: float) -> Iterator[Problem]:
    """The ledger's clock, if it is too far ahead to write anything."""
    if is_clock_ahead(tx.head.clock, now, skew):
        yield _ledger_problem(
            f"the latest event is from {tx.head.clock}, and this machine's clock says {now}: nothing can be written. "
            "If the machine's clock is wrong, correct it; otherwise `remand log repair` says what to do"
        )


class _Tables:
    """Folds the events again in one pass to compare the result with the tables."""

    def __init__(self, unconfirmed: Iterable[UnconfirmedEvent]) -> None:
        self._withheld = {found.line: found for found in unconfirmed}
        self._fold = Fold()
        self._traces: list[Trace] = []
        self._adopted: list[tuple[str, str]] = []
        """The handoffs of imported lines that name no task, with the task assigned to each line."""

    def check(self, entry: EventEntry, row: KeptLine) -> Iterator[Problem]:
        """Compares the event tables with one event and folds it."""
        event, task = entry.event, entry.subject
        withheld = self._withheld.get(row.line)
        handoff = getattr(event, "handoff_id", "") if event.is_legacy and not task else ""
        if handoff and not entry.doubt:
            self._adopted.append((handoff, row.subject))
            row = row._replace(subject="")
        if not is_stored_as(entry, row, withheld):
            yield _wrong_row_problem(entry, withheld)
        if entry.doubt:
            return
        if task:
            self._fold.add(event, task)
        if type(event) in TRACED and (left := trace_event(event, task)):
            self._traces.append(left)

    def differences(self, tx: Transaction) -> Iterator[Problem]:
        """Where the tables differ from the result of the events."""
        fold = self._fold
        tasks = fold.folded_tasks(tx)
        found = chain(
            tx.audit.task_differences(tasks, fold.handoffs),
            tx.audit.trace_differences(fold.traces(self._traces)),
            tx.audit.group_differences(tx.groups.every()),
            (
                TableDifference("event", task)
                for handoff, task in self._adopted
                if task != fold.handoffs.get(handoff, "")
            ),
        )
        for table, task in found:
            about = f" about {task}" if task else ""
            yield _ledger_problem(f"table {table} and the events differ{about}; the table is rebuilt")


def _wrong_row_problem(entry: EventEntry, withheld: UnconfirmedEvent | None) -> Problem:
    event, doubt = entry.event, entry.doubt
    if bool(doubt) == bool(withheld):
        state = "is kept under another task, key or signer than its own"
    else:
        state = "counts without being confirmed" if doubt else "is confirmed and does not count"
    about = f" about {entry.subject}" if entry.subject else ""
    return _ledger_problem(f"{_event_name(event)}{about} {state}: the ledger was changed, and is rebuilt")


def _event_name(event: Event) -> str:
    return f"event {event.meta.seq} of session {event.meta.session} ({event.name})"


class _LineHashes:
    """The hashes of the examined lines, sorted once all are there: a tenth of the memory of a set."""

    def __init__(self) -> None:
        self._parts = [array("q") for _ in range(_PARTS)]

    def add(self, line: bytes) -> None:
        found = hash(line)
        self._parts[found % _PARTS].append(found)

    def sort(self) -> None:
        self._parts = [array("q", sorted(part)) for part in self._parts]

    def __contains__(self, found: object) -> bool:
        if not isinstance(found, int):
            return False
        part = self._parts[found % _PARTS]
        place = bisect_left(part, found)
        return place < len(part) and part[place] == found


_PARTS = 1024


def _note_lines(groups: Iterable[SignedGroup], known: _LineHashes) -> Iterator[SignedGroup]:
    for one in groups:
        known.add(one.line)
        yield one


def _judged_groups(every: Iterable[SignedGroup], verifier: Verifier) -> Iterator[tuple[SignedGroup, Doubt]]:
    """The groups with the doubt about each, judged part by part; every part of a session is in order.

    A group that does not count in its part may be covered by one of a later part, and is judged again with that.
    """
    for _, groups in groupby(every, key=lambda one: one.group.session):
        unsure: dict[EventGroup, tuple[SignedGroup, Doubt]] = {}
        ends: set[ChainPlace] = set()
        while part := list(islice(groups, BATCH)):
            kept = {group: one for group, (one, _) in unsure.items()} | {one.group: one for one in part}
            unsure.clear()
            doubts = verifier.doubts(kept)
            ends = {end for end in ends if end[-1] >= part[0].group.first}
            _cover(doubts, ends)
            for group, doubt in doubts.items():
                if doubt in _COVERABLE:
                    unsure[group] = kept[group], doubt
                    continue
                yield kept[group], doubt
                if not doubt:
                    ends.add(group.end)
        yield from unsure.values()


_COVERABLE = (Doubt.WRONG_SIGNATURE, Doubt.REVOKED)


def _cover(doubts: dict[EventGroup, Doubt], ends: Collection[ChainPlace]) -> None:
    """Marks the groups that end where one of an earlier part ends that counts, and what leads to them."""
    places = set(ends)
    unsure = [group for group, doubt in doubts.items() if doubt in _COVERABLE] if places else []
    for group in sorted(unsure, key=lambda one: -one.last):
        if group.end in places:
            doubts[group] = Doubt.NONE
            places.add(group.start)


def _group_problems(
    every: Iterable[SignedGroup], exchange: Exchange, verifier: Verifier
) -> Iterator[Problem]:
    """Groups with an invalid signature, by file and line if a file has them, and those that the ledger judged differently."""
    wrong: dict[bytes, EventGroup] = {}
    for kept, doubt in _judged_groups(every, verifier):
        if doubt is Doubt.WRONG_SIGNATURE:
            wrong[kept.line] = kept.group
        if bool(doubt) != bool(kept.doubt):
            state = "counts and should not" if doubt else "does not count and should"
            yield _ledger_problem(
                f"the signature of {_group_text(kept.group)} {state}: the ledger was changed, and is rebuilt"
            )
    for mark in exchange.files() if wrong else []:
        for number, line in exchange.read(mark.path):
            if isinstance(line, bytes) and signatures.is_group(line):
                bare = line.rstrip(b"\r")
                if bare in wrong:
                    yield Problem(file=mark.path, line=number, problem=_wrong_signature_text(wrong.pop(bare)))
    yield from (_ledger_problem(_wrong_signature_text(group)) for group in wrong.values())


def _wrong_signature_text(group: EventGroup) -> str:
    return f"holds a signature of {_group_text(group)} that key {group.key[:40]} did not make"


def _group_text(group: EventGroup) -> str:
    return _numbers_text(group.session, group.first, group.last)


def _numbers_text(session: str, first: int, last: int) -> str:
    return (
        f"event {first} of session {session}"
        if first == last
        else f"events {first} to {last} of session {session}"
    )


class _Chains:
    """Follows each session's chain in one pass.

    The writer of a file can give an event any session and number, so presence is determined by signatures and ids.
    """

    def __init__(self, unsigned: Collection[str]) -> None:
        self._unsigned = unsigned
        self._last: dict[str, tuple[Event, Doubt]] = {}
        self.tasks: set[str] = set()
        """The tasks that have events."""

    def check(self, event: Event, doubt: Doubt) -> Iterator[Problem]:
        """The problems of a stored event's place in its chain."""
        meta = event.meta
        self.tasks.add(event_task_id(event))
        if event.is_legacy:
            return
        last, last_doubt = self._last.get(meta.session, (None, Doubt.NONE))
        self._last[meta.session] = event, doubt
        if doubt in (Doubt.NONE, Doubt.VOID) and meta.prev in self._unsigned:
            yield _ledger_problem(_missing_group_text(meta.session, meta.seq - 1))
        if last is not None and meta.seq <= last.meta.seq:
            yield _ledger_problem(
                f"session {meta.session} was written twice: event {meta.seq} is there in two versions. "
                + (
                    "One has no signature and no effect: somebody else wrote it; remove its line"
                    if Doubt.UNSIGNED in (doubt, last_doubt)
                    else "A copied ledger does that; keep the one you trust"
                )
            )
        elif last is not None and meta.seq == last.meta.seq + 1 and meta.prev != last.meta.id:
            yield _ledger_problem(
                f"event {meta.seq} of session {meta.session} does not follow the one before it"
            )


def _ids_without_group(groups: Iterable[SignedGroup], unconfirmed: Iterable[UnconfirmedEvent]) -> set[str]:
    """The ids of unsigned events that no group names."""
    found = {one.event_id for one in unconfirmed if one.doubt is Doubt.UNSIGNED}
    if found:
        found -= {name.id for kept in groups for name in kept.group.events}
    return found


def _missing_group_text(session: str, seq: int) -> str:
    return f"event {seq} of session {session} is here without the group that signed it, and has no effect. {_FIND_FILES}"


def _ledger_problem(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
