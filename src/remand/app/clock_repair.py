"""Repairing a ledger whose clock is ahead: a command ran while the machine's clock was wrong.

Every later event would be stamped after the wrong one, and be held back by other machines. The repair voids the
machine's own events that are ahead and writes them again, with the right time, in a new session. Events of other
machines that were taken in under the wrong clock are held back again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.handle import Handler
from remand.app.judging_anew import held_entries
from remand.app.ledger import Ledger
from remand.app.own_session import with_new_session
from remand.app.rebuild import rebuild
from remand.app.signatures import Signer, confirmed_events
from remand.domain.clock import is_ahead
from remand.domain.events import Event, EventsVoided, Unknown, subject
from remand.domain.instant import BEGINNING, Instant, is_instant, plus, seconds_from
from remand.domain.roles import Actor
from remand.ledger import codec
from remand.ledger.order import place, tick
from remand.ledger.signatures import link
from remand.ledger.store import Entry, Transaction

MAX_VOIDED = 2000
"""How many events one event voids at most: its line stays below the limit of a line."""
_STAMP = frozenset({"ts", "meta", "event"})


class Ahead(NamedTuple):
    """An event that is ahead of the machine's clock, and its line."""

    event: Event
    line: bytes


class ClockFindings(NamedTuple):
    """What is ahead of the machine's clock by more than the bound."""

    now: Instant
    clock: Instant
    """The time of the ledger's latest event."""
    is_ahead: bool
    """True when nothing can be written for that."""
    own: tuple[Ahead, ...] = ()
    """The machine's own events that are to be voided and written again, in their order."""
    foreign: tuple[Ahead, ...] = ()
    """Events of others that have their effect here, and are to be held back."""
    held: tuple[Ahead, ...] = ()
    """Events of others that are held back already: their machine has to repair them."""

    @property
    def is_repairable(self) -> bool:
        """True when there is something to repair on this machine."""
        return self.is_ahead or bool(self.own or self.foreign)


def find_ahead(ledger: Ledger) -> ClockFindings:
    """Looks for events that are ahead of the machine's clock. Changes nothing."""
    keys: set[str] = set()
    with suppress(EnvironmentFault):  # a key that cannot be used is named by whoever needs it
        own = ledger.keys.own()
        keys = {own.id} if own else keys
    with ledger.store.read() as view:
        return _find(view, ledger, (keys | {view.head.key}) - {""})


def repair_clock(ledger: Ledger, actor: Actor, reason: str = "") -> ClockFindings:
    """Voids the machine's own events that are ahead and writes them again; holds those of others back.

    All of it happens in one change. Returns what was found; the repair is done when it returns.
    """
    found: list[ClockFindings] = []

    def repair(handler: Handler, signer: Signer) -> None:
        tx = handler.tx
        findings = _find(tx, ledger, {tx.head.key, signer.key})
        found.append(findings)
        if findings.is_repairable:
            _hold_back(tx, findings.foreign)
            left = _clock_without(tx, findings.own)
            ledger.write_groups(tx, ())
            tx.head = with_new_session(tx.head, ledger.new_session(), left)
            handler.entries += _restate(tx, findings, ledger, actor, reason)

    ledger.change_as(actor, repair)
    return found[0]


def _find(tx: Transaction, ledger: Ledger, keys: set[str]) -> ClockFindings:
    now = ledger.clock.now()
    limit = plus(now, ledger.clock_skew)
    withheld = {one.event_id for one in tx.unconfirmed.every()}
    own: list[Ahead] = []
    foreign: list[Ahead] = []
    for line in tx.events.lines():
        event = codec.recall(line)
        if event.ts > limit and event.meta.id not in withheld:
            (own if _is_own(tx, event, keys) else foreign).append(Ahead(event, line))
    kept = [Ahead(entry.event, entry.line) for entry in held_entries(tx)]
    own += [one for one in kept if _is_own(tx, one.event, keys)]
    return ClockFindings(
        now,
        tx.head.clock,
        is_ahead(tx.head.clock, now, ledger.clock_skew),
        tuple(_in_order(_whole_commands(tx, own, withheld))),
        tuple(_in_order(foreign)),
        tuple(_in_order(one for one in kept if not _is_own(tx, one.event, keys))),
    )


