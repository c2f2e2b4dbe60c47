"""Builds what follows every call: files, repeated questions, notices and reminders."""

from __future__ import annotations

from remand.adapters.notices.addresses import read_addresses
from remand.adapters.notices.record_files import RecordFiles
from remand.adapters.stores.sqlite_views import read_unseen
from remand.adapters.system.clock import SystemClock
from remand.app import reminders
from remand.app.errors import EnvironmentFault
from remand.app.events.intake import held_entries
from remand.app.record_files import RecordFileUpdater, RecordKind, are_records_current
from remand.app.reminders import AfterCall, UnseenCounts
from remand.wiring import notices
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, locate


def run_after_call(place: LedgerLocation, opened: OpenLedger | None) -> tuple[UnseenCounts, str]:
    """Does what is due after a call; returns what is unseen, and what failed."""
    return AfterCall(
        update_files=lambda: _update_outdated_files(opened) if opened else "",
        repeat_overdue=lambda: _repeat_overdue(opened) if opened else "",
        read_unseen=lambda: _read_unseen(place, opened),
        channel_count=lambda: len(read_addresses().channels),
        start_delivery=lambda: _start_delivery(place),
    ).run()


def read_unseen_at(folder: str, opened: OpenLedger | None) -> UnseenCounts:
    """What the user has not seen in the repository around a folder, after a call that did not use its ledger."""
    place = opened.place if opened else locate(folder)
    return _read_unseen(place, opened) if place else UnseenCounts()


def held_events_warning(opened: OpenLedger | None) -> str:
    """The line that says that events are held back for their time; empty when none is."""
    if opened is None:
        return ""
    try:
        with opened.store.read() as view:
            held = held_entries(view) if view.held.earliest() else []
    except EnvironmentFault:
        return ""
    return reminders.held_events_warning(len(held), min((entry.event.ts for entry in held), default=""))


def update_record_files(opened: OpenLedger) -> str:
    """Brings the files in step with the ledger; says what stood in the way."""
    try:
        files = _record_files(opened)
    except EnvironmentFault as fault:
        return str(fault)
    return RecordFileUpdater(opened.store, files, lambda: opened.settings.rules().team).update()


def _record_files(opened: OpenLedger) -> RecordFiles:
    folders = opened.settings.settings().records
    kinds = {
        RecordKind.LOG: folders.orchestration_log,
        RecordKind.MESSAGE: folders.messages,
        RecordKind.TASK: folders.tasks,
    }
    return RecordFiles(opened.place.root, kinds)


def _update_outdated_files(opened: OpenLedger) -> str:
    try:
        with opened.store.read() as view:
            if are_records_current(view, _record_files(opened)):
                return ""
    except EnvironmentFault as fault:
        return str(fault)
    return update_record_files(opened)


def _repeat_overdue(opened: OpenLedger) -> str:
    try:
        opened.ledger.ask_all([])
    except (EnvironmentFault, OSError) as error:
        return str(error)
    return ""


def _start_delivery(place: LedgerLocation) -> str:
    try:
        notices.start_delivery(place)
    except OSError as error:
        return f"no notice about the open questions could be sent: {error}"
    return ""


def _read_unseen(place: LedgerLocation, opened: OpenLedger | None) -> UnseenCounts:
    return read_unseen(place.database, opened.store.connection if opened else None, SystemClock().now())
