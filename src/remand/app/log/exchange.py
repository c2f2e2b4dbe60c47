"""Imports event files from a folder, publishes those of this ledger on branches, and moves the log to another ledger."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import NamedTuple, Protocol

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.intake import file_problems, read_batches
from remand.app.events.missing_lines import archived_files, archived_numbers
from remand.app.events.signatures import Signer, Voucher
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.log.verification import state_digest
from remand.app.ports import Exchange
from remand.domain.access.team import Actor
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.log import MOVES, TOKENS, VOIDS, EventsVoided, LedgerMoved, LinesImported, MoveBegun
from remand.domain.ids import make_session_name
from remand.domain.instant import Instant
from remand.domain.preconditions import require_trusted_key, require_user
from remand.domain.record import Record
from remand.domain.task import Task
from remand.ledger import codec, signatures
from remand.ledger.event_tables import SignedGroup
from remand.ledger.problems import Problem
from remand.ledger.signatures import (
    ADOPT,
    IMPORT,
    Doubt,
    EventGroup,
    GroupedEvent,
    adoption_session,
    chain_start,
    is_group,
)
from remand.ledger.store import Transaction


class ImportResult(NamedTuple):
    """The result of an import."""

    files: int
    events: int
    """The number of new events."""
    imported: int
    """The number of GoT tools' lines that count from now on."""
    unconfirmed: int
    """The number of new events without effect, as no trusted key covers them."""
    problems: list[Problem]


def import_folder(ledger: Ledger, folder: str, actor: Actor) -> ImportResult:
    """Copies new event files unchanged and reads them in.

    Our own events keep their signatures. Lines of GoT tools have none: the importer vouches for them. Raises
    `UsageError` if the ledger has no event files.
    """
    if not ledger.has_event_files:
        raise UsageError(
            "Nothing was imported: this ledger is in a database and reads no event files. Import them into a ledger file, in a "
            "clone without REMAND_STORE, and move that into an empty database with `remand log move --to`."
        )
    source = next(
        (
            path
            for path in (os.path.join(folder, ".got", "events"), os.path.join(folder, "events"))
            if os.path.isdir(path)
        ),
        folder,
    )
    home = os.path.dirname(ledger.exchange.path("x"))
    before = _event_counts(ledger)
    with ledger.store.read() as view:
        limit = ledger.latest_allowed_time(view)
    names = sorted(name for name in os.listdir(source) if name.endswith(".jsonl"))
    problems: list[Problem] = []
    legacy: list[LegacyFile] = []
    for number, name in enumerate(names, 1):
        ledger.store.note_progress(f"reading {name}, {number} of {len(names)}")
        path = os.path.join(source, name)
        file = read_legacy_file(ledger.exchange, path)
        legacy += [file] if file.events else []
        problems += file_problems(ledger.exchange, path, limit)
        lines = [line for _, line in ledger.exchange.read(path) if isinstance(line, bytes)]
        _write_file(home, name, b"".join(line + b"\n" for line in lines))
    ledger.refresh()
    events = _event_counts(ledger)[0] - before[0]
    imported = import_lines(ledger, legacy, actor)
    unconfirmed = max(_event_counts(ledger)[1] - before[1], 0)
    return ImportResult(len(names), events, imported, unconfirmed, problems)


def import_lines(ledger: Ledger, files: Sequence[LegacyFile], actor: Actor) -> int:
    """Makes lines of GoT tools count by signing each file's content, and records that. Returns the number of new lines."""
    recorded = ledger.vouch(partial(vouch_for_legacy_files, files, ledger.clock.now()), actor)
    return sum(event.count for event in recorded if isinstance(event, LinesImported))


def _event_counts(ledger: Ledger) -> tuple[int, int]:
    """The numbers of all and of unconfirmed events."""
    with ledger.store.read() as view:
        return view.events.count(), len(view.unconfirmed.every())


