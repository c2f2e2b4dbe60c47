"""Missing lines: named by signed groups but absent, skipped in the numbering, or gone from published files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

from remand.app.events.signatures import active_voids
from remand.app.tasks.lookup import Lineage
from remand.domain.events.event import Event
from remand.domain.events.log import (
    WAITING,
    AbandonedLines,
    ArchivedFile,
    ArchivedSession,
    LinesGivenUp,
    LogArchived,
    MissingLines,
    TaskArchived,
)
from remand.domain.evolve import ArchivedHistory, archived_history, archived_state, replay, short_id
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry
from remand.ledger.order import order_key
from remand.ledger.problems import BadLine
from remand.ledger.signatures import (
    ADOPT,
    IMPORT,
    MAX_SEQ,
    VOID,
    Doubt,
    EventGroup,
    NamedEvents,
    adoption_session,
    decode_names,
)
from remand.ledger.store import Transaction
from remand.ledger.traces import ARCHIVED, REPAIRED

SeenSessions = Mapping[str, tuple[int, str]]
"""The position of each session as last seen on this machine: number and id of the last event."""


_MANY = 500
"""The number of tasks from which a scan of all lines for archived ones is faster."""
MAX_GIVEN_UP = 1000
"""The most rows given up in one event, which keeps it below the limit of a line."""


class Repair(NamedTuple):
    """Missing lines that the user gave up, with the event that records it."""

    lines: AbandonedLines
    event: LinesGivenUp

    @property
    def by(self) -> str:
        """Who gave them up."""
        return self.event.meta.actor

    @property
    def reason(self) -> str:
        """Why."""
        return self.event.reason


def given_up_repairs(tx: Transaction) -> list[Repair]:
    """Everything given up by effective events."""
    events = _traced_events(tx, REPAIRED)
    return [
        Repair(lines, event) for event in events if isinstance(event, LinesGivenUp) for lines in event.lines
    ]


def archive_events(tx: Transaction) -> list[LogArchived]:
    """Everything archived by effective events."""
    return [event for event in _traced_events(tx, ARCHIVED) if isinstance(event, LogArchived)]


def archived_sessions(tx: Transaction, *, are_elsewhere: bool = False) -> dict[str, list[ArchivedSession]]:
    """How far sessions are archived, by name; with `are_elsewhere`, only where their lines may be absent for that reason.

    Lines are not elsewhere if the archive has no files or was read in: what is then absent was never archived.
    """
    found: dict[str, list[ArchivedSession]] = defaultdict(list)
    events = archive_events(tx)
    absent = {event.archive for event in events if event.files} - set(tx.missing.archives_here.split())
    for event in events:
        if not are_elsewhere or event.archive in absent:
            for one in event.sessions:
                found[one.session].append(one)
    return found


def archived_ends(tx: Transaction) -> dict[str, ArchivedSession]:
    """How far each session is archived, as far as that agrees with the groups present."""
    found: dict[str, ArchivedSession] = {}
    for session, ends in archived_sessions(tx).items():
        agreeing = [] if session.startswith(ADOPT) else [one for one in ends if _agrees(tx, one)]
        if agreeing:
            found[session] = max(agreeing, key=lambda one: one.number)
    return found


def archived_numbers(tx: Transaction) -> dict[str, int]:
    """The number of the last archived event of each session."""
    return {session: end.number for session, end in archived_ends(tx).items()}


def _agrees(tx: Transaction, end: ArchivedSession) -> bool:
    """True if the groups present pass through the end of an archived range, or none of its session is present.

    A range that ends elsewhere, or under another key, would hide removed lines.
    """
    spans = tx.group_doubts.sound_spans(end.session)
    if not spans:
        return True
    near = tx.groups.of_session(end.session, end.number, end.number + 1)
    own = [group for group, _, doubt in near if not doubt and group.key == end.key]
    return any(
        group.chain_at(end.number) == end.chain
        or (group.first == end.number + 1 and group.before == end.chain)
        for group in own
    )


def _traced_events(tx: Transaction, name: str) -> Iterator[Event]:
    """The effective events with that name, found by their traces."""
    for trace in list(tx.traces.every(name)):
        for line in tx.events.lines(trace.session, trace.seq, trace.seq):
            with suppress(BadLine):
                event = codec.decode_stored_line(line)
                if event.name == name and _counts(tx, event, line):
                    yield event


def _counts(tx: Transaction, event: Event, line: bytes) -> bool:
    """True if an event is not doubted. A forged one may use another event's place."""
    return tx.unconfirmed.verdict(EventEntry(event, line, "")) is Doubt.NONE


