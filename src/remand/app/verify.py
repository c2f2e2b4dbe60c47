"""Checking the log: every line, every chain, every signature, and that nothing seen before has gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from remand.app.absorb import events_in, problems_in
from remand.app.judging_anew import GroupsInMemory, is_kept_as, signed_voids
from remand.app.missing import Repair, find_missing, is_fault, repairs
from remand.app.ports import Clock, Exchange, Marks
from remand.app.published import rewritten_problems
from remand.app.rebuild import Fold, uncollected
from remand.app.signatures import Found, Verifier, judge
from remand.domain.clock import horizon, is_ahead
from remand.domain.events import Event, subject
from remand.domain.instant import Instant
from remand.domain.missing import MissingLines
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.ledger import codec, signatures
from remand.ledger.order import tick
from remand.ledger.problems import LEDGER, BadLine, Problem, TableDifference
from remand.ledger.signatures import ADOPT, IMPORT, Doubt, Group
from remand.ledger.store import Entry, FileMark, KeptLine, SignedGroup, Transaction, Unconfirmed
from remand.ledger.traces import TRACED, Trace, trace
from remand.ledger.voids import Voids

_BATCH = 5000
_FIND = "Get the event files of every branch with git fetch, or restore them from a clone or a backup"


class Verified(Record, kw_only=True):
    """What a check of the log found."""

    events: int
    problems: tuple[Problem, ...]
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """Events that no trusted key covers. That alone is no problem: the user may come to trust the key."""
    given_up: tuple[Repair, ...] = ()
    """Missing lines that the user has given up."""
    is_ledger_wrong: bool = False
    """True when something is wrong with the ledger's own file, which can be made anew."""
    set_aside: tuple[Problem, ...] = ()
    """What stood behind the ledger's own lines in the open event file, and was moved out of it."""

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems


def verify(
    tx: Transaction,
    exchange: Exchange,
    marks: Marks,
    clock: Clock,
    verifier: Verifier,
    *,
    skew: float = Policy().clock_skew_seconds,
) -> Verified:
    """Reads every file and every kept event again."""
    now = clock.now()
    limit = horizon(now, skew, tx.head.bounded_from)
    kept = list(tx.groups.every())
    signed = list(_group_problems(kept, exchange, verifier))
    groups = GroupsInMemory(kept)
    voids = signed_voids(tx, groups)
    unconfirmed = tx.unconfirmed.every()
    rows = _Rows(
        _Tables(unconfirmed),
        _Chains(_without_groups(kept, unconfirmed)),
        {hash(one.line) for one in kept},
    )
    with uncollected():
        rows.read(tx, limit, voids, groups)
        wrong = [*rows.wrong, *rows.tables.differences(tx, kept), *_not_kept(tx, exchange, rows.known)]
        files = [
            problem
            for mark in exchange.files()
            for problem in problems_in(exchange, mark.path, limit, voids, rows.known)
        ]
    seen = marks.all()
    lost = find_missing(tx, seen, tick(now, tx.head.clock))
    problems = (
        *files,
        *_clock_problems(tx, now, skew),
        *signed,
        *wrong,
        *rows.broken,
        *rewritten_problems(tx.rewritten.every()),
        *_missing(tx, [one for lines in lost.values() for one in lines], rows.chains.tasks, marks),
    )
    return Verified(
        events=rows.count,
        problems=problems,
        unconfirmed=tuple(unconfirmed),
        given_up=tuple(repairs(tx)),
        set_aside=tuple(_set_aside(tx)),
        is_ledger_wrong=bool(wrong) or any(problem.file == LEDGER for problem in signed),
    )


