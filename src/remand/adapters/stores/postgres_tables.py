"""The ledger's tables in PostgreSQL: what a change locks and reads ahead, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from itertools import chain, dropwhile, islice
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.adapters.stores import postgres_schema as own
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.postgres_statements import (
    OpenChange,
    PostgresStatements,
    TasksTaken,
    text_array,
)
from remand.adapters.stores.sqlite import SqliteOutdated, SqliteTransaction
from remand.adapters.stores.sqlite_events import (
    SEQ_BITS,
    SqliteEvents,
    SqliteGroups,
    SqliteUnconfirmed,
    event_row,
    known_groups,
    named_tasks,
)
from remand.adapters.stores.sqlite_queue import SqliteDependencies, SqliteQueue
from remand.adapters.stores.sqlite_schema import Row, Statements
from remand.adapters.stores.sqlite_tasks import SqliteNames, SqliteTasks, WaitingRow
from remand.app.tasks import queue
from remand.domain.access.team import Actor, name_key
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger.event_tables import EventEntry, SignedGroup
from remand.ledger.store import ChangeScope, LedgerHead

_HEAD = LedgerHead.__struct_fields__
_TASKS_AT_ONCE = 64
"""Of how many tasks a view reads the events at once."""


class PostgresEvents(SqliteEvents):
    """The events; the delay of the last one goes into the rows of the tasks that they change."""

    statements: PostgresStatements

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements)
        self._numbers = self.statements.known.sessions.copy()
        self._ahead: dict[str, list[bytes]] = {}
        """The events of tasks that a view has read at once."""

    def add(self, entries: Sequence[EventEntry]) -> None:
        if (change := self.statements.change) is not None and entries:
            change.latest = max(change.latest, *(entry.event.ts for entry in entries))
            change.written.update([entry.subject for entry in entries])
        super().add(entries)

    def _keep_waiting(self) -> None:
        if len(self._waiting) == 1:
            self._waiting = self._add_new(self._waiting)
        super()._keep_waiting()

    def _add_new(self, entries: Sequence[EventEntry]) -> list[EventEntry]:
        """Adds events that this change has numbered, all at once: no other change has those numbers."""
        session, last = self.statements.change.start if self.statements.change else ("", 0)
        if any(entry.event.meta.session != session or entry.event.meta.seq <= last for entry in entries):
            return super()._add_new(entries)
        start = self._number(session) << SEQ_BITS
        numbered = [(start | entry.event.meta.seq, entry) for entry in entries]
        self.statements.insert_new(sql.ADD_EVENT, [event_row(n, entry) for n, entry in numbered])
        self.follow(numbered)
        return []

    def of_task(self, task_id: str, beside: Collection[str] = ()) -> list[bytes]:
        change = self.statements.change
        if change is None and beside:
            return self._of_many(task_id, beside)
        if change is None or task_id in change.written:
            return super().of_task(task_id)
        if task_id not in change.lines:
            self.statements.read_stories(change, task_id)
        return change.lines[task_id]

    def _of_many(self, task_id: str, beside: Collection[str]) -> list[bytes]:
        """The lines of a task's events; a view reads those of several tasks at once."""
        if task_id not in self._ahead:
            following = dropwhile(lambda name: name != task_id, beside)
            names = list(dict.fromkeys((task_id, *islice(chain(following, beside), _TASKS_AT_ONCE))))
            self._ahead = {name: [] for name in names}
            for subject, line in self._db.all(own.EVENTS_OF_TASKS, (names,)):
                self._ahead[subject].append(line)
        return self._ahead[task_id]

    def keep_numbers(self) -> None:
        """Remembers the sessions' numbers for other changes, once they are committed."""
        self.statements.known.sessions |= self._numbers


class PostgresGroups(SqliteGroups):
    """The signed groups. Reads those of all locked tasks at once."""

    statements: PostgresStatements

    def add(self, groups: Iterable[SignedGroup]) -> None:
        if (change := self.statements.change) is not None:
            change.groups.clear()
        for group, line, doubt in groups:
            row = (group.session, group.first, group.last, sha256(line).digest(), doubt.value, line)
            self.statements.write_later(own.ADD_GROUP, (*row, text_array(named_tasks(group))))

    def rows_of_task(self, task_id: str) -> list[Row]:
        change = self.statements.change
        if change is None:
            return super().rows_of_task(task_id)
        if task_id not in change.groups:
            self.statements.read_stories(change, task_id)
        return change.groups[task_id]

    def group_rows(self, n: int) -> list[Row]:
        change = self.statements.change
        if change is None:
            return super().group_rows(n)
        if n not in change.group_rows:
            numbers = {
                row[0] for rows in change.groups.values() for row in rows if row[1] not in known_groups
            }
            rows = self._db.all(own.GROUPS_AT, (list(numbers | {n}),))
            change.group_rows |= {number: [(line, doubt)] for number, line, doubt in rows}
        return change.group_rows.pop(n, [])


