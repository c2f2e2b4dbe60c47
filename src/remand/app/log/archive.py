"""The log's archive: event files of tasks that ended long ago leave the work tree, and return when needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.intake import read_batches
from remand.app.events.missing_lines import (
    archive_events,
    archived_ends,
    archived_files,
    note_missing,
    waiting_tasks,
)
from remand.app.events.signatures import Signer, active_voids
from remand.app.events.task_folds import rebuild_tables
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.log.exchange import Publisher, publish_all
from remand.app.log.keys import sign_adoption
from remand.domain.access.keys import Trust, parse_trust
from remand.domain.access.team import Actor
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.log import ArchivedFile, ArchivedSession, LogArchived, TaskArchived
from remand.domain.events.tasks import HandoffInitiated, TaskClaimed
from remand.domain.evolve import archived_history, is_backed, replay, short_id
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry, SignedGroup
from remand.ledger.order import next_time, order_key
from remand.ledger.problems import Problem
from remand.ledger.signatures import (
    ADOPT,
    IMPORT,
    MAX_ADOPTED_NAME,
    VOID,
    Doubt,
    GroupedEvent,
    encode_group,
)
from remand.ledger.store import Transaction
from remand.ledger.traces import TRACED, trace_event

ARCHIVE_BRANCH = "remand/archive"
ARCHIVE_FROM = 64 << 20
"""The size of the event files from which they should be archived."""
ARCHIVE_AFTER_DAYS = 7
"""How long ago a task must have ended to be archived automatically."""
MAX_FILES, MAX_SESSIONS = 1000, 500
"""The most files and sessions in one `log.archive` event, which keeps it below the limit of a line."""
MAX_STATE = 150_000
"""A task with a longer state is not archived, as its event would exceed the limit of a line."""
_PART = 64 << 20
"""How many bytes of an archive are in memory at once."""
_ARCHIVED = b'\n{"event":"task.archive",'
_HANDOFF_EVENTS = (TaskClaimed, HandoffInitiated)
_Item = TypeVar("_Item")


class ArchiveStore(Protocol):
    """The place of archived event files."""

    def put(self, files: Mapping[str, bytes]) -> None:
        """Stores files durably under their names."""

    def get(self, file: ArchivedFile) -> bytes:
        """A file's content, reading at most one byte more than its size; raises EnvironmentFault if it does not exist."""


class ArchiveResult(NamedTuple):
    """The result of archiving or fetching."""

    events: int
    tasks: int
    bytes_before: int
    bytes_after: int


class _EventFile(NamedTuple):
    """An event file that can be archived."""

    name: str
    path: str
    size: int
    sha256: str
    events: tuple[Event, ...]


class _Plan(NamedTuple):
    """What is to be archived."""

    files: list[_EventFile]
    sessions: list[ArchivedSession]
    tasks: list[TaskArchived]
    kept: dict[str, list[Event]]
    """Events of other tasks in those files, by session; their lines are written again."""

    @property
    def archive(self) -> str:
        """A hash over the names and hashes of all files."""
        rows = sorted(f"{file.sha256} {file.name}\n" for file in self.files)
        return sha256("".join(rows).encode()).hexdigest()


def archive_log(
    ledger: Ledger, publisher: Publisher, store: ArchiveStore, *, before: Instant, actor: Actor, base: str
) -> ArchiveResult:
    """Archives the tasks that ended before a time and removes their event files from the current branch.

    Everything is published first, so that what is removed is on the branch. If it is killed at any moment, all lines
    remain in place, and the next call continues.
    """
    if before > ledger.clock.now():
        raise UsageError(f"{before} is in the future. Name an earlier day.")
    publish_all(ledger, publisher, base)
    size = event_bytes(ledger)
    recorded: list[LogArchived] = []

    def archive(handler: RequestHandler, signer: Signer) -> None:
        plan = plan_archive(handler.tx, ledger, before)
        if plan.files:
            _store_files(ledger, store, plan.files)
            recorded.extend(_archive_events(plan, _keep_lines(ledger, handler, signer, plan.kept), before))
            tasks = [replace(one, archive=plan.archive) for one in plan.tasks]
            handler.entries += _stamp_events(ledger, handler.tx, [*recorded, *tasks], actor)

    ledger.change_as_user(actor, archive)
    remove_archived_files(ledger, publisher)
    events, tasks = sum(one.events for one in recorded), sum(one.tasks for one in recorded)
    return ArchiveResult(events, tasks, size, event_bytes(ledger))


