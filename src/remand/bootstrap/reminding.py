"""What is looked after at the end of every call: the files, deadlines, notices, and the line that reminds the user.

It runs on every call, and loads what it needs only when there is something to do.
"""

from __future__ import annotations

from importlib import import_module

from remand.adapters.notices.addresses import addresses
from remand.adapters.records.files import RecordFiles
from remand.adapters.system.clock import SystemClock
from remand.app.errors import EnvironmentFault
from remand.app.files import Kind, is_in_step
from remand.app.judging_anew import held_entries
from remand.bootstrap.ledger import Opened
from remand.bootstrap.quick import Place, locate
from remand.bootstrap.reading import Unseen, reminder, unseen, untrusted_writer, warning

__all__ = ["held_back", "key_warning", "look_after", "reminder", "unseen_at", "untrusted_key", "warning"]


def look_after(place: Place, opened: Opened | None) -> tuple[Unseen, str]:
    """Brings the files in step, repeats what is overdue, has the user told; gives what is unseen and what failed."""
    fault = "" if opened is None else _keep_files(opened)
    found = _unseen(place, opened)
    if found.overdue and opened is not None:
        try:
            opened.ledger.ask_all([])
        except (EnvironmentFault, OSError) as error:
            fault = fault or str(error)
        found = _unseen(place, opened)
    if found.count and found.least < len(addresses().channels):
        fault = fault or _begin_telling(place)
    return found, fault


def unseen_at(folder: str, opened: Opened | None) -> Unseen:
    """What is to be told in the repository around a folder, after a call that had nothing to do with its ledger."""
    place = opened.place if opened else locate(folder)
    return _unseen(place, opened) if place else Unseen()


def untrusted_key(place: Place, opened: Opened | None) -> str:
    """The key that this ledger's events are signed with, if the base does not trust it."""
    return untrusted_writer(place, opened.store.connection if opened else None)


def key_warning(key: str) -> str:
    """The line that tells whoever writes with a key that the base does not trust; empty when it does."""
    if not key:
        return ""
    return (
        f"remand: the base branch does not trust this machine's key {key}: what is written here has no effect "
        "elsewhere. `remand keys request` prints what to have trusted.\n"
    )


def held_back(opened: Opened | None) -> str:
    """The line that says that events are held back for their time; empty when none is."""
    if opened is None:
        return ""
    try:
        with opened.store.read() as view:
            held = held_entries(view) if view.files.earliest_held() else []
    except EnvironmentFault:
        return ""
    if not held:
        return ""
    events = "1 event is" if len(held) == 1 else f"{len(held)} events are"
    first = min(entry.event.ts for entry in held)
    return f"remand: {events} held back, ahead of this machine's clock (from {first}): remand log verify\n"


def record_files(opened: Opened) -> RecordFiles:
    """The folders of the files, where the configuration has them."""
    folders = opened.settings.settings().records
    return RecordFiles(
        opened.place.root,
        {Kind.LOG: folders.orchestration_log, Kind.MESSAGE: folders.messages, Kind.TASK: folders.tasks},
    )


def _keep_files(opened: Opened) -> str:
    try:
        with opened.store.read() as view:
            if is_in_step(view, record_files(opened)):
                return ""
    except EnvironmentFault as fault:
        return str(fault)
    failed: str = import_module("remand.bootstrap.records").keep_files(opened)
    return failed


def _unseen(place: Place, opened: Opened | None) -> Unseen:
    return unseen(place, opened.store.connection if opened else None, SystemClock().now())


def _begin_telling(place: Place) -> str:
    try:
        import_module("remand.bootstrap.notices").begin(place)
    except OSError as error:
        return f"nobody could be told of the open questions: {error}"
    return ""
