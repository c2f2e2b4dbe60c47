"""Lines the log lacks: named by signed groups and not here, left out, or gone from published files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from remand.app.ports import Exchange, History, Rewrite
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
from remand.domain.folds.archive import archived_history
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry, RewrittenLine
from remand.ledger.order import order_key
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import ADOPT, IMPORT, MAX_SEQ, VOID, Doubt, EventGroup
from remand.ledger.store import Transaction
from remand.ledger.traces import ARCHIVED, REPAIRED

SeenSessions = Mapping[str, tuple[int, str]]
"""How far each session was seen on this machine: number and id of the last event."""


MAX_GIVEN_UP = 1000
"""How many rows one event gives up at most: it stays below the limit of a line."""


class Repair(NamedTuple):
    """Missing lines that the user gave up, and in which event."""

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
    """All that was given up, by events that count."""
    events = _traced_events(tx, REPAIRED)
    return [
        Repair(lines, event) for event in events if isinstance(event, LinesGivenUp) for lines in event.lines
    ]


def archive_events(tx: Transaction) -> list[LogArchived]:
    """What was archived, by events that count."""
    return [event for event in _traced_events(tx, ARCHIVED) if isinstance(event, LogArchived)]


def archived_sessions(tx: Transaction) -> dict[str, list[ArchivedSession]]:
    """How far sessions are archived, by their names."""
    found: dict[str, list[ArchivedSession]] = defaultdict(list)
    for event in archive_events(tx):
        for one in event.sessions:
            found[one.session].append(one)
    return found


def archived_numbers(tx: Transaction) -> dict[str, int]:
    """The number of the last archived event of each session."""
    return {session: max(one.number for one in ends) for session, ends in archived_sessions(tx).items()}


def _traced_events(tx: Transaction, name: str) -> Iterator[Event]:
    """The events of that name that count, found by the traces they leave."""
    for trace in list(tx.traces.every(name)):
        for line in tx.events.lines(trace.session, trace.seq, trace.seq):
            with suppress(BadLine):
                event = codec.decode_stored_line(line)
                if event.name == name and _counts(tx, event, line):
                    yield event


def _counts(tx: Transaction, event: Event, line: bytes) -> bool:
    """True when nothing is doubted of an event. Whoever forges one can give it the place of another."""
    return tx.unconfirmed.verdict(EventEntry(event, line, "")) is Doubt.NONE


def _given_up_lines(tx: Transaction) -> list[AbandonedLines]:
    return [one.lines for one in given_up_repairs(tx)]


def as_given_up(lines: MissingLines) -> AbandonedLines:
    """Missing lines as an event names them that gives them up."""
    return AbandonedLines(
        session=lines.session, first=lines.first, last=lines.last, id=lines.id, task=lines.task
    )


def missing_for_task(tx: Transaction, task: Task, family: Lineage) -> tuple[MissingLines, ...]:
    """The missing lines that may be about a task, or about one that it was cut from: lockouts come from there."""
    own = [task, *family.ancestors(task)] if task.links.parent else [task]
    tasks = {one.id for one in own} | {task.links.parent} - {""} if task.links.parent else {task.id}
    found = tx.missing.of_tasks(tasks)
    if not found:
        return ()
    oldest = min(one.details.created_at for one in own)
    return tuple(one for one in found if one.may_concern(tasks, oldest))


class ExpectedLines:
    """What the groups that files bring name, as long as it has not come."""

    def __init__(self, tx: Transaction) -> None:
        self._named: dict[str, tuple[str, int, str]] = {}
        """By the ids of events: session, number and task."""
        self._known = {one.id for one in tx.missing.every()}
        self._sessions: set[str] = set()
        self._has_repairs = False
        """True when events came that say of lines that they are not missing."""

    def add_groups(self, groups: Iterable[EventGroup]) -> None:
        """Takes groups into account that count."""
        named = self._named
        for group in groups:
            session = group.meta.session
            self._sessions.add(session)
            for seq, (event_id, task) in enumerate(group.events, group.first):
                if task != VOID:
                    named[event_id] = (session, seq, task)

    def remove_arrived(self, tx: Transaction, events: Iterable[Event]) -> None:
        """Takes events into account that are here, with effect or without."""
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
        """Keeps what is missing now."""
        self._sessions.update(sessions)
        left: dict[str, list[MissingLines]] = defaultdict(list)
        for event_id, (session, seq, task) in self._named.items():
            left[session].append(MissingLines(session=session, first=seq, last=seq, id=event_id, task=task))
        kept = {
            session: _kept_ids(tx, session, min(one.first for one in lines), max(one.last for one in lines))
            for session, lines in left.items()
        }
        archived = archived_sessions(tx) if self._sessions or self._has_repairs else {}
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
    """All that is missing by what is kept, session by session; nothing is believed of what was found before."""
    archived = archived_sessions(tx)
    search = _MissingSearch(tx, seen, noted, _given_up_lines(tx), archived)
    named: dict[str, dict[str, MissingLines]] = {session: {} for session in (*seen, *archived)}
    here: dict[str, set[str]] = {}
    held = tx.held.ids()
    for group, _, doubt in tx.groups.every():
        if doubt:
            continue
        session = group.session
        if session not in here:
            here[session] = _kept_ids(tx, session) | held
        kept, own = here[session], named.setdefault(session, {})
        for seq, (event_id, task) in enumerate(group.events, group.first):
            if event_id not in kept and task != VOID:
                own[event_id] = MissingLines(session=session, first=seq, last=seq, id=event_id, task=task)
    found = {
        session: search.missing_of(session, lines.values(), tx.missing.every(session))
        for session, lines in named.items()
    }
    return found | (_waiting_lines(tx, _archived_tasks(tx), search.given) if archived else {})


def note_waiting(tx: Transaction, tasks: Collection[str]) -> None:
    """Notes of which of these tasks an event waits for archived lines."""
    if tasks and archived_sessions(tx):
        tx.missing.replace(_waiting_lines(tx, tasks, _given_up_lines(tx)))


def waiting_tasks(tx: Transaction) -> list[str]:
    """The tasks of which an event waits for archived lines."""
    return sorted(one.task for one in tx.missing.every() if one.session.startswith(WAITING))


def _waiting_lines(
    tx: Transaction, tasks: Iterable[str], given: Iterable[AbandonedLines]
) -> dict[str, list[MissingLines]]:
    """For each of these tasks, that lines of it are needed, if they are: in place of a session stands the task."""
    given_up = {one.session for one in given}
    found: dict[str, list[MissingLines]] = {}
    for task in tasks:
        session = f"{WAITING}{task}"
        is_waiting = session not in given_up and _is_waiting(tx, task)
        found[session] = [MissingLines(session=session, first=1, last=1, task=task)] if is_waiting else []
    return found


def _is_waiting(tx: Transaction, task: str) -> bool:
    """True when an event waits for archived lines, or the archived state rests on a key that is not trusted so far."""
    lines = tx.events.of_task(task)
    if any(codec.may_be_kind(line, TaskArchived) for line in lines):
        history = archived_history(sorted(map(codec.decode_stored_line, lines), key=order_key))
        return history is not None and history.is_waiting
    withheld = tx.unconfirmed.of_task(task)
    unbacked = [one.line for one in withheld if one.doubt is Doubt.REVOKED and not one.signer]
    if not unbacked:
        return False
    events = [codec.decode_stored_line(line) for line in (*lines, *(one.line for one in withheld))]
    return archived_history(sorted(events, key=order_key)) is not None


def _archived_tasks(tx: Transaction) -> set[str]:
    found = (line for line in tx.events.lines() if codec.may_be_kind(line, TaskArchived))
    events = (codec.decode_stored_line(line) for line in found)
    return {event.task_id for event in events if isinstance(event, TaskArchived)}


def note_missing(tx: Transaction, seen: SeenSessions, noted: Instant) -> None:
    """Finds all that is missing anew, and keeps it."""
    found = find_missing(tx, seen, noted)
    gone = {one.session for one in tx.missing.every()} - found.keys()
    tx.missing.replace(found | {session: [] for session in gone})


def sessions_behind(tx: Transaction, seen: SeenSessions) -> set[str]:
    """The sessions that reach less far than they were seen to."""
    archived = archived_numbers(tx)
    return {
        session
        for session, (seq, tip) in seen.items()
        if session != tx.head.session or seq > tx.head.seq
        if archived.get(session, 0) < seq and _session_reach(tx, session, seq, tip) < seq
    }


def is_fault(lines: MissingLines, tasks: Collection[str], own_session: str) -> bool:
    """False for lines of tasks of which nothing is here: their lines are elsewhere, as on another branch."""
    is_own = lines.session == own_session or lines.session.startswith(IMPORT)
    return not lines.task or is_own or lines.task in tasks


def _kept_ids(tx: Transaction, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
    """The ids of the kept events that groups of a session name, as far as their numbers lie between these two."""
    if session.startswith(IMPORT):
        return event_ids(tx, "")
    if session.startswith(ADOPT):
        return event_ids(tx, session.removeprefix(ADOPT))
    return event_ids(tx, session, first, last)


def event_ids(tx: Transaction, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
    """The ids of a session's events with these numbers, in whichever version; without a session, of GoT tools' lines."""
    found: set[str] = set()
    for line in tx.events.lines(session, first, last):
        with suppress(BadLine):
            found.add(codec.decode_stored_line(line).meta.id)
    return found


class _MissingSearch(NamedTuple):
    """What a session's missing lines are looked for by."""

    tx: Transaction
    seen: SeenSessions
    noted: Instant
    given: list[AbandonedLines]
    archived: Mapping[str, Sequence[ArchivedSession]]

    def missing_of(
        self, session: str, lines: Iterable[MissingLines], before: Iterable[MissingLines]
    ) -> list[MissingLines]:
        """Missing lines and gaps of a session without what was given up, each with the time before which it was written."""
        spans = self.tx.group_doubts.sound_spans(session)
        own = [one for one in self.given if one.session == session]
        found = [one for one in lines if not any(up.covers(session, one.first) for up in own)]
        ends = self.archived.get(session, ())
        if session.startswith(ADOPT):
            found += [_missing_end(one) for one in ends if not _is_reached(self.tx, one)]
        elif ends:
            archived = max(one.number for one in ends)
            spans = [(1, archived), *spans]
            # What is not in the archive is named by the groups of its `adopt-` session.
            found = [one for one in found if one.first > archived]
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


