"""Builds the steps after every call: files, repeated questions, notices and reminders."""

from __future__ import annotations

import os

from remand.adapters.stores.sqlite_views import read_unseen
from remand.adapters.system import notice_channels, scheduler_files
from remand.adapters.system.machine import SystemClock
from remand.adapters.system.record_files import RecordFiles
from remand.app import notices
from remand.app.record_files import RecordFileUpdater, record_folders
from remand.app.reminders import AfterCall, UnseenCounts
from remand.config import inherited_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, folders_of

__all__ = ["notice_channels", "scheduler_files"]


def after_call(place: LedgerLocation, opened: OpenLedger | None) -> AfterCall:
    """The steps after a call; the ledger is given if the call has opened it."""
    return AfterCall(
        files=record_file_updater(opened) if opened else None,
        ledger=opened.ledger if opened else None,
        read_unseen=lambda: unseen_counts(place, opened),
        channel_count=lambda: len(notice_channels.read_addresses().channels),
        start_delivery=lambda: notice_channels.start_delivery(
            folders_of(place).notices, place.root, inherited_environment()
        ),
    )


def unseen_counts(place: LedgerLocation, opened: OpenLedger | None) -> UnseenCounts:
    """The numbers of items in the repository that the user has not seen."""
    return read_unseen(place.database, opened.view if opened else None, SystemClock().now())


def record_file_updater(opened: OpenLedger) -> RecordFileUpdater:
    """Updates the files beside the ledger."""

    def record_files() -> RecordFiles:
        return RecordFiles(opened.place.root, record_folders(opened.settings.settings().records))

    return RecordFileUpdater(opened.store, record_files, lambda: opened.settings.rules().team)


def notice_delivery(opened: OpenLedger) -> notices.NoticeDelivery:
    """Sends the user's notices about a ledger."""
    return notices.NoticeDelivery(
        opened.ledger,
        lambda: opened.settings.rules().team,
        os.path.basename(opened.place.root) or "remand",
        open_channels=notice_channels.open_channels,
        pace=notice_channels.FilePace(os.path.join(opened.folders.notices, "pace")),
    )
