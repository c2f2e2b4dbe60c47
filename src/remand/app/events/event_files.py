"""The event files of a ledger: its own session, missing content, and comparison with the base."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice, takewhile
from queue import SimpleQueue

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.events.intake import FileIntake, file_problems
from remand.app.events.missing_lines import (
    ExpectedLines,
    archived_files,
    given_up_repairs,
    sessions_behind,
)
from remand.app.events.signatures import Signer, Verifier
from remand.app.ports import Clock, Exchange, History, Rewrite, Segment, SegmentWriter, SessionMarks
from remand.app.requests import Rules
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.instant import END, Instant, latest_event_time
from remand.domain.policy import Policy
from remand.domain.record import NamedTuple
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry, FileMark, RewrittenLine, SignedGroup
from remand.ledger.order import next_time
from remand.ledger.problems import BadLine, Problem
from remand.ledger.signatures import VOID, EventGroup, GroupedEvent, chain_start
from remand.ledger.store import LedgerHead, Store, Transaction

EVENT_FOLDER = ".got/events"
_MOST_LOST = 10_000
"""How many missing lines of one file are listed."""
_ADDED = "+"
"""The prefix of the hash of a line that was added to a published file."""


def is_base_read(tx: Transaction, tip: str) -> bool:
    """True if the base's history was read up to its tip."""
    return not tip or tx.rewritten.looked_at.endswith(f" {tip}")


def read_base_history(tx: Transaction, history: History) -> list[bytes]:
    """Reads new history of the base; returns the earlier content of changed files, to be read in again."""
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
    """Forgets lines that the base contains again in any file, and additions that are gone."""
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
    """Compares event files here with those of the base. Content of the base that they lack is read in again.

    A file that is missing here as a whole is on another branch.
    """
    _, tip = history.base()
    if not tip or not paths:
        return []
    known = [one for one in tx.rewritten.every() if not one.commit and one.file in paths]
    tx.rewritten.drop(known)
    recovered: list[bytes] = []
    for path, published in history.differing_files(tip, paths).items():
        here = {line.rstrip(b"\r") for _, line in exchange.read(path) if isinstance(line, bytes)}
        gone = ((n, line) for n, line in _number_lines(published) if line not in here)
        lost = list(islice(gone, _MOST_LOST))
        tx.rewritten.add(RewrittenLine("", path, n, _hash(line)) for n, line in lost)
        recovered += [published] if lost else []
    return recovered


def files_only_on_base(history: History, exchange: Exchange) -> list[bytes]:
    """The event files that only the base has."""
    _, tip = history.base()
    here = {os.path.basename(mark.path) for mark in exchange.files()}
    return list(history.files(tip, here).values()) if tip else []


def rewritten_problems(lines: Iterable[RewrittenLine]) -> Iterator[Problem]:
    """Missing published lines, by file and line."""
    for one in lines:
        yield Problem(file=one.file, line=one.line, problem=describe_rewritten(one))


def describe_rewritten(one: RewrittenLine) -> str:
    """What happened to a published line, and what to do about it."""
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
    """The lines that a change removed from a file; if it removed none, the first one it added."""
    file, left = f"{EVENT_FOLDER}/{rewrite.name}", set(codec.split_lines(rewrite.after))
    gone = ((n, _hash(line)) for n, line in _number_lines(rewrite.before) if line not in left)
    lost = list(islice(gone, _MOST_LOST))
    if not lost:
        known = set(codec.split_lines(rewrite.before))
        new = ((n, _ADDED + _hash(line)) for n, line in _number_lines(rewrite.after) if line not in known)
        lost = list(islice(new, 1))
    yield from (RewrittenLine(rewrite.commit, file, n, digest) for n, digest in lost)


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(codec.split_lines(content), 1)


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()[:32]


def head_for_key(head: LedgerHead, signer: Signer, new_session: Callable[[], str]) -> LedgerHead:
    """The head of a session signed by this key. A session has exactly one key; another key starts another session."""
    if head.key == signer.key:
        return head
    session = new_session() if head.seq else head.session
    return LedgerHead(
        session=session,
        clock=head.clock,
        chain=chain_start(session, signer.key),
        key=signer.key,
        project=signer.project,
        bounded_from=head.bounded_from,
    )


def head_of_new_session(head: LedgerHead, session: str, clock: Instant) -> LedgerHead:
    """The head of a new session with the same key, whose events are later than the given time. No segment is open."""
    chain = chain_start(session, head.key)
    return replace(
        head, session=session, seq=0, tip="", clock=clock, segment="", first=0, size=0, inode=0, chain=chain
    )