def is_archive_due(ledger: Ledger, publisher: Publisher, base: str) -> bool:
    """True if the event files are large and the user has archived on this base before, which permits archiving automatically."""
    is_known = bool(publisher.sizes(ARCHIVE_BRANCH)) and publisher.current_branch() == base
    return is_known and event_bytes(ledger) >= ARCHIVE_FROM


def event_bytes(ledger: Ledger) -> int:
    """The total size of all event files."""
    return sum(mark.size for mark in ledger.exchange.files())


def _store_files(ledger: Ledger, store: ArchiveStore, files: Iterable[_EventFile]) -> None:
    """Stores files in the archive, part by part."""
    part: dict[str, bytes] = {}
    for file in files:
        part[file.name] = ledger.read_content(file.path)
        if sum(map(len, part.values())) >= _PART:
            store.put(part)
            part = {}
    if part:
        store.put(part)


def plan_archive(tx: Transaction, ledger: Ledger, before: Instant) -> _Plan:
    """Plans what to archive: whole files up to a place in each session, and the tasks that ended in them."""
    ends = archived_ends(tx)
    cuts = _session_cuts(tx, before, {name: one.number for name, one in ends.items()})
    ends |= cuts
    staying, files = _divide_files(tx, ledger, ends)
    trust = parse_trust(tx.unconfirmed.trust)
    tasks = [
        found
        for task in tx.tasks.every()
        if task.is_terminal and (found := _archive_task(tx, task, ends, trust)) is not None
    ]
    if not tasks:
        return _Plan([], [], [], {})
    kept = _kept_events(tx, files, staying, {one.task_id for one in tasks})
    return _Plan(files, list(cuts.values()), tasks, kept)


def _session_cuts(tx: Transaction, before: Instant, reach: dict[str, int]) -> dict[str, ArchivedSession]:
    """How far each session can be archived: up to the first group that is later, doubted, or after a gap."""
    found: dict[str, ArchivedSession] = {}
    ended: set[str] = set()
    for group, _, doubt in tx.groups.every():
        session = group.session
        if session in ended or session.startswith((ADOPT, IMPORT)) or len(session) > MAX_ADOPTED_NAME:
            continue
        known = reach.get(session, 0)
        if doubt or group.last <= known:
            continue
        if group.first > known + 1 or group.ts >= before:
            ended.add(session)
            continue
        reach[session] = group.last
        found[session] = ArchivedSession(session=session, key=group.key, number=group.last, chain=group.after)
    return found


def _divide_files(
    tx: Transaction, ledger: Ledger, ends: Mapping[str, ArchivedSession]
) -> tuple[set[int], list[_EventFile]]:
    """The hashes of lines in remaining files, and the files to remove: those without later content."""
    staying: set[int] = set()
    files: list[_EventFile] = []
    own = ledger.exchange.path(tx.head.segment) if tx.head.segment else ""
    for name, path in sorted(ledger.event_files().items()):
        ledger.store.note_progress(f"looking through {name}")
        found = None if path == own else _read_file(ledger, name, path, ends)
        if found is None:
            staying.update(hash(line) for _, line in ledger.exchange.read(path) if isinstance(line, bytes))
        else:
            files.append(found)
    return staying, files


def _read_file(
    ledger: Ledger, name: str, path: str, ends: Mapping[str, ArchivedSession]
) -> _EventFile | None:
    """A file that contains only archived numbers of sessions; None for any other."""
    problems: list[Problem] = []
    events: list[Event] = []
    reach = {session: end.number for session, end in ends.items()}
    for batch in read_batches(ledger.exchange.read(path), path, problems):
        if problems or any(group.last > reach.get(group.session, 0) for group, _ in batch.groups):
            return None
        for event, _, _ in batch.events:
            if event.meta.seq > reach.get(event.meta.session, 0) or event.is_legacy:
                return None
            if isinstance(event, TaskArchived | LogArchived):
                return None
            events.append(event)
    content = ledger.read_content(path)
    return (
        _EventFile(name, path, len(content), sha256(content).hexdigest(), tuple(events)) if events else None
    )


