"""What a ledger in memory holds."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from remand.domain.instant import Instant
from remand.domain.missing import MissingLines
from remand.domain.task import Task
from remand.ledger.missing_tables import RewrittenLine
from remand.ledger.problems import Problem
from remand.ledger.store import Entry, FileMark, Head, SignedGroup, Unconfirmed
from remand.ledger.traces import Trace


class Standing(NamedTuple):
    """How a task stands in the queue."""

    due: Instant | None
    rank: str | None
    pool: str


class State:
    """Everything the ledger holds. What stands in the tables is never changed, only replaced."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.ids: set[str] = set()
        self.events: dict[tuple[str, int, int], Entry] = {}
        self.of_task: dict[str, tuple[Entry, ...]] = {}
        self.groups: dict[tuple[str, int, bytes], SignedGroup] = {}
        self.unconfirmed: dict[str, Unconfirmed] = {}
        self.trust = ""
        self.writer = ""
        self.missing: dict[tuple[str, int, str], MissingLines] = {}
        self.faults: set[tuple[str, int, str]] = set()
        """Which of the missing lines are faults."""
        self.rewritten: set[RewrittenLine] = set()
        self.looked_at = ""
        self.traces: list[Trace] = []
        self.handoffs: dict[str, str] = {}
        self.tasks: dict[str, Task] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.names: dict[str, frozenset[str]] = {}
        """Everyone with a part in a task, by the keys of their names."""
        self.standings: dict[str, Standing] = {}
        self.positions: dict[str, int] = {}
        self.waiters: dict[str, tuple[str, ...]] = {}
        self.void: set[tuple[str, str]] = set()
        """Who does not wait for whom after all, because the two waited for each other in a circle."""
        self.rejected: dict[str, frozenset[str]] = {}
        """The words of each rejected task."""
        self.marks: dict[str, FileMark] = {}
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self.quarantine: dict[str, tuple[Instant, bytes]] = {}
        self.outdated: set[str] = set()
        self.folders = ""
        self.log_lines: dict[tuple[str, str], str] = {}
        """The lines of the orchestration log by their places and tasks."""

    def draft(self) -> State:
        """A copy to change."""
        drafted = copy(self)
        vars(drafted).update((name, copy(value)) for name, value in vars(self).items())
        return drafted


class Table:
    """A part of the state; what its methods promise stands in `ledger/store.py`."""

    def __init__(self, state: State) -> None:
        self._state = state