def cover_own_session(tx: Transaction, signer: Signer) -> list[EventGroup]:
    """Signs the session's events that the ledger has, up to the first gap, and continues from there.

    Only events in the ledger's tables are signed: those found only in a file may be somebody else's. Events that had no
    effect before are named as void.
    """
    head = tx.head
    withheld = {found.event_id for found in tx.unconfirmed.of_session(head.session, 1, head.seq)}
    events = [
        GroupedEvent(event.meta.id, VOID if event.meta.id in withheld else event_task_id(event))
        for event in _own_events(tx, head)
    ]
    start = chain_start(head.session, signer.key)
    groups = list(signer.sign(head.session, 1, start, events, head.clock))
    chain = groups[-1].after if groups else start
    tx.head = replace(head, key=signer.key, project=signer.project, chain=chain)
    return groups


def _own_events(tx: Transaction, head: LedgerHead) -> list[Event]:
    """The session's events from the first up to the first gap.

    Others may have written events under its name. Its own are those that its last event leads back to by previous ids.
    Before a gap there is no such chain: there, an event with a unique number counts as its own.
    """
    numbered: dict[int, dict[str, Event]] = defaultdict(dict)
    for line in tx.events.lines(head.session, 1):
        event = codec.decode_stored_line(line)
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
    """Complete signed groups that killed commands left beyond the head."""

    groups: Sequence[SignedGroup]
    entries: list[EventEntry]
    head: LedgerHead


def read_continuation(head: LedgerHead, lines: list[bytes], verifier: Verifier) -> Continuation:
    """Reads the lines beyond the head: complete groups that continue its chain, signed by its key."""
    groups: list[SignedGroup] = []
    entries: list[EventEntry] = []
    while lines:
        found = _next_group(head, lines)
        if found is None or verifier.doubts([found[0]])[found[0]]:
            break
        group, events = found
        groups.append(SignedGroup(group, lines[0]))
        entries += events
        size = sum(len(line) + 1 for line in lines[: len(events) + 1])
        head = _head_after(head, group, events, head.size + size)
        lines = lines[len(events) + 1 :]
    return Continuation(groups, entries, head)


def _next_group(head: LedgerHead, lines: list[bytes]) -> tuple[EventGroup, list[EventEntry]] | None:
    """The first group of the lines with all its events; None if it is incomplete or does not continue the chain."""
    try:
        group = signatures.decode_group(lines[0])
        if (group.session, group.key, group.first, group.before) != _next_place(head):
            return None
        events = [codec.decode_line(line) for line in lines[1 : len(group.events) + 1]]
    except BadLine:
        return None
    entries = [
        EventEntry(event, line, event_task_id(event)) for event, line in zip(events, lines[1:], strict=False)
    ]
    is_whole = len(events) == len(group.events) and all(
        group.has_event(entry.event.meta.seq, entry.event.meta.id, entry.subject)
        and entry.event.meta.session == group.session
        for entry in entries
    )
    return (group, entries) if is_whole else None


def _next_place(head: LedgerHead) -> tuple[str, str, int, str]:
    return (head.session, head.key, head.seq + 1, head.chain)


def _head_after(head: LedgerHead, group: EventGroup, entries: Sequence[EventEntry], size: int) -> LedgerHead:
    clock = max(head.clock, *(entry.event.ts for entry in entries))
    return replace(head, seq=group.last, tip=group.events[-1].id, clock=clock, chain=group.after, size=size)


def head_after_continuation(tx: Transaction) -> LedgerHead:
    """The head after events of its session found in a file: complete groups that continue its chain.

    A command that was killed right after starting a new segment leaves such a file.
    """
    head = tx.head
    while head.key:
        following = [
            group
            for group, _, doubt in tx.groups.of_session(head.session, head.seq + 1, head.seq + 1)
            if not doubt and (group.session, group.key, group.first, group.before) == _next_place(head)
        ]
        lines = _lines_by_id(tx, head.session, head.seq + 1) if following else {}
        found = next(
            (
                found
                for group in following
                if (found := _next_group(head, _group_lines(group, signatures.encode_group(group), lines)))
            ),
            None,
        )
        if found is None:
            break
        head = _head_after(head, *found, head.size)
    return head


def session_lines(tx: Transaction, first: int) -> list[bytes]:
    """The lines of the session's groups from an event on: each group's line, then those of its events."""
    session = tx.head.session
    events = _lines_by_id(tx, session, first)
    return [
        line
        for group, own, doubt in tx.groups.of_session(session, first)
        if not doubt and group.key == tx.head.key
        for line in _group_lines(group, own, events)
    ]


def _lines_by_id(tx: Transaction, session: str, first: int) -> dict[str, bytes]:
    """The lines of a session from a number on, by event id."""
    return {codec.decode_stored_line(line).meta.id: line for line in tx.events.lines(session, first)}


