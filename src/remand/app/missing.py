"""Which lines of the log are missing: named by signed groups and not here, or left out by the groups themselves.

A session's numbers begin at 1 and leave none out, and whoever publishes lines publishes the groups before them as well
(`group_lines`). So a number that no group names is a gap, wherever it is, and so is what lies between the last one here
and the last one that this machine has seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from remand.app.family import Family
from remand.domain.events import Event, LinesGivenUp
from remand.domain.instant import Instant
from remand.domain.missing import GivenUp, MissingLines
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.signatures import ADOPT, IMPORT, VOID, Doubt, Group
from remand.ledger.store import Entry, Transaction
from remand.ledger.traces import REPAIRED

Seen = Mapping[str, tuple[int, str]]
"""How far each session was seen on this machine: number and id of the last event."""


MAX_GIVEN_UP = 1000
"""How many rows one event gives up at most: it stays below the limit of a line."""


class Repair(NamedTuple):
    """Missing lines that the user gave up, and in which event."""

    lines: GivenUp
    event: LinesGivenUp

    @property
    def by(self) -> str:
        """Who gave them up."""
        return self.event.meta.actor

    @property
    def reason(self) -> str:
        """Why."""
        return self.event.reason


def repairs(tx: Transaction) -> list[Repair]:
    """All that was given up, by events that count."""
    found: list[Repair] = []
    for trace in list(tx.traces.every(REPAIRED)):
        for line in tx.events.at(trace.session, trace.seq):
            with suppress(BadLine):
                event = codec.recall(line)
                if isinstance(event, LinesGivenUp) and _counts(tx, event, line):
                    found += [Repair(lines, event) for lines in event.lines]
    return found


def _counts(tx: Transaction, event: Event, line: bytes) -> bool:
    """True when nothing is doubted of an event. Whoever forges one can give it the place of another."""
    return tx.unconfirmed.verdict(Entry(event, line, "")) is Doubt.NONE


def _given_up(tx: Transaction) -> list[GivenUp]:
    return [one.lines for one in repairs(tx)]


def given_up(lines: MissingLines) -> GivenUp:
    """Missing lines as an event names them that gives them up."""
    return GivenUp(session=lines.session, first=lines.first, last=lines.last, id=lines.id, task=lines.task)


def concerning(tx: Transaction, task: Task, family: Family) -> tuple[MissingLines, ...]:
    """The missing lines that may be about a task, or about one that it was cut from: lockouts come from there."""
    own = [task, *family.above(task)]
    tasks = {one.id for one in own} | {task.parent} - {""}
    oldest = min(one.created_at for one in own)
    return tuple(one for one in tx.missing.concerning(tasks) if one.may_concern(tasks, oldest))


class Expected:
    """What the groups that files bring name, as long as it has not come."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._named: dict[str, MissingLines] = {}
        self._known = {one.id for one in tx.missing.every()}
        self._sessions: set[str] = set()
        self._has_repairs = False

    def name(self, groups: Iterable[Group]) -> None:
        """Takes groups into account that count."""
        for group in groups:
            self._sessions.add(group.session)
            self._named.update((one.id, one) for one in _named_by(group))

    def arrive(self, events: Iterable[Event]) -> None:
        """Takes events into account that are here, with effect or without."""
        came: list[str] = []
        for event in events:
            name = event.meta.id
            self._named.pop(name, None)
            if name in self._known:
                came.append(name)
            if type(event) is LinesGivenUp:
                self._has_repairs = True
        if came:
            self._tx.missing.drop(came)

    def settle(self, seen: Seen, noted: Instant, sessions: Collection[str] = ()) -> None:
        """Keeps what is missing now."""
        tx = self._tx
        self._sessions.update(sessions)
        left: dict[str, list[MissingLines]] = defaultdict(list)
        for one in self._named.values():
            left[one.session].append(one)
        kept = {session: _kept(tx, session, lines) for session, lines in left.items()}
        if self._has_repairs:
            self._sessions.update(one.session for one in tx.missing.every())
        search = _Search(tx, seen, noted, _given_up(tx) if self._sessions else [])
        for session in sorted(self._sessions):
            before = tx.missing.of_session(session)
            lines = {one.id: one for one in before if one.id}
            lines |= {one.id: one for one in left[session] if one.id not in kept[session]}
            tx.missing.replace(session, search.missing_of(session, lines.values(), before))
        tx.missing.tell_apart()


def find_missing(tx: Transaction, seen: Seen, noted: Instant) -> dict[str, list[MissingLines]]:
    """All that is missing by what is kept, session by session; nothing is believed of what was found before."""
    search = _Search(tx, seen, noted, _given_up(tx))
    named: dict[str, list[MissingLines]] = {session: [] for session in seen}
    held = tx.files.held_ids()
    for kept in tx.groups.every():
        if not kept.doubt:
            named.setdefault(kept.group.session, []).extend(_named_by(kept.group))
    return {
        session: search.missing_of(
            session, _unkept(lines, _kept(tx, session, lines) | held), tx.missing.of_session(session)
        )
        for session, lines in named.items()
    }


