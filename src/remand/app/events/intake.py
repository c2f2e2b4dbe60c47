"""Reads events of others from files, verifies, stores and folds them, and judges them again when trust or voids change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec.structs import replace

from remand.app.events.missing_lines import (
    ExpectedLines,
    SeenSessions,
    archived_tasks,
    note_missing,
    note_waiting,
)
from remand.app.events.orchestration_log import is_recorded_in_files
from remand.app.events.signatures import (
    BatchGroups,
    GroupSource,
    ReadEvent,
    Subjects,
    Verifier,
    active_voids,
    apply_doubts,
    confirm,
    confirmed_events,
    judge,
    judge_authority,
    judge_signatures,
    store_groups,
)
from remand.app.events.task_folds import (
    Fold,
    assign_imported,
    rebuild_tables,
    task_events,
    without_garbage_collection,
)
from remand.app.ports import Clock, Exchange, SessionMarks
from remand.domain.access.keys import AUTHORITIES, ChainEnd, Trust, parse_trust
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import VOIDS, EventsVoided, TaskArchived
from remand.domain.evolve import archived_history, replay
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
    EventGroup,
)
from remand.ledger.store import Transaction


def judge_by_trust(tx: Transaction, verifier: Verifier) -> None:
    """Judges all stored events by changed trust: some gain effect, others lose it."""
    tx.fence_writers()
    if tx.unconfirmed.trust == verifier.trust_text:
        return  # a concurrent writer has already done so
    before, is_first = parse_trust(tx.unconfirmed.trust), not tx.unconfirmed.trust
    is_all = is_first or before.project != verifier.trust.project
    changed = {key_id for key_id, _ in _trust_limits(before) ^ _trust_limits(verifier.trust)}
    lines = {one.group: one.line for one in tx.groups.every() if is_all or one.group.key in changed}
    doubts = verifier.doubts(lines)
    tx.groups.add(SignedGroup(group, lines[group], doubt) for group, doubt in doubts.items())
    tx.unconfirmed.trust = verifier.trust.text
    has_others = before.members != verifier.trust.members and _has_changed_authority(tx)
    if (is_first or lines or has_others or archived_tasks(tx)) and (judge_events(tx) or is_first):
        rebuild_tables(tx)


def _has_changed_authority(tx: Transaction) -> bool:
    """True if there are events about the log itself: who may write them depends on who is the user."""
    return any(True for kind in AUTHORITIES for _ in tx.event_rows.rows(kind=kind))


def _trust_limits(trust: Trust) -> set[tuple[str, frozenset[ChainEnd] | None]]:
    """The ids of the trusted keys, each with the end of its trust."""
    return {(key.id, None if key.until is None else frozenset(key.until)) for key in trust.keys}


def judge_voids(tx: Transaction) -> None:
    """Judges all events by the current voiding events and rebuilds the tables.

    Void events that were held back for their time are stored with the others, as they will never have an effect. The
    clock is that of the remaining events.
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
    """Everything voided by voiding events with valid signatures."""
    found: list[ReadEvent] = []
    for row in tx.event_rows.rows(kind=EventsVoided):
        with suppress(BadLine):
            event = codec.decode_line(row.line)
            found.append(ReadEvent(event, row.line, event_task_id(event)))
    judged = judge_authority(tx, judge_signatures(tx, found, groups), groups)
    return VoidedEvents(entry.event for entry in judged if not entry.doubt)


def judge_events(tx: Transaction, lines: Collection[bytes] | None = None) -> bool:
    """Judges the stored events, or those of the given lines, by the current groups; True if anything changed."""
    voids = signed_voids(tx)
    withheld = {found.line: found for found in tx.unconfirmed.every()}
    changed: list[EventEntry] = []
    subjects = Subjects(tx)
    rows = iter(list(tx.event_rows.rows(lines=lines)))
    while batch := list(islice(rows, _BATCH)):
        found = _read_stored_lines(row.line for row in batch)
        changed += [
            entry
            for entry, row in zip(subjects.assign(judge(tx, found, voids)), batch, strict=True)
            if not is_stored_as(entry, row, withheld.get(row.line))
        ]
    apply_doubts(tx, changed)
    return bool(changed)


