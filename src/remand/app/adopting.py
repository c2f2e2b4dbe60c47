"""Vouching for sessions of others: events whose key is lost, or that no key signed, count by the adopter's signature."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from remand.app.errors import UsageError
from remand.app.ledger import Ledger
from remand.app.signatures import Signer, Vouched
from remand.domain.events import Event, SessionAdopted, subject
from remand.domain.roles import Actor
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.signatures import MAX_ADOPTED_NAME, MAX_SEQ, Doubt, Group, Named, adopting, chain_start
from remand.ledger.store import Transaction


class Adoptable(NamedTuple):
    """The events of a session that have no effect and could be vouched for."""

    session: str
    events: list[Event]

    @property
    def last(self) -> int:
        """The number of the last one; 0 when there is none."""
        return self.events[-1].meta.seq if self.events else 0


def adopt(ledger: Ledger, names: Sequence[str], reason: str, actor: Actor) -> list[SessionAdopted]:
    """Makes sessions count whose events are here. Each is named as SESSION, or as SESSION:N up to that number."""

    def choose(tx: Transaction, signer: Signer) -> Vouched:
        groups: list[Group] = []
        events: list[Event] = []
        for name in dict.fromkeys(names):
            found = adoptable(tx, name)
            signed = _signed(tx, found, signer, ledger.clock.now())
            if signed:
                groups += signed
                events.append(
                    SessionAdopted(
                        session=found.session,
                        number=found.last,
                        count=len(found.events),
                        chain=signed[-1].after,
                        reason=reason,
                    )
                )
        return Vouched(groups, events)

    return [event for event in ledger.vouch(choose, actor) if isinstance(event, SessionAdopted)]


def _signed(tx: Transaction, found: Adoptable, signer: Signer, now: str) -> list[Group]:
    """The groups that name a session's events, after those that this key has signed before."""
    session = adopting(found.session)
    before = [
        one.group for one in tx.groups.of_session(session) if one.group.key == signer.key and not one.doubt
    ]
    last = max(before, key=lambda group: group.last, default=None)
    first, chain = (last.last + 1, last.after) if last else (1, chain_start(session, signer.key))
    named = [Named(event.meta.id, subject(event)) for event in found.events]
    return list(signer.sign(session, first, chain, named, now))


def adoptable(tx: Transaction, name: str) -> Adoptable:
    """The events of a session that could be adopted. Raises `UsageError` where that cannot be told.

    Their lines are here, their ids are the hashes of their lines, and each follows the one before it. An event that
    stands where another one counts is not among them, nor one that its owner named as void.
    """
    session, has_number, number = name.partition(":")
    if has_number and not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise UsageError(
            f"{name!r} names no place in a session. Write SESSION, or SESSION:N for its first N events."
        )
    doubts = {one.event_id: one.doubt for one in tx.unconfirmed.every()}
    versions: dict[int, list[Event]] = defaultdict(list)
    for event in _events(tx, session, int(number or 0)):
        versions[event.meta.seq].append(event)
    if not versions:
        raise UsageError(
            f"No event of a session {session!r} is here. `remand keys` lists what is unconfirmed."
        )
    found: list[Event] = []
    for seq, events in sorted(versions.items()):
        if all(doubts.get(event.meta.id, Doubt.NONE) not in (Doubt.NONE, Doubt.VOID) for event in events):
            if len(events) > 1:
                raise _cannot_tell(session, seq, "is here in two versions")
            before = {event.meta.id for event in versions.get(seq - 1, ())}
            if before and events[0].meta.prev not in before:
                raise _cannot_tell(session, seq, "does not follow the one before it")
            found += events
    return Adoptable(session, found)


def _events(tx: Transaction, session: str, most: int) -> list[Event]:
    """A session's events that are whole, in all versions, up to a number."""
    found = []
    mark = f'"session":"{session}"'.encode()
    for line in tx.events.lines() if 0 < len(session) <= MAX_ADOPTED_NAME else ():
        try:
            event = codec.read(line) if mark in line else None
        except BadLine:
            continue
        if event and event.meta.session == session and 0 < event.meta.seq <= (most or MAX_SEQ):
            found.append(event)
    return found


def _cannot_tell(session: str, seq: int, what: str) -> UsageError:
    rest = (
        f"Adopt what comes before it: remand keys adopt {session}:{seq - 1}"
        if seq > 1
        else "Adopt none of it"
    )
    return UsageError(f"event {seq} of session {session} {what}, and nobody can tell which is true. {rest}.")
