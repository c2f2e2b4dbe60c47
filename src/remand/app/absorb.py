"""Events that others wrote: read from files, kept, and folded into the tasks they belong to."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.judging_anew import judge_voids
from remand.app.kept_groups import keep_groups
from remand.app.missing import Expected
from remand.app.orchestration import is_on_file
from remand.app.ports import Clock, Exchange, Marks, Segment
from remand.app.rebuild import Fold, assign_imported, rebuild, story, uncollected
from remand.app.signatures import (
    Found,
    Signer,
    Subjects,
    Verifier,
    Vouched,
    confirm,
    judge,
    voids_of,
)
from remand.domain.events import VOIDS, Event, LinesImported, subject
from remand.domain.evolve import replay
from remand.domain.instant import Instant
from remand.ledger import codec, signatures
from remand.ledger.order import tick
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import IMPORT, Group, Named, chain_start
from remand.ledger.store import Entry, FileMark, Transaction
from remand.ledger.voids import Voids

_BATCH = 5000
NO_VOIDS = Voids(())


def changed_files(tx: Transaction, exchange: Exchange, segment: Segment) -> list[FileMark]:
    """The files that were not read yet as they are now. The ledger's own open segment is no news."""
    known = tx.files.marks()
    own = segment.path(tx.head.segment) if tx.head.segment else ""
    return [mark for mark in exchange.files() if mark.path != own and known.get(mark.path) != mark]


def read_in(
    tx: Transaction,
    files: list[FileMark],
    exchange: Exchange,
    clock: Clock,
    marks: Marks,
    *,
    limit: Instant,
    verifier: Verifier,
    recovered: Sequence[bytes] = (),
) -> None:
    """Keeps every group and event of the files that is not kept yet, and folds the tasks they touch anew.

    What was recovered is what files once held, with the same rules. Events that are later than the limit are held back.
    """
    held = tx.files.earliest_held()
    if not files and not recovered and not (held and held <= limit):
        return
    touched = _Touched(tx, limit)
    with uncollected():
        for mark in files:
            problems: list[Problem] = []
            groups = list(_groups(exchange.read(mark.path), mark.path, problems))
            events = _events(exchange.read(mark.path), mark.path, problems)
            _take(tx, groups, events, touched, verifier)
            tx.files.note(mark, problems)
        for content in recovered:
            groups, events = list(_groups(_numbered(content), "", [])), _events(_numbered(content), "", [])
            _take(tx, groups, events, touched, verifier)
        ripe = [(codec.recall(line), line) for line in tx.files.ripe(limit)]
        _keep(tx, ripe, touched)
        if touched.has_imported_handoffs:
            assign_imported(tx)
        touched.finish(tx)
        touched.expected.settle(marks.all(), tick(clock.now(), max(touched.clock, tx.head.clock)))
    if touched.clock > tx.head.clock:
        tx.head = replace(tx.head, clock=touched.clock)
    if touched.has_voids:
        judge_voids(tx)
    for session, (seq, tip) in touched.sessions.items():
        marks.raise_to(session, seq, tip)


def _take(
    tx: Transaction,
    groups: list[tuple[Group, bytes]],
    events: Iterator[tuple[Event, bytes]],
    touched: _Touched,
    verifier: Verifier,
) -> None:
    """Keeps what the lines of a file hold, its groups first."""
    doubts = keep_groups(tx, groups, verifier)
    sound = [group for group, doubt in doubts.items() if not doubt]
    touched.expected.name(sound)
    while batch := list(islice(events, _BATCH)):
        _keep(tx, batch, touched)
    touched.confirm(confirm(tx, doubts))


def _numbered(content: bytes) -> Iterator[tuple[int, bytes | str]]:
    return enumerate(content.split(b"\n"), 1)


class LegacyFile(NamedTuple):
    """The lines of GoT tools in a file."""

    name: str
    sha256: str
    events: tuple[Named, ...]

    @property
    def session(self) -> str:
        """The session of the groups that name them."""
        return f"{IMPORT}{self.sha256[:32]}"

    def signed(self, signer: Signer, at: Instant) -> Iterator[Group]:
        """The groups that name them, signed by whoever imports them."""
        return signer.sign(self.session, 1, chain_start(self.session, signer.key), self.events, at)

    @property
    def event(self) -> LinesImported:
        """What is recorded when they are imported."""
        return LinesImported(file=self.name, sha256=self.sha256, count=len(self.events))


def imports(files: Iterable[LegacyFile], at: Instant, tx: Transaction, signer: Signer) -> Vouched:
    """The groups that make the lines of these files count, and what is recorded; without files imported before."""
    known = {kept.group.session for kept in tx.groups.imports() if not kept.doubt}
    new = [file for file in files if file.session not in known]
    return Vouched([group for file in new for group in file.signed(signer, at)], [file.event for file in new])