def is_stored_as(entry: EventEntry, row: KeptLine, withheld: UnconfirmedEvent | None) -> bool:
    """True if the tables agree with the judgement of an event."""
    if entry.doubt:
        expected = as_unconfirmed(entry)
        if withheld and entry.event.is_legacy:
            # Its task may be known only by its handoff.
            expected = expected._replace(task=withheld.task)
        return not row.subject and not row.key and withheld == expected
    return withheld is None and (row.subject, row.key) == (entry.subject, entry.event.meta.key)


def held_entries(tx: Transaction) -> list[EventEntry]:
    """The held-back events that will count when their time has come."""
    return [entry for entry in judge(tx, _read_stored_lines(tx.held.lines())) if not entry.doubt]


def _read_stored_lines(lines: Iterable[bytes]) -> list[ReadEvent]:
    events = ((codec.decode_stored_line(line), line) for line in lines)
    return [ReadEvent(event, line, event_task_id(event)) for event, line in events]


_BATCH, _FEW_LINES = 10_000, 1000
"""How many lines are examined and stored at once, and how many are looked up among known ones."""
PART_BYTES = 32 << 20
"""How many bytes are read in one change: one or two seconds on a fast machine."""
NO_VOIDS = VoidedEvents(())


def changed_event_files(tx: Transaction, exchange: Exchange) -> list[FileMark]:
    """The files whose current content has not been read. The ledger's own open segment is not included."""
    known = tx.files.marks()
    own = exchange.path(tx.head.segment) if tx.head.segment else ""
    return [mark for mark in exchange.files() if mark.path != own and known.get(mark.path) != mark]


class _Batch(NamedTuple):
    """Lines that were read and examined."""

    groups: list[tuple[EventGroup, bytes]]
    events: list[ReadEvent]
    lines: int
    size: int


class _OpenFile:
    """An event file that is being read."""

    def __init__(
        self,
        mark: FileMark,
        exchange: Exchange,
        known: Collection[int],
        start: int,
        problems: Iterable[Problem],
    ) -> None:
        self.mark = mark
        self.lines = start
        """The number of lines read."""
        self.size = 0
        """The number of bytes read of it by this process."""
        self.problems = list(problems)
        lines = _unknown_lines(exchange, mark.path, known) if known else exchange.read(mark.path)
        self.batches = read_batches(islice(lines, start, None) if start else lines, mark.path, self.problems)

    @property
    def place(self) -> str:
        """Its reading position, encoded as one line."""
        return msgspec.json.encode((self.mark, self.lines)).decode()