class _Rows:
    """Reads every kept event again."""

    def __init__(self, tables: _Tables, chains: _Chains, known: set[int]) -> None:
        self.tables = tables
        self.chains = chains
        self.known = known
        """The hashes of lines that were examined."""
        self.count = 0
        self.wrong: list[Problem] = []
        """What is wrong with the ledger's own file."""
        self.broken: list[Problem] = []
        """What is wrong with the sessions' chains."""

    def read(self, tx: Transaction, limit: Instant, voids: Voids, groups: GroupsInMemory) -> None:
        """Compares what the tables say of each event with what its line and the groups say."""
        rows = tx.events.rows()
        while batch := list(islice(rows, _BATCH)):
            found = [(Found(event, row.line, subject(event)), row) for event, row in self._events(batch)]
            entries = judge(tx, [one for one, _ in found], voids, groups)
            for entry, (_, row) in zip(entries, found, strict=True):
                if entry.event.ts <= limit or entry.event in voids:
                    self.known.add(hash(row.line))
                self.broken += self.chains.check(entry.event, entry.doubt)
                self.wrong += self.tables.check(entry, row)

    def _events(self, rows: Iterable[KeptLine]) -> Iterator[tuple[Event, KeptLine]]:
        for row in rows:
            self.count += 1
            try:
                yield codec.read(row.line), row
            except BadLine as bad:
                about = f" about {row.subject}" if row.subject else ""
                self.wrong.append(_in_ledger(f"an event{about} {bad}"))


def _set_aside(tx: Transaction) -> list[Problem]:
    marks = tx.files.marks()
    return [
        one
        for one in tx.files.problems()
        if one.file != LEDGER and marks.get(one.file) == FileMark(one.file, 0, 0, 0)
    ]


def _not_kept(tx: Transaction, exchange: Exchange, known: Collection[int]) -> Iterator[Problem]:
    """Events that a file has and the ledger lost after it had read them."""
    held, legacy = tx.files.held_ids(), tx.events.ids("")
    for mark in exchange.files():
        lines = events_in(exchange, mark.path, known)
        while batch := list(islice(lines, _BATCH)):
            kept = held | legacy | _kept_among(tx, [event for _, event in batch])
            for number, event in batch:
                if event.meta.id not in kept:
                    problem = f"({_name(event)}) is not in the ledger any more. Run `remand log rebuild`"
                    yield Problem(file=mark.path, line=number, problem=problem)


def _kept_among(tx: Transaction, events: Iterable[Event]) -> set[str]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if not event.is_legacy:
            numbers[event.meta.session].append(event.meta.seq)
    spans = ((session, min(seqs), max(seqs)) for session, seqs in numbers.items())
    return {event_id for span in spans for event_id in tx.events.ids(*span)}


def _missing(
    tx: Transaction, lost: Iterable[MissingLines], tasks: Collection[str], marks: Marks
) -> Iterator[Problem]:
    """Events that signed groups name or leave out, or that this machine has seen, and that are not here."""
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
        yield _in_ledger(
            f"{what}. Get the event files of every branch with git fetch, or restore them from a "
            "clone or a backup. If they are lost, give them up: remand log repair"
        )


def _clock_problems(tx: Transaction, now: Instant, skew: float) -> Iterator[Problem]:
    """The ledger's clock, when it is so far ahead that nothing can be written."""
    if is_ahead(tx.head.clock, now, skew):
        yield _in_ledger(
            f"the latest event is from {tx.head.clock}, and this machine's clock says {now}: nothing can be written. "
            "If the machine's clock is wrong, set it right; else `remand log repair` says what to do"
        )


class _Tables:
    """Folds the events anew while they pass by, to compare the outcome with the tables."""

    def __init__(self, unconfirmed: Iterable[Unconfirmed]) -> None:
        self._withheld = {found.line: found for found in unconfirmed}
        self._fold = Fold()
        self._traces: list[Trace] = []
        self._adopted: list[tuple[str, str]] = []
        """The handoffs of imported lines that name no task, each with the task its line was given to."""

    def check(self, entry: Entry, row: KeptLine) -> Iterator[Problem]:
        """What the tables of events say wrong of one, which is then folded."""
        event, task = entry.event, entry.subject
        withheld = self._withheld.get(row.line)
        handoff = getattr(event, "handoff_id", "") if event.is_legacy and not task else ""
        if handoff and not entry.doubt:
            self._adopted.append((handoff, row.subject))
            row = row._replace(subject="")
        if not is_kept_as(entry, row, withheld):
            yield _wrongly_kept(entry, withheld)
        if entry.doubt:
            return
        if task:
            self._fold.add(event, task)
        if type(event) in TRACED and (left := trace(event, task)):
            self._traces.append(left)

    def differences(self, tx: Transaction, groups: Sequence[SignedGroup]) -> Iterator[Problem]:
        """Where the tables are not what the events make of them."""
        fold = self._fold
        tasks = fold.outcome(tx)
        found = chain(
            tx.tasks.differences(tasks, fold.handoffs),
            tx.traces.differences(self._traces),
            tx.groups.differences(groups),
            (
                TableDifference("event", task)
                for handoff, task in self._adopted
                if task != fold.handoffs.get(handoff, "")
            ),
        )
        for table, task in found:
            about = f" about {task}" if task else ""
            yield _in_ledger(f"table {table} says something else{about} than the events, and is made anew")


