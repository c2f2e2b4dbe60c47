"""Lines to publish: events together with the signed groups that name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from remand.domain.events import VOIDS, EventsVoided, subject
from remand.ledger import codec
from remand.ledger.signatures import ADOPT, IMPORT, Doubt, adopting
from remand.ledger.store import SignedGroup, Transaction


def groups_without(tx: Transaction, present: Collection[bytes]) -> list[bytes]:
    """The lines of every whole group of which one is not among those present. Unsigned events are not passed on."""
    found: list[bytes] = []
    for session in sorted({kept.group.session for kept in tx.groups.every()}):
        is_import = session.startswith(IMPORT)
        events = _by_id(_lines_of_tools(tx) if is_import else tx.events.lines(session.removeprefix(ADOPT)))
        for lines in _whole(tx.groups.of_session(session), events):
            if any(line not in present for line in lines):
                found += lines
    return found


def lines_of_task(tx: Transaction, task_id: str, present: Collection[bytes] = ()) -> list[bytes]:
    """The lines of a task's events that count and are not present, with all groups of their sessions up to the last.

    So a reader knows each number by its id at least, and can tell that nothing was left out. Events of no task, as when
    lines are given up, concern every reader: they are passed on, too. So is what voids one of the events.
    """
    signed = (one.line for one in tx.unconfirmed.of_task(task_id) if one.doubt is not Doubt.UNSIGNED)
    events = _by_id([*tx.events.of_task(task_id), *signed])
    for line in list(tx.events.of_task(VOIDS)):
        voiding = codec.recall(line)
        if isinstance(voiding, EventsVoided) and not events.keys().isdisjoint(voiding.events):
            events[voiding.meta.id] = line
    last: dict[str, int] = defaultdict(int)
    imported: set[str] = set()
    for event_id, line in events.items():
        event = codec.recall(line)
        if event.is_legacy:
            imported.add(event_id)
        else:
            last[event.meta.session] = max(last[event.meta.session], event.meta.seq)
    found = [
        line for session, end in sorted(last.items()) for line in _up_to(tx, session, end, events, present)
    ]
    for kept in tx.groups.imports() if imported else ():
        if not kept.doubt and any(name.id in imported for name in kept.group.events):
            found += (kept.line, *(events[name.id] for name in kept.group.events if name.id in events))
    return list(dict.fromkeys(found))


def _adopting(tx: Transaction, session: str, ids: Collection[str]) -> Iterator[SignedGroup]:
    """The groups by which others vouch for some of a session's events."""
    for kept in tx.groups.of_session(adopting(session)):
        if any(name.id in ids for name in kept.group.events):
            yield kept


def _up_to(
    tx: Transaction, session: str, end: int, events: dict[str, bytes], present: Collection[bytes]
) -> Iterator[bytes]:
    found = (*tx.groups.of_session(session, 1, end), *_adopting(tx, session, events))
    groups = [kept for kept in found if not kept.doubt]
    if any(not name.task for kept in groups for name in kept.group.events):
        events = events | _of_no_task(tx, session)
    for kept in groups:
        lines = (kept.line, *(events[name.id] for name in kept.group.events if name.id in events))
        if any(line not in present for line in lines):
            yield from lines


def _of_no_task(tx: Transaction, session: str) -> dict[str, bytes]:
    found = ((codec.recall(line), line) for line in tx.events.lines(session))
    return {event.meta.id: line for event, line in found if not subject(event)}


def _lines_of_tools(tx: Transaction) -> Iterator[bytes]:
    return (line for line in tx.events.lines() if codec.recall(line).is_legacy)


def _by_id(lines: Iterable[bytes]) -> dict[str, bytes]:
    return {codec.recall(line).meta.id: line for line in lines}


def _whole(groups: Iterable[SignedGroup], events: dict[str, bytes]) -> Iterator[list[bytes]]:
    for group, line, doubt in groups:
        if doubt is not Doubt.WRONG_SIGNATURE and all(name.id in events for name in group.events):
            yield [line, *(events[name.id] for name in group.events)]