def _given_up_lines(tx: Transaction) -> list[AbandonedLines]:
    return [one.lines for one in given_up_repairs(tx)]


def abandoned_lines(lines: MissingLines) -> AbandonedLines:
    """Missing lines as recorded in the event that gives them up."""
    return AbandonedLines(
        session=lines.session, first=lines.first, last=lines.last, id=lines.id, task=lines.task
    )


def missing_for_task(tx: Transaction, task: Task, family: Lineage) -> tuple[MissingLines, ...]:
    """The missing lines that may concern a task or its ancestors, from which lockouts are inherited."""
    if not task.links.parent:
        own, tasks = [task], {task.id}
    else:
        own = [task, *family.ancestors(task)]
        tasks = {task.links.parent, *(one.id for one in own)}
    found = tx.missing.of_tasks(tasks)
    if not found:
        return ()
    oldest = min(one.details.created_at for one in own)
    return tuple(one for one in found if one.may_concern(tasks, oldest))


class ExpectedLines:
    """Lines that the groups in files name and that have not arrived."""

    def __init__(self, tx: Transaction) -> None:
        self._named: dict[str, tuple[str, int, str]] = {}
        """Session, number and task by event id."""
        self._known = {one.id for one in tx.missing.every()}
        self._sessions: set[str] = set()
        self._has_repairs = False
        """Whether events arrived that declare lines as not missing."""

    def add_groups(self, groups: Iterable[EventGroup]) -> None:
        """Adds effective groups."""
        named = self._named
        for group in groups:
            session = group.meta.session
            self._sessions.add(session)
            for seq, (event_id, task) in enumerate(group.events, group.first):
                if task != VOID:
                    named[event_id] = (session, seq, task)

    def remove_arrived(self, tx: Transaction, events: Iterable[Event]) -> None:
        """Removes events that are present, effective or not."""
        came: list[str] = []
        named, known = self._named, self._known
        for event in events:
            name = event.meta.id
            named.pop(name, None)
            if name in known:
                came.append(name)
            if type(event) in _REPAIRS:
                self._has_repairs = True
        if came:
            tx.missing.drop(came)

    def update_missing(
        self, tx: Transaction, seen: SeenSessions, noted: Instant, sessions: Collection[str] = ()
    ) -> None:
        """Stores what is missing now."""
        self._sessions.update(sessions)
        left: dict[str, list[MissingLines]] = defaultdict(list)
        for event_id, (session, seq, task) in self._named.items():
            left[session].append(MissingLines(session=session, first=seq, last=seq, id=event_id, task=task))
        kept = {
            session: _kept_ids(tx, session, min(one.first for one in lines), max(one.last for one in lines))
            for session, lines in left.items()
        }
        archived = archived_sessions(tx, are_elsewhere=True) if self._sessions or self._has_repairs else {}
        if self._has_repairs:
            self._sessions.update(
                one.session for one in tx.missing.every() if not one.session.startswith(WAITING)
            )
            self._sessions.update(archived)
        search = _MissingSearch(tx, seen, noted, _given_up_lines(tx) if self._sessions else [], archived)
        found: dict[str, list[MissingLines]] = {}
        for session in sorted(self._sessions):
            before = tx.missing.every(session)
            lines = {one.id: one for one in before if one.id}
            lines |= {one.id: one for one in left[session] if one.id not in kept.get(session, ())}
            found[session] = search.missing_of(session, lines.values(), before)
        tx.missing.replace(found)


