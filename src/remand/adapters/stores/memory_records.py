"""What a ledger in memory knows of the files that are made from it."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.stores.memory_state import Table
from remand.ledger.record_tables import LogLine


class MemoryOutdated(Table):
    """The tasks whose files are not as the ledger has it."""

    @property
    def mark(self) -> str:
        """How the folders were left."""
        return self._state.folders

    @mark.setter
    def mark(self, text: str) -> None:
        self._state.folders = text

    def note(self, task_id: str = "") -> None:
        self._state.outdated.add(task_id)

    def every(self) -> list[str]:
        return sorted(self._state.outdated)

    def clear(self) -> None:
        self._state.outdated.clear()


class MemoryLogLines(Table):
    """The lines of the orchestration log."""

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        before = [key for key in self._state.log_lines if key[1] == task_id]
        for key in before:
            del self._state.log_lines[key]
        self._state.log_lines |= {(line.place, task_id): line.text for line in lines}
        return {place[:10] for place, _ in before} | {line.place[:10] for line in lines}

    def day(self, day: str) -> list[str]:
        return [text for (place, _), text in sorted(self._state.log_lines.items()) if place[:10] == day]

    def days(self) -> list[str]:
        return sorted({place[:10] for place, _ in self._state.log_lines})

    def clear(self) -> None:
        self._state.log_lines.clear()
