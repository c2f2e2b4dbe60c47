"""Events that others wrote: read from files, verified, kept and folded; judged again when trust or voids change."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice

from msgspec.structs import replace

from remand.app.events.missing_lines import ExpectedLines
from remand.app.events.orchestration_log import is_recorded_in_files
from remand.app.events.signatures import (
    GroupSource,
    ReadEvent,
    Signer,
    Subjects,
    Verifier,
    Voucher,
    active_voids,
    apply_doubts,
    confirm,
    confirmed_events,
    judge,
    judge_signatures,
    last_counted_number,
    trust_end,
)
from remand.app.events.task_folds import (
    Fold,
    assign_imported,
    rebuild_tables,
    task_events,
    without_garbage_collection,
)
from remand.app.ports import Clock, Exchange, SessionMarks
from remand.domain.access.keys import ChainEnd, Trust, parse_trust
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import VOIDS, EventsVoided, LinesImported
from remand.domain.evolve import replay
from remand.domain.instant import BEGINNING, END, Instant
from remand.domain.record import NamedTuple
from remand.ledger import codec, signatures
from remand.ledger.event_tables import (
    EventEntry,
    FileMark,
    KeptLine,
    SignedGroup,
    UnconfirmedEvent,
    as_unconfirmed,
)
from remand.ledger.order import VoidedEvents, next_time
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import (
    IMPORT,
    MAX_GROUP,
    MAX_SEQ,
    ChainPlace,
    Doubt,
    EventGroup,
    GroupedEvent,
    chain_start,
)
from remand.ledger.store import Transaction


def store_groups(
    tx: Transaction, lines: Iterable[tuple[EventGroup, bytes]], verifier: Verifier
) -> dict[EventGroup, Doubt]:
    """Verifies and keeps groups. Returns what is doubted of each, and of those kept before that they now cover.

    What is kept already is not verified again, but for wrong signatures: a group that comes later may cover them.
    """
    given = dict(lines)
    known = {group: doubt for group in given if (doubt := tx.group_doubts.doubt(group)) is not None}
    new = {group: line for group, line in given.items() if group not in known}
    for session in {group.session for group in new}:
        new |= {kept.group: kept.line for kept in tx.group_doubts.wrongly_signed(session)}
    doubts = verifier.doubts(new)
    covered: set[ChainPlace] = set()
    asked: set[tuple[str, int]] = set()
    for group in sorted(doubts, key=_descending_end):
        if not _may_be_covered(group, doubts[group], verifier.trust):
            continue
        if (group.session, group.last) not in asked:
            asked.add((group.session, group.last))
            covered |= _covered_places(tx, group.session, group.last)
        if group.end in covered:
            doubts[group] = Doubt.NONE
            covered.add(group.start)
    counted = [group for group, doubt in doubts.items() if not doubt] if verifier.trust.has_ends else []
    for kept in _groups_leading_to(tx, counted, verifier.trust):
        doubts[kept.group], new[kept.group] = Doubt.NONE, kept.line
    tx.groups.add(SignedGroup(group, new[group], doubt) for group, doubt in doubts.items())
    return known | doubts


def _may_be_covered(group: EventGroup, doubt: Doubt, trust: Trust) -> bool:
    """True when a group that does not count by itself does where another one follows that counts."""
    return doubt is Doubt.WRONG_SIGNATURE or (
        doubt is Doubt.REVOKED and group.last <= last_counted_number(group, trust)
    )


def _groups_leading_to(tx: Transaction, groups: Iterable[EventGroup], trust: Trust) -> Iterator[SignedGroup]:
    """The kept groups that did not count and that lead, without a break, to groups that count up to their key's end."""
    places = [group.start for group in groups if trust_end(group, trust) is not None]
    while places:
        place = places.pop()
        session, _, _, number = place
        for kept in tx.groups.of_session(session, number, number):
            if kept.doubt is Doubt.REVOKED and kept.group.end == place:
                yield kept
                places.append(kept.group.start)


def _descending_end(group: EventGroup) -> int:
    return -group.last