class FileIntake:
    """Reads in event files part by part.

    Each part is committed with its change, so that nothing is read twice if a process is killed, and other processes
    get the lock in between. The tables are updated after the last part: from what this process remembers of the parts,
    or by folding everything if another process has read some of them.
    """

    def __init__(
        self, exchange: Exchange, clock: Clock, marks: SessionMarks, note_progress: Callable[[str], None]
    ) -> None:
        self._exchange = exchange
        self._note_progress = note_progress
        self._clock = clock
        self._marks = marks
        self._changes: _ImportedChanges | None = None
        self._open: _OpenFile | None = None
        self._trust = ""
        """The trust by which they were judged."""
        self._done = 0
        """The number of bytes read by this object."""

    def read(
        self,
        tx: Transaction,
        files: Sequence[FileMark],
        *,
        limit: Instant,
        verifier: Verifier,
        recovered: Sequence[bytes] = (),
        most: int = 0,
        known: Collection[int] = frozenset(),
    ) -> bool:
        """Stores every new group and event of the files and refolds the affected tasks.

        Recovered content of files is treated by the same rules. Events later than the limit are held back. Returns
        False if it stopped after `most` bytes with more left, to be continued in another change. Lines with a known
        hash are skipped, as they are stored already.
        """
        place, held = tx.files.place, tx.held.earliest()
        if not files and not recovered and not place and not (held and held <= limit):
            return True
        changes, opened = self._resume(tx, place, limit, verifier.trust_text)
        tx.on_rollback(self._forget)
        size, total = 0, self._done + sum(mark.size for mark in files) - (opened.size if opened else 0)
        with without_garbage_collection():
            # The interrupted file comes first, so that new or changed files do not reset its position.
            left = _left_at(place)[0] if place else None
            for mark in sorted(files, key=lambda one: left is None or one.path != left.path):
                # A file that changes faster than it is read in parts would be restarted forever.
                is_whole = left is not None and mark.path == left.path and mark != left
                if opened is None or opened.mark != mark:
                    opened = _OpenFile(mark, self._exchange, known, *_progress_in(tx, mark, place))
                for batch in opened.batches:
                    _import_batch(tx, batch, changes, verifier)
                    opened.lines += batch.lines
                    size += batch.size
                    opened.size += batch.size
                    self._done += batch.size
                    self._note_progress(f"reading event files, {self._done >> 20} of {total >> 20} MB")
                    if most and size >= most and not is_whole:
                        self._keep_place(tx, changes, opened, verifier.trust_text)
                        return False
                tx.files.note(mark, opened.problems)
            for content in recovered:
                for batch in read_batches(_numbered_lines(content), "", []):
                    _import_batch(tx, batch, changes, verifier)
            _store_events(tx, _read_stored_lines(tx.held.take_due(limit)), changes)
            changes.finish(tx, self._marks.all(), self._clock.now(), self._note_progress)
        tx.files.place = ""
        changes.leave_marks(tx, self._marks)
        if changes.has_voids:
            judge_voids(tx)
        return True

    def _resume(
        self, tx: Transaction, place: str, limit: Instant, trust: str
    ) -> tuple[_ImportedChanges, _OpenFile | None]:
        """The parts read before this change, if this process read all of them under the same trust."""
        changes, opened, before = self._changes, self._open, self._trust
        self._forget()
        if changes is not None and opened is not None and (opened.place, before) == (place, trust):
            changes.limit = limit
            return changes, opened
        return _ImportedChanges(tx, limit, is_resumed=bool(place)), None

    def _keep_place(self, tx: Transaction, changes: _ImportedChanges, opened: _OpenFile, trust: str) -> None:
        """Stores the reading position. The file counts as changed until it has been read completely."""
        tx.files.note(FileMark(opened.mark.path, -1, 0, 0), opened.problems)
        tx.files.place = opened.place
        changes.leave_marks(tx, self._marks)
        self._changes, self._open, self._trust = changes, opened, trust

    def _forget(self) -> None:
        self._changes = self._open = None


def _left_at(place: str) -> tuple[FileMark, int]:
    """The interrupted file and its number of lines read."""
    return msgspec.json.decode(place, type=tuple[FileMark, int])


def _progress_in(tx: Transaction, mark: FileMark, place: str) -> tuple[int, list[Problem]]:
    """How many lines of an interrupted file were read, and their problems."""
    if place:
        left, lines = _left_at(place)
        if left == mark:
            return lines, [one for one in tx.files.problems() if one.file == mark.path]
    return 0, []


def _import_batch(tx: Transaction, batch: _Batch, changes: _ImportedChanges, verifier: Verifier) -> None:
    """Stores the content of lines, groups first."""
    doubts = store_groups(tx, batch.groups, verifier) if batch.groups else {}
    changes.expected.add_groups([group for group, doubt in doubts.items() if not doubt])
    given = (SignedGroup(group, line, doubts[group]) for group, line in dict(batch.groups).items())
    _store_events(tx, batch.events, changes, BatchGroups(tx, given))
    if doubts:
        changes.confirm(confirm(tx, doubts))


def _store_events(
    tx: Transaction, events: list[ReadEvent], changes: _ImportedChanges, groups: GroupSource | None = None
) -> None:
    """Judges and stores events. Those too far ahead of the clock are held back."""
    if not events:
        return
    changes.expected.remove_arrived(tx, (one.event for one in events))
    voids, limit = active_voids(tx), changes.limit
    ahead = [one for one in events if one.event.ts > limit and one.event not in voids]
    if ahead:
        for event, line, _ in ahead:
            tx.held.add(event, line)
        events = [one for one in events if one.event.ts <= limit or one.event in voids]
    entries = judge(tx, events, voids, groups)
    if any(one.event.meta.seq <= 0 for one in events):
        entries = changes.subjects.assign(entries)
    changes.add(entries)
    tx.events.add(entries)