_REPAIRS = frozenset({LinesGivenUp, LogArchived})


def _is_reached(tx: Transaction, end: ArchivedSession) -> bool:
    """True when the groups are here by which an archiver vouches for lines that stay."""
    return any(
        not doubt and group.key == end.key and group.chain_at(end.number) == end.chain
        for group, _, doubt in tx.groups.of_session(end.session, end.number, end.number)
    )


def _missing_end(end: ArchivedSession) -> MissingLines:
    return MissingLines(session=end.session, first=end.number, last=end.number)


def _with_latest_time(
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
            event = codec.decode_stored_line(line)
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


def _session_reach(tx: Transaction, session: str, seq: int, tip: str) -> int:
    named = max((last for _, last in tx.group_doubts.sound_spans(session)), default=0)
    return named if named >= seq else max(named, seq if not _expected_reach(tx, session, seq, tip) else 0)


def archived_files(tx: Transaction) -> dict[str, ArchivedFile]:
    """The event files that were taken out of the work tree, by name."""
    return {file.name: file for event in archive_events(tx) for file in event.files}


EVENT_FOLDER = ".got/events"
_ADDED = "+"
"""How the hash of a line begins that was added to a published file."""


def is_base_read(tx: Transaction, tip: str) -> bool:
    """True when the base's history was looked at up to its tip."""
    return not tip or tx.rewritten.looked_at.endswith(f" {tip}")


def read_base_history(tx: Transaction, history: History) -> list[bytes]:
    """Looks at what is new in the base's history; what its files held before they were changed, to be read in again."""
    ref, tip = history.base()
    before, _, since = tx.rewritten.looked_at.partition(" ")
    if not tip or (before, since) == (ref, tip):
        return []
    archived = archived_files(tx)
    tx.rewritten.drop([one for one in tx.rewritten.every() if os.path.basename(one.file) in archived])
    rewrites = history.rewrites(since if before == ref else "", tip, archived)
    given = {one.lines.id for one in given_up_repairs(tx)} if rewrites else set()
    tx.rewritten.add(line for one in rewrites for line in _lost_lines(one) if line.hash not in given)
    tx.rewritten.looked_at = f"{ref} {tip}"
    forget_restored(tx, history, tip)
    return [one.before for one in rewrites]


def forget_restored(tx: Transaction, history: History, tip: str) -> None:
    """Forgets lines that the base has again, in whichever file, and additions that are gone."""
    found = [one for one in tx.rewritten.every() if one.commit]
    if not found:
        return
    files = history.files(tip)
    lines = {_hash(line) for content in files.values() for line in codec.split_lines(content)}
    tx.rewritten.drop(one for one in found if _is_restored(one, files, lines))


def _is_restored(one: RewrittenLine, files: Mapping[str, bytes], lines: Collection[str]) -> bool:
    if not one.hash.startswith(_ADDED):
        return one.hash in lines
    content = files.get(os.path.basename(one.file), b"")
    return all(f"{_ADDED}{_hash(line)}" != one.hash for line in codec.split_lines(content))


def compare_files(
    tx: Transaction, history: History, exchange: Exchange, paths: Collection[str]
) -> list[bytes]:
    """Compares event files here with what the base has of them. What the base has and they lack is read in again.

    A file that is not here at all is on another branch.
    """
    _, tip = history.base()
    if not tip or not paths:
        return []
    known = [one for one in tx.rewritten.every() if not one.commit and one.file in paths]
    tx.rewritten.drop(known)
    recovered: list[bytes] = []
    for path, published in history.differing_files(tip, paths).items():
        here = {line.rstrip(b"\r") for _, line in exchange.read(path) if isinstance(line, bytes)}
        lost = [(n, line) for n, line in enumerate(codec.split_lines(published), 1) if line not in here]
        tx.rewritten.add(RewrittenLine("", path, n, _hash(line)) for n, line in lost)
        recovered += [published] if lost else []
    return recovered


def files_only_on_base(history: History, exchange: Exchange) -> list[bytes]:
    """The event files that the base has and that are not here."""
    _, tip = history.base()
    here = {os.path.basename(mark.path) for mark in exchange.files()}
    return list(history.files(tip, here).values()) if tip else []


def rewritten_problems(lines: Iterable[RewrittenLine]) -> Iterator[Problem]:
    """Published lines that are gone, by file and line."""
    for one in lines:
        yield Problem(file=one.file, line=one.line, problem=describe_rewritten(one))


def describe_rewritten(one: RewrittenLine) -> str:
    """What happened to a published line, and what to do."""
    if not one.commit:
        return (
            "is no longer in the file as on the base. It stays in the ledger. "
            "Restore the file: git checkout -- FILE"
        )
    if one.hash.startswith(_ADDED):
        return f"was added to a published file by commit {one.commit} on the base; such files never change"
    return (
        f"was changed in, or removed from, a published file by commit {one.commit} on the base. "
        "It stays in the ledger. Restore it: remand log publish"
    )


def _lost_lines(rewrite: Rewrite) -> Iterator[RewrittenLine]:
    """The lines that a change took out of a file; where it took none, the first that it added."""
    before, after = codec.split_lines(rewrite.before), codec.split_lines(rewrite.after)
    file, left = f"{EVENT_FOLDER}/{rewrite.name}", set(after)
    lost = [(n, _hash(line)) for n, line in enumerate(before, 1) if line not in left]
    if not lost:
        known = set(before)
        lost = [(n, _ADDED + _hash(line)) for n, line in enumerate(after, 1) if line not in known][:1]
    yield from (RewrittenLine(rewrite.commit, file, n, digest) for n, digest in lost)


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()[:32]