def _group_lines(group: EventGroup, own: bytes, events: Mapping[str, bytes]) -> list[bytes]:
    """A group's line and the lines of its events that are present."""
    return [own, *(events[name.id] for name in group.events if name.id in events)]


FollowUp = Callable[[Transaction], None]
"""Further changes that belong to the same transaction."""


def do_nothing(tx: Transaction) -> None:
    """For changes without a follow-up."""


class SyncJob:
    """One sync in the background."""

    def __init__(self, head: LedgerHead) -> None:
        self.head = head
        self.fault: EnvironmentFault | None = EnvironmentFault("It is recorded, but not known to be on disk.")
        self._has_ended = threading.Lock()
        self._has_ended.acquire()

    def run(self, sync: Callable[[str], object]) -> None:
        """Syncs the segment of the head, and lets `wait` return."""
        try:
            sync(self.head.segment)
            self.fault = None
        except EnvironmentFault as fault:
            self.fault = fault
        finally:
            self._has_ended.release()

    def wait(self) -> None:
        """Returns at the end of the sync; raises its fault."""
        with self._has_ended:
            pass
        if self.fault is not None:
            raise self.fault


class BackgroundSync:
    """Syncs what a change has appended in a thread of its own, while the rows of the change are written and committed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held by whoever waits for a sync."""
        self._jobs: _SyncJobs = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: SyncJob | None = None

    def __del__(self) -> None:
        self._jobs.put(None)

    def start(self, head: LedgerHead, sync: Callable[[str], object]) -> None:
        """Starts to sync the lines up to a head."""
        if self._thread is None or not self._thread.is_alive():  # no thread survives a fork
            self._thread = threading.Thread(target=_run_jobs, args=(self._jobs,), daemon=True)
            self._thread.start()
        self._last = SyncJob(head)
        self._jobs.put((self._last, sync))

    @property
    def is_in_use(self) -> bool:
        """True once a sync was started."""
        return self._last is not None

    def find(self, head: LedgerHead) -> SyncJob | None:
        """The sync that was started for this very head, after its lines were appended; for any other, it proves nothing."""
        return self._last if self._last is not None and self._last.head is head else None


_SyncJobs = SimpleQueue[tuple[SyncJob, Callable[[str], object]] | None]


def _run_jobs(jobs: _SyncJobs) -> None:
    """Runs the jobs of one `BackgroundSync`, until that is gone."""
    while (job := jobs.get()) is not None:
        job[0].run(job[1])


