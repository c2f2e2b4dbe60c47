"""What a ledger in memory knows to be missing, or gone from published files."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from remand.adapters.stores.memory_state import Table
from remand.domain.missing import MissingLines
from remand.ledger.missing_tables import RewrittenLine
from remand.ledger.signatures import IMPORT


class MemoryMissing(Table):
    """The lines of the log that are known to be missing."""

    def replace(self, session: str, lines: Iterable[MissingLines]) -> None:
        state = self._state
        others = {at: one for at, one in state.missing.items() if one.session != session}
        state.missing = others | {(one.session, one.first, one.id): one for one in lines}
        state.faults = state.faults & state.missing.keys()

    def drop(self, ids: Iterable[str]) -> None:
        gone = set(ids) - {""}
        self._state.missing = {at: one for at, one in self._state.missing.items() if one.id not in gone}
        self._state.faults = self._state.faults & self._state.missing.keys()

    def of_session(self, session: str) -> list[MissingLines]:
        return [one for one in self.every() if one.session == session]

    def every(self) -> list[MissingLines]:
        return [one for _, one in sorted(self._state.missing.items())]

    def concerning(self, tasks: Collection[str]) -> list[MissingLines]:
        return [one for one in self.every() if not one.task or one.task in tasks]

    def tell_apart(self) -> None:
        state = self._state
        state.faults = {
            at
            for at, one in state.missing.items()
            if not one.task
            or one.session == state.head.session
            or one.session.startswith(IMPORT)
            or state.of_task.get(one.task)
        }

    def faults(self) -> list[MissingLines]:
        return [one for at, one in sorted(self._state.missing.items()) if at in self._state.faults]


class MemoryRewritten(Table):
    """Published lines that are gone from their files."""

    @property
    def looked_at(self) -> str:
        """The ref of the base and its commit when its history was looked at."""
        return self._state.looked_at

    @looked_at.setter
    def looked_at(self, text: str) -> None:
        self._state.looked_at = text

    def add(self, lines: Iterable[RewrittenLine]) -> None:
        self._state.rewritten = self._state.rewritten | set(lines)

    def drop(self, lines: Iterable[RewrittenLine]) -> None:
        self._state.rewritten = self._state.rewritten - set(lines)

    def every(self) -> list[RewrittenLine]:
        return sorted(self._state.rewritten, key=lambda one: (one.file, one.line))