def _covered_places(tx: Transaction, session: str, last: int) -> set[ChainPlace]:
    """The places at or behind an event that groups which are kept and count end or begin at."""
    kept = [one.group for one in tx.groups.of_session(session, last, last + 1) if not one.doubt]
    return {place for group in kept for place in (group.start, group.end)}


_JUDGE_BATCH = 5000


class GroupsInMemory:
    """Groups that were read once, for whoever goes through all of them."""

    def __init__(self, kept: Iterable[SignedGroup]) -> None:
        self._sessions: dict[str, list[SignedGroup]] = defaultdict(list)
        for one in kept:
            self._sessions[one.group.session].append(one)

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers."""
        kept = self._sessions.get(session, [])
        start, end = (
            bisect_left(kept, first - MAX_GROUP, key=_first_number),
            bisect_right(kept, last, key=_first_number),
        )
        return [one for one in kept[start:end] if one.group.last >= first]

    def imports(self) -> list[SignedGroup]:
        """Those that name imported lines of GoT tools."""
        sessions = (own for session, own in self._sessions.items() if session.startswith(IMPORT))
        return [one for own in sessions for one in own]


def _first_number(kept: SignedGroup) -> int:
    return kept.group.first


def judge_by_trust(tx: Transaction, verifier: Verifier) -> None:
    """Judges all that is kept by another trust than before: some events gain their effect, others lose it."""
    before, is_first = parse_trust(tx.unconfirmed.trust), not tx.unconfirmed.trust
    is_all = is_first or before.project != verifier.trust.project
    changed = {key_id for key_id, _ in _trust_limits(before) ^ _trust_limits(verifier.trust)}
    lines = {one.group: one.line for one in tx.groups.every() if is_all or one.group.key in changed}
    doubts = verifier.doubts(lines)
    tx.groups.add(SignedGroup(group, lines[group], doubt) for group, doubt in doubts.items())
    tx.unconfirmed.trust = verifier.trust.text
    if (is_first or lines) and (judge_events(tx) or is_first):
        rebuild_tables(tx)


def _trust_limits(trust: Trust) -> set[tuple[str, frozenset[ChainEnd] | None]]:
    """The ids of the trusted keys, each with where its trust ends."""
    return {(key.id, None if key.until is None else frozenset(key.until)) for key in trust.keys}


def judge_voids(tx: Transaction) -> None:
    """Judges all events by the voiding ones that there are now, and makes the tables anew.

    Void events that were held back for their time are kept with the others: they have no effect at any time. The
    clock is that of what is left.
    """
    voids = signed_voids(tx)
    held = [(codec.decode_stored_line(line), line) for line in tx.held.take_due(END)]
    for event, line in held:
        if event not in voids:
            tx.held.add(event, line)
    void = [ReadEvent(event, line, event_task_id(event)) for event, line in held if event in voids]
    tx.events.add(judge(tx, void, voids))
    if judge_events(tx) or void:
        rebuild_tables(tx)
    latest = max((event.ts for event in confirmed_events(tx)), default=BEGINNING)
    if latest < tx.head.clock:
        tx.head = replace(tx.head, clock=latest)


def signed_voids(tx: Transaction, groups: GroupSource | None = None) -> VoidedEvents:
    """What is void by all voiding events whose signatures count."""
    found: list[ReadEvent] = []
    for line in tx.events.lines():
        if codec.may_be_kind(line, EventsVoided):
            with suppress(BadLine):
                event = codec.decode_line(line)
                found.append(ReadEvent(event, line, event_task_id(event)))
    return VoidedEvents(entry.event for entry in judge_signatures(tx, found, groups) if not entry.doubt)


def judge_events(tx: Transaction) -> bool:
    """Judges the kept events by the groups as they are now; True when anything changed."""
    voids = signed_voids(tx)
    withheld = {found.line: found for found in tx.unconfirmed.every()}
    changed: list[EventEntry] = []
    subjects = Subjects(tx)
    rows = iter(list(tx.event_rows.rows()))
    while batch := list(islice(rows, _JUDGE_BATCH)):
        events = [codec.decode_stored_line(row.line) for row in batch]
        found = [
            ReadEvent(event, row.line, event_task_id(event)) for event, row in zip(events, batch, strict=True)
        ]
        changed += [
            entry
            for entry, row in zip(subjects.assign(judge(tx, found, voids)), batch, strict=True)
            if not is_stored_as(entry, row, withheld.get(row.line))
        ]
    apply_doubts(tx, changed)
    return bool(changed)


def is_stored_as(entry: EventEntry, row: KeptLine, withheld: UnconfirmedEvent | None) -> bool:
    """True when the tables say of an event what was found about it."""
    if entry.doubt:
        expected = as_unconfirmed(entry)
        if withheld and entry.event.is_legacy:
            # Its task may be known by its handoff alone.
            expected = expected._replace(task=withheld.task)
        return not row.subject and not row.key and withheld == expected
    return withheld is None and (row.subject, row.key) == (entry.subject, entry.event.meta.key)


def held_entries(tx: Transaction) -> list[EventEntry]:
    """The events held back for their time that will count when it has come."""
    found = [
        ReadEvent(event, line, event_task_id(event))
        for line in tx.held.lines()
        for event in (codec.decode_stored_line(line),)
    ]
    return [entry for entry in judge(tx, found) if not entry.doubt]


_BATCH = 5000
NO_VOIDS = VoidedEvents(())


def changed_event_files(tx: Transaction, exchange: Exchange) -> list[FileMark]:
    """The files that were not read yet as they are now. The ledger's own open segment is no news."""
    known = tx.files.marks()
    own = exchange.path(tx.head.segment) if tx.head.segment else ""
    return [mark for mark in exchange.files() if mark.path != own and known.get(mark.path) != mark]


