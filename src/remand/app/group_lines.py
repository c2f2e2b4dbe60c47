"""Lines to publish: events together with the signed groups that name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from remand.ledger import codec
from remand.ledger.signatures import ADOPT, Doubt, adopting
from remand.ledger.store import SignedGroup, Transaction


def groups_without(tx: Transaction, present: Collection[bytes]) -> list[bytes]:
    """The lines of every whole group of which one is not among those present. Unsigned events are not passed on."""
    found: list[bytes] = []
    for session in sorted({kept.group.session for kept in tx.groups.every()}):
        own = session.removeprefix(ADOPT)
        events = {codec.recall(line).meta.id: line for line in tx.events.lines(own)}
        for lines in _whole(tx.groups.of_session(session), events):
            if any(line not in present for line in lines):
                found += lines
    return found


def lines_of_task(tx: Transaction, task_id: str) -> list[bytes]:
    """The lines of a task's events, and of every group from its first to its last in each session."""
    lines = [*tx.events.of_task(task_id), *(one.line for one in tx.unconfirmed.of_task(task_id))]
    events = {codec.recall(line).meta.id: line for line in lines}
    numbers: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        meta = codec.recall(line).meta
        numbers[meta.session].append(meta.seq)
    found = [
        line
        for session, seqs in sorted(numbers.items())
        for kept in (*tx.groups.of_session(session, min(seqs), max(seqs)), *_adopting(tx, session, events))
        if kept.doubt is not Doubt.WRONG_SIGNATURE
        for line in (kept.line, *(events[name.id] for name in kept.group.events if name.id in events))
    ]
    return list(dict.fromkeys(found))


def _adopting(tx: Transaction, session: str, ids: Collection[str]) -> Iterator[SignedGroup]:
    """The groups by which others vouch for some of a session's events."""
    for kept in tx.groups.of_session(adopting(session)):
        if any(name.id in ids for name in kept.group.events):
            yield kept


def _whole(groups: Iterable[SignedGroup], events: dict[str, bytes]) -> Iterator[list[bytes]]:
    for group, line, doubt in groups:
        if doubt is not Doubt.WRONG_SIGNATURE and all(name.id in events for name in group.events):
            yield [line, *(events[name.id] for name in group.events)]
