"""Repairs of the log: missing lines, changed files, a clock that was ahead, rebuilt tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.events.event_files import describe_rewritten, head_of_new_session
from remand.app.events.intake import held_entries, judge_events
from remand.app.events.missing_lines import (
    MAX_GIVEN_UP,
    ExpectedLines,
    abandoned_lines,
    note_missing,
)
from remand.app.events.signatures import Signer, confirmed_events
from remand.app.events.task_folds import rebuild_tables, without_garbage_collection
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.log.verification import VerificationReport, verify_log
from remand.domain.access.team import Actor
from remand.domain.events.catalogue import Unknown, event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import AbandonedLines, EventsVoided, LinesGivenUp, MissingLines
from remand.domain.instant import BEGINNING, Instant, add_seconds, is_clock_ahead, is_instant, seconds_between
from remand.domain.preconditions import require_text, require_user
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry, FileMark, RewrittenLine, SignedGroup
from remand.ledger.order import next_time, order_key
from remand.ledger.problems import LEDGER, BadLine
from remand.ledger.signatures import Doubt, next_chain_value
from remand.ledger.store import Transaction

MAX_VOIDED = 2000
"""The most events voided by one event, which keeps it below the limit of a line."""
_STAMP = frozenset({"ts", "meta", "event"})


class AheadEvent(NamedTuple):
    """An event ahead of the machine's clock, and its line."""

    event: Event
    line: bytes


class ClockFindings(NamedTuple):
    """The events that are too far ahead of the machine's clock."""

    now: Instant
    clock: Instant
    """The time of the ledger's latest event."""
    is_ahead: bool
    """Whether that prevents writing."""
    own: tuple[AheadEvent, ...] = ()
    """The machine's own events to void and write again, in order."""
    foreign: tuple[AheadEvent, ...] = ()
    """Effective events of others that should be held back."""
    held: tuple[AheadEvent, ...] = ()
    """Events of others that are held back already; their own machine has to repair them."""

    @property
    def is_repairable(self) -> bool:
        """True if there is anything to repair on this machine."""
        return self.is_ahead or bool(self.own or self.foreign)


def find_events_ahead(ledger: Ledger) -> ClockFindings:
    """Finds events ahead of the machine's clock, without changing anything."""
    keys: set[str] = set()
    with suppress(EnvironmentFault):  # an unusable key is reported by whoever needs it
        own = ledger.keys.own()
        keys = {own.id} if own else keys
    with ledger.store.read() as view:
        return _find_ahead_of_clock(view, ledger, (keys | {view.head.key}) - {""})


def repair_clock(ledger: Ledger, actor: Actor, reason: str = "") -> ClockFindings:
    """Voids the machine's own events that are ahead and writes them again; holds back those of others.

    Everything happens in one change. Returns the findings; the repair is complete when it returns.
    """
    found: list[ClockFindings] = []

    def repair(handler: RequestHandler, signer: Signer) -> None:
        tx = handler.tx
        findings = _find_ahead_of_clock(tx, ledger, {tx.head.key, signer.key})
        found.append(findings)
        if findings.is_repairable:
            _hold_back(tx, findings.foreign)
            left = _clock_after_repair(tx, findings.own)
            ledger.write_groups(tx, ())
            tx.head = head_of_new_session(tx.head, ledger.new_session(), left)
            handler.entries += _rewrite_events(tx, findings, ledger, actor, reason)

    ledger.change_as_user(actor, repair)
    return found[0]


def _find_ahead_of_clock(tx: Transaction, ledger: Ledger, keys: set[str]) -> ClockFindings:
    now = ledger.clock.now()
    limit = add_seconds(now, ledger.clock_skew)
    withheld = {one.event_id for one in tx.unconfirmed.every()}
    own: list[AheadEvent] = []
    foreign: list[AheadEvent] = []
    for line in tx.events.lines():
        event = codec.decode_stored_line(line)
        if event.ts > limit and event.meta.id not in withheld:
            (own if _is_own(tx, event, keys) else foreign).append(AheadEvent(event, line))
    kept = [AheadEvent(entry.event, entry.line) for entry in held_entries(tx)]
    own += [one for one in kept if _is_own(tx, one.event, keys)]
    return ClockFindings(
        now,
        tx.head.clock,
        is_clock_ahead(tx.head.clock, now, ledger.clock_skew),
        tuple(_sorted_by_place(_whole_commands(tx, own, withheld))),
        tuple(_sorted_by_place(foreign)),
        tuple(_sorted_by_place(one for one in kept if not _is_own(tx, one.event, keys))),
    )