def import_event_files(
    tx: Transaction,
    files: list[FileMark],
    exchange: Exchange,
    clock: Clock,
    marks: SessionMarks,
    *,
    limit: Instant,
    verifier: Verifier,
    recovered: Sequence[bytes] = (),
) -> None:
    """Keeps every group and event of the files that is not kept yet, and folds the tasks they touch anew.

    What was recovered is what files once held, with the same rules. Events that are later than the limit are held back.
    """
    held = tx.held.earliest()
    if not files and not recovered and not (held and held <= limit):
        return
    touched = _ImportedChanges(tx, limit)
    with without_garbage_collection():
        for mark in files:
            problems: list[Problem] = []
            groups = list(_read_groups(exchange.read(mark.path), mark.path, problems))
            events = _read_events(exchange.read(mark.path), mark.path, problems)
            _import_lines(tx, groups, events, touched, verifier)
            tx.files.note(mark, problems)
        for content in recovered:
            groups, events = (
                list(_read_groups(_numbered_lines(content), "", [])),
                _read_events(_numbered_lines(content), "", []),
            )
            _import_lines(tx, groups, events, touched, verifier)
        ripe = [(codec.decode_stored_line(line), line) for line in tx.held.take_due(limit)]
        _store_batch(tx, ripe, touched)
        if touched.has_imported_handoffs:
            assign_imported(tx)
        touched.finish(tx)
        touched.expected.update_missing(
            marks.all(), next_time(clock.now(), max(touched.clock, tx.head.clock))
        )
    if touched.clock > tx.head.clock:
        tx.head = replace(tx.head, clock=touched.clock)
    if touched.has_voids:
        judge_voids(tx)
    for session, (seq, tip) in touched.sessions.items():
        marks.raise_to(session, seq, tip)


def _import_lines(
    tx: Transaction,
    groups: list[tuple[EventGroup, bytes]],
    events: Iterator[tuple[Event, bytes]],
    touched: _ImportedChanges,
    verifier: Verifier,
) -> None:
    """Keeps what the lines of a file hold, its groups first."""
    doubts = store_groups(tx, groups, verifier)
    sound = [group for group, doubt in doubts.items() if not doubt]
    touched.expected.add_groups(sound)
    while batch := list(islice(events, _BATCH)):
        _store_batch(tx, batch, touched)
    touched.confirm(confirm(tx, doubts))


