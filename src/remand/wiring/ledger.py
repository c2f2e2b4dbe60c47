"""Opens the ledger of a repository with everything it needs, and sends commands to it or to its coordinator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from remand.adapters.coordinator import background_start, remote_ledger
from remand.adapters.git import event_files, event_publisher
from remand.adapters.git.location import LedgerLocation, find_place
from remand.adapters.git.repository import GitIndex, GitRepository
from remand.adapters.stores import postgres, postgres_views
from remand.adapters.stores.segments import NoSegments, Segments
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.folders import state_folder
from remand.adapters.system.high_water_marks import FileMarks, NoMarks
from remand.adapters.system.keys import FileKeys
from remand.adapters.system.machine import MachinePathSource, RandomIds, SystemClock
from remand.app import group_commit
from remand.app.errors import EnvironmentFault, LedgerReplaced, UsageError
from remand.app.events.control_files import ControlChanges
from remand.app.ledger import Ledger
from remand.app.log import exchange
from remand.app.requests import Acceptance, Answer, Request, is_valid_request
from remand.app.settings import DEFAULT_BASES, SettingsSource
from remand.config import inherited_environment
from remand.domain.ids import make_session_name
from remand.startup import TYPE_CHECKING
from remand.wiring import after_call, gates
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import find_socket

if TYPE_CHECKING:
    from remand.adapters.stores.postgres import PostgresStore
    from remand.ledger.store import Transaction

__all__ = [
    "Gateway",
    "background_start",
    "find_place",
    "machine_keys",
    "open_at",
    "open_ledger",
    "open_log_copy",
    "open_move_target",
    "published_lines",
]


def published_lines(opened: OpenLedger) -> Iterator[bytes]:
    """Every line of the event files that the base has."""
    tip = opened.settings.tip()
    return event_publisher.GitPublisher(opened.place).lines_at(tip) if tip else iter(())


def open_ledger(folder: str = ".") -> OpenLedger:
    """Opens the ledger of the repository around a folder; a fresh clone gets a new one."""
    return open_at(find_place(folder))


def open_at(place: LedgerLocation, state: str = "", store_url: str | None = None) -> OpenLedger:
    """Opens the ledger of a place. What it seldom needs is loaded and built when it does.

    `state` is the folder of the machine's key and marks, where it is not the usual one. `store_url` names a database of
    a team; without one, `REMAND_STORE` does. Where there is neither, the ledger is the file in the repository.
    """
    state, environment = state or state_folder(), inherited_environment()
    url = environment.get("REMAND_STORE", "") if store_url is None else store_url
    clock, ids, repository = SystemClock(), RandomIds(), GitRepository(place)
    segments_kind: type[Segments] = NoSegments if url else Segments
    ledger_kind: type[Ledger] = group_commit.SharedLedger if url else Ledger
    with event_files.report_unwritable_folder(place):
        event_files.prepare_got(place)
        segments = segments_kind(
            place.event_folders, os.path.join(place.got, "quarantine"), GitIndex(place), clock, ids
        )
        keys, session = machine_keys(state), make_session_name(clock.now(), ids.hex())
        store: SqliteStore | PostgresStore
        if url:
            store = open_database(url, session, keys)
            ledger_id = store.ensure_id(session)
        else:
            store = SqliteStore(place.database)
            ledger_id = store.ensure_id(session, segments.rename)
        event_files.note_ledger_id(place, ledger_id)
        settings = SettingsSource(repository, place.root, place.common_dir)
        paths = MachinePathSource(place.root, place.worktree, place.common_dir, environment)
        ledger = ledger_kind(
            store=store,
            exchange=segments,
            writer=segments,
            segment=segments,
            clock=clock,
            ids=ids,
            repository=repository,
            marks=NoMarks(state) if url else FileMarks(state, ledger_id, place.root),
            keys=keys,
            rules=settings.rules,
            look_up=lambda rejection, task: gates.evidence_lookup(opened).look_up(rejection, task),
            gate_terms=lambda task, commit: (
                gates.make_gates(opened).gate_terms(task, commit) if settings.has_base_moved(task) else None
            ),
            control=ControlChanges(
                event_files.GitControl(place),
                event_files.OWN_FILES,
                base=lambda: settings.rules().base,
                is_same=repository.has_same_control,
                verifier=lambda: ledger.current_verifier(),  # noqa: PLW0108 - it is made below
            ).find,
            machine_paths=paths.paths,
            keep_files=lambda: after_call.record_file_updater(opened).update(),
            history=None if url else event_files.GitHistory(place, settings.base_ref),
            ledger_id=ledger_id,
            fetch_move=lambda tx: _fetch_move(opened, state, tx),
        )
    opened = OpenLedger(ledger, place, settings, store)
    if url:
        repository.fetch_missing = opened.submissions.take_shared
    return opened


SQLITE = "sqlite"
_ORIGIN = "origin"
"""Under which name an embedded ledger remembers the database that the log is moved from."""


@contextmanager
def open_move_target(opened: OpenLedger, to: str) -> Iterator[tuple[OpenLedger, str]]:
    """Opens, for a while, the ledger that a log is to be moved into, and says where it is, for people."""
    if to != SQLITE and not to.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"--to is {SQLITE} or postgresql://…, not {to[:40]!r}.")
    target = open_at(opened.place, "", "" if to == SQLITE else to)
    try:
        if isinstance(target.store, SqliteStore):
            if not isinstance(opened.store, SqliteStore):
                target.store.remember(_ORIGIN, postgres_views.public_address(opened.store.url))
            yield target, "the ledger file in the repository"
        else:
            yield target, postgres_views.public_address(to).partition("?")[0]
    finally:
        target.store.close()
        target.ledger.close()


def _fetch_move(opened: OpenLedger, state: str, tx: Transaction) -> bytes:
    """What a ledger lacks of the one that the log comes from, once that is closed: the other one of its place."""
    is_file = isinstance(opened.store, SqliteStore)
    url = opened.store.value(_ORIGIN) if is_file else ""
    if not (url if is_file else os.path.exists(opened.place.database)):
        return b""
    source = open_at(opened.place, state, url)
    try:
        with source.store.read() as view:
            has_moved = exchange.find_move(source.ledger, view, opened.ledger.ledger_id) is not None
            return exchange.missing_content(view, exchange.known_lines(tx)) if has_moved else b""
    finally:
        source.store.close()
        source.ledger.close()


def open_database(url: str, session: str, keys: FileKeys) -> PostgresStore:
    """Opens the ledger in a team's database; says what to install where that cannot be done."""
    try:
        kind = postgres.PostgresStore
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            f"A ledger in PostgreSQL needs more than is installed ({error.name}): pip install 'remand[postgres]'."
        ) from None
    return kind(url, session, lambda: key.id if (key := keys.own()) else "")


