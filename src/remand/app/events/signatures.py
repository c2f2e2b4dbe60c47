"""Decides which events count: those covered by a trusted key. The others are stored without effect."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from remand.app.ports import Keys, SignedClaim
from remand.domain.access.keys import (
    AUTHORITIES,
    ChainEnd,
    Trust,
    format_signature,
    parse_signature,
    parse_trust,
)
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.log import VOIDS, EventsVoided, TaskArchived
from remand.domain.evolve import is_backed
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry, SignedGroup, UnconfirmedEvent
from remand.ledger.order import VoidedEvents
from remand.ledger.signatures import (
    ADOPT,
    IMPORT,
    MAX_GROUP,
    MAX_SEQ,
    VOID,
    ChainPlace,
    Doubt,
    EventGroup,
    GroupedEvent,
    GroupOrigin,
    adoption_session,
)
from remand.ledger.store import Transaction

_BATCH = 5000
_MOST_COVERED = 50_000


class Signer:
    """Signs what is written here with the machine's key, for one project."""

    def __init__(self, keys: Keys, project: str) -> None:
        self._keys = keys
        self._trust = Trust(project=project)
        self._key = ""

    @property
    def key(self) -> str:
        """The id of the machine's key, constant within one change."""
        if not self._key:
            self._key = self._keys.ensure_key().id
        return self._key

    @property
    def project(self) -> str:
        """The project that the signatures are bound to."""
        return self._trust.project

    def sign(
        self, session: str, first: int, before: str, events: Sequence[GroupedEvent], ts: Instant
    ) -> Iterator[EventGroup]:
        """The groups that cover consecutive events of a session: one, unless there are very many."""
        while events:
            group = EventGroup(
                ts=ts,
                meta=GroupOrigin(session=session),
                first=first,
                before=before,
                events=tuple(events[:MAX_GROUP]),
                key=self.key,
            )
            signature = format_signature(self._keys.sign(self._trust.signed_content(group.content)))
            signed = replace(group, signature=signature)
            vars(signed)["after"] = group.after  # the same value without hashing every event again
            yield signed
            first, before, events = group.last + 1, group.after, events[MAX_GROUP:]


class Voucher(NamedTuple):
    """Groups with which the user vouches for lines of others, and the events that record it."""

    groups: Sequence[EventGroup]
    events: Sequence[Event]


