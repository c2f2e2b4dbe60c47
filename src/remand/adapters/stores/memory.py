"""A ledger in memory: gone with its process, and in everything else like the embedded one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice
from typing import NamedTuple

from remand.app import ready, waiting
from remand.app.similar import richest, was_rejected
from remand.app.words import all_words_of
from remand.domain.events import Event, HandoffInitiated, TaskClaimed
from remand.domain.instant import Instant
from remand.domain.roles import Actor
from remand.domain.task import Task
from remand.ledger.filings import Filing, filings
from remand.ledger.order import place
from remand.ledger.problems import Problem
from remand.ledger.store import (
    Entry,
    EventLog,
    FileBook,
    FileMark,
    Head,
    Queue,
    RejectedTasks,
    TaskTable,
    TraceTable,
)
from remand.ledger.traces import FILED, INVALID, Trace, trace

REJECTIONS = (FILED, INVALID)


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
        self.traces: list[Trace] = []
        self.handoffs: dict[str, str] = {}
        self.tasks: dict[str, Task] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
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

    def draft(self) -> State:
        """A copy to change."""
        drafted = copy(self)
        vars(drafted).update((name, copy(value)) for name, value in vars(self).items())
        return drafted


class _Table:
    """A part of the state; what its methods promise stands in `ledger/store.py`."""

    def __init__(self, state: State) -> None:
        self._state = state


class MemoryEvents(_Table):
    """The events. Those of one session stand together, in their order."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Keeps the events that are not kept yet, their traces, and which task each handoff belongs to."""
        state = self._state
        for entry in entries:
            event, task = entry.event, entry.subject
            if event.meta.id in state.ids:
                continue
            state.ids.add(event.meta.id)
            state.events[self._free_place(event)] = entry
            if task:
                state.of_task[task] = (*state.of_task.get(task, ()), entry)
            if task and isinstance(event, TaskClaimed | HandoffInitiated):
                state.handoffs.setdefault(event.handoff_id, task)
            left = trace(event, task)
            if left:
                state.traces.append(left)

    def _free_place(self, event: Event) -> tuple[str, int, int]:
        """Its session, the fork of it, and the event's number in that."""
        if event.is_legacy:
            return ("", 0, len(self._state.events))
        fork = 0
        while (number := (event.meta.session, fork, event.meta.seq)) in self._state.events:
            fork += 1
        return number

    def count(self) -> int:
        return len(self._state.events)

    def of_task(self, task_id: str) -> list[bytes]:
        return [entry.line for entry in self._state.of_task.get(task_id, ())]

    def of_key(self, key: str) -> list[bytes]:
        entries = (entry for _, entry in sorted(self._state.events.items()))
        return [entry.line for entry in entries if key and entry.event.meta.key == key]

    def lines(self, session: str = "", first: int = 0) -> Iterator[bytes]:
        """Every line, session by session; with a session, its own from that number on."""
        for (name, fork, number), entry in sorted(self._state.events.items()):
            if not session or (name == session and not fork and number >= first):
                yield entry.line

    def tail(self, count: int) -> list[bytes]:
        latest = sorted(self._state.events.values(), key=lambda entry: place(entry.event))
        return [entry.line for entry in latest[-count:]]


class MemoryTraces(_Table):
    """The events about rejections, in brief."""

    def filings(self, since: Instant) -> Iterator[Filing]:
        handoffs = self._state.handoffs
        return filings(self._state.traces, lambda handoff: handoffs.get(handoff, ""), since)

    def every(self, *events: str) -> Iterator[Trace]:
        return (trace for trace in self._state.traces if trace.event in events)

    def of_agent(self, agent: str, most: int) -> list[Trace]:
        filed = [found for found in self._state.traces if found.agent == agent and found.event in REJECTIONS]
        return sorted(filed, key=lambda found: found.ts, reverse=True)[:most]

    def latest(self, most: int) -> list[Trace]:
        filed = [found for found in self._state.traces if found.event in REJECTIONS]
        return filed[::-1][:most]

    def replace_all(self, traces: Iterable[Trace]) -> None:
        self._state.traces = list(traces)


