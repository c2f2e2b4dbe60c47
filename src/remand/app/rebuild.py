"""Making every table anew from the events alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from remand.domain.events import Event, HandoffInitiated, TaskClaimed, subject
from remand.domain.evolve import evolve, replay
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.store import Transaction
from remand.ledger.traces import TRACED, Trace, trace


def story(tx: Transaction, task_id: str) -> list[Event]:
    """A task's events in their order."""
    return sorted(map(codec.recall, tx.events.of_task(task_id)), key=place)


def refold(tx: Transaction, task_id: str) -> Task | None:
    """A task folded from all its events."""
    return replay(story(tx, task_id))


_HANDING = frozenset({TaskClaimed, HandoffInitiated})


class Fold:
    """Folds events into tasks as they pass by.

    One session's events pass in their order. A task that more than one session wrote to, or whose events
    came out of order, is tangled: it is folded again from its own events, put in order.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Task | None] = {}
        self.handoffs: dict[str, str] = {}
        self._session_of: dict[str, str] = {}
        self._reach: dict[str, tuple[int, Instant]] = {}
        self._ts: Instant = ""
        self._session = ""
        self._seq = 0
        self._is_behind = False
        self._tangled: set[str] = set()

    def add(self, event: Event, task_id: str) -> None:
        """Takes one event into account."""
        meta = event.meta
        session = meta.session
        if session != self._session or meta.seq <= self._seq:
            self._turn_to(session, meta.seq)
        self._seq = meta.seq
        is_behind = self._is_behind or event.ts < self._ts
        self._ts = self._ts if is_behind else event.ts
        if is_behind or self._session_of.setdefault(task_id, session) != session:
            self._tangled.add(task_id)
        self.tasks[task_id] = evolve(self.tasks.get(task_id), event)
        if type(event) in _HANDING:
            self.handoffs.setdefault(event.handoff_id, task_id)  # type: ignore[attr-defined]

    def _turn_to(self, session: str, seq: int) -> None:
        """Another session's events follow, or this one's begin again."""
        reach, _ = self._reach.get(self._session, (0, ""))
        self._reach[self._session] = (max(self._seq, reach), self._ts)
        reach, self._ts = self._reach.get(session, (0, ""))
        self._session = session
        self._is_behind = seq <= reach

    def outcome(self, tx: Transaction) -> dict[str, Task]:
        """The tasks, by id."""
        for name in self._tangled:
            self.tasks[name] = refold(tx, name)
        return {name: task for name, task in self.tasks.items() if task is not None}

    def finish(self, tx: Transaction) -> None:
        """Replaces the tables by the outcome."""
        tx.tasks.replace_all(self.outcome(tx).values(), self.handoffs.items())
        tx.outdated.note()


def rebuild(tx: Transaction) -> None:
    """Folds all events but the unconfirmed, and replaces the tables by the outcome."""
    fold = Fold()
    traces: list[Trace | None] = []
    withheld = {found.event_id for found in tx.unconfirmed.every()}
    with uncollected():
        for line in tx.events.lines():
            event = codec.recall(line)
            if event.meta.id in withheld:
                continue
            name = subject(event)
            if name:
                fold.add(event, name)
            if type(event) in TRACED:
                traces.append(trace(event, name))
        fold.finish(tx)
        tx.traces.replace_all(left for left in traces if left)
        assign_imported(tx)


def assign_imported(tx: Transaction) -> None:
    """Finds the tasks of imported lines that name a handoff alone, whichever of the two was read first."""

    def task_of(line: bytes) -> str:
        event = codec.recall(line)
        handoff_id = getattr(event, "handoff_id", "")
        return subject(event) or (tx.tasks.named(handoff_id) if handoff_id else "")

    tx.events.assign(task_of)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keeps the garbage collector out of work that makes many objects and no circles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