def _write_file(home: str, name: str, content: bytes) -> None:
    """Writes a file under its name, with a hash added if another file has that name."""
    path = os.path.join(home, name)
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
        path = os.path.join(home, f"{name.removesuffix('.jsonl')}-{sha256(content).hexdigest()[:8]}.jsonl")
    if content:
        with open(path, "wb") as file:
            file.write(content)


def groups_not_in(tx: Transaction, present: Collection[bytes]) -> list[bytes]:
    """The lines of every complete group with an absent event. Unsigned events are not passed on."""
    found: list[bytes] = []
    archived = archived_numbers(tx)
    for session in sorted({group.group.session for group in tx.groups.every()}):
        is_import = session.startswith(IMPORT)
        events = _lines_by_id(
            _legacy_lines(tx) if is_import else tx.events.lines(session.removeprefix(ADOPT))
        )
        first = 0 if session.startswith(ADOPT) else archived.get(session, 0) + 1
        for lines in _whole_groups(tx.groups.of_session(session, first), events):
            if any(line not in present for line in lines):
                found += lines
    return found


def lines_of_task(tx: Transaction, task_id: str, present: Collection[bytes] = ()) -> list[bytes]:
    """The absent lines of a task's effective events, with all groups of their sessions up to the last.

    A reader thus knows at least the id of every number and sees that nothing was left out. Events without a task, such
    as lines given up, concern every reader and are passed on as well, and so is whatever voids one of the events.
    """
    signed = (one.line for one in tx.unconfirmed.of_task(task_id) if one.doubt is not Doubt.UNSIGNED)
    events = _lines_by_id([*tx.events.of_task(task_id), *signed])
    for line in list(tx.events.of_task(VOIDS)):
        voiding = codec.decode_stored_line(line)
        if isinstance(voiding, EventsVoided) and not events.keys().isdisjoint(voiding.events):
            events[voiding.meta.id] = line
    last: dict[str, int] = defaultdict(int)
    imported: set[str] = set()
    for event_id, line in events.items():
        event = codec.decode_stored_line(line)
        if event.is_legacy:
            imported.add(event_id)
        else:
            last[event.meta.session] = max(last[event.meta.session], event.meta.seq)
    archived = archived_numbers(tx)
    found = [
        line
        for session, end in sorted(last.items())
        for line in _session_lines(tx, session, (archived.get(session, 0) + 1, end), events, present)
    ]
    for group in tx.groups.imports() if imported else ():
        if not group.doubt and any(name.id in imported for name in group.group.events):
            found += (group.line, *(events[name.id] for name in group.group.events if name.id in events))
    return list(dict.fromkeys(found))


def _adoption_groups(tx: Transaction, session: str, ids: Collection[str]) -> Iterator[SignedGroup]:
    """The groups in which others vouch for some of a session's events."""
    for group in tx.groups.of_session(adoption_session(session)):
        if any(name.id in ids for name in group.group.events):
            yield group


_EVERYBODYS = ("", MOVES, TOKENS)
"""Pseudo-tasks of events that concern every reader: a revoked token must count nowhere."""


def _session_lines(
    tx: Transaction,
    session: str,
    numbers: tuple[int, int],
    events: dict[str, bytes],
    present: Collection[bytes],
) -> Iterator[bytes]:
    found = (*tx.groups.of_session(session, *numbers), *_adoption_groups(tx, session, events))
    groups = [signed_group for signed_group in found if not signed_group.doubt]
    if any(name.task in _EVERYBODYS for kept in groups for name in kept.group.events):
        events = events | _lines_without_task(tx, session)
    for group in groups:
        lines = (group.line, *(events[name.id] for name in group.group.events if name.id in events))
        if any(line not in present for line in lines):
            yield from lines


def _lines_without_task(tx: Transaction, session: str) -> dict[str, bytes]:
    found = ((codec.decode_stored_line(line), line) for line in tx.events.lines(session))
    return {event.meta.id: line for event, line in found if event_task_id(event) in _EVERYBODYS}


def _legacy_lines(tx: Transaction) -> Iterator[bytes]:
    return (line for line in tx.events.lines() if codec.decode_stored_line(line).is_legacy)