def _is_own(tx: Transaction, event: Event, keys: set[str]) -> bool:
    """True if a key of this machine covers an event."""
    meta = event.meta
    if event.is_legacy:
        return False
    return any(
        kept.group.key in keys and kept.group.has_event(meta.seq, meta.id, event_task_id(event))
        for kept in tx.groups.of_session(meta.session, meta.seq, meta.seq)
        if not kept.doubt
    )


def _whole_commands(tx: Transaction, ahead: Sequence[AheadEvent], withheld: set[str]) -> Iterator[AheadEvent]:
    """The events and those before them from the same command, which must be complete or absent."""
    yield from ahead
    known = {one.event.meta.id for one in ahead}
    for session in {one.event.meta.session for one in ahead}:
        first = min(one.event.meta.seq for one in ahead if one.event.meta.session == session)
        kept = (AheadEvent(codec.decode_stored_line(line), line) for line in tx.events.lines(session))
        counted = [one for one in kept if one.event.meta.seq < first and one.event.meta.id not in withheld]
        for one in reversed(_sorted_by_place(counted)):
            if not one.event.meta.more:
                break
            if one.event.meta.id not in known:
                yield one


def _sorted_by_place(events: Iterable[AheadEvent]) -> list[AheadEvent]:
    return sorted(events, key=lambda one: order_key(one.event))


def _hold_back(tx: Transaction, foreign: Sequence[AheadEvent]) -> None:
    """Suspends the effect of events until their time has come."""
    if foreign:
        tx.event_rows.remove(one.line for one in foreign)
        for event, line in foreign:
            tx.held.add(event, line)
        rebuild_tables(tx)


def _clock_after_repair(tx: Transaction, own: Sequence[AheadEvent]) -> Instant:
    """The time of the latest event that remains unchanged."""
    voided = {one.event.meta.id for one in own}
    return max((e.ts for e in confirmed_events(tx) if e.meta.id not in voided), default=BEGINNING)


def _rewrite_events(
    tx: Transaction, findings: ClockFindings, ledger: Ledger, actor: Actor, reason: str
) -> list[EventEntry]:
    """Writes the voiding events, each followed by the events that restate what it voids."""
    entries: list[EventEntry] = []
    times: dict[Instant, Instant] = {}
    branch = ledger.repository.branch()
    limit = add_seconds(findings.now, ledger.clock_skew)
    for session, run in groupby(findings.own, key=lambda one: one.event.meta.session):
        events = [one.event for one in run]
        for start in range(0, len(events), MAX_VOIDED):
            part = events[start : start + MAX_VOIDED]
            first, last = part[0].meta.seq, part[-1].meta.seq
            voiding = EventsVoided(
                session=session,
                first=first,
                last=last,
                chain=_chain_after(tx, part[-1]),
                events=tuple(event.meta.id for event in part),
                reason=reason or "the clock of the machine ran ahead",
            )
            meta = replace(part[0].meta, actor=actor.name, branch=branch, key="", ask="", more=0)
            at = next_time(ledger.clock.now(), tx.head.clock)
            entries.append(_stamp_event(tx, replace(voiding, ts=at, meta=meta), restates=""))
            for event in part:
                at = times[event.ts] = next_time(ledger.clock.now(), tx.head.clock)
                moved = _shift_times(event, at, limit, times)
                entries.append(_stamp_event(tx, moved, restates=event.meta.origin))
    tx.events.add(entries)
    return entries


def _stamp_event(tx: Transaction, event: Event, *, restates: str) -> EventEntry:
    """Stamps an event as the next of the ledger's session."""
    head = tx.head
    meta = replace(
        event.meta,
        id="",
        session=head.session,
        seq=head.seq + 1,
        prev=head.tip,
        restates=restates,
        signer="",
        signature="",
    )
    stamped, line = codec.encode_event(event, meta)
    tx.head = replace(head, seq=meta.seq, tip=stamped.meta.id, clock=event.ts)
    return EventEntry(stamped, line, event_task_id(stamped))


def _shift_times(event: Event, at: Instant, limit: Instant, times: Mapping[Instant, Instant]) -> Event:
    """An event at another time. The times in it are shifted as well: a lease keeps its duration."""
    if isinstance(event, Unknown):
        raise EnvironmentFault(
            f"An event that is ahead of the clock ({event.name}) was written by a newer version of Remand. "
            "Update Remand, then repeat."
        )
    seconds = seconds_between(event.ts, at)

    def move(value: Any) -> Any:
        if isinstance(value, str):
            if value in times:
                return times[value]
            return add_seconds(value, seconds) if value > limit and is_instant(value) else value
        if isinstance(value, list):
            return [move(item) for item in value]
        if isinstance(value, dict):
            return {name: move(item) for name, item in value.items()}
        return value

    fields = msgspec.to_builtins(event)
    moved = {name: item if name in _STAMP else move(item) for name, item in fields.items()}
    return replace(msgspec.convert(moved, type(event)), ts=at)


