"""Judging what is kept once more: by another trust, by other voids, or after the ledger's own file was changed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from msgspec.structs import replace

from remand.app.rebuild import rebuild
from remand.app.signatures import (
    Found,
    GroupSource,
    Subjects,
    Verifier,
    apply_doubts,
    confirmed_events,
    judge,
    judge_signatures,
)
from remand.domain.events import EventsVoided, subject
from remand.domain.instant import BEGINNING, END
from remand.domain.keys import ChainEnd, Trust, trust_in
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.signatures import IMPORT, MAX_GROUP, MAX_SEQ
from remand.ledger.store import Entry, KeptLine, SignedGroup, Transaction, Unconfirmed, as_unconfirmed
from remand.ledger.voids import Voids

_BATCH = 5000


class GroupsInMemory:
    """Groups that were read once, for whoever goes through all of them."""

    def __init__(self, kept: Iterable[SignedGroup]) -> None:
        self._sessions: dict[str, list[SignedGroup]] = defaultdict(list)
        for one in kept:
            self._sessions[one.group.session].append(one)

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that name one of these numbers."""
        kept = self._sessions.get(session, [])
        start, end = bisect_left(kept, first - MAX_GROUP, key=_first), bisect_right(kept, last, key=_first)
        return [one for one in kept[start:end] if one.group.last >= first]

    def imports(self) -> list[SignedGroup]:
        """Those that name imported lines of GoT tools."""
        sessions = (own for session, own in self._sessions.items() if session.startswith(IMPORT))
        return [one for own in sessions for one in own]


def _first(kept: SignedGroup) -> int:
    return kept.group.first


def judge_anew(tx: Transaction, verifier: Verifier) -> None:
    """Judges all that is kept by another trust than before: some events gain their effect, others lose it."""
    before, is_first = trust_in(tx.unconfirmed.trust), not tx.unconfirmed.trust
    is_all = is_first or before.project != verifier.trust.project
    changed = {key_id for key_id, _ in _limits(before) ^ _limits(verifier.trust)}
    lines = {one.group: one.line for one in tx.groups.every() if is_all or one.group.key in changed}
    doubts = verifier.doubts(lines)
    tx.groups.add(SignedGroup(group, lines[group], doubt) for group, doubt in doubts.items())
    tx.unconfirmed.trust = verifier.trust.text
    if (is_first or lines) and (judge_events(tx) or is_first):
        rebuild(tx)


def _limits(trust: Trust) -> set[tuple[str, frozenset[ChainEnd] | None]]:
    """The ids of the trusted keys, each with where its trust ends."""
    return {(key.id, None if key.until is None else frozenset(key.until)) for key in trust.keys}


def judge_voids(tx: Transaction) -> None:
    """Judges all events by the voiding ones that there are now, and makes the tables anew.

    Void events that were held back for their time are kept with the others: they have no effect at any time. The
    clock is that of what is left.
    """
    voids = signed_voids(tx)
    held = [(codec.recall(line), line) for line in tx.files.ripe(END)]
    for event, line in held:
        if event not in voids:
            tx.files.hold_back(event, line)
    void = [Found(event, line, subject(event)) for event, line in held if event in voids]
    tx.events.add(judge(tx, void, voids))
    if judge_events(tx) or void:
        rebuild(tx)
    latest = max((event.ts for event in confirmed_events(tx)), default=BEGINNING)
    if latest < tx.head.clock:
        tx.head = replace(tx.head, clock=latest)


def signed_voids(tx: Transaction, groups: GroupSource | None = None) -> Voids:
    """What is void by all voiding events whose signatures count."""
    found: list[Found] = []
    for line in tx.events.lines():
        if codec.may_be(line, EventsVoided):
            with suppress(BadLine):
                event = codec.read(line)
                found.append(Found(event, line, subject(event)))
    return Voids(entry.event for entry in judge_signatures(tx, found, groups) if not entry.doubt)


def judge_events(tx: Transaction) -> bool:
    """Judges the kept events by the groups as they are now; True when anything changed."""
    voids = signed_voids(tx)
    withheld = {found.line: found for found in tx.unconfirmed.every()}
    changed: list[Entry] = []
    subjects = Subjects(tx)
    rows = iter(list(tx.events.rows()))
    while batch := list(islice(rows, _BATCH)):
        events = [codec.recall(row.line) for row in batch]
        found = [Found(event, row.line, subject(event)) for event, row in zip(events, batch, strict=True)]
        changed += [
            entry
            for entry, row in zip(subjects.assign(judge(tx, found, voids)), batch, strict=True)
            if not is_kept_as(entry, row, withheld.get(row.line))
        ]
    apply_doubts(tx, changed)
    return bool(changed)


def is_kept_as(entry: Entry, row: KeptLine, withheld: Unconfirmed | None) -> bool:
    """True when the tables say of an event what was found about it."""
    if entry.doubt:
        expected = as_unconfirmed(entry)
        if withheld and entry.event.is_legacy:
            # Its task may be known by its handoff alone.
            expected = expected._replace(task=withheld.task)
        return not row.subject and not row.key and withheld == expected
    return withheld is None and (row.subject, row.key) == (entry.subject, entry.event.meta.key)


def held_entries(tx: Transaction) -> list[Entry]:
    """The events held back for their time that will count when it has come."""
    found = [
        Found(event, line, subject(event)) for line in tx.files.held() for event in (codec.recall(line),)
    ]
    return [entry for entry in judge(tx, found) if not entry.doubt]
