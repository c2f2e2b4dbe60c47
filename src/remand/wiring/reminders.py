"""What happens at the end of every call: files are updated, overdue questions repeated, the user reminded."""

from __future__ import annotations

from remand.adapters.notices.addresses import read_addresses
from remand.adapters.notices.record_files import RecordFiles
from remand.adapters.system.clock import SystemClock
from remand.app.errors import EnvironmentFault
from remand.app.events.intake import held_entries
from remand.app.record_files import RecordFileUpdater, RecordKind, are_records_current
from remand.wiring import notices
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, locate
from remand.wiring.views import UnseenCounts, log_warning, read_unseen, reminder, untrusted_writer

__all__ = [
    "held_events_warning",
    "key_warning",
    "log_warning",
    "read_unseen_at",
    "reminder",
    "run_after_call",
    "untrusted_key",
    "update_record_files",
]


def run_after_call(place: LedgerLocation, opened: OpenLedger | None) -> tuple[UnseenCounts, str]:
    """Brings the files in step, repeats what is overdue, has the user told; gives what is unseen and what failed."""
    fault = "" if opened is None else _update_files(opened)
    found = _read_unseen(place, opened)
    if found.overdue and opened is not None:
        try:
            opened.ledger.ask_all([])
        except (EnvironmentFault, OSError) as error:
            fault = fault or str(error)
        found = _read_unseen(place, opened)
    if found.count and found.least < len(read_addresses().channels):
        fault = fault or _start_notices(place)
    return found, fault


def read_unseen_at(folder: str, opened: OpenLedger | None) -> UnseenCounts:
    """What is to be told in the repository around a folder, after a call that had nothing to do with its ledger."""
    place = opened.place if opened else locate(folder)
    return _read_unseen(place, opened) if place else UnseenCounts()


def untrusted_key(place: LedgerLocation, opened: OpenLedger | None) -> str:
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


def held_events_warning(opened: OpenLedger | None) -> str:
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


def record_files(opened: OpenLedger) -> RecordFiles:
    """The folders of the files, where the configuration has them."""
    folders = opened.settings.settings().records
    return RecordFiles(
        opened.place.root,
        {
            RecordKind.LOG: folders.orchestration_log,
            RecordKind.MESSAGE: folders.messages,
            RecordKind.TASK: folders.tasks,
        },
    )


def update_record_files(opened: OpenLedger) -> str:
    """Brings the files in step with the ledger; says what stood in the way."""
    try:
        files = record_files(opened)
    except EnvironmentFault as fault:
        return str(fault)
    return RecordFileUpdater(opened.store, files, lambda: opened.settings.rules().team).update()


def _update_files(opened: OpenLedger) -> str:
    try:
        with opened.store.read() as view:
            if are_records_current(view, record_files(opened)):
                return ""
    except EnvironmentFault as fault:
        return str(fault)
    return update_record_files(opened)


def _read_unseen(place: LedgerLocation, opened: OpenLedger | None) -> UnseenCounts:
    return read_unseen(place, opened.store.connection if opened else None, SystemClock().now())


def _start_notices(place: LedgerLocation) -> str:
    try:
        notices.start_delivery(place)
    except OSError as error:
        return f"no notice about the open questions could be sent: {error}"
    return ""
