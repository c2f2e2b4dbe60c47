"""What the ledger asks of a store about lines that are missing, or gone from published files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from remand.domain.missing import MissingLines


class MissingTable(Protocol):
    """The lines of the log that are known to be missing and were not given up (`app/missing`)."""

    def replace(self, session: str, lines: Iterable[MissingLines]) -> None:
        """Keeps these as what is missing of a session, in place of what was."""

    def drop(self, ids: Iterable[str]) -> None:
        """Forgets events that have come."""

    def of_session(self, session: str) -> list[MissingLines]:
        """What is missing of a session, by its numbers."""

    def every(self) -> list[MissingLines]:
        """All that is missing, session by session."""

    def concerning(self, tasks: Collection[str]) -> list[MissingLines]:
        """What is missing of one of these tasks, or of nobody knows which."""

    def tell_apart(self) -> None:
        """Finds out which of them are faults: the others are lines of tasks of which nothing is here."""

    def faults(self) -> list[MissingLines]:
        """Those that are faults."""


class RewrittenLine(NamedTuple):
    """A line that a published event file had once, and has no more or not as it was."""

    commit: str
    """The commit on the base that took it away; empty when only the file here lacks it."""
    file: str
    line: int
    hash: str
    """What tells the line from others."""


class RewrittenTable(Protocol):
    """Published lines that are gone from their files, and how far the base's history was looked at."""

    looked_at: str
    """The ref of the base and its commit then; empty when nothing was looked at."""

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        """Keeps lines that were found."""

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        """Forgets lines that are there again, or were given up."""

    def every(self) -> list[RewrittenLine]:
        """All of them, by file and line."""