def find_missing(tx: Transaction, seen: SeenSessions, noted: Instant) -> dict[str, list[MissingLines]]:
    """Everything missing according to stored groups, session by session; earlier results are ignored."""
    archived = archived_sessions(tx, are_elsewhere=True)
    search = _MissingSearch(tx, seen, noted, _given_up_lines(tx), archived)
    named: dict[str, dict[str, MissingLines]] = {session: {} for session in (*seen, *archived)}
    held = tx.held.ids()
    sound = filter(None, map(decode_names, tx.group_doubts.lines(are_sound=True)))
    for session, groups in groupby(sound, key=_session_of):
        own, here = named.setdefault(session, {}), _kept_ids(tx, session)
        for group in groups:
            for seq, (event_id, task) in enumerate(group.events, group.first):
                if event_id not in here and task != VOID and event_id not in held:
                    own[event_id] = MissingLines(session=session, first=seq, last=seq, id=event_id, task=task)
    found = {
        session: search.missing_of(session, lines.values(), tx.missing.every(session))
        for session, lines in named.items()
    }
    return found | _waiting_lines(tx, archived_tasks(tx), search.given)


_session_of: Callable[[NamedEvents], str] = attrgetter("meta.session")


def note_waiting(tx: Transaction, tasks: Collection[str]) -> None:
    """Records which of these tasks have an event that waits for archived lines."""
    concerned = archived_tasks(tx).intersection(tasks) if len(tasks) > _MANY else tasks
    if concerned:
        known = {one.session for one in tx.missing.every()}
        found = _waiting_lines(tx, concerned, _given_up_lines(tx))
        tx.missing.replace({name: lines for name, lines in found.items() if lines or name in known})


def waiting_tasks(tx: Transaction) -> list[str]:
    """The tasks with an event that waits for archived lines."""
    return sorted(one.task for one in tx.missing.every() if one.session.startswith(WAITING))


def _waiting_lines(
    tx: Transaction, tasks: Iterable[str], given: Iterable[AbandonedLines]
) -> dict[str, list[MissingLines]]:
    """For each of these tasks whose archived lines are needed, an entry with the task in place of a session."""
    given_up = {one.session for one in given}
    found: dict[str, list[MissingLines]] = {}
    for task in tasks:
        session = f"{WAITING}{task}"
        is_waiting = session not in given_up and _is_waiting(tx, task)
        found[session] = [MissingLines(session=session, first=1, last=1, task=task)] if is_waiting else []
    return found


def _is_waiting(tx: Transaction, task: str) -> bool:
    """True if an event waits for archived lines, or the archived state cannot be relied on without them.

    That is the case if it depends on a key that is not trusted so far, is unreadable, or contradicts what is present.
    """
    lines = tx.events.of_task(task)
    if codec.may_have_kinds(lines, (TaskArchived,)):
        events = sorted(map(codec.decode_stored_line, lines), key=order_key)
        history = archived_history(events)
        if history is None or history.is_waiting:
            return history is not None
        early = _early_lines(events, history)
        sessions = {event.meta.session for event in early}
        return bool(early) and _contradicts_archive(tx, history, replay(early), sessions)
    withheld = tx.unconfirmed.of_task(task)
    unbacked = [one.line for one in withheld if one.doubt is Doubt.REVOKED and not one.signer]
    if not unbacked:
        return False
    events = [codec.decode_stored_line(line) for line in (*lines, *(one.line for one in withheld))]
    return archived_history(sorted(events, key=order_key)) is not None


def is_contradicted(tx: Transaction, events: Sequence[Event], history: ArchivedHistory) -> bool:
    """True if the lines present result in another state than the archived one, and no part of them is archived."""
    told, base = replay(_early_lines(events, history)), history.base
    return (
        told is not None
        and base is not None
        and _contradicts_archive(tx, history, told, {one[0] for one in base.signed})
    )