def note_missing(tx: Transaction, seen: Seen, noted: Instant) -> None:
    """Finds all that is missing anew, and keeps it."""
    found = find_missing(tx, seen, noted)
    for session in {one.session for one in tx.missing.every()} | found.keys():
        tx.missing.replace(session, found.get(session, ()))
    tx.missing.tell_apart()


def behind(tx: Transaction, seen: Seen) -> set[str]:
    """The sessions that reach less far than they were seen to."""
    return {
        session
        for session, (seq, tip) in seen.items()
        if session != tx.head.session or seq > tx.head.seq
        if _reach(tx, session, seq, tip) < seq
    }


def is_fault(lines: MissingLines, tasks: Collection[str], own_session: str) -> bool:
    """False for lines of tasks of which nothing is here: their lines are elsewhere, as on another branch."""
    is_own = lines.session == own_session or lines.session.startswith(IMPORT)
    return not lines.task or is_own or lines.task in tasks


def _named_by(group: Group) -> Iterator[MissingLines]:
    for seq, (event_id, task) in group.numbered():
        if task != VOID:
            yield MissingLines(session=group.session, first=seq, last=seq, id=event_id, task=task)


def _kept(tx: Transaction, session: str, lines: Collection[MissingLines]) -> set[str]:
    """The ids of what is kept among the numbers of these lines."""
    if not lines:
        return set()
    if session.startswith(IMPORT):
        return tx.events.ids("")
    if session.startswith(ADOPT):
        return tx.events.ids(session.removeprefix(ADOPT))
    return tx.events.ids(session, min(one.first for one in lines), max(one.last for one in lines))


def _unkept(lines: Iterable[MissingLines], kept: Collection[str]) -> list[MissingLines]:
    return list({one.id: one for one in lines if one.id not in kept}.values())


class _Search(NamedTuple):
    """What a session's missing lines are looked for by."""

    tx: Transaction
    seen: Seen
    noted: Instant
    given: list[GivenUp]

    def missing_of(
        self, session: str, lines: Iterable[MissingLines], before: Iterable[MissingLines]
    ) -> list[MissingLines]:
        """Missing lines and gaps of a session without what was given up, each with the time before which it was written."""
        spans = self.tx.groups.spans(session)
        own = [one for one in self.given if one.session == session]
        found = [one for one in lines if not any(up.covers(session, one.first) for up in own)]
        last = max((end for _, end in spans), default=0)
        if session in self.seen:
            last = max(last, _expected_reach(self.tx, session, *self.seen[session]))
        if not session.startswith((IMPORT, ADOPT)):
            known = [*spans, *((one.first, one.last) for one in own)]
            found += [
                MissingLines(session=session, first=first, last=end) for first, end in _gaps(known, last)
            ]
        times = [one for one in before if one.until]
        return [one if one.task else _dated(self.tx, one, times, self.noted) for one in found]


def _dated(
    tx: Transaction, lines: MissingLines, before: Iterable[MissingLines], noted: Instant
) -> MissingLines:
    """Missing lines with the time of the next event that counts; where there is none, the time when they were missed."""
    until = _next_time(tx, lines)
    if not until:
        earlier = [
            one.until for one in before if one.first <= lines.last and lines.first <= one.last and one.until
        ]
        until = min([noted, *earlier])
    return MissingLines(
        session=lines.session, first=lines.first, last=lines.last, id=lines.id, task="", until=until
    )


def _next_time(tx: Transaction, lines: MissingLines) -> Instant:
    for line in tx.events.lines(lines.session, lines.last + 1):
        with suppress(BadLine):
            event = codec.recall(line)
            if _counts(tx, event, line):
                return event.ts
    return ""


def _gaps(known: Iterable[tuple[int, int]], last: int) -> Iterator[tuple[int, int]]:
    """The stretches of numbers up to the last that nothing names."""
    reach = 0
    for first, end in sorted(known):
        if first > reach + 1 and reach < last:
            yield reach + 1, min(first - 1, last)
        reach = max(reach, end)
    if reach < last:
        yield reach + 1, last


def _expected_reach(tx: Transaction, session: str, seq: int, tip: str) -> int:
    """How far a session must reach: to where it was seen, unless what stood there is kept without effect.

    An event whose group is gone is as good as missing: signed once, it had its effect.
    """
    if tip and tip in tx.files.held_ids():
        return 0
    if tip and tip in tx.events.ids(session, seq, seq):
        return seq if tx.groups.spans(session) and _is_unsigned(tx, session, seq, tip) else 0
    return seq


def _is_unsigned(tx: Transaction, session: str, seq: int, event_id: str) -> bool:
    return any(
        one.event_id == event_id and one.doubt is Doubt.UNSIGNED
        for one in tx.unconfirmed.of_session(session, seq, seq)
    )


def _reach(tx: Transaction, session: str, seq: int, tip: str) -> int:
    named = max((last for _, last in tx.groups.spans(session)), default=0)
    return named if named >= seq else max(named, seq if not _expected_reach(tx, session, seq, tip) else 0)