def _archive_task(
    tx: Transaction, task: Task, ends: Mapping[str, ArchivedSession], trust: Trust
) -> TaskArchived | None:
    """The archived form of a task; None if it cannot be archived, or already is."""
    events = sorted(map(codec.decode_stored_line, tx.events.of_task(task.id)), key=order_key)
    lines = [event for event in events if not isinstance(event, TaskArchived)]
    history = archived_history(events)
    known = history.known if history else _known_ids(events)
    new = history.later if history else tuple(lines)
    if all(short_id(event.meta.id) in known for event in lines) or (history and history.is_waiting):
        return None
    if any(event.is_legacy or not _is_before(event, ends) for event in new):
        return None
    if tx.unconfirmed.of_task(task.id, 1) or _may_lack_lines(tx, task) or replay(events) != task:
        return None
    archive = archived_task(task, new, history.base if history else None, ends)
    return archive if len(archive.state) <= MAX_STATE and is_backed(archive, trust) else None


def _known_ids(events: Iterable[Event]) -> frozenset[str]:
    return frozenset().union(*(event.event_ids for event in events if isinstance(event, TaskArchived)))


def _is_before(event: Event, ends: Mapping[str, ArchivedSession]) -> bool:
    end = ends.get(event.meta.session)
    return end is not None and event.meta.seq <= end.number


def _may_lack_lines(tx: Transaction, task: Task) -> bool:
    missing = tx.missing.of_tasks({task.id})
    return any(one.may_concern({task.id}, task.details.created_at) for one in missing)


def archived_task(
    task: Task, events: Sequence[Event], base: TaskArchived | None, ends: Mapping[str, ArchivedSession]
) -> TaskArchived:
    """The state that replaces these events and those in an earlier archive."""
    numbers = {(session, key): number for session, key, number in base.signed} if base else {}
    for event in events:
        place = (event.meta.session, ends[event.meta.session].key)
        numbers[place] = max(numbers.get(place, 0), event.meta.seq)
    traces = (trace_event(event, task.id) for event in events if type(event) in TRACED)
    handoffs = [event.handoff_id for event in events if isinstance(event, _HANDOFF_EVENTS)]
    return TaskArchived(
        task_id=task.id,
        archive="",
        state=msgspec.json.encode(task).decode(),
        last=order_key(events[-1]),
        ids=(base.ids if base else "") + "".join(short_id(event.meta.id) for event in events),
        signed=tuple((session, key, number) for (session, key), number in sorted(numbers.items())),
        handoffs=tuple(dict.fromkeys((*(base.handoffs if base else ()), *handoffs))),
        traces=(*(base.traces if base else ()), *(left for left in traces if left)),
    )


def _kept_events(
    tx: Transaction, files: Iterable[_EventFile], staying: Collection[int], tasks: Collection[str]
) -> dict[str, list[Event]]:
    """The events in removed files that belong to no archived task and are in no other file."""
    doubts = {one.event_id: one.doubt for one in tx.unconfirmed.every()}
    voids = active_voids(tx)
    found: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in (event for file in files for event in file.events):
        task, doubt = event_task_id(event), doubts.get(event.meta.id, Doubt.NONE)
        if task in tasks or event.meta.id in found[event.meta.session]:
            continue
        if doubt not in (Doubt.NONE, Doubt.VOID) or (doubt is Doubt.VOID and event in voids):
            continue
        line = _kept_line(tx, event)
        if not line or hash(line) in staying or (task and _is_archived(tx, task, event)):
            continue
        found[event.meta.session][event.meta.id] = event
    return {session: sorted(own.values(), key=order_key) for session, own in sorted(found.items()) if own}


def _kept_line(tx: Transaction, event: Event) -> bytes:
    """The ledger's line for an event; empty if it has none."""
    lines = tx.events.lines(event.meta.session, event.meta.seq, event.meta.seq)
    return next((line for line in lines if codec.decode_stored_line(line).meta.id == event.meta.id), b"")


def _is_archived(tx: Transaction, task: str, event: Event) -> bool:
    """True if an earlier archive covers an event."""
    lines = codec.lines_of_kind(tx.events.of_task(task), TaskArchived)
    return short_id(event.meta.id) in _known_ids(map(codec.decode_stored_line, lines))