def _numbered_lines(content: bytes) -> Iterator[tuple[int, bytes | str]]:
    return enumerate(content.split(b"\n"), 1)


class LegacyFile(NamedTuple):
    """The lines of GoT tools in a file."""

    name: str
    sha256: str
    events: tuple[GroupedEvent, ...]

    @property
    def session(self) -> str:
        """The session of the groups that name them."""
        return f"{IMPORT}{self.sha256[:32]}"

    def sign_groups(self, signer: Signer, at: Instant) -> Iterator[EventGroup]:
        """The groups that name them, signed by whoever imports them."""
        return signer.sign(self.session, 1, chain_start(self.session, signer.key), self.events, at)

    @property
    def event(self) -> LinesImported:
        """What is recorded when they are imported."""
        return LinesImported(file=self.name, sha256=self.sha256, count=len(self.events))


def vouch_for_legacy_files(
    files: Iterable[LegacyFile], at: Instant, tx: Transaction, signer: Signer
) -> Voucher:
    """The groups that make the lines of these files count, and what is recorded; without files imported before."""
    known = {kept.group.session for kept in tx.groups.imports() if not kept.doubt}
    new = [file for file in files if file.session not in known]
    return Voucher(
        [group for file in new for group in file.sign_groups(signer, at)], [file.event for file in new]
    )


def read_legacy_file(exchange: Exchange, path: str) -> LegacyFile:
    """The lines of GoT tools in a file; those of ours bring their own signatures."""
    found = [(event, line) for event, line in _read_events(exchange.read(path), path, []) if event.is_legacy]
    content = b"".join(line + b"\n" for _, line in found)
    return LegacyFile(
        os.path.basename(path),
        sha256(content).hexdigest(),
        tuple(GroupedEvent(event.meta.id, event_task_id(event)) for event, _ in found),
    )


def store_events(tx: Transaction, entries: list[EventEntry]) -> None:
    """Keeps events and folds the tasks they touch anew."""
    if entries:
        tx.events.add(entries)
        refold_tasks(tx, {entry.subject for entry in entries} - {""})


def refold_tasks(tx: Transaction, tasks: Iterable[str]) -> None:
    """Folds tasks from all their events."""
    for task_id in sorted(tasks):
        events = task_events(tx, task_id)
        task = replay(events)
        if task is not None:
            tx.tasks.put(task)
            if is_recorded_in_files(None, task, events):
                tx.outdated.note(task_id)


def file_problems(
    exchange: Exchange,
    path: str,
    limit: Instant,
    voids: VoidedEvents = NO_VOIDS,
    known: Collection[int] = frozenset(),
) -> list[Problem]:
    """What is wrong with a file, read anew. What is later than the limit is held back, unless it is void.

    Lines whose hash is known were examined elsewhere.
    """
    problems: list[Problem] = []
    lines = [
        (number, line)
        for number, line in exchange.read(path)
        if isinstance(line, str) or hash(line.rstrip(b"\r")) not in known
    ]
    for _ in _read_groups(iter(lines), path, problems):
        pass
    for event, line in _read_events(iter(lines), path, problems):
        if event.ts > limit and event not in voids:
            problems.append(_clock_problem(event, exchange, path, line))
    return problems


def file_events(
    exchange: Exchange, path: str, known: Collection[int] = frozenset()
) -> Iterator[tuple[int, Event]]:
    """The good events of a file with the numbers of their lines, but for lines whose hash is known."""
    for number, line in exchange.read(path):
        if isinstance(line, bytes) and hash(line.rstrip(b"\r")) in known:
            continue
        for event, _ in _read_events(iter([(number, line)]), path, []):
            yield number, event


