"""The files made from the ledger: their kinds, and what is asked of the folders they lie in."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from remand.ledger.store import Transaction


class Kind(StrEnum):
    """What a file is."""

    LOG = "orchestration log"
    MESSAGE = "message"
    TASK = "task"


class Files(Protocol):
    """The folders of the files, one for each kind."""

    def put(self, kind: Kind, name: str, text: str) -> None:
        """Makes a file say exactly this; one that begins with what is there is appended to."""

    def drop(self, kind: Kind, name: str) -> None:
        """Takes a file away, if it is there."""

    def names(self, kind: Kind) -> set[str]:
        """The names of the files of a kind."""

    def stamp(self) -> str:
        """Changes when a file comes or goes, whoever brings or takes it."""

    def seal(self) -> str:
        """The stamp of the folders as they are left, made so that the very next change will show."""


def is_in_step(view: Transaction, files: Files) -> bool:
    """True when the files are as the ledger has it, and nobody has taken one away."""
    return not view.outdated.every() and view.outdated.mark == files.stamp()