def machine_keys(state: str = "") -> FileKeys:
    """The machine's key, kept outside every repository."""
    return FileKeys(os.path.join(state or state_folder(), "keys"))


@contextmanager
def open_log_copy(repository: GitRepository, base: str, commit: str) -> Iterator[OpenLedger]:
    """Opens, for a while, what the event files of a base and of a commit say by the rules and keys of that base alone.

    No key of this machine counts there, and nothing that the commit's branch has in the work tree is read.
    """
    from tempfile import TemporaryDirectory

    place = repository.place
    settings = SettingsSource(repository, place.root, place.common_dir).at_commit(base)
    with TemporaryDirectory(prefix="remand-check-") as folder:
        copy, state = os.path.join(folder, "copy"), os.path.join(folder, "state")
        os.mkdir(copy)
        branch = (settings.base if settings else "") or DEFAULT_BASES[0]
        opened = open_at(event_files.make_log_copy(place, copy, branch, base, commit), state, "")
        try:
            opened.ledger.refresh()
            yield opened
        finally:
            opened.store.close()
            opened.ledger.close()


class Gateway:
    """The way to a place's ledger: asks the coordinator where one runs, and the ledger itself where none does."""

    def __init__(self, place: LedgerLocation, opened: OpenLedger | None = None) -> None:
        """Given an open ledger, as in the coordinator, it asks that alone."""
        self.place = place
        self.repository = GitRepository(place)
        self.already_open_ledger = opened
        """The ledger, when it is open."""
        self._is_local = opened is not None
        self._written_before = opened.ledger.written if opened else 0
        self._has_sent = False

    @property
    def opened_ledger(self) -> OpenLedger:
        """The ledger itself."""
        self.already_open_ledger = self.already_open_ledger or open_at(self.place)
        return self.already_open_ledger

    def current_ledger(self) -> OpenLedger:
        """The ledger itself, up to date, and opened again when its file was replaced: for processes that run for long."""
        try:
            self.opened_ledger.store.require_same_file()
        except LedgerReplaced:
            self.close()
        self.opened_ledger.ledger.refresh()
        return self.opened_ledger

    def close(self) -> None:
        """Lets go of the ledger's files, where they are open; the next use opens them again."""
        if self.already_open_ledger is not None:
            self.already_open_ledger.store.close()
            self.already_open_ledger.ledger.close()
            self.already_open_ledger = None

    @property
    def has_written(self) -> bool:
        """True when events were written through this way to the ledger."""
        opened = self.already_open_ledger
        return self._has_sent or (opened is not None and opened.ledger.written > self._written_before)

    @property
    def publisher(self) -> event_publisher.GitPublisher:
        """Commits event files."""
        return event_publisher.GitPublisher(self.place)

    def archive_store(self, folder: str = "") -> event_publisher.GitArchive | event_publisher.FolderArchive:
        """Where archived event files are: on a branch, or in a folder."""
        if folder:
            return event_publisher.FolderArchive(folder)
        return event_publisher.GitArchive(self.publisher, self.place.worktree)

    def ask(self, request: Request) -> Answer:
        """Sends a request. If the coordinator ends meanwhile, the key keeps it from being carried out twice."""
        path = "" if self._is_local or not is_valid_request(request) else find_socket(self.place)
        if path and any(os.path.isdir(folder) for folder in self.place.event_folders[1:]):
            self.opened_ledger.ledger.refresh()  # what only this worktree has, the coordinator does not look at
        answer = remote_ledger.ask_coordinator(path, request) if path else None
        if answer is None:
            return self.opened_ledger.ledger.ask(request)
        self._has_sent |= isinstance(answer, Acceptance) and bool(answer.events)
        return answer