class Verifier:
    """Decides which groups count under a given trust."""

    def __init__(self, trust: Trust, keys: Keys) -> None:
        self.trust = trust
        self.trust_text = trust.text
        self._keys = keys
        self._covered: set[ChainPlace] = set()  # where groups end that a verified signature covers

    def with_trust(self, trust: Trust) -> Verifier:
        """The same with another trust."""
        return Verifier(trust, self._keys)

    def doubts(self, groups: Iterable[EventGroup]) -> dict[EventGroup, Doubt]:
        """The doubt about each group, or that there is none.

        A signature covers everything before its group's end up to a gap. The newest group is therefore verified first,
        and an older one only if no valid one follows. For a key whose trust ends, everything that leads to the end
        counts: the configuration names the chain's value there, which no other events have. Nothing is verified again.
        """
        chains: dict[tuple[str, str], list[EventGroup]] = defaultdict(list)
        for group in groups:
            chains[group.meta.session, group.key].append(group)
        found: dict[EventGroup, Doubt] = {}
        unbroken: list[list[EventGroup]] = []
        others: list[EventGroup] = []
        for (_, signer), chain in chains.items():
            key = self.trust.find_key(signer)
            if key is None:
                found.update(dict.fromkeys(chain, Doubt.UNKNOWN_SIGNER))
            elif key.until is not None:
                found |= self._leading_to_ends(chain)
            elif self._covered and self._covered.issuperset(group.end for group in chain):
                found.update(dict.fromkeys(chain, Doubt.NONE))
            elif len(chain) > 1 and _is_unbroken(chain):
                unbroken.append(chain)
            else:
                others += chain
        sound = self._sound([chain[-1] for chain in unbroken])
        for chain in unbroken:
            if chain[-1] in sound:
                found.update(dict.fromkeys(chain, Doubt.NONE))
                self._remember(chain)
            else:
                others += chain
        judged = self._judge_places(others)
        self._remember(group for group, doubt in judged.items() if not doubt)
        return found | judged

    def _remember(self, covered: Iterable[EventGroup]) -> None:
        if len(self._covered) >= _MOST_COVERED:
            self._covered.clear()
        self._covered.update(group.end for group in covered)

    def _judge_places(self, groups: Iterable[EventGroup]) -> dict[EventGroup, Doubt]:
        """Judges groups whose chains may fork and have gaps, place by place."""
        found: dict[EventGroup, Doubt] = {}
        ending: dict[ChainPlace, list[EventGroup]] = defaultdict(list)
        followers: Counter[ChainPlace] = Counter()
        for group in groups:
            ending[group.end].append(group)
            followers[group.start] += 1
        waiting = [place for place in ending if not followers[place]]
        while waiting:
            sound = self._sound([group for place in waiting for group in ending[place]])
            older: list[ChainPlace] = []
            for place in waiting:
                if sound.isdisjoint(ending[place]):
                    older += _free_places(ending[place], followers)
                    found.update((group, Doubt.WRONG_SIGNATURE) for group in ending[place])
                else:
                    _cover(place, ending, found)
            waiting = [place for place in older if place in ending and ending[place][0] not in found]
        return found

    def _leading_to_ends(self, groups: Sequence[EventGroup]) -> dict[EventGroup, Doubt]:
        """For keys whose trust ends: the groups that reach the end, and everything before them without a gap."""
        found = dict.fromkeys(groups, Doubt.REVOKED)
        ending: dict[ChainPlace, list[EventGroup]] = defaultdict(list)
        for group in groups:
            ending[group.end].append(group)
        for group in groups:
            end = trust_end(group, self.trust)
            if end is not None and group.chain_at(end.number) == end.chain:
                found[group] = Doubt.NONE
                _cover(group.start, ending, found)
        return found

    def _sound(self, groups: Iterable[EventGroup]) -> set[EventGroup]:
        """The groups with a valid signature of their own."""
        claims = {group: claim for group in groups if (claim := self._claim(group)) is not None}
        verified = self._keys.verify(list(claims.values())) if claims else []
        return {group for group, is_right in zip(claims, verified, strict=True) if is_right}

    def _claim(self, group: EventGroup) -> SignedClaim | None:
        key, signature = self.trust.find_key(group.key), parse_signature(group.signature)
        if key is None or signature is None:
            return None
        return SignedClaim(key.raw, self.trust.signed_content(group.content), signature)


def trust_end(group: EventGroup, trust: Trust) -> ChainEnd | None:
    """The place in its session where the trust in a group's key ends; None if it does not."""
    key = trust.find_key(group.key)
    return key.end_of_trust(group.session) if key else None


def last_counted_number(group: EventGroup, trust: Trust) -> int:
    """The number of the last event of a group that may count: its own last one, or where the trust in its key ends."""
    key = trust.find_key(group.key)
    if key is None or key.until is None:
        return group.last
    end = key.end_of_trust(group.session)
    return min(group.last, end.number) if end else 0


def _is_unbroken(groups: Sequence[EventGroup]) -> bool:
    """True if each group of a session and key starts where the previous one ends."""
    reach, value = groups[0].first - 1, groups[0].before
    for group in groups:
        if group.first != reach + 1 or group.before != value:
            return False
        reach, value = group.last, group.after
    return True


def _free_places(groups: Iterable[EventGroup], followers: Counter[ChainPlace]) -> Iterator[ChainPlace]:
    """The places before these groups, unless another group that follows there has yet to be judged."""
    for group in groups:
        followers[group.start] -= 1
        if not followers[group.start]:
            yield group.start


def _cover(
    place: ChainPlace, ending: Mapping[ChainPlace, list[EventGroup]], found: dict[EventGroup, Doubt]
) -> None:
    """Marks everything that ends at a place, and everything before it without a gap, as counting."""
    places = [place]
    while places:
        for group in ending.get(places.pop(), ()):
            if found.get(group) is not Doubt.NONE:
                found[group] = Doubt.NONE
                places.append(group.start)


_Coverage = tuple[str, int, str, Doubt, str]
"""A stored group's statement about one event: session, number, task, doubt and signer."""


class ReadEvent(NamedTuple):
    """An event with its line and its task, if it has one."""

    event: Event
    line: bytes
    task: str