def _early_lines(events: Sequence[Event], history: ArchivedHistory) -> list[Event]:
    return [event for event in events if event not in history.later and type(event) is not TaskArchived]


def _contradicts_archive(
    tx: Transaction, history: ArchivedHistory, told: Task | None, sessions: Iterable[str]
) -> bool:
    """True if lines result in another state than the archived one, and no part of these sessions is archived.

    Old branches bring some lines of an archived task. A session that wrote them is then present only up to a place, and
    the archive covers the range from there to where its groups continue.
    """
    base = history.base
    if base is None or told == archived_state(base):
        return False
    ends = archived_sessions(tx, are_elsewhere=True)
    for session in sessions:
        number = max((last for name, _, last in base.signed if name == session), default=0)
        is_elsewhere = any(True for _ in _gaps(tx.group_doubts.sound_spans(session), number))
        if is_elsewhere and any(one.number >= number and _agrees(tx, one) for one in ends.get(session, ())):
            return False
    return True


def archived_tasks(tx: Transaction) -> set[str]:
    """The archived tasks, by effective and other events."""
    found: set[str] = set()
    for row in tx.event_rows.rows(kind=TaskArchived):
        with suppress(BadLine):
            event = codec.decode_stored_line(row.line)
            if isinstance(event, TaskArchived):
                found.add(event.task_id)
    return found


def note_missing(tx: Transaction, seen: SeenSessions, noted: Instant) -> None:
    """Searches for everything missing and stores the result."""
    found = find_missing(tx, seen, noted)
    gone = {one.session for one in tx.missing.every()} - found.keys()
    tx.missing.replace(found | {session: [] for session in gone})


def sessions_behind(tx: Transaction, seen: SeenSessions) -> set[str]:
    """The sessions that are shorter than they were seen before."""
    archived = archived_sessions(tx)
    return {
        session
        for session, (seq, tip) in seen.items()
        if session != tx.head.session or seq > tx.head.seq
        if not any(one.number >= seq and _agrees(tx, one) for one in archived.get(session, ()))
        if _is_behind(tx, session, seq, tip)
    }


def is_fault(lines: MissingLines, tasks: Collection[str], own_session: str) -> bool:
    """False for lines of tasks that are absent as a whole: they are elsewhere, for example on another branch."""
    is_own = lines.session == own_session or lines.session.startswith(IMPORT)
    return not lines.task or is_own or lines.task in tasks