def _lines_by_id(lines: Iterable[bytes]) -> dict[str, bytes]:
    return {codec.decode_stored_line(line).meta.id: line for line in lines}


def _whole_groups(groups: Iterable[SignedGroup], events: dict[str, bytes]) -> Iterator[list[bytes]]:
    for group, line, doubt in groups:
        if doubt is not Doubt.WRONG_SIGNATURE and all(name.id in events for name in group.events):
            yield [line, *(events[name.id] for name in group.events)]


_MOST_BYTES = 8 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")


class Publisher(Protocol):
    """Commits files on branches."""

    def current_branch(self) -> str:
        """The branch checked out in the caller's worktree."""

    def sizes(self, branch: str) -> dict[str, int] | None:
        """The sizes of a branch's event files; None if there is no such branch."""

    def read(self, branch: str, name: str) -> bytes:
        """An event file's content on a branch."""

    def deleted_files(self, branch: str, names: set[str]) -> dict[str, bytes]:
        """Those of the files that the branch once had, with their last content."""

    def commit(self, branch: str, files: dict[str, bytes], message: str, removed: Sequence[str] = ()) -> str:
        """Commits files on a branch and removes others."""


class Publication(NamedTuple):
    """What was committed where; without a commit if the branch had everything."""

    branch: str
    commit: str
    files: list[str]
    events: int


def publish_all(ledger: Ledger, publisher: Publisher, base: str) -> Publication:
    """Commits every event that the current branch lacks.

    The open segment is closed first, so that no file changes after it is on a branch. Files are published whole under
    their own names; one deleted on the branch is restored. Events whose file is gone, damaged or different on the
    branch get a new file from the ledger.
    """
    branch = publisher.current_branch()
    if not branch:
        raise UsageError("No branch is checked out here. Check one out, or name a task with --task.")
    closed = {name: path for name, path in ledger.closed_files().items() if _NAME.fullmatch(name)}
    there = publisher.sizes(branch) or {}
    with ledger.store.read() as view:
        archived = archived_files(view)
    closed = {name: path for name, path in closed.items() if name in there or name not in archived}
    files: dict[str, bytes] = {}
    damaged = False
    for name, path in closed.items():
        content = ledger.read_content(path)
        if name not in there:
            is_whole = bool(content) and not ledger.file_problems(path)
            files |= {name: content} if is_whole else {}
            damaged |= not is_whole
        elif content and there[name] != len(content):
            damaged = True
    damaged |= ledger.has_lost_lines()
    gone = ledger.deleted_files() - set(there)
    if gone:
        files |= publisher.deleted_files(branch, gone)
        gone -= set(files) | (set(publisher.sizes(base) or ()) if base != branch else set())
    if gone or damaged or not ledger.has_event_files:
        files |= _new_files(_groups_in_no_file(ledger, publisher, branch, files.values()))
    return _commit_files(publisher, branch, files, "log: publish events")


def publish_task(ledger: Ledger, publisher: Publisher, task: Task) -> Publication:
    """Commits the task's events on its branch, with the groups that name them and those in between.

    A reader can thus see that none of the task's events was left out, without having those of others.
    """
    branch = task.branch or publisher.current_branch()
    if not branch:
        raise UsageError(
            f"Task {task.id} has no branch yet. Give it one: remand task edit {task.id} --branch B"
        )
    if publisher.sizes(branch) is None:
        raise UsageError(f"There is no branch {branch} yet. Create it first: git branch {branch}")
    present = _lines_on_branch(publisher, branch)
    with ledger.store.read() as view:
        lines = lines_of_task(view, task.id, present)
    return _commit_files(publisher, branch, _new_files(lines), f"log: publish events of {task.id}")


def _lines_on_branch(publisher: Publisher, branch: str) -> set[bytes]:
    return {
        line
        for name in publisher.sizes(branch) or ()
        for line in codec.split_lines(publisher.read(branch, name))
    }


