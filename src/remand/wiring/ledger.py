"""Opens the ledger of a repository, with everything it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from remand.adapters.git.event_files import OWN_FILES, GitControl, GitHistory, note_ledger_id, prepare_got
from remand.adapters.git.location import LedgerLocation, locate
from remand.adapters.git.repository import GitIndex, GitRepository
from remand.adapters.stores.segments import Segments
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.clock import RandomIds, SystemClock
from remand.adapters.system.folders import state_folder
from remand.adapters.system.high_water_marks import FileMarks
from remand.adapters.system.keys import FileKeys
from remand.adapters.system.machine_paths import MachinePathSource
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.events import control_files
from remand.app.facts import GateTerms
from remand.app.ledger import Ledger
from remand.app.ports import RejectionChecks
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.domain.gate.control_files import NO_CHANGE, ControlChange
from remand.domain.ids import make_session_name
from remand.domain.task import Task
from remand.wiring import evidence, gates, reminders
from remand.wiring.open_ledger import OpenLedger


def find_place(folder: str) -> LedgerLocation:
    """The place of the ledger seen from a folder; says what to do when there is none."""
    if not os.path.isdir(folder):
        raise EnvironmentFault(f"There is no folder {folder}.")
    place = locate(folder)
    if place is None:
        raise EnvironmentFault(
            f"{os.path.realpath(folder)} is in no git repository. Run `git init` there first, or use -C DIR."
        )
    return place


def open_ledger(folder: str = ".") -> OpenLedger:
    """Opens the ledger of the repository around a folder; a fresh clone gets a new one."""
    return open_at(find_place(folder))


def open_at(place: LedgerLocation) -> OpenLedger:
    """Opens the ledger of a place; says what to do when its folder cannot be used."""
    try:
        return _open_at(place)
    except OSError as error:
        path = error.filename or place.got
        raise EnvironmentFault(
            f"The ledger in {place.got} cannot be opened: {path} cannot be written ({error.strerror}). "
            "Make it writable (chmod -R u+w), move away what is in its place, or mount the disk for writing; then repeat."
        ) from error


def _open_at(place: LedgerLocation) -> OpenLedger:
    prepare_got(place)
    store = SqliteStore(os.path.join(place.got, "ledger.db"))
    clock, ids = SystemClock(), RandomIds()
    segments = Segments(
        place.event_folders, os.path.join(place.got, "quarantine"), GitIndex(place), clock, ids
    )
    ledger_id = store.ensure_id(make_session_name(clock.now(), ids.hex()), segments.rename)
    note_ledger_id(place, ledger_id)
    repository = GitRepository(place)
    settings = SettingsSource(repository, place.root, place.common_dir)
    ledger = Ledger(
        store=store,
        exchange=segments,
        writer=segments,
        segment=segments,
        clock=clock,
        ids=ids,
        repository=repository,
        marks=FileMarks(state_folder(), ledger_id, place.root),
        keys=machine_keys(),
        rules=settings.rules,
        look_up=_evidence_lookup(place, settings, ledger_id),
        gate_terms=lambda task, commit: _gate_terms(opened, task, commit),
        control=lambda before, commit: _control_change(opened, repository, before, commit),
        machine_paths=MachinePathSource(
            place.root, place.worktree, place.common_dir, inherited_environment()
        ).paths,
        keep_files=lambda: reminders.update_record_files(opened),
        history=GitHistory(place, settings.base_ref),
    )
    opened = OpenLedger(ledger, place, settings, store)
    return opened


def _gate_terms(opened: OpenLedger, task: Task, commit: str) -> GateTerms | None:
    """The gates that hold for a done claim, looked into only when the base has moved under it."""
    before, now = task.claim.base if task.claim is not None else "", opened.settings.rules().base
    if before in ("", now):
        return None
    if not now:
        raise EnvironmentFault(
            "The base branch was there when this task was claimed, and is gone. Bring it back, then repeat."
        )
    return gates.make_gates(opened).gate_terms(task, commit)


def _control_change(opened: OpenLedger, repository: GitRepository, before: str, commit: str) -> ControlChange:
    """What a commit changes below `.got`, looked into only when it has there what the base has not."""
    tip = opened.settings.rules().base
    if repository.has_same_control(name for name in (tip, before, commit) if name):
        return NO_CHANGE
    source = GitControl(opened.place)
    with opened.store.read() as view:
        verifier = opened.ledger.verifier(view)
    return control_files.ControlCheck(source, verifier, OWN_FILES).check(tip, before, commit)


def machine_keys() -> FileKeys:
    """The machine's key, kept outside every repository."""
    return FileKeys(os.path.join(state_folder(), "keys"))


def _evidence_lookup(
    place: LedgerLocation, settings: SettingsSource, ledger_id: str
) -> Callable[[dict[str, Any], Task], RejectionChecks | None]:
    """Looks rejections up in repository and journal. What that takes is loaded with the first one."""

    def look_up(rejection: dict[str, Any], task: Task) -> RejectionChecks | None:
        return evidence.look_up_evidence(place, settings, ledger_id, rejection, task)

    return look_up


def prepare_folder(place: LedgerLocation) -> None:
    """Makes the ledger's folder where there is none; nothing is opened yet."""
    prepare_got(place)


def reopen_if_replaced(opened: OpenLedger) -> OpenLedger:
    """The ledger, up to date; the one in its place when its file was deleted or replaced."""
    try:
        opened.store.require_same_file()
    except LedgerReplaced:
        opened.store.close()
        opened.ledger.close()
        opened = open_at(opened.place)
    opened.ledger.refresh()
    return opened
