"""What the ledger asks of a store about the files that it writes for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LogLine(NamedTuple):
    """A line of the orchestration log, and where it stands: its time first, whatever else tells it apart after."""

    place: str
    text: str


class Outdated(Protocol):
    """The tasks whose files are not as the ledger has it."""

    mark: str
    """How the folders of those files were left; empty when they were never written."""

    def note(self, task_id: str = "") -> None:
        """Has a task's files made again; without a task, all files."""

    def every(self) -> list[str]:
        """The tasks that were noted; the empty name stands for all."""

    def clear(self) -> None:
        """Forgets them: the files are as the ledger has it."""


class LogLines(Protocol):
    """The lines of the orchestration log, each known by its task and its place."""

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        """Replaces a task's lines; the days that had or have one of them."""

    def day(self, day: str) -> list[str]:
        """The lines of a day, in their order."""

    def days(self) -> list[str]:
        """The days that have lines."""

    def clear(self) -> None:
        """Throws all lines away."""
