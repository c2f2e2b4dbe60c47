"""The most used queries, read from the tables with as little as possible loaded."""

from __future__ import annotations

from remand.adapters.git.location import LedgerLocation, locate
from remand.adapters.stores import sqlite_views
from remand.app.reminders import log_warning, reminder
from remand.wiring.open_ledger import OpenLedger


def open_view(place: LedgerLocation) -> sqlite_views.LedgerView:
    """The tables of a place's ledger."""
    return sqlite_views.LedgerView(place.database)


def read_task_list(folder: str, arguments: list[str]) -> str | None:
    """The tasks as JSON; None when that takes more than a look at the tables."""
    place = locate(folder)
    return sqlite_views.read_task_list(place.database, place.event_folders, arguments) if place else None


def untrusted_key(place: LedgerLocation, opened: OpenLedger | None) -> str:
    """The key that a ledger's events are signed with, while the base does not trust it."""
    return sqlite_views.untrusted_writer(place.database, opened.store.connection if opened else None)


def read_remarks(folder: str, *, is_users: bool) -> str:
    """What is said beside an answer in the repository around a folder: the warning, and to the user the reminder."""
    place = locate(folder)
    if place is None:
        return ""
    found = sqlite_views.read_unseen(place.database)
    return log_warning(found) + (reminder(found) if is_users else "")
