"""The folder `.got`: what is written there besides events and the ledger's own file."""

from __future__ import annotations

import os

from remand.adapters.git.location import ROOT_NOTE, LedgerLocation
from remand.adapters.system.files import atomic_write
from remand.app.errors import EnvironmentFault

IGNORED = "# Everything here is made from the events, and can be made again.\n*\n!.gitignore\n!.gitattributes\n!events/\n!events/**\n"
_MAX_ID = 4096
ATTRIBUTES = "# Event files keep their bytes, whatever the platform.\nevents/*.jsonl -text\n"
OWN_FILES = {".got/.gitignore": IGNORED.encode(), ".got/.gitattributes": ATTRIBUTES.encode()}
"""What Remand writes into its folder, besides events, for git to track."""


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
            f"{path} cannot be written ({error.strerror}). Fix that, then repeat."
        ) from None


def note_ledger_id(place: LedgerLocation, ledger_id: str) -> None:
    """Writes the ledger's id to a small file, which is read without opening the ledger."""
    path = os.path.join(place.got, "ledger.id")
    try:
        with open(path, encoding="utf-8") as file:
            known = file.read(_MAX_ID)
    except (OSError, UnicodeDecodeError):
        known = ""
    if known != ledger_id:
        _write_atomically(path, ledger_id)
