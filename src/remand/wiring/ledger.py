"""Opens the ledger of a repository, with everything it needs."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from remand.adapters.git.event_files import GitControl, GitHistory
from remand.adapters.git.location import ROOT_NOTE, LedgerLocation, locate
from remand.adapters.git.repository import GitIndex, GitRepository
from remand.adapters.stores.segments import Segments
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.clock import RandomIds, SystemClock
from remand.adapters.system.files import atomic_write
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.high_water_marks import FileMarks
from remand.adapters.system.keys import FileKeys
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
from remand.domain.text.redaction import MachinePaths
from remand.wiring import evidence, gates, reminders
from remand.wiring.open_ledger import OpenLedger

BASE_FOLDERS = (
    ("XDG_STATE_HOME", ".local/state", "$STATE"),
    ("XDG_CACHE_HOME", ".cache", "$CACHE"),
    ("XDG_CONFIG_HOME", ".config", "$CONFIG"),
    ("XDG_DATA_HOME", ".local/share", "$DATA"),
)
CHECKOUTS = (
    "*/worktrees/*",
    "*/gates/checkouts/pooled/slots/*/tree",
    "*/gates/checkouts/overlay/leases/*/merged",
)
"""Where our state folder holds files of the repository."""
SYSTEM = ("/usr", "/bin", "/lib")
"""Where programs are that every machine has in the same place."""


class MachinePathSource:
    """Looks the folders up, and again when a worktree was added or removed."""

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place
        self._linked = os.path.join(place.common_dir, "worktrees") if place.common_dir else ""
        self._changed = -1
        self._paths: MachinePaths | None = None

    def paths(self) -> MachinePaths:
        """The folders as they are now."""
        changed = _change_time(self._linked)
        if self._paths is None or changed != self._changed:
            self._changed = changed
            own = [self._place.root, self._place.worktree, *_worktrees(self._linked)]
            self._paths = MachinePaths([*_machine_folders(), *_with_real_paths((path, "") for path in own)])
        return self._paths


def _machine_folders() -> list[tuple[str, str]]:
    """The folders of the user and of this machine, whatever the repository."""
    environment = inherited_environment()
    home = os.path.expanduser("~")
    folders = [
        (home, "~"),
        (_account_home(), "~"),
        ("/tmp", "$TMP"),  # noqa: S108 - only named
        (environment.get("TMPDIR", ""), "$TMP"),
    ]
    for variable, usual, symbol in BASE_FOLDERS:
        named = environment.get(variable, "")
        folders.append((named if os.path.isabs(named) else os.path.join(home, usual), symbol))
    folders.append((runtime_folder(), "$RUNTIME"))
    prefixes = (sys.prefix, sys.base_prefix)
    folders += [(prefix, "$PYTHON") for prefix in prefixes if not prefix.startswith(SYSTEM)]
    folders += [(os.path.join(state_folder(), place), "") for place in CHECKOUTS]
    return _with_real_paths(folders)


def _account_home() -> str:
    """The home that the system knows of the user, where gates look for programs; empty where it is a system folder."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return "" if home.startswith(SYSTEM) else home


def _with_real_paths(folders: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each folder by its name, and as it is without links."""
    return [
        (path, symbol)
        for folder, symbol in folders
        if os.path.isabs(folder)
        for path in dict.fromkeys((folder, os.path.realpath(folder)))
    ]


def _change_time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns if folder else 0
    except OSError:
        return 0


def _worktrees(folder: str) -> list[str]:
    """The linked worktrees of a repository, wherever they are."""
    found = []
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError), open(os.path.join(folder, name, "gitdir"), encoding="utf-8") as file:
                found.append(os.path.dirname(file.read(4096).strip()))
    return found


IGNORED = "# Everything here is made from the events, and can be made again.\n*\n!.gitignore\n!.gitattributes\n!events/\n!events/**\n"
_MAX_ID = 4096
ATTRIBUTES = "# Event files keep their bytes, whatever the platform.\nevents/*.jsonl -text\n"
OWN_FILES = {".got/.gitignore": IGNORED.encode(), ".got/.gitattributes": ATTRIBUTES.encode()}
"""What Remand writes into its folder, besides events, for git to track."""


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
    prepare_folder(place)
    store = SqliteStore(os.path.join(place.got, "ledger.db"))
    clock, ids = SystemClock(), RandomIds()
    segments = Segments(
        place.event_folders, os.path.join(place.got, "quarantine"), GitIndex(place), clock, ids
    )
    ledger_id = _ensure_ledger_id(store, segments, clock, ids, place)
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
        machine_paths=MachinePathSource(place).paths,
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
    """Makes `.got` with what keeps git from tracking anything but events."""
    os.makedirs(place.events, exist_ok=True)
    lies_apart = place.common_dir == place.git_dir != os.path.join(place.root, ".git")
    if place.git_dir and lies_apart and place.root != place.git_dir:
        note = os.path.join(place.git_dir, ROOT_NOTE)
        if not os.path.exists(note):
            _write_atomically(note, place.root)
    for name, text in ((".gitignore", IGNORED), (".gitattributes", ATTRIBUTES)):
        path = os.path.join(place.got, name)
        if not os.path.exists(path) or not os.path.getsize(path):
            _write_atomically(path, text)


def _write_atomically(path: str, text: str) -> None:
    """Writes a small file whole or not at all, whatever the disk or a signal does."""
    try:
        atomic_write(path, text.encode())
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be written ({error.strerror}). Mend that, then repeat."
        ) from None


def _read_small_file(path: str) -> str:
    """What a small file holds; empty when it cannot be read, or is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_ID)
    except (OSError, UnicodeDecodeError):
        return ""


def _ensure_ledger_id(
    store: SqliteStore, segments: Segments, clock: SystemClock, ids: RandomIds, place: LedgerLocation
) -> str:
    """The ledger's id. A copied ledger file is another ledger and gets an id of its own."""
    body = store.file_identity()
    known = store.value("file")
    ledger_id = store.value("id")
    if not ledger_id or known != body:
        ledger_id = store.adopt(body, make_session_name(clock.now(), ids.hex()), segments.rename)
    path = os.path.join(place.got, "ledger.id")
    if _read_small_file(path) != ledger_id:
        _write_atomically(path, ledger_id)
    return ledger_id


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