def _clock_problem(event: Event, exchange: Exchange, path: str, line: bytes) -> Problem:
    number = next(
        (n for n, other in exchange.read(path) if isinstance(other, bytes) and other.startswith(line)), 0
    )
    return Problem(
        file=path,
        line=number,
        problem=(
            f"is from {event.ts}, too far ahead of this machine's clock: it is held back until then. If the clock of the "
            "machine that wrote it ran ahead, `remand log repair` there writes it again with the right time"
        ),
    )


class _ImportedChanges:
    """What the files brought: tasks, sessions, the latest time, and how many events.

    A ledger that was empty before is folded while its files are read.
    """

    def __init__(self, tx: Transaction, limit: Instant) -> None:
        self.limit = limit
        """Later events are held back."""
        self.subjects = Subjects(tx)
        self.expected = ExpectedLines(tx)
        self.sessions: dict[str, tuple[int, str]] = {}
        self.clock: Instant = ""
        self._known = tx.events.count()
        self.has_imported_handoffs = self.has_voids = False
        self._count = 0
        self._tasks: set[str] = set()
        self._fold = Fold()

    def add(self, entry: EventEntry) -> None:
        """Takes one event into account. One without effect moves nothing, the clock neither."""
        self._count += 1
        if entry.doubt:
            return
        self._advance_clock(entry)
        if entry.subject and self._known:
            self._tasks.add(entry.subject)
        elif entry.subject:
            self._fold.add(entry.event, entry.subject)

    def confirm(self, entries: Iterable[EventEntry]) -> None:
        """Takes events into account that were kept before, and count from now on."""
        for entry in entries:
            self._advance_clock(entry)
            self._tasks |= {entry.subject} - {""}

    def _advance_clock(self, entry: EventEntry) -> None:
        """Moves the clock and the mark of its session."""
        event = entry.event
        self.clock = max(self.clock, event.ts)
        self.has_imported_handoffs |= event.is_legacy and hasattr(event, "handoff_id")
        self.has_voids |= entry.subject == VOIDS
        meta = event.meta
        if meta.seq > self.sessions.get(meta.session, (0, ""))[0]:
            self.sessions[meta.session] = (meta.seq, meta.id)

    def finish(self, tx: Transaction) -> None:
        """Brings the tables up to date, the shorter way."""
        is_new = not self._known and bool(self._count)
        if is_new and not self._tasks:
            self._fold.finish(tx)
        elif is_new or self._count > self._known // 4 + 1000:
            rebuild_tables(tx)
        else:
            refold_tasks(tx, self._tasks)


def _store_batch(tx: Transaction, batch: list[tuple[Event, bytes]], touched: _ImportedChanges) -> None:
    found: list[ReadEvent] = []
    touched.expected.remove_arrived(event for event, _ in batch)
    voids = active_voids(tx)
    for event, line in batch:
        if event.ts > touched.limit and event not in voids:
            tx.held.add(event, line)
            continue
        found.append(ReadEvent(event, line, event_task_id(event)))
    entries = touched.subjects.assign(judge(tx, found, voids))
    for entry in entries:
        touched.add(entry)
    tx.events.add(entries)


def _read_groups(
    lines: Iterator[tuple[int, bytes | str]], path: str, problems: list[Problem]
) -> Iterator[tuple[EventGroup, bytes]]:
    """The signed groups of a file; what is wrong with the others is noted."""
    for number, line in lines:
        if isinstance(line, bytes) and signatures.is_group(line):
            bare = line.rstrip(b"\r")
            try:
                yield signatures.decode_group(bare), bare
            except BadLine as bad:
                problems.append(Problem(file=path, line=number, problem=str(bad)))


def _read_events(
    lines: Iterator[tuple[int, bytes | str]], path: str, problems: list[Problem]
) -> Iterator[tuple[Event, bytes]]:
    """The good events of a file; what is wrong with the others is noted."""
    for number, line in lines:
        if isinstance(line, str):
            problems.append(Problem(file=path, line=number, problem=line))
            continue
        bare = line.rstrip(b"\r")
        if not bare.strip() or signatures.is_group(bare):
            continue
        try:
            yield codec.decode_line(bare), bare
        except BadLine as bad:
            problems.append(Problem(file=path, line=number, problem=str(bad)))