def _numbered_lines(content: bytes) -> Iterator[tuple[int, bytes | str]]:
    return enumerate(codec.iterate_lines(content), 1)


def store_events(tx: Transaction, entries: list[EventEntry]) -> None:
    """Stores events and refolds the affected tasks."""
    if entries:
        tx.events.add(entries)
        refold_tasks(tx, {entry.subject for entry in entries} - {""})


def refold_tasks(tx: Transaction, tasks: Iterable[str], archived: Collection[str] = ()) -> None:
    """Folds tasks from all their events.

    The handoffs and traces of an archived task come either from lines or from the archived state, never from both. All
    tables are therefore rebuilt if lines are elsewhere or have arrived, but not if only the archive of present lines
    has arrived.
    """
    is_mixed = False
    for task_id in sorted(tasks):
        events = task_events(tx, task_id)
        task = replay(events)
        is_mixed |= archived_history(events) is not None or (
            task_id not in archived and _is_archived(tx, task_id)
        )
        if task is not None:
            tx.tasks.put(task)
            if is_recorded_in_files(None, task, events):
                tx.outdated.note(task_id)
    if is_mixed:
        rebuild_tables(tx)


def _is_archived(tx: Transaction, task_id: str) -> bool:
    return codec.may_have_kinds(tx.events.of_task(task_id), (TaskArchived,))


def file_problems(
    exchange: Exchange,
    path: str,
    limit: Instant,
    voids: VoidedEvents = NO_VOIDS,
    known: Container[int] = frozenset(),
) -> list[Problem]:
    """The problems of a file, read again. Events later than the limit are held back unless they are void.

    Lines with a known hash were examined elsewhere.
    """
    problems: list[Problem] = []
    lines = _unknown_lines(exchange, path, known)
    for batch in read_batches(lines, path, problems):
        for event, line, _ in batch.events:
            if event.ts > limit and event not in voids:
                problems.append(_clock_problem(event, exchange, path, line))
    return problems


def has_unknown_lines(exchange: Exchange, path: str, known: Container[int]) -> bool:
    """True if a file has a line whose hash is not known."""
    return any(True for _ in _unknown_lines(exchange, path, known))


def _unknown_lines(exchange: Exchange, path: str, known: Container[int]) -> Iterator[tuple[int, bytes | str]]:
    """A file's lines except those with a known hash. Of most files, all are known."""
    lines = exchange.read(path)
    while part := list(islice(lines, _FEW_LINES)):
        # A hash is never -1, which stands for a line that cannot be read.
        hashes = [hash(line.rstrip(b"\r")) if isinstance(line, bytes) else -1 for _, line in part]
        if not all(map(known.__contains__, hashes)):
            yield from (one for one, number in zip(part, hashes, strict=True) if number not in known)


def file_events(
    exchange: Exchange, path: str, known: Container[int] = frozenset()
) -> Iterator[tuple[int, Event]]:
    """The valid events of a file with their line numbers, except those with a known hash."""
    for number, line in _unknown_lines(exchange, path, known):
        for batch in read_batches(iter([(number, line)]), path, []):
            yield from ((number, one.event) for one in batch.events)


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


_NOWHERE = (0, "")