class Subjects:
    """Finds the task of an effective event.

    A handoff event of a GoT tool need not name its task: it belongs to the task named at the start of the handoff.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._tasks: dict[str, str] = {}

    def learn(self, event: Event) -> str:
        """The task that an event names; remembered if the event belongs to a GoT tool's handoff."""
        task = event_task_id(event)
        if task and event.is_legacy and (handoff := getattr(event, "handoff_id", "")):
            self._tasks.setdefault(handoff, task)
        return task

    def task_of(self, event: Event) -> str:
        """The task of an event; empty if it is unknown."""
        task = self.learn(event)
        handoff = "" if task or not event.is_legacy else getattr(event, "handoff_id", "")
        return task or (self._tasks.get(handoff) or self._tx.names.find_task_id(handoff) if handoff else "")

    def assign(self, entries: Iterable[EventEntry]) -> list[EventEntry]:
        """Judged events; those that count have their tasks. An ineffective first event does not name its handoff's task."""
        return [
            entry._replace(subject=self.task_of(entry.event))
            if entry.event.is_legacy and not entry.doubt
            else entry
            for entry in entries
        ]


class GroupSource(Protocol):
    """A source of groups: the table, or memory."""

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that overlap a range of numbers, in order."""

    def imports(self) -> list[SignedGroup]:
        """Groups that name imported lines of GoT tools."""


def active_voids(tx: Transaction) -> VoidedEvents:
    """Everything voided by effective events."""
    return VoidedEvents(map(codec.decode_stored_line, tx.events.of_task(VOIDS)))


def judge(
    tx: Transaction,
    found: Sequence[ReadEvent],
    voids: VoidedEvents | None = None,
    groups: GroupSource | None = None,
) -> list[EventEntry]:
    """Events with the doubt about each, from the stored groups and voids."""
    voids = active_voids(tx) if voids is None else voids
    entries = _judge_archived(tx, judge_authority(tx, judge_signatures(tx, found, groups), groups))
    if not voids:
        return entries
    return [
        entry._replace(doubt=Doubt.VOID) if not entry.doubt and entry.event in voids else entry
        for entry in entries
    ]


def judge_authority(
    tx: Transaction, entries: list[EventEntry], groups: GroupSource | None = None
) -> list[EventEntry]:
    """Doubts events about the log itself whose actors may not write them."""
    if not any(type(entry.event) in AUTHORITIES for entry in entries):
        return entries
    trust = parse_trust(tx.unconfirmed.trust)
    return [
        entry
        if entry.doubt or may_count(entry.event, trust, groups or tx.groups)
        else entry._replace(doubt=Doubt.NOT_USERS)
        for entry in entries
    ]


def may_count(event: Event, trust: Trust, groups: GroupSource) -> bool:
    """True if an event's actor may write about the log itself, or it voids only what its own key signed."""
    if trust.may_give(event):
        return True
    if not isinstance(event, EventsVoided):
        return False
    own, meta = set[str](), event.meta
    for group, _, doubt in groups.of_session(meta.session, meta.seq, meta.seq):
        own |= {group.key} if not doubt and group.has_event(meta.seq, meta.id, VOIDS) else set()
    covered: set[str] = set()
    for group, _, doubt in groups.of_session(event.session, event.first, event.last):
        covered |= {one.id for one in group.events} if not doubt and group.key in own else set()
    return bool(own) and covered.issuperset(event.events)


def _judge_archived(tx: Transaction, entries: list[EventEntry]) -> list[EventEntry]:
    """Doubts archived states that depend on events of a key that is not trusted up to there."""
    if not any(type(entry.event) is TaskArchived for entry in entries):
        return entries
    trust = parse_trust(tx.unconfirmed.trust)
    return [
        entry._replace(doubt=Doubt.REVOKED)
        if not entry.doubt and isinstance(entry.event, TaskArchived) and not is_backed(entry.event, trust)
        else entry
        for entry in entries
    ]


def judge_signatures(
    tx: Transaction, found: Sequence[ReadEvent], groups: GroupSource | None = None
) -> list[EventEntry]:
    """Events with the doubt about each from the groups alone."""
    groups = groups or tx.groups
    named: dict[str, _Coverage] = {}
    kept = [group for span in _spans(found) for group in groups.of_session(*span)]
    if any(one.event.meta.seq <= 0 for one in found):
        kept += groups.imports()
    kept += [group for session in _sessions(found) for group in groups.of_session(adoption_session(session))]
    trust = parse_trust(tx.unconfirmed.trust)
    has_ends = trust.has_ends
    for group, _, kept_doubt in kept:
        last = last_counted_number(group, trust) if has_ends else MAX_SEQ
        session, key = group.meta.session, group.key
        for seq, (event_id, task) in enumerate(group.events, group.first):
            doubt = Doubt.REVOKED if seq > last and not kept_doubt else kept_doubt
            known = named.get(event_id)
            if known is None or (known[3] and not (doubt and session.startswith(ADOPT))):
                named[event_id] = (session, seq, task, doubt, key)
    entries: list[EventEntry] = []
    for one in found:
        event, line, task = one
        meta = event.meta
        coverage = named.get(meta.id)
        if (
            coverage is not None
            and coverage[:4] == (meta.session, meta.seq, task, Doubt.NONE)
            and meta.seq > 0
        ):
            entries.append(EventEntry(event, line, task))
        else:
            entries.append(_judge_event(one, coverage))
    return entries


