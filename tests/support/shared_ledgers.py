"""Several writers of one ledger in PostgreSQL, and what must hold of the log that they have written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitIndex
from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.segments import NoSegments
from remand.adapters.system.machine import RandomIds, SystemClock
from remand.app.group_commit import SharedLedger
from remand.app.ledger import Ledger
from remand.app.requests import Rules
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.tasks import HandoffInitiated, TaskClaimed
from remand.domain.evolve import evolve
from remand.domain.ids import make_session_name
from remand.domain.instant import Instant, add_seconds
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import order_key
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger

Result = TypeVar("Result")


class SharedFakeLedger(FakeLedger):
    """One of several writers of a ledger in PostgreSQL, with a session of its own; its clock may be behind those of others."""

    store: PostgresStore

    def __init__(self, url: str, *, behind: float = 0.0, rules: Rules = Rules(gates=())) -> None:  # noqa: B008 - a frozen value
        self._clock, self._ids = _LateClock(behind), RandomIds()
        keys = FakeKeys("machine")
        session = make_session_name(self._clock.now(), self._ids.hex())
        store = PostgresStore(url, session, lambda: keys.ensure_key().id)
        super().__init__(store=store, keys=keys, rules=rules)

    def reopen(self) -> Ledger:
        files = NoSegments(("",), "", GitIndex(LedgerLocation(root="", worktree="")), self._clock, self._ids)
        self.ledger = SharedLedger(
            store=self.store,
            exchange=files,
            writer=files,
            segment=files,
            clock=self._clock,
            ids=self._ids,
            repository=self.repository,
            marks=self.marks,
            keys=self.keys,
            rules=lambda: self.rules,
        )
        return self.ledger


class _LateClock(SystemClock):
    def __init__(self, behind: float) -> None:
        super().__init__()
        self._behind = behind

    def now(self) -> Instant:
        return add_seconds(super().now(), -self._behind)


def run_together(*calls: Callable[[], Result]) -> list[Result]:
    """What calls return that begin at the same time, each in a thread."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def require_sound_log(store: PostgresStore) -> list[Event]:
    """Fails when the log, replayed in its order, has an event that cannot apply, or does not lead to what the tables say."""
    with store.write() as tx:
        events = sorted(map(codec.decode_stored_line, tx.events.lines()), key=order_key)
        folded: dict[str, Task] = {}
        handoffs: dict[str, str] = {}
        for event in events:
            name = event_task_id(event)
            after = evolve(folded.get(name), event) if name else None
            if after is not None:
                folded[name] = after
            if isinstance(event, TaskClaimed | HandoffInitiated):
                handoffs.setdefault(event.handoff_id, name)
        assert [task.id for task in folded.values() if task.inbox.conflicts] == []
        assert list(tx.audit.task_differences(folded, handoffs)) == []
        for session in {event.meta.session for event in events}:
            lines = [codec.decode_stored_line(line).meta for line in tx.events.lines(session)]
            assert [meta.seq for meta in lines] == list(range(1, len(lines) + 1))
            assert [meta.prev for meta in lines[1:]] == [meta.id for meta in lines[:-1]]
    return events