def _wrongly_kept(entry: Entry, withheld: Unconfirmed | None) -> Problem:
    event, doubt = entry.event, entry.doubt
    if bool(doubt) == bool(withheld):
        state = "is kept under another task, key or signer than its own"
    else:
        state = "counts without being confirmed" if doubt else "is confirmed and does not count"
    about = f" about {entry.subject}" if entry.subject else ""
    return _in_ledger(f"{_name(event)}{about} {state}: the ledger was changed, and is made anew")


def _name(event: Event) -> str:
    return f"event {event.meta.seq} of session {event.meta.session} ({event.name})"


def _group_problems(
    every: Iterable[SignedGroup], exchange: Exchange, verifier: Verifier
) -> Iterator[Problem]:
    """Groups whose signature is wrong, by file and line where a file has it, and those the ledger judged otherwise."""
    kept = {found.group: found for found in every}
    wrong: dict[bytes, Group] = {}
    for group, doubt in verifier.doubts(kept).items():
        if doubt is Doubt.WRONG_SIGNATURE:
            wrong[kept[group].line] = group
        if bool(doubt) != bool(kept[group].doubt):
            state = "counts and should not" if doubt else "does not count and should"
            yield _in_ledger(
                f"the signature of {_range(group)} {state}: the ledger was changed, and is made anew"
            )
    for mark in exchange.files() if wrong else []:
        for number, line in exchange.read(mark.path):
            if isinstance(line, bytes) and signatures.is_group(line):
                bare = line.rstrip(b"\r")
                if bare in wrong:
                    yield Problem(file=mark.path, line=number, problem=_not_signed(wrong.pop(bare)))
    yield from (_in_ledger(_not_signed(group)) for group in wrong.values())


def _not_signed(group: Group) -> str:
    return f"holds a signature of {_range(group)} that key {group.key[:40]} did not make"


def _range(group: Group) -> str:
    return _numbers(group.session, group.first, group.last)


def _numbers(session: str, first: int, last: int) -> str:
    return (
        f"event {first} of session {session}"
        if first == last
        else f"events {first} to {last} of session {session}"
    )


class _Chains:
    """Follows each session's chain while its events pass by.

    Whoever writes a file can give an event any session and number, so what is here is told by what is signed and by ids.
    """

    def __init__(self, unsigned: Collection[str]) -> None:
        self._unsigned = unsigned
        self._last: dict[str, Event] = {}
        self.tasks: set[str] = set()
        """The tasks that have events here."""

    def check(self, event: Event, doubt: Doubt) -> Iterator[Problem]:
        """What is wrong with the place of one kept event in its chain."""
        meta = event.meta
        self.tasks.add(subject(event))
        if event.is_legacy:
            return
        last = self._last.get(meta.session)
        self._last[meta.session] = event
        if doubt in (Doubt.NONE, Doubt.VOID) and meta.prev in self._unsigned:
            yield _in_ledger(_without_group(meta.session, meta.seq - 1))
        if last is not None and meta.seq <= last.meta.seq:
            yield _in_ledger(
                f"session {meta.session} was written twice: event {meta.seq} is there in two versions. "
                "A copied ledger does that; keep the one you trust"
            )
        elif last is not None and meta.seq == last.meta.seq + 1 and meta.prev != last.meta.id:
            yield _in_ledger(f"event {meta.seq} of session {meta.session} does not follow the one before it")


def _without_groups(groups: Iterable[SignedGroup], unconfirmed: Iterable[Unconfirmed]) -> set[str]:
    """The ids of unsigned events that no group names."""
    found = {one.event_id for one in unconfirmed if one.doubt is Doubt.UNSIGNED}
    if found:
        found -= {name.id for kept in groups for name in kept.group.events}
    return found


def _without_group(session: str, seq: int) -> str:
    return f"event {seq} of session {session} is here without the group that signed it, and has no effect. {_FIND}"


def _in_ledger(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
