"""Checking the log: every line, every chain, every signature, and that nothing seen before has gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise

from remand.app.absorb import held_in, problems_in
from remand.app.ports import Clock, Exchange, Marks
from remand.app.signatures import Found, Verifier, judge
from remand.domain.events import Event, subject
from remand.domain.record import Record
from remand.ledger import codec, signatures
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import ADOPT, IMPORT, Doubt, Group, Named
from remand.ledger.store import Transaction, Unconfirmed

LEDGER = ".got/ledger.db"
_BATCH = 5000


class Verified(Record, kw_only=True):
    """What a check of the log found."""

    events: int
    problems: tuple[Problem, ...]
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """Events that no trusted key covers. That alone is no problem: the user may come to trust the key."""

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems


def verify(tx: Transaction, exchange: Exchange, marks: Marks, clock: Clock, verifier: Verifier) -> Verified:
    """Reads every file and every kept event again."""
    now = clock.now()
    problems = [problem for mark in exchange.files() for problem in problems_in(exchange, mark.path, now)]
    problems += _group_problems(tx, exchange, verifier)
    unconfirmed = tx.unconfirmed.every()
    withheld = {found.event_id for found in unconfirmed}
    chains = _Chains(_adopted(tx))
    if tx.files.earliest_held():
        chains.hold(event for mark in exchange.files() for event in held_in(exchange, mark.path, now))
    count = 0
    lines = iter(list(tx.events.lines()))
    while batch := list(islice(lines, _BATCH)):
        found: list[Found] = []
        for line in batch:
            count += 1
            try:
                event = codec.read(line)
            except BadLine as bad:
                problems.append(_in_ledger(f"an event {bad}"))
                continue
            problems += chains.check(event)
            found.append(Found(event, line, subject(event)))
        for entry in judge(tx, found):
            if bool(entry.doubt) != (entry.event.meta.id in withheld):
                problems.append(_wrongly_judged(entry.event, entry.doubt))
    problems += chains.missing(tx)
    problems += chains.behind(marks)
    return Verified(events=count, problems=tuple(problems), unconfirmed=tuple(unconfirmed))


def _wrongly_judged(event: Event, doubt: Doubt) -> Problem:
    state = "counts without being confirmed" if doubt else "is confirmed and does not count"
    return _in_ledger(f"{_name(event)} {state}: the ledger was changed. Move {LEDGER} away, it is made anew")


def _name(event: Event) -> str:
    return f"event {event.meta.seq} of session {event.meta.session} ({event.name})"


def _group_problems(tx: Transaction, exchange: Exchange, verifier: Verifier) -> Iterator[Problem]:
    """Groups whose signature is wrong, by file and line where a file has it, and those the ledger judged otherwise."""
    kept = {found.group: found for found in tx.groups.every()}
    wrong: dict[bytes, Group] = {}
    for group, doubt in verifier.doubts(kept).items():
        if doubt is Doubt.WRONG_SIGNATURE:
            wrong[kept[group].line] = group
        if bool(doubt) != bool(kept[group].doubt):
            state = "counts and should not" if doubt else "does not count and should"
            yield _in_ledger(
                f"the signature of {_range(group)} {state}: the ledger was changed. Move {LEDGER} away, it is made anew"
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
    """Follows each session's chain while its events pass by."""

    def __init__(self, adopted: dict[str, Named]) -> None:
        self._adopted = adopted
        self._last: dict[str, Event] = {}
        self._kept: dict[str, set[int]] = defaultdict(set)
        self._tasks: set[str] = set()
        self._legacy: set[str] = set()

    def check(self, event: Event) -> Iterator[Problem]:
        """What is wrong with the place of one kept event in its chain."""
        meta = event.meta
        self._tasks.add(subject(event))
        if event.is_legacy:
            self._legacy.add(meta.id)
            return
        self._adopted.pop(meta.id, None)
        last = self._last.get(meta.session)
        self._last[meta.session] = event
        self._kept[meta.session].add(meta.seq)
        if last is not None and meta.seq <= last.meta.seq:
            yield _in_ledger(
                f"session {meta.session} was written twice: event {meta.seq} is there in two versions. "
                "A copied ledger does that; keep the one you trust"
            )
        elif last is not None and meta.seq == last.meta.seq + 1 and meta.prev != last.meta.id:
            yield _in_ledger(f"event {meta.seq} of session {meta.session} does not follow the one before it")

    def hold(self, events: Iterable[Event]) -> None:
        """Takes events into account that are held back for their time: they are there."""
        for event in events:
            self._kept[event.meta.session].add(event.meta.seq)

    def missing(self, tx: Transaction) -> Iterator[Problem]:
        """Events that signed groups name, or leave out, and that are not here."""
        sessions: dict[str, dict[int, str]] = defaultdict(dict)
        yield from (_missing_line("an event", name, "adopted") for name in self._adopted.values())
        for group, _, doubt in tx.groups.every():
            if group.session.startswith(IMPORT):
                yield from () if doubt else self._missing_lines(group)
            elif not doubt and not group.session.startswith(ADOPT):
                sessions[group.session].update((seq, task) for seq, (_, task) in group.numbered())
        for session, named in sessions.items():
            yield from self._missing_of(session, named)

    def _missing_lines(self, group: Group) -> Iterator[Problem]:
        """Imported lines of GoT tools that are not here."""
        for name in group.events:
            if name.id not in self._legacy:
                yield _missing_line("a line of a GoT tool", name, "imported")

    def _missing_of(self, session: str, named: Mapping[int, str]) -> Iterator[Problem]:
        kept = self._kept[session]
        for seq, task in sorted(named.items()):
            if seq not in kept and task in self._tasks:
                about = f" about {task}" if task else ""
                yield _in_ledger(
                    f"event {seq} of session {session}{about} is missing, and others of it are here. "
                    "Get the event files of every branch with git fetch, or restore them from a clone or a backup"
                )
        known = sorted(named)
        for before, after in pairwise(known):
            if after > before + 1:
                yield _in_ledger(
                    f"{_numbers(session, before + 1, after - 1)} "
                    f"{'is' if after == before + 2 else 'are'} missing: neither the lines nor their ids are here. "
                    "Restore the event files from a clone or a backup"
                )

    def behind(self, marks: Marks) -> Iterator[Problem]:
        """Sessions that reach less far than they were seen to."""
        for session, (seq, _) in sorted(marks.all().items()):
            reach = max(self._kept[session], default=0)
            if reach < seq:
                yield _in_ledger(
                    f"events of session {session} are gone: {seq} were seen here, {reach} are left. "
                    "Restore the ledger or its event files from a clone or a backup; if they were deleted on "
                    f"purpose, delete the marks that name this folder in the state folder ({marks.folder})"
                )


def _adopted(tx: Transaction) -> dict[str, Named]:
    """The events by id that somebody has vouched for."""
    kept = (group for group, _, doubt in tx.groups.every() if group.session.startswith(ADOPT) and not doubt)
    return {name.id: name for group in kept for name in group.events}


def _missing_line(what: str, name: Named, done: str) -> Problem:
    about = f" about {name.task}" if name.task else ""
    return _in_ledger(
        f"{what}{about} (id {name.id}) was {done} and is missing. "
        "Get the event files of every branch with git fetch, or restore them from a clone or a backup"
    )


def _in_ledger(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