class PostgresNames(SqliteNames):
    """Other names of tasks and people. A process caches people for a while."""

    statements: PostgresStatements
    _has_new = False

    def names_with_key(self, key: str) -> list[str]:
        known = self.statements.known.names
        found = known.get(key) or super().names_with_key(key)
        if found and not self._has_new:
            known[key] = found
        return found

    def note(self, names: Iterable[str]) -> None:
        new = [name for name in names if name and name not in self.names_with_key(name_key(name))]
        if new:
            self._has_new = True
            self.statements.known.names.clear()
            super().note(new)

    def is_new_handoff(self, name: str) -> bool:
        """Assumes that a handoff's id is new; writing it fails if not."""
        if self.statements.change is None:
            return super().is_new_handoff(name)
        self.statements.change.new_handoffs.add(name)
        return True


class PostgresUnconfirmed(SqliteUnconfirmed):
    """The events without effect. Each process signs with its own key, so it decides for itself whether that counts."""

    statements: PostgresStatements

    @property
    def writer(self) -> str:
        return self.statements.known.writer

    @writer.setter
    def writer(self, key: str) -> None:
        self.statements.known.writer = key


class PostgresOutdated(SqliteOutdated):
    """The tasks whose files differ from the ledger."""

    statements: PostgresStatements

    def has_notes(self) -> bool:
        return self.statements.has_outdated()


class PostgresDependencies(SqliteDependencies):
    """Who waits for whom. A change that searches or extends the graph holds it exclusively."""

    statements: PostgresStatements

    def path(self, source: str, target: str) -> tuple[str, ...]:
        self.statements.lock_graph()
        return super().path(source, target)


class PostgresTasks(SqliteTasks):
    """The tasks. A change locks a task before reading it."""

    statements: PostgresStatements

    def _read_state(self, task_id: str) -> Any:
        change = self.statements.change
        if change is None:
            return super()._read_state(task_id)
        if task_id not in change.locked:
            self.statements.lock_task(change, task_id)
        state, change.locked[task_id] = change.locked[task_id], None
        return super()._read_state(task_id) if state is None else state or None

    def _set_openings(self, task_id: str, *, is_there: bool) -> None:
        # They depend on a task and its neighbours in line, which another change may be about to move.
        self._db.run(own.LOCK_NAMES, ([own.LOCK_OF_OPENINGS],))
        super()._set_openings(task_id, is_there=is_there)

    def _keep_row(self, statement: str, row: WaitingRow) -> None:
        # The statements queue it.
        self._write_row(statement, row)

    def _keep_text(self, row: tuple[str, str, str]) -> None:
        self._db.run(sql.PUT_TEXT, row)

    def _link(self, task: Task, before: tuple[str, ...], waiters: list[str]) -> None:
        self.statements.lock_graph()
        super()._link(task, before, waiters)

    def _has_place(self, task: Task, waiters: list[str]) -> bool:
        if not task.is_terminal:
            self.statements.lock_graph()
        return super()._has_place(task, waiters)

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        super().replace_all(tasks, handoffs)
        for statement in (own.RESTART_NUMBERS, own.DROP_COUNTS, own.COUNT_AGAIN):
            self._db.run(statement)


_AHEAD = 32
"""How many more tasks are read than wanted: some may not suit, or be locked."""


class PostgresQueue(SqliteQueue):
    """The tasks that are ready.

    A claim takes an unlocked task, and waits for others only before it reports that there is none.
    """

    statements: PostgresStatements

    def next(self, agent: Actor, *, has_team: bool) -> str:
        change = self.statements.change
        if change is None:
            return self._search(agent, has_team)
        found = self._take_reserved(change, agent, has_team)
        if not found and self._reserve(change, agent, has_team):
            found = self._take_reserved(change, agent, has_team)
        return found

    def _take_reserved(self, change: OpenChange, agent: Actor, has_team: bool) -> str:
        for name, pool in change.reserved.items():
            if queue.is_suitable(pool, agent, has_team):
                del change.reserved[name]
                return name
        return ""

    def _reserve(self, change: OpenChange, agent: Actor, has_team: bool) -> bool:
        """Locks suitable tasks for all who want one; False if there is none, after waiting for other changes."""
        for statement in (own.TRY_READY, own.LOCK_READY):
            while found := self._suitable(change, agent, has_team):
                count = change.claims if statement == own.TRY_READY else 1
                rows = self._db.all(statement, (text_array(found), count))
                change.claims = max(1, change.claims - len(rows))
                for row in rows:
                    self.statements.note_locked(change, row)
                    change.reserved[row[0]] = found[row[0]]
                if rows:
                    return True
                if statement == own.TRY_READY:
                    break
        return False

    def _suitable(self, change: OpenChange, agent: Actor, has_team: bool) -> dict[str, queue.AgentPool]:
        """The first ready tasks that suit an agent, whether or not others have locked them."""
        rows = self._db.all(own.HEAD_OF_QUEUE, (_AHEAD + change.claims,))
        pools = {queue.task_of_rank(rank): queue.AgentPool(line, barred) for rank, line, barred in rows}
        found = {name: pool for name, pool in pools.items() if queue.is_suitable(pool, agent, has_team)}
        if not found and (name := self._search(agent, has_team)):
            found[name] = queue.AgentPool(*self._db.row(own.POOL_OF_TASK, (name,)) or ("", ""))
        return found

    def due(self, now: Instant) -> list[str]:
        change = self.statements.change
        if change is None:
            return self._db.column(sql.DUE, (now,))
        rows = self._db.all(own.TRY_DUE, (now,)) if self.statements.has_due(change, now) else []
        for row in rows:
            self.statements.note_locked(change, row)
        return [row[0] for row in rows]