def _kept_ids(tx: Transaction, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
    """The ids of stored events named by a session's groups, with numbers in a range."""
    if session.startswith(IMPORT):
        return event_ids(tx, "")
    if session.startswith(ADOPT):
        return event_ids(tx, session.removeprefix(ADOPT))
    return event_ids(tx, session, first, last)


def event_ids(tx: Transaction, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
    """The ids of a session's events in a range of numbers, in every version; without a session, of GoT tools' lines."""
    lines = tx.events.lines(session, first, last)
    if not session:
        return set(_decoded_ids(lines))
    found = set(map(codec.stored_id, lines))
    if "" in found:  # lines whose id can only be found by decoding them
        found.remove("")
        lines = tx.events.lines(session, first, last)
        found.update(_decoded_ids(line for line in lines if not codec.stored_id(line)))
    return found


def _decoded_ids(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        with suppress(BadLine):
            yield codec.decode_stored_line(line).meta.id


class _MissingSearch(NamedTuple):
    """The data for finding a session's missing lines."""

    tx: Transaction
    seen: SeenSessions
    noted: Instant
    given: list[AbandonedLines]
    archived: Mapping[str, Sequence[ArchivedSession]]

    def missing_of(
        self, session: str, lines: Iterable[MissingLines], before: Iterable[MissingLines]
    ) -> list[MissingLines]:
        """Missing lines and gaps of a session except those given up, each with the time before which it was written."""
        spans = self.tx.group_doubts.sound_spans(session)
        own = [one for one in self.given if one.session == session]
        found = [one for one in lines if not any(up.covers(session, one.first) for up in own)]
        ends = self.archived.get(session, ())
        if session.startswith(ADOPT):
            found += [_missing_end(one) for one in ends if not _is_reached(self.tx, one)]
        elif archived := max((one.number for one in ends if _agrees(self.tx, one)), default=0):
            spans = [(1, archived), *spans]
            found = [one for one in found if one.first > archived or not self._is_archived(one)]
        last = max((end for _, end in spans), default=0)
        if session in self.seen:
            last = max(last, _expected_reach(self.tx, session, *self.seen[session]))
        if not session.startswith((IMPORT, ADOPT)):
            known = [*spans, *((one.first, one.last) for one in own)]
            found += [
                MissingLines(session=session, first=first, last=end) for first, end in _gaps(known, last)
            ]
        times = [one for one in before if one.until]
        return [one if one.task else _with_latest_time(self.tx, one, times, self.noted) for one in found]

    def _is_archived(self, lines: MissingLines) -> bool:
        """True if an archive has a line, or another group vouches for it. Events without a task are never archived."""
        adopting = self.tx.groups.of_session(adoption_session(lines.session))
        if any(name.id == lines.id for group, _, doubt in adopting if not doubt for name in group.events):
            return True
        events = map(codec.decode_stored_line, self.tx.events.of_task(lines.task) if lines.task else ())
        archives = [event for event in events if isinstance(event, TaskArchived)]
        is_known = any(short_id(lines.id) in one.event_ids and archived_state(one) for one in archives)
        return is_known or lines.id in active_voids(self.tx).ids


_REPAIRS = frozenset({LinesGivenUp, LogArchived})


def _is_reached(tx: Transaction, end: ArchivedSession) -> bool:
    """True if the groups with which an archiver vouches for remaining lines are present."""
    return any(
        not doubt and group.key == end.key and group.chain_at(end.number) == end.chain
        for group, _, doubt in tx.groups.of_session(end.session, end.number, end.number)
    )


def _missing_end(end: ArchivedSession) -> MissingLines:
    return MissingLines(session=end.session, first=end.number, last=end.number)


def _with_latest_time(
    tx: Transaction, lines: MissingLines, before: Iterable[MissingLines], noted: Instant
) -> MissingLines:
    """Missing lines with the time of the next effective event; without one, the time when they were first missed."""
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
            event = codec.decode_stored_line(line)
            if _counts(tx, event, line):
                return event.ts
    return ""


def _gaps(known: Iterable[tuple[int, int]], last: int) -> Iterator[tuple[int, int]]:
    """The ranges of numbers up to the last that nothing names."""
    reach = 0
    for first, end in sorted(known):
        if first > reach + 1 and reach < last:
            yield reach + 1, min(first - 1, last)
        reach = max(reach, end)
    if reach < last:
        yield reach + 1, last


def _expected_reach(tx: Transaction, session: str, seq: int, tip: str) -> int:
    """The position a session must reach: where it was last seen, unless that event is stored without effect.

    An event whose group is gone counts as missing: it was signed and had its effect.
    """
    if tip and tip in tx.held.ids():
        return 0
    if tip and tip in event_ids(tx, session, seq, seq):
        return seq if tx.group_doubts.sound_spans(session) and _is_unsigned(tx, session, seq, tip) else 0
    return seq


def _is_unsigned(tx: Transaction, session: str, seq: int, event_id: str) -> bool:
    return any(
        one.event_id == event_id and one.doubt is Doubt.UNSIGNED
        for one in tx.unconfirmed.of_session(session, seq, seq)
    )


def _is_behind(tx: Transaction, session: str, seq: int, tip: str) -> bool:
    """True if a session does not reach the number up to which it was seen."""
    return not tx.group_doubts.sound_spans(session, seq) and _expected_reach(tx, session, seq, tip) >= seq


def archived_files(tx: Transaction) -> dict[str, ArchivedFile]:
    """The event files that were removed from the work tree, by name."""
    return {file.name: file for event in archive_events(tx) for file in event.files}