def _keep_lines(
    ledger: Ledger, handler: RequestHandler, signer: Signer, kept: Mapping[str, Sequence[Event]]
) -> list[ArchivedSession]:
    """Writes remaining lines again, with groups in which the archiver vouches for them.

    They are in one new file together with the recorded events, so that it exists completely or not at all. Returns how
    far those groups reach.
    """
    tx = handler.tx
    doubts = {one.event_id: one.doubt for one in tx.unconfirmed.every()}
    ends: list[ArchivedSession] = []
    ledger.write_groups(tx, ())
    for session, events in kept.items():
        named = [
            GroupedEvent(event.meta.id, VOID if doubts.get(event.meta.id) else event_task_id(event))
            for event in events
        ]
        by_id = {event.meta.id: _kept_line(tx, event) for event in events}
        groups = sign_adoption(tx, session, named, signer, ledger.clock.now())
        for group in groups:
            line = encode_group(group)
            handler.lines_before += [line, *(by_id[name.id] for name in group.events)]
            tx.groups.add([SignedGroup(group, line)])
        end = groups[-1]
        ends.append(ArchivedSession(session=end.session, key=end.key, number=end.last, chain=end.after))
    return ends


def _archive_events(plan: _Plan, kept: Sequence[ArchivedSession], before: Instant) -> list[LogArchived]:
    """The events that name files and sessions, as many as needed. The first one has the counts."""
    files = [ArchivedFile(name=one.name, size=one.size, sha256=one.sha256) for one in plan.files]
    count = sum(len(one.events) for one in plan.files) - sum(map(len, plan.kept.values()))
    sessions = [*plan.sessions, *kept]
    parts = zip_longest(_parts(files, MAX_FILES), _parts(sessions, MAX_SESSIONS), fillvalue=())
    return [
        LogArchived(
            archive=plan.archive,
            before=before,
            files=tuple(some_files),
            sessions=tuple(some_sessions),
            tasks=0 if number else len(plan.tasks),
            events=0 if number else count,
        )
        for number, (some_files, some_sessions) in enumerate(parts)
    ]


def _parts(items: Sequence[_Item], most: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + most] for start in range(0, len(items), most))


def _stamp_events(ledger: Ledger, tx: Transaction, events: Iterable[Event], actor: Actor) -> list[EventEntry]:
    """Stamps events as the next of the ledger's session. The tasks do not change, as their lines are present."""
    entries: list[EventEntry] = []
    branch = ledger.repository.branch()
    for event in events:
        head = tx.head
        ts = next_time(ledger.clock.now(), head.clock)
        meta = Meta(
            id="", session=head.session, seq=head.seq + 1, actor=actor.name, branch=branch, prev=head.tip
        )
        stamped, line = codec.encode_event(replace(event, ts=ts), meta)
        tx.head = replace(head, seq=meta.seq, tip=stamped.meta.id, clock=ts)
        entries.append(EventEntry(stamped, line, event_task_id(stamped)))
    tx.events.add(entries)
    return entries


def remove_archived_files(ledger: Ledger, publisher: Publisher) -> None:
    """Commits on the current branch the removal of archived files and the files that contain the archived states."""
    branch = publisher.current_branch()
    with ledger.store.read() as view:
        archived = archived_files(view)
    if not archived or not branch:
        return
    closed, there = ledger.closed_files(), publisher.sizes(branch) or {}
    removed = {name for name, path in closed.items() if _is_as_archived(ledger, path, archived.get(name))}
    new: dict[str, bytes] = {}
    for name, path in closed.items():
        packed = codec.packed_name(name)
        if name in archived or (name in there and packed not in closed):
            continue
        content = ledger.read_content(path)
        is_for_packing = _ARCHIVED in content and not codec.is_packed(content)
        if name in there:
            # An earlier call was killed between packing and committing; the next one published what it found.
            if is_for_packing and codec.pack(content) == ledger.read_content(closed[packed]):
                removed.add(name)
        elif is_for_packing:
            removed.add(name)
            new[packed] = codec.pack(content)
        else:
            new[name] = content
    if new or removed:
        publisher.commit(branch, new, "log: archive events", sorted(removed))
        ledger.refresh()