def _chain_after(tx: Transaction, event: Event) -> str:
    """The value of a session's chain after an event."""
    seq = event.meta.seq
    for group, _, doubt in tx.groups.of_session(event.meta.session, seq, seq):
        if not doubt and group.has_event(seq, event.meta.id, event_task_id(event)):
            value = group.before
            for number, (event_id, task) in group.numbered_events():
                value = next_chain_value(value, event_id, task) if number <= seq else value
            return value
    return ""


def restore_tables(ledger: Ledger) -> None:
    """Rebuilds all tables. Altered lines are dropped, and all files are read again."""
    ledger.refresh()
    with ledger.store.write() as tx:
        tx.event_rows.drop([row.line for row in tx.event_rows.rows() if not _is_intact(row.line)])
        tx.audit.reindex_groups()
        lines = {kept.group: kept.line for kept in tx.groups.every()}
        verifier = ledger.verifier(tx)
        doubts = verifier.doubts(lines)
        tx.groups.add(SignedGroup(group, lines[group], doubt) for group, doubt in doubts.items())
        ledger.read_files(tx, ledger.exchange.files(), verifier)
        judge_events(tx)
        rebuild_tables(tx)
        note_missing(tx, ledger.marks.all(), ledger.next_time(tx))
        tx.files.note(FileMark(LEDGER, 0, 0, 0), ())


def _is_intact(line: bytes) -> bool:
    try:
        codec.decode_line(line)
    except BadLine:
        return False
    return True


_BRING_BACK = "Bring them back with git fetch and git checkout -- .got, or from a clone or a backup"


class LogFinding(Record, kw_only=True):
    """A problem of the log and the proposed repair."""

    kind: str
    what: str
    proposal: str
    session: str = ""
    first: int = 0
    last: int = 0
    id: str = ""
    task_id: str = ""
    file: str = ""


class Damage(Protocol):
    """A kind of damage."""

    def find(self, ledger: Ledger) -> list[LogFinding]:
        """The existing damage and the proposed repairs."""

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Carries out the proposed repair in the user's name and records it."""


def compare_with_base(ledger: Ledger) -> None:
    """Reads in new content and compares every event file with the base."""
    paths = list(ledger.event_files().values())
    ledger.change(lambda tx: ledger.read_published(tx, ledger.verifier(tx), paths))


def verify_ledger(ledger: Ledger) -> VerificationReport:
    """Checks the whole log after comparing every event file with the base."""
    compare_with_base(ledger)
    with ledger.store.read() as tx:
        return verify_log(
            tx,
            ledger.exchange,
            ledger.marks,
            ledger.clock,
            ledger.verifier(tx),
            skew=ledger.clock_skew,
            note_progress=ledger.store.note_progress,
        )


def rebuild_from_files(ledger: Ledger) -> int:
    """Rebuilds all tables from the events and reads all files again, which restores what the tables lost."""

    def rebuild(tx: Transaction) -> int:
        known = set(map(hash, chain(tx.events.lines(), tx.group_doubts.lines())))
        ledger.read_files(tx, ledger.exchange.files(), ledger.verifier(tx), known=known)
        # No doubt or mark may rest on a row that no group confirms.
        doubtful = {one.line for one in tx.unconfirmed.every()}.union(tx.event_rows.tail(1))
        rebuild_tables(tx, ledger.store.note_progress, are_known=not judge_events(tx, doubtful))
        note_missing(tx, ledger.marks.all(), ledger.next_time(tx))
        for line in tx.event_rows.tail(1):
            event = codec.decode_stored_line(line)
            if not event.is_legacy and tx.unconfirmed.verdict(EventEntry(event, line, "")) is Doubt.NONE:
                ledger.marks.raise_to(event.meta.session, event.meta.seq, event.meta.id)
        return tx.events.count()

    with without_garbage_collection():
        return ledger.change(rebuild)


def missing_lines(ledger: Ledger) -> list[MissingLines]:
    """Missing lines of the log that are a fault."""
    with ledger.store.read() as view:
        return view.missing.faults()


def rewritten_lines(ledger: Ledger) -> list[RewrittenLine]:
    """Lines missing from published files."""
    with ledger.store.read() as view:
        return view.rewritten.every()


def give_up_lines(ledger: Ledger, lines: Sequence[MissingLines], actor: Actor, reason: str) -> None:
    """Records that the user gives up missing lines, which then block nothing."""

    def follow(tx: Transaction) -> None:
        ExpectedLines(tx).update_missing(
            tx, ledger.marks.all(), ledger.next_time(tx), {one.session for one in lines}
        )

    _record_given_up(ledger, tuple(map(abandoned_lines, lines)), actor, reason, follow)