class MemoryWaiting(_Table):
    """Who waits for whom, with positions."""

    def position(self, task: str) -> int | None:
        return self._state.positions.get(task) if self._is_open(task) else None

    def blockers(self, task: str) -> waiting.Neighbours:
        positions, void = self._state.positions, self._state.void
        names = (name for name in self._state.tasks[task].blockers if (task, name) not in void)
        return [(name, positions[name]) for name in names if self._is_open(name)]

    def waiters(self, task: str) -> waiting.Neighbours:
        positions, void = self._state.positions, self._state.void
        names = (name for name in self._state.waiters[task] if (name, task) not in void)
        return [(name, positions[name]) for name in names if self._is_open(name)]

    def _is_open(self, name: str) -> bool:
        task = self._state.tasks.get(name)
        return task is not None and not task.is_terminal

    def move(self, task: str, position: int) -> None:
        self._state.positions[task] = position


class MemoryQueue(_Table):
    """The ready set, read from how the tasks stand."""

    def next(self, agent: Actor, *, has_team: bool) -> str:
        standings = (at for at in self._state.standings.values() if ready.suits(at.pool, agent, has_team))
        return ready.ranked(min((at.rank for at in standings if at.rank is not None), default=""))

    def due(self, now: Instant) -> list[str]:
        found = [(at.due, name) for name, at in self._state.standings.items() if at.due is not None]
        return [name for due, name in sorted(found) if due <= now]

    def ready(self) -> list[str]:
        ranks = (standing.rank for standing in self._state.standings.values())
        return [ready.ranked(rank) for rank in sorted(rank for rank in ranks if rank is not None)]

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        tasks, void = self._state.tasks, self._state.void
        names = dict.fromkeys(tasks[task_id].blockers) if task_id in tasks else ()
        waited = (name for name in names if (task_id, name) not in void)
        return tuple(name for name in waited if name not in tasks or not tasks[name].is_terminal)

    def path(self, source: str, target: str) -> tuple[str, ...]:
        return waiting.path(MemoryWaiting(self._state), source, target)


class MemoryRejected(_Table):
    """The tasks that were rejected, by their words."""

    def count(self) -> int:
        return len(self._state.rejected)

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        found = {word: len(self._having(word, self.count())) for word in words}
        return {word: count for word, count in found.items() if count}

    def sharing(self, weights: Mapping[str, float], most: int) -> list[Task]:
        names = richest(weights, self.counts(weights), self._having, most)
        return [self._state.tasks[name] for name in names]

    def _having(self, word: str, most: int) -> list[str]:
        names = (name for name, words in reversed(self._state.rejected.items()) if word in words)
        return list(islice(names, most))