def _judge_event(found: ReadEvent, coverage: _Coverage | None) -> EventEntry:
    event, line, task = found
    session, seq, named_task, doubt, signer = coverage or ("", 0, "", Doubt.NONE, "")
    if event.is_legacy:
        if not session.startswith(IMPORT):
            return EventEntry(event, line, task, Doubt.NOT_IMPORTED)
    elif not _covers(session, seq, event.meta) or named_task not in (task, VOID):
        return EventEntry(event, line, task, Doubt.UNSIGNED)
    elif named_task == VOID and not doubt:
        return EventEntry(event, line, task, Doubt.VOID)
    return EventEntry(event, line, task, doubt, signer if doubt else "")


def _covers(session: str, seq: int, meta: Meta) -> bool:
    """True if that is the event's own place, or somebody vouches for it; its id then contains its place."""
    return (session, seq) == (meta.session, meta.seq) or session == adoption_session(meta.session)


def _sessions(found: Iterable[ReadEvent]) -> set[str]:
    return {one.event.meta.session for one in found if not one.event.is_legacy}


def _spans(found: Iterable[ReadEvent]) -> Iterator[tuple[str, int, int]]:
    """The ranges of event numbers by session; distant numbers form several ranges."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for event, _, _ in found:
        if not event.is_legacy:
            numbers[event.meta.session].add(event.meta.seq)
    for session, seqs in numbers.items():
        ordered = sorted(seqs)
        first = last = ordered[0]
        for seq in ordered:
            if seq - last > MAX_GROUP:
                yield session, first, last
                first = seq
            last = seq
        yield session, first, last


def confirm(tx: Transaction, groups: Iterable[EventGroup]) -> list[EventEntry]:
    """Judges stored ineffective events named by these groups again. Returns those that now count."""
    judged: list[EventEntry] = []
    imported: set[str] = set()
    spans: dict[str, tuple[int, int]] = {}
    for group in groups:
        session, start, end = group.meta.session, group.first, group.last
        if session.startswith(IMPORT):
            imported.update(name.id for name in group.events)
        first, last = spans.get(session, (start, end))
        if start <= first or end >= last:
            spans[session] = (min(first, start), max(last, end))
        if session.startswith(ADOPT):
            spans[session.removeprefix(ADOPT)] = (0, MAX_SEQ - 1)
    for session, (first, last) in spans.items():
        judged += _judge_again(tx, tx.unconfirmed.of_session(session, first, last))
    if imported:
        lines = tx.unconfirmed.of_session("", 0, MAX_SEQ - 1)
        judged += _judge_again(tx, [one for one in lines if one.event_id in imported])
    apply_doubts(tx, judged)
    return [entry for entry in judged if not entry.doubt]


def apply_doubts(tx: Transaction, judged: Sequence[EventEntry]) -> None:
    """Stores the new doubts, and sets the clock after every effective event."""
    tx.unconfirmed.judge(judged)
    latest = max((entry.event.ts for entry in judged if not entry.doubt), default="")
    if latest > tx.head.clock:
        tx.head = replace(tx.head, clock=latest)


def _judge_again(tx: Transaction, withheld: Sequence[UnconfirmedEvent]) -> list[EventEntry]:
    """The ineffective events whose doubt has changed or gone."""
    changed: list[EventEntry] = []
    for start in range(0, len(withheld), _BATCH):
        kept = withheld[start : start + _BATCH]
        events = [codec.decode_stored_line(one.line) for one in kept]
        found = [
            ReadEvent(event, one.line, event_task_id(event)) for event, one in zip(events, kept, strict=True)
        ]
        for entry, before in zip(judge(tx, found), kept, strict=True):
            if (entry.doubt, entry.signer) != (before.doubt, before.signer):
                changed.append(entry)
    subjects = Subjects(tx)
    for entry in changed:
        if not entry.doubt:
            subjects.learn(entry.event)
    return subjects.assign(changed)


def confirmed_events(tx: Transaction, names: Iterable[str] = ()) -> Iterator[Event]:
    """Every event that has an effect or needs no signature; optionally only those with the given names."""
    withheld = {found.event_id for found in tx.unconfirmed.every()}
    found = codec.decode_stored_lines(tx.events.lines(), frozenset(names))
    return (event for event in found if event.meta.id not in withheld)


def store_groups(
    tx: Transaction, lines: Iterable[tuple[EventGroup, bytes]], verifier: Verifier
) -> dict[EventGroup, Doubt]:
    """Verifies and stores groups. Returns the doubt about each, and about earlier ones that they now cover.

    Stored groups are not verified again, except those with an invalid signature, which a later group may cover.
    """
    given = dict(lines)
    known = tx.group_doubts.doubts(given.items())
    new = {group: line for group, line in given.items() if group not in known} if known else given
    for session in {group.meta.session for group in new}:
        new |= {kept.group: kept.line for kept in tx.group_doubts.wrongly_signed(session)}
    doubts = verifier.doubts(new)
    covered: set[ChainPlace] = set()
    asked: set[tuple[str, int]] = set()
    unsure = [
        group for group, doubt in doubts.items() if doubt and _may_be_covered(group, doubt, verifier.trust)
    ]
    for group in sorted(unsure, key=_descending_end):
        if (group.session, group.last) not in asked:
            asked.add((group.session, group.last))
            covered |= _covered_places(tx, group.session, group.last)
        if group.end in covered:
            doubts[group] = Doubt.NONE
            covered.add(group.start)
    counted = [group for group, doubt in doubts.items() if not doubt] if verifier.trust.has_ends else []
    for kept in _groups_leading_to(tx, counted, verifier.trust):
        doubts[kept.group], new[kept.group] = Doubt.NONE, kept.line
    tx.groups.add(SignedGroup(group, new[group], doubt) for group, doubt in doubts.items())
    return known | doubts


def _may_be_covered(group: EventGroup, doubt: Doubt, trust: Trust) -> bool:
    """True if a group that does not count by itself would count before an effective one."""
    return doubt is Doubt.WRONG_SIGNATURE or (
        doubt is Doubt.REVOKED and group.last <= last_counted_number(group, trust)
    )


def _groups_leading_to(tx: Transaction, groups: Iterable[EventGroup], trust: Trust) -> Iterator[SignedGroup]:
    """Stored groups that did not count and lead without a gap to groups that count up to their key's end."""
    places = [group.start for group in groups if trust_end(group, trust) is not None]
    while places:
        place = places.pop()
        session, _, _, number = place
        for kept in tx.groups.of_session(session, number, number):
            if kept.doubt is Doubt.REVOKED and kept.group.end == place:
                yield kept
                places.append(kept.group.start)