class _ImportedChanges:
    """What the files added: tasks, sessions, the latest time, and the number of events.

    An empty ledger is folded while its files are read. If another process read some of the files, their content is
    unknown, and everything is checked at the end.
    """

    def __init__(self, tx: Transaction, limit: Instant, *, is_resumed: bool) -> None:
        self.limit = limit
        """Later events are held back."""
        self.subjects = Subjects(tx)
        self.expected = ExpectedLines(tx)
        self.has_voids = False
        self._is_resumed = is_resumed
        self._known = tx.events.count()
        self._sessions: dict[str, tuple[int, str]] = {}
        self._clock: Instant = ""
        self._has_imported_handoffs = False
        self._count = 0
        self._tasks: set[str] = set()
        self._archived: set[str] = set()
        """Tasks whose archived state arrived."""
        self._withheld: set[str] = set()
        """Tasks whose archived state arrived but does not count."""
        self._continued: set[str] = set()
        """Tasks whose lines arrived."""
        self._fold = Fold()

    def add(self, entries: Sequence[EventEntry]) -> None:
        """Adds events. One without effect changes nothing, not even the clock."""
        self._count += len(entries)
        counted = [entry for entry in entries if not entry.doubt]
        if len(counted) < len(entries):
            archived = (entry.event for entry in entries if entry.doubt)
            self._withheld |= {event.task_id for event in archived if isinstance(event, TaskArchived)}
        self._advance_clock(counted)
        if not self._known:
            fold = self._fold.add
            for event, _, subject, _, _ in counted:
                if subject:
                    fold(event, subject)
            return
        for event, _, subject, _, _ in counted:
            if subject:
                self._tasks.add(subject)
                (self._archived if type(event) is TaskArchived else self._continued).add(subject)

    def confirm(self, entries: Sequence[EventEntry]) -> None:
        """Adds events that were stored before and count from now on."""
        self._advance_clock(entries)
        self._tasks |= {entry.subject for entry in entries} - {""}

    def _advance_clock(self, entries: Sequence[EventEntry]) -> None:
        """Advances the clock and the marks of the events' sessions."""
        sessions, clock = self._sessions, self._clock
        for event, _, subject, _, _ in entries:
            meta = event.meta
            clock = max(clock, event.ts)
            if meta.seq <= 0:
                self._has_imported_handoffs |= hasattr(event, "handoff_id")
            elif meta.seq > sessions.get(meta.session, _NOWHERE)[0]:
                sessions[meta.session] = (meta.seq, meta.id)
            if subject == VOIDS:
                self.has_voids = True
        self._clock = clock

    def finish(
        self, tx: Transaction, seen: SeenSessions, now: Instant, note_progress: Callable[[str], None]
    ) -> None:
        """Updates the tables in the cheaper way and records what is missing."""
        noted = next_time(now, max(self._clock, tx.head.clock))
        if self._has_imported_handoffs:
            assign_imported(tx)
        if self._is_resumed:
            rebuild_tables(tx, note_progress)
            note_missing(tx, seen, noted)
            self.has_voids = bool(active_voids(tx))
            return
        is_new = not self._known and bool(self._count)
        if is_new and not self._tasks:
            self._fold.finish(tx)
            self._tasks |= self._fold.archived_tasks
        elif is_new or self._count > self._known // 4 + 1000:
            rebuild_tables(tx, note_progress)
        else:
            refold_tasks(tx, self._tasks, self._archived - self._continued)
        self.expected.update_missing(tx, seen, noted)
        note_waiting(tx, self._tasks | self._withheld)

    def leave_marks(self, tx: Transaction, marks: SessionMarks) -> None:
        """Sets the clock after everything that arrived, and records each session's position."""
        if self._clock > tx.head.clock:
            tx.head = replace(tx.head, clock=self._clock)
        for session, (seq, tip) in self._sessions.items():
            marks.raise_to(session, seq, tip)
        self._sessions.clear()


def read_batches(
    lines: Iterator[tuple[int, bytes | str]], path: str, problems: list[Problem]
) -> Iterator[_Batch]:
    """The valid lines of a file in batches that end with a complete group; problems are collected."""
    groups: list[tuple[EventGroup, bytes]] = []
    events: list[ReadEvent] = []
    count = size = 0
    for number, line in lines:
        is_own = isinstance(line, bytes) and signatures.is_group(line)
        if count >= _BATCH and (is_own or count >= 2 * _BATCH):
            yield _Batch(groups, events, count, size)
            groups, events, count, size = [], [], 0, 0
        count += 1
        size += len(line)
        if isinstance(line, str):
            problems.append(Problem(file=path, line=number, problem=line))
            continue
        bare = line.rstrip(b"\r")
        try:
            if is_own:
                groups.append((signatures.decode_group(bare), bare))
            elif bare.strip():
                event = codec.decode_line(bare)
                events.append(ReadEvent(event, bare, event_task_id(event)))
        except BadLine as bad:
            problems.append(Problem(file=path, line=number, problem=str(bad)))
    if count:
        yield _Batch(groups, events, count, size)