class MemoryTasks(_Table):
    """The tasks and what follows from them."""

    def get(self, task_id: str) -> Task | None:
        return self._state.tasks.get(task_id)

    def put(self, task: Task) -> None:
        """Keeps a task, and brings everything that follows from it up to date."""
        before = self.get(task.id)
        self._state.tasks[task.id] = task
        self._rename(task, before.aliases if before else ())
        self._link(task, before)
        self._stand(task)
        self._state.rejected.pop(task.id, None)
        if was_rejected(task):
            self._state.rejected[task.id] = frozenset(all_words_of(task))
        if before is None or before.is_terminal != task.is_terminal:
            for name in self._state.waiters[task.id]:
                self._stand(self._state.tasks[name])
            if before is not None and (before.is_terminal or self._state.void):
                self._order_anew()

    def _stand(self, task: Task) -> None:
        blockers = MemoryQueue(self._state).open_blockers(task.id)
        self._state.standings[task.id] = Standing(
            ready.due(task, blockers), ready.rank(task, blockers), ready.pool(task)
        )

    def _rename(self, task: Task, before: tuple[str, ...]) -> None:
        aliases = self._state.aliases
        for alias in before:
            aliases[alias] = tuple(name for name in aliases[alias] if name != task.id)
        for alias in task.aliases:
            aliases[alias] = tuple(sorted({*aliases.get(alias, ()), task.id}))

    def _link(self, task: Task, before: Task | None) -> None:
        """Takes over what the task waits for. A new task may be waited for already."""
        waiters, void = self._state.waiters, self._state.void
        old, new = set(before.blockers if before else ()), set(task.blockers)
        for name in old - new:
            waiters[name] = tuple(other for other in waiters[name] if other != task.id)
        for name in new - old:
            waiters[name] = (*waiters.get(name, ()), task.id)
        came = [(task.id, name) for name in task.blockers if name not in old]
        if before is None:
            self._state.positions[task.id] = len(self._state.positions) + 1
            came += [(name, task.id) for name in waiters.setdefault(task.id, ())]
        if (void and (came or old - new)) or not all(self._has_room(*pair) for pair in came):
            self._order_anew()

    def _has_room(self, waiter: str, blocker: str) -> bool:
        """Takes one dependency into the order; false when it closes a circle."""
        graph = MemoryWaiting(self._state)
        if waiting.path(graph, blocker, waiter):
            return False
        waiting.make_room(graph, waiter, blocker)
        return True

    def _order_anew(self) -> None:
        """Orders all tasks, so that it does not matter which dependency of a circle came last."""
        state = self._state
        order, void = waiting.topological(waiting.open_blockers(state.tasks))
        state.positions = {name: position for position, name in enumerate(order, 1)}
        changed, state.void = void ^ state.void, void
        for name, _ in changed:
            self._stand(state.tasks[name])

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        state = self._state
        state.handoffs = dict(handoffs)
        tables = (state.tasks, state.aliases, state.standings, state.positions, state.waiters, state.rejected)
        for table in tables:
            table.clear()
        state.void.clear()
        for task in tasks:
            self.put(task)
        self._order_anew()

    def named(self, name: str) -> str:
        """The task an alias or a handoff belongs to; of several tasks with one alias, the oldest."""
        return next(iter(self._state.aliases.get(name, ())), "") or self._state.handoffs.get(name, "")

    def every(self) -> Iterator[Task]:
        return (self._state.tasks[name] for name in sorted(self._state.tasks))

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        tasks = self._state.tasks
        return {name: tasks[name].status.value for name in names if name in tasks}


class MemoryFiles(_Table):
    """Which event files were read, and what was wrong with them."""

    def marks(self) -> dict[str, FileMark]:
        return self._state.marks.copy()

    def note(self, mark: FileMark, problems: Sequence[Problem]) -> None:
        self._state.marks[mark.path] = mark
        self._state.problems[mark.path] = tuple(problems)

    def problems(self) -> list[Problem]:
        return [problem for path in sorted(self._state.problems) for problem in self._state.problems[path]]

    def hold_back(self, event: Event, line: bytes) -> None:
        self._state.quarantine.setdefault(event.meta.id, (event.ts, line))

    def earliest_held(self) -> Instant:
        return min((ts for ts, _ in self._state.quarantine.values()), default="")

    def ripe(self, horizon: Instant) -> list[bytes]:
        quarantine = self._state.quarantine
        names = [name for name, (ts, _) in quarantine.items() if ts <= horizon]
        return [quarantine.pop(name)[1] for name in names]


class MemoryTransaction:
    """One change, or one view, of the ledger."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.head = state.head
        self.undos: list[Callable[[], None]] = []
        self.events: EventLog = MemoryEvents(state)
        self.traces: TraceTable = MemoryTraces(state)
        self.tasks: TaskTable = MemoryTasks(state)
        self.queue: Queue = MemoryQueue(state)
        self.rejected: RejectedTasks = MemoryRejected(state)
        self.files: FileBook = MemoryFiles(state)

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self.undos.append(undo)


class MemoryStore:
    """A ledger of this process. A change is made on a copy, which then takes the place of what was."""

    def __init__(self, session: str) -> None:
        self._state = State(Head(session=session))
        self._lock = threading.Lock()

    @contextmanager
    def write(self) -> Iterator[MemoryTransaction]:
        """Opens a change, alone among all writers."""
        with self._lock:
            transaction = MemoryTransaction(self._state.draft())
            try:
                yield transaction
            except BaseException:
                for undo in reversed(transaction.undos):
                    undo()
                raise
            transaction.state.head = transaction.head
            self._state = transaction.state

    @contextmanager
    def read(self) -> Iterator[MemoryTransaction]:
        """Opens a view of one moment."""
        yield MemoryTransaction(self._state)
