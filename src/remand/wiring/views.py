"""The most used queries, read from the tables with as little as possible loaded."""

from __future__ import annotations

import os

import apsw

from remand.adapters.git.location import LedgerLocation, locate
from remand.adapters.stores.sqlite_views import LedgerView, UnseenCounts
from remand.app.errors import EnvironmentFault

__all__ = [
    "UnseenCounts",
    "has_held",
    "log_warning",
    "open_view",
    "read_remarks",
    "read_task_list",
    "read_unseen",
    "reminder",
    "untrusted_writer",
]


def open_view(place: LedgerLocation) -> LedgerView:
    """The tables of a place's ledger."""
    return LedgerView(os.path.join(place.got, "ledger.db"))


def read_task_list(folder: str, arguments: list[str]) -> str | None:
    """The tasks as JSON; None when that takes more than a look at the tables."""
    if arguments and arguments[0] != "--status":
        return None
    statuses = arguments[1:]
    if any(not word.replace("_", "").isalpha() for word in statuses) or (arguments and not statuses):
        return None
    place = locate(folder)
    if place is None:
        return None
    try:
        view = open_view(place)
        text = (
            view.tasks(statuses)
            if view.is_current(place.event_folders, _event_files(place.event_folders))
            else None
        )
    except (apsw.Error, UnicodeDecodeError, EnvironmentFault):
        return None
    if text is None or has_held(text):
        return None
    return text if text.isascii() and (text != "[]" or not statuses) else None


def has_held(tasks: str) -> bool:
    """True when something is held of one of the tasks: what settles it takes more than a look at the tables."""
    return '"held":["' in tasks


def read_unseen(
    place: LedgerLocation, connection: apsw.Connection | None = None, now: str = ""
) -> UnseenCounts:
    """The questions that wait for the user; none where there is no ledger to ask."""
    path = os.path.join(place.got, "ledger.db")
    try:
        return LedgerView(path, connection).unseen_counts(now)
    except EnvironmentFault:
        return UnseenCounts()


def reminder(found: UnseenCounts) -> str:
    """The line that reminds the user of what nothing else told of and is in the inbox; empty when there is nothing."""
    count = found.untold + found.held
    if not count:
        return ""
    waits = "question waits" if count == 1 else "questions wait"
    return f"remand: {count} {waits} for you: remand inbox\n"


def untrusted_writer(place: LedgerLocation, connection: apsw.Connection | None = None) -> str:
    """The key that the events of a place's ledger are signed with, while the base does not trust it."""
    path = os.path.join(place.got, "ledger.db")
    try:
        return LedgerView(path, connection).untrusted_writer()
    except EnvironmentFault:
        return ""


def log_warning(found: UnseenCounts) -> str:
    """The line that warns of a log that is not whole; empty when nothing is known to be wrong."""
    if not found.damage:
        return ""
    count = "1 finding" if found.damage == 1 else f"{found.damage} findings"
    return (
        f"remand: the log is not whole: events are missing or were changed ({count}). "
        "`remand log verify` names them, `remand log repair` says what to do\n"
    )


def read_remarks(folder: str, *, is_users: bool) -> str:
    """What is said beside an answer in the repository around a folder: the warning, and to the user the reminder."""
    place = locate(folder)
    if place is None:
        return ""
    found = read_unseen(place)
    return log_warning(found) + (reminder(found) if is_users else "")


def _event_files(folders: tuple[str, ...]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".jsonl"):
                        status = entry.stat(follow_symlinks=False)
                        found[entry.path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