class LogFiles:
    """A ledger's work on event files other than writing to them."""

    store: Store
    exchange: Exchange
    writer: SegmentWriter
    segment: Segment
    clock: Clock
    marks: SessionMarks
    intake: FileIntake
    _rules: Callable[[], Rules]
    _history: History | None
    _has_compared = False
    _file_stamp: tuple[int, ...] | None = None
    _background: BackgroundSync
    syncs_early = True
    """False while another thread syncs the last group anyway."""

    def forget_file_stamp(self) -> None:
        """Forces the files to be checked again."""
        self._file_stamp = None

    def event_files(self) -> dict[str, str]:
        """The event files of the ledger's own folder: name to path."""
        folder = os.path.dirname(self.exchange.path("x"))
        marks = self.exchange.files()
        return {os.path.basename(m.path): m.path for m in marks if os.path.dirname(m.path) == folder}

    def deleted_files(self) -> set[str]:
        """The names of event files that were read here and are gone: deleted, or on another branch.

        Archived and packed files are not included.
        """
        folder = os.path.dirname(self.exchange.path("x"))
        with self.store.read() as view:
            known = {os.path.basename(path) for path in view.files.marks() if os.path.dirname(path) == folder}
            known -= archived_files(view).keys()
        here = self.event_files()
        return {name for name in known if name not in here and codec.packed_name(name) not in here}

    def read_content(self, path: str) -> bytes:
        """An event file's lines, unpacked if necessary."""
        if path.endswith(codec.PACKED):
            return self.exchange.content(path)
        return b"".join(line + b"\n" for _, line in self.exchange.read(path) if isinstance(line, bytes))

    def file_problems(self, path: str) -> list[Problem]:
        """The problems of an event file, regardless of the times of its events."""
        return file_problems(self.exchange, path, END)

    def latest_allowed_time(self, tx: Transaction) -> Instant:
        """The latest acceptable time of an event from another ledger."""
        return latest_event_time(self.clock.now(), self.clock_skew, tx.head.bounded_from)

    @property
    def clock_skew(self) -> float:
        """How many seconds ahead of the clock events may be; the default if the configuration is unreadable."""
        try:
            return self._rules().policy.clock_skew_seconds
        except EnvironmentFault:
            return Policy().clock_skew_seconds

    def read_files(
        self,
        tx: Transaction,
        files: Sequence[FileMark],
        verifier: Verifier,
        recovered: Sequence[bytes] = (),
        *,
        most: int = 0,
        known: Collection[int] = frozenset(),
    ) -> bool:
        """Reads in files and recovered content; False if it stopped after `most` bytes with more left."""
        limit = self.latest_allowed_time(tx)
        return self.intake.read(
            tx, files, limit=limit, verifier=verifier, recovered=recovered, most=most, known=known
        )

    def has_lost_lines(self) -> bool:
        """True if a published file has lost lines."""
        with self.store.read() as view:
            return bool(view.rewritten.every())

    def base_tip(self) -> str:
        """The commit at the tip of the base; empty if the configuration is unreadable."""
        if self._history is None:
            return ""
        try:
            return self._rules().base
        except EnvironmentFault:
            return ""

    def read_published(self, tx: Transaction, verifier: Verifier, changed: Sequence[str]) -> None:
        """Records lines missing from published files, and reads in what the base had of them.

        Only files changed since they were read are compared; all of them if something is missing.
        """
        history = self._history
        if history is None:
            return
        recovered = read_base_history(tx, history)
        paths = list(self.event_files().values()) if tx.missing.faults() else changed
        own = self.exchange.path(tx.head.segment) if tx.head.segment else ""
        recovered += compare_files(tx, history, self.exchange, [path for path in paths if path != own])
        self._read_again(tx, verifier, recovered)
        if tx.missing.faults():
            self._read_again(tx, verifier, files_only_on_base(history, self.exchange))

    def _read_again(self, tx: Transaction, verifier: Verifier, contents: Sequence[bytes]) -> None:
        if contents:
            self.read_files(tx, [], verifier, contents)

    def note_lines_seen_before(self, tx: Transaction) -> None:
        """Records what is missing from sessions that are shorter than this machine has seen them; once per process."""
        if self._has_compared:
            return
        seen = self.marks.all()
        gone = sessions_behind(tx, seen)
        noted = {(one.session, one.last) for one in tx.missing.every()} if gone else set()
        if any((session, seen[session][0]) not in noted for session in gone):
            ExpectedLines(tx).update_missing(tx, seen, self.next_time(tx), gone)
        self._has_compared = True

    def next_time(self, tx: Transaction) -> Instant:
        """The time of the next event."""
        return next_time(self.clock.now(), tx.head.clock)

    def has_due_events(self, tx: Transaction) -> bool:
        """True if an event that was held back for its time has become due."""
        held = tx.held.earliest()
        return bool(held) and held <= self.latest_allowed_time(tx)

    def set_aside(self, tx: Transaction) -> None:
        """Moves anything beyond the head out of the log and records that."""
        if path := self.segment.cut_off(tx.head):
            problem = (
                f"holds what stood behind event {tx.head.seq} in the open event file: it was not signed here and was "
                "never answered, or somebody else wrote it. It has no effect"
            )
            tx.files.note(FileMark(path, 0, 0, 0), [Problem(file=path, line=0, problem=problem)])

    def close_segment(self, tx: Transaction, segment: str) -> None:
        """Records that a closed segment contains nothing new."""
        path = self.exchange.path(segment)
        for mark in self.exchange.files():
            if mark.path == path:
                tx.files.note(mark, ())

    def start_sync(self, head: LedgerHead, *, is_worth_it: bool) -> None:
        """Starts to make a change's lines durable before its rows are committed.

        Either may be on disk first. A kill or a power failure leaves lines without rows, which the next writer reads in as
        complete groups, or rows whose lines it writes again; nobody was answered, because `sync` returns after both.
        A thread is worth starting for a process that writes more than once. A new segment was synced already.
        """
        if is_worth_it and self.syncs_early:
            self._background.start(head, self.writer.sync)

    def undo_append(self, segment: str, size: int) -> None:
        """Removes a failed change's lines: from the disk, too, where a sync may have put them."""
        self.writer.shrink(segment, size)
        if size and self._background.is_in_use:
            with suppress(EnvironmentFault):
                self.writer.sync(segment)

    def sync(self, head: LedgerHead) -> None:
        """Makes written lines durable and records the session's position. Callable from any thread."""
        with self._background.lock:
            job = self._background.find(head)
            if job is not None:
                job.wait()
            else:
                self.writer.sync(head.segment)
            self.marks.raise_to(head.session, head.seq, head.tip)

    def untrusted_writer(self) -> str:
        """The key that signs this ledger's events if the base does not trust it."""
        with self.store.read() as view:
            return view.unconfirmed.writer if view.head.seq else ""