def legacy_lines(exchange: Exchange, path: str) -> LegacyFile:
    """The lines of GoT tools in a file; those of ours bring their own signatures."""
    found = [(event, line) for event, line in _events(exchange.read(path), path, []) if event.is_legacy]
    content = b"".join(line + b"\n" for _, line in found)
    return LegacyFile(
        os.path.basename(path),
        sha256(content).hexdigest(),
        tuple(Named(event.meta.id, subject(event)) for event, _ in found),
    )


def absorb(tx: Transaction, entries: list[Entry]) -> None:
    """Keeps events and folds the tasks they touch anew."""
    if entries:
        tx.events.add(entries)
        fold_anew(tx, {entry.subject for entry in entries} - {""})


def fold_anew(tx: Transaction, tasks: Iterable[str]) -> None:
    """Folds tasks from all their events."""
    for task_id in sorted(tasks):
        events = story(tx, task_id)
        task = replay(events)
        if task is not None:
            tx.tasks.put(task)
            if is_on_file(task, events):
                tx.outdated.note(task_id)


def problems_in(
    exchange: Exchange,
    path: str,
    limit: Instant,
    voids: Voids = NO_VOIDS,
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
    for _ in _groups(iter(lines), path, problems):
        pass
    for event, line in _events(iter(lines), path, problems):
        if event.ts > limit and event not in voids:
            problems.append(_ahead(event, exchange, path, line))
    return problems


def events_in(
    exchange: Exchange, path: str, known: Collection[int] = frozenset()
) -> Iterator[tuple[int, Event]]:
    """The good events of a file with the numbers of their lines, but for lines whose hash is known."""
    for number, line in exchange.read(path):
        if isinstance(line, bytes) and hash(line.rstrip(b"\r")) in known:
            continue
        for event, _ in _events(iter([(number, line)]), path, []):
            yield number, event


def _ahead(event: Event, exchange: Exchange, path: str, line: bytes) -> Problem:
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


class _Touched:
    """What the files brought: tasks, sessions, the latest time, and how many events.

    A ledger that was empty before is folded while its files are read.
    """

    def __init__(self, tx: Transaction, limit: Instant) -> None:
        self.limit = limit
        """Later events are held back."""
        self.subjects = Subjects(tx)
        self.expected = Expected(tx)
        self.sessions: dict[str, tuple[int, str]] = {}
        self.clock: Instant = ""
        self._known = tx.events.count()
        self.has_imported_handoffs = self.has_voids = False
        self._count = 0
        self._tasks: set[str] = set()
        self._fold = Fold()

    def add(self, entry: Entry) -> None:
        """Takes one event into account. One without effect moves nothing, the clock neither."""
        self._count += 1
        if entry.doubt:
            return
        self._follow(entry)
        if entry.subject and self._known:
            self._tasks.add(entry.subject)
        elif entry.subject:
            self._fold.add(entry.event, entry.subject)

    def confirm(self, entries: Iterable[Entry]) -> None:
        """Takes events into account that were kept before, and count from now on."""
        for entry in entries:
            self._follow(entry)
            self._tasks |= {entry.subject} - {""}

    def _follow(self, entry: Entry) -> None:
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
            rebuild(tx)
        else:
            fold_anew(tx, self._tasks)


def _keep(tx: Transaction, batch: list[tuple[Event, bytes]], touched: _Touched) -> None:
    found: list[Found] = []
    touched.expected.arrive(event for event, _ in batch)
    voids = voids_of(tx)
    for event, line in batch:
        if event.ts > touched.limit and event not in voids:
            tx.files.hold_back(event, line)
            continue
        found.append(Found(event, line, subject(event)))
    entries = touched.subjects.assign(judge(tx, found, voids))
    for entry in entries:
        touched.add(entry)
    tx.events.add(entries)


def _groups(
    lines: Iterator[tuple[int, bytes | str]], path: str, problems: list[Problem]
) -> Iterator[tuple[Group, bytes]]:
    """The signed groups of a file; what is wrong with the others is noted."""
    for number, line in lines:
        if isinstance(line, bytes) and signatures.is_group(line):
            bare = line.rstrip(b"\r")
            try:
                yield signatures.read(bare), bare
            except BadLine as bad:
                problems.append(Problem(file=path, line=number, problem=str(bad)))


def _events(
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
            yield codec.read(bare), bare
        except BadLine as bad:
            problems.append(Problem(file=path, line=number, problem=str(bad)))