class PostgresTransaction(SqliteTransaction):
    """One change, or one view, of the ledger. Its head is that of one session."""

    events_kind, groups_kind, names_kind = PostgresEvents, PostgresGroups, PostgresNames
    unconfirmed_kind, outdated_kind = PostgresUnconfirmed, PostgresOutdated
    tasks_kind, dependencies_kind, queue_kind = PostgresTasks, PostgresDependencies, PostgresQueue

    def __init__(
        self, statements: PostgresStatements, session: str, head: LedgerHead | None = None, failures: int = 0
    ) -> None:
        super().__init__(statements)
        self.statements = statements
        self.failures_before = failures
        """How many changes of this process had failed by then while they were committed."""
        self._session = session
        self._head = self._before = head
        if head is not None:
            self._note_start(head)
        self.on_decided: Callable[[], None] = lambda: None

    @property
    def head(self) -> LedgerHead:
        """The session's head; its clock is after everything that the change has read."""
        if self._head is None:
            values = self._db.row(own.GET_HEAD, (self._session,)) or (self._session, *NEW_HEAD[1:])
            self._head = self._before = LedgerHead(**dict(zip(_HEAD, values, strict=True)))
            self._note_start(self._head)
        change = self.statements.change
        if change is not None and change.clock > self._head.clock:
            self._head = replace(self._head, clock=change.clock)
        return self._head

    @head.setter
    def head(self, head: LedgerHead) -> None:
        self.head  # noqa: B018 - what it was is compared with when it is written
        self._head, self._changed = head, True

    def _note_start(self, head: LedgerHead) -> None:
        if self.statements.change is not None:
            self.statements.change.start = (head.session, head.seq)

    def prepare(self, scope: ChangeScope, on_decided: Callable[[], None]) -> None:
        self.on_decided = on_decided
        self.statements.prepare(scope)

    def keep_numbers(self) -> None:
        """Remembers the numbers of sessions once the change is committed."""
        if isinstance(self.events, PostgresEvents):
            self.events.keep_numbers()

    @property
    def has_events(self) -> bool:
        """True if the change has events."""
        return self._before is not None and self.head.tip != self._before.tip

    @property
    def first_session(self) -> str:
        """The session with which the change began; it may have begun another."""
        return self._before.session if self._before else self._session

    def fence_writers(self) -> None:
        if self.statements.change is not None and self.statements.change.is_ahead:
            raise TasksTaken(set())  # others wait for what this change has locked, and it would wait for them
        self.head  # noqa: B018 - it is read before it is changed
        # Wait for changes under way: each has locked tasks that this one may need, and moves its head last.
        self._db.run(own.LOCK_CHANGES)
        self._db.run(own.LOCK_HEADS)
        self._db.run(own.FENCE_HEADS)
        if self._head is not None and self._before is not None:
            self._before = replace(self._before, changed=self._before.changed + 1)
            self.head = replace(self._head, changed=self._head.changed + 1)

    def write_rows(self) -> None:
        """Writes the rows that were queued until the end."""
        self.statements.settle()

    def move_head(self) -> None:
        """Moves the session's head, at the latest with the commit.

        Raises SessionTaken if the head was not where the change began; the commit fails then.
        """
        before, head = self._before, self._head
        if not self._changed or head is None or before is None:
            return
        values = msgspec.structs.astuple(head)
        if before.seq:
            self.statements.write_later(own.MUST_MOVE_HEAD, (*values, *_guard(before)))
        elif not self._db.try_change(own.MOVE_HEAD, (*values, *_guard(before))) and not self._db.try_change(
            own.ADD_HEAD, values
        ):
            raise SessionTaken(before.session)
        self._changed = False


NEW_HEAD = msgspec.structs.astuple(LedgerHead(session=""))


def _guard(head: LedgerHead) -> tuple[str, int, str, int]:
    """The state of a session that a change expects when it continues."""
    return (head.session, head.seq, head.tip, head.changed)


class SessionTaken(Exception):  # noqa: N818 - it is what has happened
    """Another process continues this session, or its previous change was rolled back."""
