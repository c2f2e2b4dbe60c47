"""Opening the ledger of a place, with everything it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from remand.adapters.exchange.segments import Segments
from remand.adapters.git.history import GitHistory
from remand.adapters.git.place import ROOT_NOTE, Place, locate
from remand.adapters.git.repository import GitIndex, GitRepository
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.clock import RandomIds, SystemClock
from remand.adapters.system.folders import state_folder
from remand.adapters.system.keys import FileKeys
from remand.adapters.system.marks import FileMarks
from remand.app.errors import EnvironmentFault
from remand.app.facts import GateTerms
from remand.app.ledger import Ledger
from remand.app.ports import LookedUp
from remand.bootstrap.machine_paths import PathSource
from remand.bootstrap.settings import SettingsSource
from remand.domain.control import NO_CHANGE, ControlChange
from remand.domain.ids import session_name
from remand.domain.task import Task

IGNORED = "# Everything here is made from the events, and can be made again.\n*\n!.gitignore\n!.gitattributes\n!events/\n!events/**\n"
_MAX_ID = 4096
ATTRIBUTES = "# Event files keep their bytes, whatever the platform.\nevents/*.jsonl -text\n"
OWN_FILES = {".got/.gitignore": IGNORED.encode(), ".got/.gitattributes": ATTRIBUTES.encode()}
"""What Remand writes into its folder, besides events, for git to track."""


class Opened(NamedTuple):
    """A ledger with its surroundings."""

    ledger: Ledger
    place: Place
    settings: SettingsSource
    store: SqliteStore


def find_place(folder: str) -> Place:
    """The place of the ledger seen from a folder; says what to do when there is none."""
    if not os.path.isdir(folder):
        raise EnvironmentFault(f"There is no folder {folder}.")
    place = locate(folder)
    if place is None:
        raise EnvironmentFault(
            f"{os.path.realpath(folder)} is in no git repository. Run `git init` there first, or use -C DIR."
        )
    return place


def open_ledger(folder: str = ".") -> Opened:
    """Opens the ledger of the repository around a folder; a fresh clone gets a new one."""
    return open_at(find_place(folder))


def open_at(place: Place) -> Opened:
    """Opens the ledger of a place; says what to do when its folder cannot be used."""
    try:
        return _open_at(place)
    except OSError as error:
        path = error.filename or place.got
        raise EnvironmentFault(
            f"The ledger in {place.got} cannot be opened: {path} cannot be written ({error.strerror}). "
            "Give yourself the right to write there (chmod -R u+w), move away what is in its place, or mount the disk "
            "for writing; then repeat."
        ) from error


def _open_at(place: Place) -> Opened:
    prepare_folder(place)
    store = SqliteStore(os.path.join(place.got, "ledger.db"))
    clock, ids = SystemClock(), RandomIds()
    segments = Segments(
        place.event_folders, os.path.join(place.got, "quarantine"), GitIndex(place), clock, ids
    )
    ledger_id = _identity(store, segments, clock, ids, place)
    repository = GitRepository(place)
    settings = SettingsSource(repository)
    ledger = Ledger(
        store=store,
        exchange=segments,
        segment=segments,
        clock=clock,
        ids=ids,
        repository=repository,
        marks=FileMarks(state_folder(), ledger_id, place.root),
        keys=machine_keys(),
        rules=settings.rules,
        look_up=_searcher(place, settings, ledger_id),
        gate_terms=lambda task, commit: _gate_terms(opened, task, commit),
        control=lambda before, commit: _control(opened, repository, before, commit),
        # Loaded by name: the files are made from the ledger, and few commands change what they say.
        machine_paths=PathSource(place).paths,
        keep_files=lambda: import_module("remand.bootstrap.records").keep_files(opened),
        history=GitHistory(place, settings.base_ref),
    )
    opened = Opened(ledger, place, settings, store)
    return opened


def _gate_terms(opened: Opened, task: Task, commit: str) -> GateTerms | None:
    """The gates that hold for a done claim, looked into only when the base has moved under it."""
    before, now = task.claim.base if task.claim is not None else "", opened.settings.rules().base
    if before in ("", now):
        return None
    if not now:
        raise EnvironmentFault(
            "The base branch was there when this task was claimed, and is gone. Bring it back, then repeat."
        )
    # Loaded by name: what the gates need is built on the ledger, and few commands need it.
    terms: GateTerms = import_module("remand.bootstrap.gates").Gates(opened).gate_terms(task, commit)
    return terms


def _control(opened: Opened, repository: GitRepository, before: str, commit: str) -> ControlChange:
    """What a commit changes below `.got`, looked into only when it has there what the base has not."""
    tip = opened.settings.rules().base
    if repository.has_same_control(name for name in (tip, before, commit) if name):
        return NO_CHANGE
    # Loaded by name: few commits change anything there.
    source = import_module("remand.adapters.git.control").GitControl(opened.place)
    with opened.store.read() as view:
        verifier = opened.ledger.verifier(view)
    check = import_module("remand.app.control").ControlCheck(source, verifier, OWN_FILES)
    found: ControlChange = check.check(tip, before, commit)
    return found


def machine_keys() -> FileKeys:
    """The machine's key, kept outside every repository."""
    return FileKeys(os.path.join(state_folder(), "keys"))


def _searcher(
    place: Place, settings: SettingsSource, ledger_id: str
) -> Callable[[dict[str, Any], Task], LookedUp | None]:
    """Looks rejections up in repository and journal. What that takes is loaded with the first one."""

    def look_up(rejection: dict[str, Any], task: Task) -> LookedUp | None:
        from remand.bootstrap import witness

        return witness.look_up(place, settings, ledger_id, rejection, task)

    return look_up


def prepare_folder(place: Place) -> None:
    """Makes `.got` with what keeps git from tracking anything but events."""
    os.makedirs(place.events, exist_ok=True)
    lies_apart = place.common_dir == place.git_dir != os.path.join(place.root, ".git")
    if place.git_dir and lies_apart and place.root != place.git_dir:
        note = os.path.join(place.git_dir, ROOT_NOTE)
        if not os.path.exists(note):
            _write(note, place.root)
    for name, text in ((".gitignore", IGNORED), (".gitattributes", ATTRIBUTES)):
        path = os.path.join(place.got, name)
        if not os.path.exists(path) or not os.path.getsize(path):
            _write(path, text)


def _write(path: str, text: str) -> None:
    """Writes a small file whole or not at all, whatever the disk or a signal does."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise EnvironmentFault(
            f"{path} cannot be written ({error.strerror}). Mend that, then repeat."
        ) from None


def _content(path: str) -> str:
    """What a small file holds; empty when it cannot be read, or is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_ID)
    except (OSError, UnicodeDecodeError):
        return ""


def _identity(
    store: SqliteStore, segments: Segments, clock: SystemClock, ids: RandomIds, place: Place
) -> str:
    """The ledger's id. A copied ledger file is another ledger and gets an id of its own."""
    body = store.file_identity()
    known = store.value("file")
    ledger_id = store.value("id")
    if not ledger_id or known != body:
        ledger_id = store.adopt(body, session_name(clock.now(), ids.hex()), segments.rename)
    path = os.path.join(place.got, "ledger.id")
    if _content(path) != ledger_id:
        _write(path, ledger_id)
    return ledger_id
