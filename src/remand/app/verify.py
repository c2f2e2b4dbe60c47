"""Checking the log: every line, every chain, every signature, and that nothing seen before has gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from remand.app.absorb import events_in, problems_in
from remand.app.missing import Repair, Seen, find_missing, is_fault, repairs
from remand.app.ports import Clock, Exchange, Marks
from remand.app.published import rewritten_problems
from remand.app.signatures import Found, Verifier, judge, voids_of
from remand.domain.clock import horizon, is_ahead
from remand.domain.events import Event, subject
from remand.domain.instant import Instant
from remand.domain.missing import MissingLines
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.ledger import codec, signatures
from remand.ledger.order import tick
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import ADOPT, IMPORT, Doubt, Group
from remand.ledger.store import FileMark, Transaction, Unconfirmed

LEDGER = ".got/ledger.db"
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
    now, voids = clock.now(), voids_of(tx)
    limit = horizon(now, skew, tx.head.bounded_from)
    problems = [
        problem for mark in exchange.files() for problem in problems_in(exchange, mark.path, limit, voids)
    ]
    problems += _clock_problems(tx, now, skew)
    problems += _group_problems(tx, exchange, verifier)
    problems += _not_kept(tx, exchange)
    unconfirmed = tx.unconfirmed.every()
    withheld = {found.event_id for found in unconfirmed}
    chains = _Chains({one.event_id for one in unconfirmed if one.doubt is Doubt.UNSIGNED})
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
            found.append(Found(event, line, subject(event)))
        for entry in judge(tx, found, voids):
            problems += chains.check(entry.event, entry.doubt)
            if bool(entry.doubt) != (entry.event.meta.id in withheld):
                problems.append(_wrongly_judged(entry.event, entry.doubt))
    problems += rewritten_problems(tx.rewritten.every())
    seen = marks.all()
    lost = find_missing(tx, seen, tick(now, tx.head.clock))
    problems += _missing(tx, [one for lines in lost.values() for one in lines], chains.tasks, seen)
    return Verified(
        events=count,
        problems=tuple(problems),
        unconfirmed=tuple(unconfirmed),
        given_up=tuple(repairs(tx)),
        set_aside=tuple(_set_aside(tx)),
    )


def _set_aside(tx: Transaction) -> list[Problem]:
    marks = tx.files.marks()
    return [one for one in tx.files.problems() if marks.get(one.file) == FileMark(one.file, 0, 0, 0)]


def _not_kept(tx: Transaction, exchange: Exchange) -> Iterator[Problem]:
    """Events that a file has and the ledger lost after it had read them."""
    held, legacy = tx.files.held_ids(), tx.events.ids("")
    for mark in exchange.files():
        lines = events_in(exchange, mark.path)
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
    tx: Transaction, lost: Iterable[MissingLines], tasks: Collection[str], seen: Seen
) -> Iterator[Problem]:
    """Events that signed groups name or leave out, or that this machine has seen, and that are not here."""
    for one in lost:
        if not is_fault(one, tasks, tx.head.session):
            continue
        others = ", and others of it are here" if one.task in tasks and one.task else ""
        what = f"{one.description}{others}"
        if not one.id and seen.get(one.session, (0, ""))[0] == one.last:
            what = f"{what}; {one.last} were seen on this machine, {one.first - 1} are left"
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


def _without_group(session: str, seq: int) -> str:
    return f"event {seq} of session {session} is here without the group that signed it, and has no effect. {_FIND}"


def _in_ledger(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
