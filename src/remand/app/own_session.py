"""The ledger's own session: which key signs it, and finding its way back after a command was killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.signatures import Signer, Verifier
from remand.domain.events import Event, subject
from remand.domain.instant import Instant
from remand.ledger import codec, signatures
from remand.ledger.problems import BadLine
from remand.ledger.signatures import VOID, Group, Named, chain_start
from remand.ledger.store import Entry, Head, SignedGroup, Transaction


def with_key(head: Head, signer: Signer, new_session: Callable[[], str]) -> Head:
    """The head of a session that this key signs. A session has one key: another key starts another session."""
    if head.key == signer.key:
        return head
    session = new_session() if head.seq else head.session
    return Head(
        session=session,
        clock=head.clock,
        chain=chain_start(session, signer.key),
        key=signer.key,
        project=signer.project,
        bounded_from=head.bounded_from,
    )


def with_new_session(head: Head, session: str, clock: Instant) -> Head:
    """The head of another session of the same key, whose events are later than that time. No segment is open."""
    chain = chain_start(session, head.key)
    return replace(
        head, session=session, seq=0, tip="", clock=clock, segment="", first=0, size=0, inode=0, chain=chain
    )


def cover_own_session(tx: Transaction, signer: Signer) -> list[Group]:
    """Signs the session's events that the ledger keeps, as far as none is missing, and goes on from there.

    Events are taken from the ledger's tables alone: what only a file has may be somebody else's. Those that had no
    effect before get none: they are named as void.
    """
    head = tx.head
    withheld = {found.event_id for found in tx.unconfirmed.of_session(head.session, 1, head.seq)}
    events = [
        Named(event.meta.id, VOID if event.meta.id in withheld else subject(event))
        for event in _own_events(tx, head)
    ]
    start = chain_start(head.session, signer.key)
    groups = list(signer.sign(head.session, 1, start, events, head.clock))
    chain = groups[-1].after if groups else start
    tx.head = replace(head, key=signer.key, project=signer.project, chain=chain)
    return groups


def _own_events(tx: Transaction, head: Head) -> list[Event]:
    """The session's events from the first on, as far as none is missing.

    Others may have written events under its name. Its own are those that its last event leads back to, each by the id
    of the one before it. Below an event that is missing there is no such way: a number that only one event has is its own.
    """
    numbered: dict[int, dict[str, Event]] = defaultdict(dict)
    for line in tx.events.lines(head.session, 1):
        event = codec.recall(line)
        numbered[event.meta.seq][event.meta.id] = event
    own: dict[int, Event] = {}
    wanted = head.tip
    for seq in range(head.seq, 0, -1):
        found = numbered[seq].get(wanted) if wanted else None
        if found is None and not wanted and len(numbered[seq]) == 1:
            (found,) = numbered[seq].values()
        if found is not None:
            own[seq] = found
        wanted = found.meta.prev if found is not None else ""
    return [own[seq] for seq in takewhile(own.__contains__, range(1, head.seq + 1))]


class Continuation(NamedTuple):
    """What killed commands left behind the head, as far as it is whole and signed."""

    groups: Sequence[SignedGroup]
    entries: list[Entry]
    head: Head


def continuation(head: Head, lines: list[bytes], verifier: Verifier) -> Continuation:
    """Reads the lines behind the head: whole groups that continue its chain, signed by its key."""
    groups: list[SignedGroup] = []
    entries: list[Entry] = []
    while lines:
        found = _next_group(head, lines)
        if found is None or verifier.doubts([found[0]])[found[0]]:
            break
        group, events = found
        groups.append(SignedGroup(group, lines[0]))
        entries += events
        size = sum(len(line) + 1 for line in lines[: len(events) + 1])
        head = _after(head, group, events, head.size + size)
        lines = lines[len(events) + 1 :]
    return Continuation(groups, entries, head)


def _next_group(head: Head, lines: list[bytes]) -> tuple[Group, list[Entry]] | None:
    """The group that the lines begin with, and all of its events; None when it is not whole or does not continue."""
    try:
        group = signatures.read(lines[0])
        if (group.session, group.key, group.first, group.before) != _place(head):
            return None
        events = [codec.read(line) for line in lines[1 : len(group.events) + 1]]
    except BadLine:
        return None
    entries = [Entry(event, line, subject(event)) for event, line in zip(events, lines[1:], strict=False)]
    is_whole = len(events) == len(group.events) and all(
        group.names(entry.event.meta.seq, entry.event.meta.id, entry.subject)
        and entry.event.meta.session == group.session
        for entry in entries
    )
    return (group, entries) if is_whole else None


def _place(head: Head) -> tuple[str, str, int, str]:
    return (head.session, head.key, head.seq + 1, head.chain)


def _after(head: Head, group: Group, entries: Sequence[Entry], size: int) -> Head:
    clock = max(head.clock, *(entry.event.ts for entry in entries))
    return replace(head, seq=group.last, tip=group.events[-1].id, clock=clock, chain=group.after, size=size)


def continued(tx: Transaction) -> Head:
    """The head after events of its own session that were found in a file: whole groups that continue its chain.

    A command that was killed just after it began a new segment leaves such a file.
    """
    head = tx.head
    while head.key:
        following = [
            group
            for group, _, doubt in tx.groups.of_session(head.session, head.seq + 1, head.seq + 1)
            if not doubt and (group.session, group.key, group.first, group.before) == _place(head)
        ]
        lines = _lines_by_id(tx, head.session, head.seq + 1) if following else {}
        found = next(
            (
                found
                for group in following
                if (found := _next_group(head, _with_events(group, signatures.write(group), lines)))
            ),
            None,
        )
        if found is None:
            break
        head = _after(head, *found, head.size)
    return head


def lines_from(tx: Transaction, first: int) -> list[bytes]:
    """The lines of the session's groups from that event on: each group's own, then those of its events."""
    session = tx.head.session
    events = _lines_by_id(tx, session, first)
    return [
        line
        for group, own, doubt in tx.groups.of_session(session, first)
        if not doubt and group.key == tx.head.key
        for line in _with_events(group, own, events)
    ]


def _lines_by_id(tx: Transaction, session: str, first: int) -> dict[str, bytes]:
    """The lines under a session's name from that number on, by the ids of their events."""
    return {codec.recall(line).meta.id: line for line in tx.events.lines(session, first)}


def _with_events(group: Group, own: bytes, events: Mapping[str, bytes]) -> list[bytes]:
    """A group's line, and those of its events that are here."""
    return [own, *(events[name.id] for name in group.events if name.id in events)]