def _is_own(tx: Transaction, event: Event, keys: set[str]) -> bool:
    """True when a key of this machine covers an event."""
    meta = event.meta
    if event.is_legacy:
        return False
    return any(
        kept.group.key in keys and kept.group.names(meta.seq, meta.id, subject(event))
        for kept in tx.groups.of_session(meta.session, meta.seq, meta.seq)
        if not kept.doubt
    )


def _whole_commands(tx: Transaction, ahead: Sequence[Ahead], withheld: set[str]) -> Iterator[Ahead]:
    """The events, and those before them that belong to the same command: it is there whole or not at all."""
    yield from ahead
    known = {one.event.meta.id for one in ahead}
    for session in {one.event.meta.session for one in ahead}:
        first = min(one.event.meta.seq for one in ahead if one.event.meta.session == session)
        kept = (Ahead(codec.recall(line), line) for line in tx.events.lines(session))
        counted = [one for one in kept if one.event.meta.seq < first and one.event.meta.id not in withheld]
        for one in reversed(_in_order(counted)):
            if not one.event.meta.more:
                break
            if one.event.meta.id not in known:
                yield one


def _in_order(events: Iterable[Ahead]) -> list[Ahead]:
    return sorted(events, key=lambda one: place(one.event))


def _hold_back(tx: Transaction, foreign: Sequence[Ahead]) -> None:
    """Takes the effect of events away until their time has come."""
    if foreign:
        tx.events.remove(one.line for one in foreign)
        for event, line in foreign:
            tx.files.hold_back(event, line)
        rebuild(tx)


def _clock_without(tx: Transaction, own: Sequence[Ahead]) -> Instant:
    """The time of the latest event that stays as it is."""
    voided = {one.event.meta.id for one in own}
    return max((e.ts for e in confirmed_events(tx) if e.meta.id not in voided), default=BEGINNING)


def _restate(
    tx: Transaction, findings: ClockFindings, ledger: Ledger, actor: Actor, reason: str
) -> list[Entry]:
    """Writes the events that void others, each followed by those that restate what it voids."""
    entries: list[Entry] = []
    times: dict[Instant, Instant] = {}
    branch = ledger.repository.branch()
    limit = plus(findings.now, ledger.clock_skew)
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
            at = tick(ledger.clock.now(), tx.head.clock)
            entries.append(_write(tx, replace(voiding, ts=at, meta=meta), restates=""))
            for event in part:
                at = times[event.ts] = tick(ledger.clock.now(), tx.head.clock)
                moved = _with_times(event, at, limit, times)
                entries.append(_write(tx, moved, restates=event.meta.origin))
    tx.events.add(entries)
    return entries


def _write(tx: Transaction, event: Event, *, restates: str) -> Entry:
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
    stamped, line = codec.write(event, meta)
    tx.head = replace(head, seq=meta.seq, tip=stamped.meta.id, clock=event.ts)
    return Entry(stamped, line, subject(stamped))


def _with_times(event: Event, at: Instant, limit: Instant, times: Mapping[Instant, Instant]) -> Event:
    """An event at another time. The times it names move with it: a lease ends as long after it as before."""
    if isinstance(event, Unknown):
        raise EnvironmentFault(
            f"An event that is ahead of the clock ({event.name}) was written by a newer version of Remand. "
            "Update Remand, then repeat."
        )
    seconds = seconds_from(event.ts, at)

    def move(value: Any) -> Any:
        if isinstance(value, str):
            if value in times:
                return times[value]
            return plus(value, seconds) if value > limit and is_instant(value) else value
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
        if not doubt and group.names(seq, event.meta.id, subject(event)):
            value = group.before
            for number, (event_id, task) in group.numbered():
                value = link(value, event_id, task) if number <= seq else value
            return value
    return ""