def _groups_in_no_file(
    ledger: Ledger, publisher: Publisher, branch: str, files: Iterable[bytes]
) -> list[bytes]:
    """Groups with an event that only the ledger has, as its file was deleted or reverted."""
    present = _lines_on_branch(publisher, branch)
    for content in files:
        present.update(codec.split_lines(content))
    with ledger.store.read() as view:
        return groups_not_in(view, present)


def _new_files(lines: Iterable[bytes]) -> dict[str, bytes]:
    """Lines as new files about the size of a segment, named after their content, so that restoring twice gives the same files."""
    found: dict[str, bytes] = {}
    part: list[bytes] = []
    size = 0
    for line in lines:
        if size > _MOST_BYTES and is_group(line):
            found |= _new_file(part)
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    return found | _new_file(part) if part else found


def _new_file(lines: list[bytes]) -> dict[str, bytes]:
    content = _join_lines(lines)
    first = min(
        signatures.decode_group(line).ts if is_group(line) else codec.decode_stored_line(line).ts
        for line in lines
    )
    return {f"{make_session_name(first, sha256(content).hexdigest()[:8])}.jsonl": content}


def _join_lines(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _commit_files(publisher: Publisher, branch: str, files: dict[str, bytes], message: str) -> Publication:
    commit = publisher.commit(branch, files, message) if files else ""
    count = sum(1 for content in files.values() for line in codec.split_lines(content) if not is_group(line))
    return Publication(branch, commit, sorted(files), count)


class LegacyFile(NamedTuple):
    """The lines of GoT tools in a file."""

    name: str
    sha256: str
    events: tuple[GroupedEvent, ...]

    @property
    def session(self) -> str:
        """The session of the groups that cover them."""
        return f"{IMPORT}{self.sha256[:32]}"

    def sign_groups(self, signer: Signer, at: Instant) -> Iterator[EventGroup]:
        """The groups that cover them, signed by the importer."""
        return signer.sign(self.session, 1, chain_start(self.session, signer.key), self.events, at)

    @property
    def event(self) -> LinesImported:
        """The event that records their import."""
        return LinesImported(file=self.name, sha256=self.sha256, count=len(self.events))


def vouch_for_legacy_files(
    files: Iterable[LegacyFile], at: Instant, tx: Transaction, signer: Signer
) -> Voucher:
    """The groups that make these files' lines count, and the events to record; files imported before are skipped."""
    known = {signed_group.group.session for signed_group in tx.groups.imports() if not signed_group.doubt}
    new = [file for file in files if file.session not in known]
    return Voucher(
        [group for file in new for group in file.sign_groups(signer, at)], [file.event for file in new]
    )


def read_legacy_file(exchange: Exchange, path: str) -> LegacyFile:
    """The lines of GoT tools in a file; our own lines have their own signatures."""
    events = [
        one
        for batch in read_batches(exchange.read(path), path, [])
        for one in batch.events
        if one.event.is_legacy
    ]
    content = b"".join(one.line + b"\n" for one in events)
    return LegacyFile(
        os.path.basename(path),
        sha256(content).hexdigest(),
        tuple(GroupedEvent(one.event.meta.id, one.task) for one in events),
    )


class LogMove(Record, kw_only=True):
    """A completed move, and the state of the log in both ledgers."""

    ledger: str
    to_ledger: str
    to: str
    digest: str
    events: int
    old_digest: str
    old_events: int


def move_log(
    source: Ledger, target: Ledger, to: str, actor: Actor, *, untrusted_key: str = "", is_lost: bool = False
) -> LogMove:
    """Moves the log; a move that was killed is completed. `to` describes the target for people and contains no secret.

    Refuses a machine whose key the base does not trust: no other machine would see that the ledger is closed. A closed
    ledger can be moved as well, or reopened, if the user says that the ledger it moved to is lost.
    """
    if is_lost:
        require_user(actor)
    source.refresh()
    if source.ledger_id == target.ledger_id:
        return _open_again(source, to, actor, is_lost=is_lost)
    with source.store.read() as view:
        has_moved = find_move(source, view, target.ledger_id) is not None
    if not has_moved:
        require_trusted_key(untrusted_key, is_confined=True)
        with source.taking_over() if is_lost else nullcontext():
            _move(source, target, to, actor)
    with source.store.read() as view:
        _copy_lines(view, target)
        old, (new, count) = state_digest(view), _digest(target)
    if old != (new, count):
        raise EnvironmentFault(
            "The log has moved, but its new ledger is not equal to the old one. Run it again."
        )
    return LogMove(
        ledger=source.ledger_id,
        to_ledger=target.ledger_id,
        to=to,
        digest=new,
        events=count,
        old_digest=old[0],
        old_events=old[1],
    )


def _move(source: Ledger, target: Ledger, to: str, actor: Actor) -> None:
    old, new = source.ledger_id, target.ledger_id
    source.record([MoveBegun(ledger=old, to_ledger=new, to=to)], actor)
    with source.store.read() as view:
        _copy_lines(view, target)

    def end(handler: RequestHandler, _signer: Signer) -> None:
        tx = handler.tx
        tx.fence_writers()
        _copy_lines(tx, target)
        digest, count = state_digest(tx)
        if (digest, count) != _digest(target):
            raise EnvironmentFault(
                "Nothing was moved: the other ledger has events of its own, or trusts other keys. "
                "Move the log into an empty one, in a clone of this repository."
            )
        moved = LedgerMoved(ledger=old, to_ledger=new, to=to, events=count, digest=digest)
        handler.record_events([moved], actor)

    source.change_as_user(actor, end)


def _open_again(ledger: Ledger, to: str, actor: Actor, *, is_lost: bool) -> LogMove:
    """Reopens a closed ledger, and closes every other one, by an event that moves the log to where it is."""
    if ledger.is_open():
        raise UsageError("The log is in that ledger already.")
    if not is_lost:
        raise UsageError(
            "This ledger is closed. Move the log back from the one that it is in; only if that one is lost, "
            "add --lost: then this one is opened again."
        )
    own = ledger.ledger_id

    def end(handler: RequestHandler, _signer: Signer) -> None:
        handler.tx.fence_writers()
        digest, count = state_digest(handler.tx)
        moved = LedgerMoved(ledger=own, to_ledger=own, to=to, events=count, digest=digest)
        handler.record_events([moved], actor)

    with ledger.taking_over():
        ledger.change_as_user(actor, end)
    digest, count = _digest(ledger)
    return LogMove(
        ledger=own, to_ledger=own, to=to, digest=digest, events=count, old_digest=digest, old_events=count
    )


def _digest(ledger: Ledger) -> tuple[str, int]:
    with ledger.store.read() as view:
        return state_digest(view)


def find_move(ledger: Ledger, view: Transaction, to_ledger: str) -> LedgerMoved | None:
    """The last move that a ledger knows, if it was to that ledger."""
    moves = [event for event in ledger.moves(view) if isinstance(event, LedgerMoved)]
    return moves[-1] if moves and moves[-1].to_ledger == to_ledger else None


def moved_content(source: Ledger, view: Transaction, to_ledger: str, tx: Transaction) -> bytes:
    """The content that the target of a move lacks; empty if the log was not moved there."""
    has_moved = find_move(source, view, to_ledger) is not None
    return missing_content(view, known_lines(tx)) if has_moved else b""


def missing_content(view: Transaction, known: Collection[int]) -> bytes:
    """A ledger's lines with unknown hashes, groups first, as in a file."""
    return b"".join(line + b"\n" for line in _lines(view) if hash(line) not in known)


def known_lines(view: Transaction) -> set[int]:
    """The hashes of the lines that a ledger has."""
    return {hash(line) for line in _lines(view)}


def _lines(view: Transaction) -> Iterator[bytes]:
    return chain(view.group_doubts.lines(), view.events.lines(), view.held.lines())


def _copy_lines(view: Transaction, target: Ledger) -> None:
    """Copies what the target lacks."""
    with target.store.read() as other:
        known = known_lines(other)
    content = missing_content(view, known)
    if content:
        target.change(lambda tx: target.read_files(tx, [], target.verifier(tx), [content]))