def accept_rewritten(ledger: Ledger, lines: Sequence[RewrittenLine], actor: Actor, reason: str) -> None:
    """Records that published files remain as they are now."""
    given = tuple(AbandonedLines(session="", first=one.line, last=one.line, id=one.hash) for one in lines)
    _record_given_up(ledger, given, actor, reason, lambda tx: tx.rewritten.drop(lines))


def _record_given_up(
    ledger: Ledger,
    lines: Sequence[AbandonedLines],
    actor: Actor,
    reason: str,
    follow: Callable[[Transaction], None],
) -> None:
    require_user(actor)
    require_text("reason", reason)
    parts = [tuple(lines[n : n + MAX_GIVEN_UP]) for n in range(0, len(lines), MAX_GIVEN_UP)]
    if parts:
        ledger.record([LinesGivenUp(lines=part, reason=reason) for part in parts], actor, follow)


class MissingDamage:
    """Missing lines, which the user may give up."""

    def find(self, ledger: Ledger) -> list[LogFinding]:
        """The missing lines that are a fault."""
        return [_missing_finding(one) for one in missing_lines(ledger)]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Gives them up."""
        give_up_lines(ledger, missing_lines(ledger), actor, reason)


class RewrittenDamage:
    """Changed published files: the ledger has their lines, and the user may accept the change."""

    def find(self, ledger: Ledger) -> list[LogFinding]:
        """The lines missing from files."""
        return [_rewritten_finding(one) for one in rewritten_lines(ledger)]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Records that the files remain as they are."""
        accept_rewritten(ledger, rewritten_lines(ledger), actor, reason)


class ClockDamage:
    """Events ahead of the machine's clock: its own are written again, those of others held back."""

    def find(self, ledger: Ledger) -> list[LogFinding]:
        """The ranges of events that are ahead, by session, as far as they can be repaired here."""
        found = find_events_ahead(ledger)
        return [
            *_ahead_findings("own", found.own, found.now),
            *_ahead_findings("foreign", found.foreign, found.now),
        ]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Voids the machine's own events and writes them again, in one change with holding back the others."""
        repair_clock(ledger, actor, reason)


_AHEAD_REPAIRS = {
    "own": "void and written again with the right time",
    "foreign": "held back until their time has come",
}


def _ahead_findings(kind: str, events: Sequence[AheadEvent], now: Instant) -> Iterator[LogFinding]:
    for session, run in groupby(events, key=lambda one: one.event.meta.session):
        part = [one.event for one in run]
        first, last = min(event.meta.seq for event in part), max(event.meta.seq for event in part)
        count = "1 event" if len(part) == 1 else f"{len(part)} events"
        yield LogFinding(
            kind=f"ahead_{kind}",
            what=f"{count} of session {session} (numbers {first} to {last}) from {part[0].ts} to {part[-1].ts}: "
            f"this machine's clock says {now}",
            proposal="If the clock is wrong, correct it first. "
            f"With --yes {'it is' if len(part) == 1 else 'they are'} {_AHEAD_REPAIRS[kind]}",
            session=session,
            first=first,
            last=last,
        )


DAMAGES: Sequence[Damage] = (ClockDamage(), MissingDamage(), RewrittenDamage())
"""In the order of repair: while the clock is ahead, nothing else can be written."""


def find_damage(ledger: Ledger) -> list[LogFinding]:
    """All repairable problems."""
    return [finding for damage in DAMAGES for finding in damage.find(ledger)]


def repair_damage(ledger: Ledger, actor: Actor, reason: str) -> None:
    """Carries out all proposed repairs."""
    for damage in DAMAGES:
        damage.repair(ledger, actor, reason)


def _missing_finding(lines: MissingLines) -> LogFinding:
    whom = f"task {lines.task}" if lines.task else "any task that was there then"
    return LogFinding(
        kind="missing",
        what=f"{lines.description}. A no to {whom} may be among them: it is not released",
        proposal=f"{_BRING_BACK}. With --yes they are given up: they no longer block anything, and still count if they turn up",
        session=lines.session,
        first=lines.first,
        last=lines.last,
        id=lines.id,
        task_id=lines.task,
    )


def _rewritten_finding(line: RewrittenLine) -> LogFinding:
    return LogFinding(
        kind="changed_file",
        what=f"{line.file}:{line.line}: {describe_rewritten(line)}",
        proposal="Restore it as described. With --yes the file stays as it is and is no longer reported",
        first=line.line,
        last=line.line,
        id=line.hash,
        file=line.file,
    )