def _descending_end(group: EventGroup) -> int:
    return -group.last


def _covered_places(tx: Transaction, session: str, last: int) -> set[ChainPlace]:
    """The places from an event on where stored effective groups start or end."""
    kept = [one.group for one in tx.groups.of_session(session, last, last + 1) if not one.doubt]
    return {place for group in kept for place in (group.start, group.end)}


class GroupsInMemory:
    """Groups read once, for callers that use all of them."""

    def __init__(self, kept: Iterable[SignedGroup]) -> None:
        self._sessions: dict[str, list[SignedGroup]] = defaultdict(list)
        for one in kept:
            self._sessions[one.group.session].append(one)

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that overlap a range of numbers."""
        kept = self._sessions.get(session, [])
        start, end = (
            bisect_left(kept, first - MAX_GROUP, key=_first_number),
            bisect_right(kept, last, key=_first_number),
        )
        return [one for one in kept[start:end] if one.group.last >= first]

    def imports(self) -> list[SignedGroup]:
        sessions = (own for session, own in self._sessions.items() if session.startswith(IMPORT))
        return [one for own in sessions for one in own]


def _first_number(kept: SignedGroup) -> int:
    return kept.group.first


class BatchGroups:
    """The groups for judging a batch's events: from memory unless the table has others in the range."""

    def __init__(self, tx: Transaction, groups: Iterable[SignedGroup]) -> None:
        self._tx = tx
        self._memory = GroupsInMemory(sorted(groups, key=_first_number))

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that overlap a range of numbers."""
        own = self._memory.of_session(session, first, last)
        is_forked = len({one.group.first for one in own}) < len(own)
        if own and not is_forked and self._tx.group_doubts.count(session, first, last) == len(own):
            return own
        return self._tx.groups.of_session(session, first, last)

    def imports(self) -> list[SignedGroup]:
        return self._tx.groups.imports()
