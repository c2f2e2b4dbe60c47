"""Events that others wrote: read from files, kept, and folded into the tasks they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from remand.app.believing import Judge
from remand.app.orchestration import is_on_file
from remand.app.ports import Clock, Exchange, Marks, Segment
from remand.app.rebuild import Fold, assign_imported, rebuild, story, uncollected
from remand.domain.events import Event, subject
from remand.domain.evolve import replay
from remand.domain.instant import Instant
from remand.ledger import codec
from remand.ledger.order import horizon
from remand.ledger.problems import BadLine, Problem
from remand.ledger.store import Entry, FileMark, Transaction

_BATCH = 5000


def changed_files(tx: Transaction, exchange: Exchange, segment: Segment) -> list[FileMark]:
    """The files that were not read yet as they are now. The ledger's own open segment is no news."""
    known = tx.files.marks()
    own = segment.path(tx.head.segment) if tx.head.segment else ""
    return [mark for mark in exchange.files() if mark.path != own and known.get(mark.path) != mark]


def read_in(
    tx: Transaction, files: list[FileMark], exchange: Exchange, clock: Clock, marks: Marks, *, judge: Judge
) -> None:
    """Keeps every event of the files that is not kept yet, and folds the tasks they touch anew."""
    limit = horizon(clock.now())
    held = tx.files.earliest_held()
    if not files and not (held and held <= limit):
        return
    touched = _Touched(tx.events.count())
    with uncollected():
        for mark in files:
            problems: list[Problem] = []
            events = _events(exchange.read(mark.path), mark.path, problems)
            while batch := list(islice(events, _BATCH)):
                _keep(tx, batch, limit, touched, judge)
            tx.files.note(mark, problems)
        ripe = [(codec.recall(line), line) for line in tx.files.ripe(limit)]
        _keep(tx, ripe, limit, touched, judge)
        if touched.has_imported_handoffs:
            assign_imported(tx)
        touched.finish(tx)
    if touched.clock > tx.head.clock:
        tx.head = replace(tx.head, clock=touched.clock)
    for session, (seq, tip) in touched.sessions.items():
        marks.raise_to(session, seq, tip)


def absorb(tx: Transaction, entries: list[Entry], judge: Judge) -> None:
    """Keeps events and folds the tasks they touch anew."""
    if entries:
        tx.events.add(judge.judged(tx, entries))
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


def problems_in(exchange: Exchange, path: str, now: Instant) -> list[Problem]:
    """What is wrong with a file, read anew."""
    problems: list[Problem] = []
    limit = horizon(now)
    for event, line in _events(exchange.read(path), path, problems):
        if event.ts > limit:
            problems.append(_ahead(event, exchange, path, line))
    return problems


def _ahead(event: Event, exchange: Exchange, path: str, line: bytes) -> Problem:
    number = next(
        (n for n, other in exchange.read(path) if isinstance(other, bytes) and other.startswith(line)), 0
    )
    return Problem(
        file=path,
        line=number,
        problem=f"is from {event.ts}, more than 24 h ahead; it is held back until then",
    )


class _Touched:
    """What the files brought: tasks, sessions, the latest time, and how many events.

    A ledger that was empty before is folded while its files are read.
    """

    def __init__(self, known: int) -> None:
        self.sessions: dict[str, tuple[int, str]] = {}
        self.clock: Instant = ""
        self.has_imported_handoffs = False
        self._known = known
        self._count = 0
        self._tasks: set[str] = set()
        self._fold = Fold()

    def add(self, event: Event, task_id: str) -> None:
        """Takes one event into account."""
        self._count += 1
        self.clock = max(self.clock, event.ts)
        self.has_imported_handoffs |= event.is_legacy and hasattr(event, "handoff_id")
        if task_id and self._known:
            self._tasks.add(task_id)
        elif task_id:
            self._fold.add(event, task_id)
        meta = event.meta
        if meta.seq > self.sessions.get(meta.session, (0, ""))[0]:
            self.sessions[meta.session] = (meta.seq, meta.id)

    def finish(self, tx: Transaction) -> None:
        """Brings the tables up to date, the shorter way."""
        if not self._known and self._count:
            self._fold.finish(tx)
        elif self._count > self._known // 4 + 1000:
            rebuild(tx)
        else:
            fold_anew(tx, self._tasks)


def _keep(
    tx: Transaction, batch: list[tuple[Event, bytes]], limit: Instant, touched: _Touched, judge: Judge
) -> None:
    entries: list[Entry] = []
    for event, line in batch:
        if event.ts > limit:
            tx.files.hold_back(event, line)
            continue
        task_id = subject(event) or _of_handoff(tx, event, entries)
        entries.append(Entry(event, line, task_id))
    judged = judge.judged(tx, entries)
    for entry in judged:
        touched.add(entry.event, "" if entry.doubt else entry.subject)
    tx.events.add(judged)


def _of_handoff(tx: Transaction, event: Event, entries: list[Entry]) -> str:
    """The task of a handoff event that does not name it, as those of GoT tools."""
    handoff_id = getattr(event, "handoff_id", "")
    if not handoff_id:
        return ""
    for entry in reversed(entries):
        if entry.subject and getattr(entry.event, "handoff_id", "") == handoff_id:
            return entry.subject
    return tx.tasks.named(handoff_id)


def _events(
    lines: Iterator[tuple[int, bytes | str]], path: str, problems: list[Problem]
) -> Iterator[tuple[Event, bytes]]:
    """The good events of a file; what is wrong with the others is noted."""
    for number, line in lines:
        if isinstance(line, str):
            problems.append(Problem(file=path, line=number, problem=line))
            continue
        bare = line.rstrip(b"\r")
        if not bare.strip():
            continue
        try:
            yield codec.read(bare), bare
        except BadLine as bad:
            problems.append(Problem(file=path, line=number, problem=str(bad)))
