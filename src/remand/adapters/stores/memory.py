"""A ledger in memory: gone with its process, and otherwise like the embedded one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from remand.adapters.stores.memory_events import (
    MemoryEvents,
    MemoryGroups,
    MemoryObjections,
    MemoryState,
    MemoryTable,
    MemoryTraces,
    MemoryUnconfirmed,
    QueueState,
)
from remand.app.tasks import queue
from remand.app.tasks.lookup import participants
from remand.app.tasks.similarity import all_words_of, best_matches, was_rejected
from remand.domain.access.team import Actor, lookup_keys
from remand.domain.decisions.forge_actions import due_kinds
from remand.domain.events.event import Event
from remand.domain.events.log import MissingLines
from remand.domain.instant import Instant
from remand.domain.task import Status, Task
from remand.ledger.event_tables import (
    EventTable,
    FileMark,
    FileTable,
    GroupTable,
    MissingTable,
    ObjectionTable,
    RewrittenLine,
    RewrittenTable,
    TraceTable,
    UnconfirmedTable,
)
from remand.ledger.problems import Problem, TableDifference
from remand.ledger.signatures import IMPORT
from remand.ledger.store import (
    LedgerHead,
    LogLine,
    LogLineTable,
    NameTable,
    OutdatedTasks,
    ReadyQueue,
    RejectedTaskTable,
    TaskTable,
)


class MemoryMissing(MemoryTable):
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

    def of_tasks(self, tasks: Collection[str]) -> list[MissingLines]:
        return [one for one in self.every() if not one.task or one.task in tasks]

    def mark_faults(self) -> None:
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


class MemoryRewritten(MemoryTable):
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


class MemoryOutdated(MemoryTable):
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


class MemoryLogLines(MemoryTable):
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


class MemoryWaiting(MemoryTable):
    """Who waits for whom, with positions."""

    def position(self, task: str) -> int | None:
        return self._state.positions.get(task) if self._is_open(task) else None

    def blockers(self, task: str) -> queue.Neighbours:
        positions, void = self._state.positions, self._state.void
        names = (name for name in self._state.tasks[task].blockers if (task, name) not in void)
        return [(name, positions[name]) for name in names if self._is_open(name)]

    def waiters(self, task: str) -> queue.Neighbours:
        positions, void = self._state.positions, self._state.void
        names = (name for name in self._state.waiters[task] if (name, task) not in void)
        return [(name, positions[name]) for name in names if self._is_open(name)]

    def _is_open(self, name: str) -> bool:
        task = self._state.tasks.get(name)
        return task is not None and not task.is_terminal

    def move(self, task: str, position: int) -> None:
        self._state.positions[task] = position


class MemoryQueue(MemoryTable):
    """The ready set, read from how the tasks stand."""

    def next(self, agent: Actor, *, has_team: bool) -> str:
        standings = (
            at for at in self._state.standings.values() if queue.is_suitable(at.pool, agent, has_team)
        )
        return queue.task_of_rank(min((at.rank for at in standings if at.rank is not None), default=""))

    def due(self, now: Instant) -> list[str]:
        found = [(at.due, name) for name, at in self._state.standings.items() if at.due is not None]
        return [name for due, name in sorted(found) if due <= now]

    def ready(self) -> list[str]:
        ranks = (standing.rank for standing in self._state.standings.values())
        return [queue.task_of_rank(rank) for rank in sorted(rank for rank in ranks if rank is not None)]

    def open_blockers(self, task_id: str) -> tuple[str, ...]:
        tasks, void = self._state.tasks, self._state.void
        names = dict.fromkeys(tasks[task_id].blockers) if task_id in tasks else ()
        waited = (name for name in names if (task_id, name) not in void)
        return tuple(name for name in waited if name not in tasks or not tasks[name].is_terminal)

    def path(self, source: str, target: str) -> tuple[str, ...]:
        return queue.dependency_path(MemoryWaiting(self._state), source, target)


class MemoryRejected(MemoryTable):
    """The tasks that were rejected, by their words."""

    def count(self) -> int:
        return len(self._state.rejected)

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        found = {word: len(self._tasks_with_word(word, self.count())) for word in words}
        return {word: count for word, count in found.items() if count}

    def most_similar(self, weights: Mapping[str, float], most: int) -> list[Task]:
        names = best_matches(weights, self.counts(weights), self._tasks_with_word, most)
        return [self._state.tasks[name] for name in names]

    def _tasks_with_word(self, word: str, most: int) -> list[str]:
        names = (name for name, words in reversed(self._state.rejected.items()) if word in words)
        return list(islice(names, most))


class MemoryNames(MemoryTable):
    """Everyone with a part in a task."""

    def names_with_key(self, key: str) -> list[str]:
        return sorted(self._state.names.get(key, ()))


class MemoryTasks(MemoryTable):
    """The tasks and what follows from them."""

    def get(self, task_id: str) -> Task | None:
        return self._state.tasks.get(task_id)

    def put(self, task: Task) -> None:
        """Keeps a task, and brings everything that follows from it up to date."""
        before = self.get(task.id)
        self._state.tasks[task.id] = task
        self._rename(task, before.details.aliases if before else ())
        self._link(task, before)
        self._stand(task)
        for name in set(participants(task)) - set(participants(before) if before else ()) - {""}:
            for key in lookup_keys(name):
                self._state.names[key] = self._state.names.get(key, frozenset()) | {name}
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
        self._state.standings[task.id] = QueueState(
            queue.due_time(task, blockers), queue.queue_rank(task, blockers), queue.agent_pool(task)
        )

    def _rename(self, task: Task, before: tuple[str, ...]) -> None:
        aliases = self._state.aliases
        for alias in before:
            aliases[alias] = tuple(name for name in aliases[alias] if name != task.id)
        for alias in task.details.aliases:
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
        if queue.dependency_path(graph, blocker, waiter):
            return False
        queue.restore_order(graph, waiter, blocker)
        return True

    def _order_anew(self) -> None:
        """Orders all tasks, so that it does not matter which dependency of a circle came last."""
        state = self._state
        order, void = queue.topological_order(queue.open_blockers(state.tasks))
        state.positions = {name: position for position, name in enumerate(order, 1)}
        changed, state.void = void ^ state.void, void
        for name, _ in changed:
            self._stand(state.tasks[name])

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        state = self._state
        state.handoffs = dict(handoffs)
        for table in (state.tasks, state.aliases, state.names, state.standings, state.positions):
            table.clear()
        for table in (state.waiters, state.rejected):
            table.clear()
        state.void.clear()
        for task in tasks:
            self.put(task)
        self._order_anew()

    def differences(
        self, tasks: Mapping[str, Task], handoffs: Mapping[str, str]
    ) -> Iterator[TableDifference]:
        kept = self._state.tasks
        wrong = (name for name in sorted({*kept, *tasks}) if kept.get(name) != tasks.get(name))
        yield from (TableDifference("task", name) for name in wrong)
        pairs = set(self._state.handoffs.items()) ^ set(handoffs.items())
        yield from (TableDifference("handoff", task) for task in sorted({task for _, task in pairs}))

    def find_task_id(self, name: str) -> str:
        """The task an alias or a handoff belongs to; of several tasks with one alias, the oldest."""
        return next(iter(self._state.aliases.get(name, ())), "") or self._state.handoffs.get(name, "")

    def every(self) -> Iterator[Task]:
        return (self._state.tasks[name] for name in sorted(self._state.tasks))

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        tasks = self._state.tasks
        return {name: tasks[name].status.value for name in names if name in tasks}

    def predecessors(self, task_id: str, most: int) -> list[Task]:
        answers = MemoryTraces(self._state).every("handoff.reject.response")
        reformulated = {
            one.task for one in answers if (one.said, one.text) == ("ACCEPT_AND_REFORMULATE", task_id)
        }
        found = (task for task in self.every() if task_id in task.blockers or task.id in reformulated)
        return list(islice(found, most))

    def rejected_in_review(self) -> list[Task]:
        return [task for task in self.every() if task.reviews.rounds]

    def find_submitted(self, commit: str, pr: int) -> list[Task]:
        return [
            task
            for task in self.every()
            if (task.submission and task.submission.commit == commit) or (pr and task.pr == pr)
        ]

    def escalated_tasks(self) -> list[Task]:
        return [task for task in self.every() if task.status == Status.ESCALATED]

    def active(self, status: Status, most: int = -1) -> list[Task]:
        found = [task for task in self.every() if task.status == status]
        return found if most < 0 else found[:most]

    def count_active(self, status: Status) -> int:
        return len(self.active(status))

    def running_tasks(self) -> list[Task]:
        return [task for task in self.every() if task.runs]

    def with_outages(self) -> list[Task]:
        return [task for task in self.every() if task.gates.outages]

    def with_errand(self, names: Collection[str]) -> list[Task]:
        return [task for task in self.every() if not set(due_kinds(task)).isdisjoint(names)]

    def counts(self) -> Mapping[str, int]:
        return Counter(task.status.value for task in self._state.tasks.values())


class MemoryEventFiles(MemoryTable):
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

    def held_lines(self) -> list[bytes]:
        return [line for _, line in self._state.quarantine.values()]

    def earliest_held(self) -> Instant:
        return min((ts for ts, _ in self._state.quarantine.values()), default="")

    def held_ids(self) -> set[str]:
        return set(self._state.quarantine)

    def take_due(self, horizon: Instant) -> list[bytes]:
        quarantine = self._state.quarantine
        names = [name for name, (ts, _) in quarantine.items() if ts <= horizon]
        return [quarantine.pop(name)[1] for name in names]


class MemoryTransaction:
    """One change, or one view, of the ledger."""

    def __init__(self, state: MemoryState) -> None:
        self.state = state
        self.head = state.head
        self.undos = ExitStack()
        self.events: EventTable = MemoryEvents(state)
        self.groups: GroupTable = MemoryGroups(state)
        self.unconfirmed: UnconfirmedTable = MemoryUnconfirmed(state)
        self.missing: MissingTable = MemoryMissing(state)
        self.rewritten: RewrittenTable = MemoryRewritten(state)
        self.objections: ObjectionTable = MemoryObjections(state)
        self.traces: TraceTable = MemoryTraces(state)
        self.tasks: TaskTable = MemoryTasks(state)
        self.names: NameTable = MemoryNames(state)
        self.queue: ReadyQueue = MemoryQueue(state)
        self.rejected: RejectedTaskTable = MemoryRejected(state)
        self.outdated: OutdatedTasks = MemoryOutdated(state)
        self.log_lines: LogLineTable = MemoryLogLines(state)
        self.files: FileTable = MemoryEventFiles(state)

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self.undos.callback(undo)


class MemoryStore:
    """A ledger of this process. A change is made on a copy, which then takes the place of what was."""

    def __init__(self, session: str) -> None:
        self._state = MemoryState(LedgerHead(session=session))
        self._lock = threading.Lock()
        self._changes = 0

    @contextmanager
    def write(self) -> Iterator[MemoryTransaction]:
        """Opens a change, alone among all writers."""
        with self._lock:
            transaction = MemoryTransaction(self._state.draft())
            with transaction.undos:
                yield transaction
                transaction.undos.pop_all()
            transaction.state.head = transaction.head
            self._state = transaction.state
            self._changes += 1

    @contextmanager
    def read(self) -> Iterator[MemoryTransaction]:
        """Opens a view of one moment."""
        yield MemoryTransaction(self._state)

    def changes(self) -> int:
        """How many changes there were."""
        return self._changes
