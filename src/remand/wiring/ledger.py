"""Opens the ledger of a repository with everything it needs, and sends commands to it or to its coordinator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from remand.adapters.coordinator import background_start, remote_ledger
from remand.adapters.git import event_files, event_publisher
from remand.adapters.git.location import LedgerLocation, find_place
from remand.adapters.git.repository import GitIndex, GitRepository
from remand.adapters.stores import postgres
from remand.adapters.stores.segments import NoSegments, Segments
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.folders import state_folder
from remand.adapters.system.high_water_marks import FileMarks, NoMarks
from remand.adapters.system.keys import FileKeys
from remand.adapters.system.machine import MachinePathSource, RandomIds, SystemClock
from remand.app import group_commit
from remand.app.errors import EnvironmentFault
from remand.app.events.control_files import ControlChanges
from remand.app.ledger import Ledger
from remand.app.ledger_gateway import LedgerGateway
from remand.app.log import exchange
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.domain.ids import make_session_name
from remand.startup import TYPE_CHECKING
from remand.wiring import after_call, gates
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import find_socket

if TYPE_CHECKING:
    from remand.adapters.stores.postgres import PostgresStore
    from remand.ledger.store import Transaction

__all__ = ["Gateway", "background_start", "event_publisher", "find_place", "machine_keys", "open_at"]
__all__ += ["open_ledger", "open_log_copy"]


def open_ledger(folder: str = ".") -> OpenLedger:
    """Opens the ledger of the repository around a folder; a fresh clone gets a new one."""
    return open_at(find_place(folder))


def open_at(place: LedgerLocation, state: str = "", store_url: str | None = None) -> OpenLedger:
    """Opens the ledger of a place. Rarely needed parts are loaded and built on demand.

    `state` is the folder of the machine's key and marks, if it is not the usual one. `store_url` names a team's
    database; without it, `REMAND_STORE` does. If there is neither, the ledger is the file in the repository.
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


def _fetch_move(opened: OpenLedger, state: str, tx: Transaction) -> bytes:
    """What a ledger lacks of the one that the log comes from, once that is closed: the other one of its place."""
    url = opened.store.origin
    if not (url or (opened.store.url and os.path.exists(opened.place.database))):
        return b""
    with closing(open_at(opened.place, state, url)) as source, source.store.read() as view:
        return exchange.moved_content(source.ledger, view, opened.ledger.ledger_id, tx)


def open_database(url: str, session: str, keys: FileKeys) -> PostgresStore:
    """Opens the ledger in a team's database; says what to install if that fails."""
    try:
        kind = postgres.PostgresStore
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            f"A ledger in PostgreSQL needs packages that are not installed ({error.name}): pip install 'remand[postgres]'."
        ) from None
    return kind(url, session, lambda: key.id if (key := keys.own()) else "")


def machine_keys(state: str = "") -> FileKeys:
    """The machine's key, kept outside every repository."""
    return FileKeys(os.path.join(state or state_folder(), "keys"))


@contextmanager
def open_log_copy(repository: GitRepository, base: str, commit: str) -> Iterator[OpenLedger]:
    """Opens, temporarily, the event files of a base and of a commit under the rules and keys of that base alone.

    No key of this machine counts there, and nothing from the commit's branch in the work tree is read.
    """
    place = repository.place
    branch = SettingsSource(repository, place.root, place.common_dir).base_at(base)
    with (
        event_files.log_copy(place, branch, base, commit) as (copy, state),
        closing(open_at(copy, state, "")) as opened,
    ):
        opened.ledger.refresh()
        yield opened


class Gateway(LedgerGateway[OpenLedger]):
    """The way to a place's ledger, with what else is asked of the place."""

    def __init__(self, place: LedgerLocation, opened: OpenLedger | None = None) -> None:
        super().__init__(
            opened,
            open_ledger=lambda: open_at(place),
            find_socket=lambda: find_socket(place),
            ask_coordinator=lambda path, request: remote_ledger.ask_coordinator(path, request),  # noqa: PLW0108 - loaded when it is used
            own_folders=lambda: place.event_folders[1:],
        )
        self.place = place
        self.repository = GitRepository(place)
