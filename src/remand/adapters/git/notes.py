"""What is remembered of a workplace from one run to the next."""

from __future__ import annotations

import os

import msgspec

from remand.adapters.git.below import read_below
from remand.domain.record import Record

_MAX_NOTE = 1 << 16


class Note(Record, kw_only=True):
    """What a workplace was when we last had a hand in it."""

    branch: str = ""
    tip: str = ""
    """Where the branch was; the index says the same."""
    moved: str = ""
    """What was checked out or committed in the worktree last, by git's own log."""
    begun: str = ""
    """The branch that we made ourselves, behind the commit at which we did."""


def read_note(folder: str) -> Note:
    """The note in a folder; an empty one when there is none that can be read."""
    try:
        return msgspec.json.decode(read_below(folder, "note", _MAX_NOTE) or b"", type=Note)
    except msgspec.DecodeError:
        return Note()


def write_note(folder: str, note: Note) -> None:
    """Writes the note of a folder, at a stroke."""
    draft = os.path.join(folder, "note.new")
    with open(draft, "wb") as file:
        file.write(msgspec.json.encode(note))
    os.replace(draft, os.path.join(folder, "note"))