def _is_as_archived(ledger: Ledger, path: str, file: ArchivedFile | None) -> bool:
    return file is not None and sha256(ledger.read_content(path)).hexdigest() == file.sha256


def fetch_archive(ledger: Ledger, store: ArchiveStore) -> ArchiveResult:
    """Reads in the archives of tasks that wait for their lines; if none waits, all archives.

    Each file must have the name, size and hash in the signed event. Its lines are then judged like any others.
    """
    size = event_bytes(ledger)
    ledger.refresh()
    with ledger.store.read() as view:
        waiting = waiting_tasks(view)
        wanted = _archives_of(view, waiting)
        events = archive_events(view)
        trusted = _named_files(events, wanted)
        others = [file for file in _named_files(_every_archive(view), wanted) if file not in trusted]
        before = view.events.count()
    for part in _fetch_parts(trusted, others, store, ledger.store.note_progress):
        ledger.change(partial(_read_part, ledger, part))
    here = {event.archive for event in events if not wanted or event.archive in wanted}
    left, count = ledger.change(partial(_fold_again, ledger, here))
    return ArchiveResult(count - before, len(set(waiting) - set(left)), size, event_bytes(ledger))


def _read_part(ledger: Ledger, part: Sequence[bytes], tx: Transaction) -> None:
    ledger.read_files(tx, [], ledger.verifier(tx), part)


def _fold_again(ledger: Ledger, here: set[str], tx: Transaction) -> tuple[Collection[str], int]:
    """Folds every task from the lines now present, including those from archives.

    Returns the tasks that still wait, and the number of events.
    """
    tx.missing.archives_here = " ".join(sorted(here.union(tx.missing.archives_here.split())))
    rebuild_tables(tx, ledger.store.note_progress)
    note_missing(tx, ledger.marks.all(), ledger.next_time(tx))
    return waiting_tasks(tx), tx.events.count()


def _every_archive(tx: Transaction) -> list[LogArchived]:
    """All events that name archived files, trusted or not: lines count by their own signatures only."""
    lines = (row.line for row in tx.event_rows.rows(kind=LogArchived))
    return [event for event in map(codec.decode_stored_line, lines) if isinstance(event, LogArchived)]


def _named_files(events: Iterable[LogArchived], wanted: Collection[str]) -> list[ArchivedFile]:
    """The files of the requested archives, each once; all files if none is requested."""
    named = (file for event in events if not wanted or event.archive in wanted for file in event.files)
    return list({(file.name, file.size, file.sha256): file for file in named}.values())


def _archives_of(tx: Transaction, tasks: Iterable[str]) -> set[str]:
    """The hashes of the archives that contain tasks."""
    lines = (
        line
        for task in tasks
        for line in (*tx.events.of_task(task), *(one.line for one in tx.unconfirmed.of_task(task)))
    )
    events = map(codec.decode_stored_line, codec.lines_of_kind(lines, TaskArchived))
    return {event.archive for event in events if isinstance(event, TaskArchived)}


def _fetch_parts(
    trusted: Iterable[ArchivedFile],
    others: Iterable[ArchivedFile],
    store: ArchiveStore,
    note_progress: Callable[[str], None],
) -> Iterator[list[bytes]]:
    """The contents of files, those named by trusted events first. Invalid files of other events are skipped."""
    part: list[bytes] = []
    for is_trusted, files in ((True, trusted), (False, others)):
        for file in files:
            note_progress(f"reading {file.name} of the archive")
            try:
                part.append(_fetch_file(file, store))
            except EnvironmentFault:
                if is_trusted:
                    raise
                note_progress(f"{file.name}, which no trusted key names, is not as it was archived: left out")
            if sum(map(len, part)) >= _PART:
                yield part
                part = []
    if part:
        yield part


def _fetch_file(file: ArchivedFile, store: ArchiveStore) -> bytes:
    content = store.get(file) if file.size >= 0 else b""
    if len(content) != file.size or sha256(content).hexdigest() != file.sha256:
        raise EnvironmentFault(
            f"{file.name} in the archive is not the file that was archived: its size or hash differs. "
            "Nothing of it was read. Get the archive from another clone or a backup, then repeat."
        )
    return content
