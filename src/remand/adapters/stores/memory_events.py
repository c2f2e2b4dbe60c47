"""The state of a ledger in memory, and its events, groups, traces and objections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

from remand.domain.events.event import Event
from remand.domain.events.log import MissingLines
from remand.domain.events.tasks import HandoffInitiated, TaskClaimed
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.ledger import signatures
from remand.ledger.event_tables import (
    MAX_OBJECTIONS,
    EventEntry,
    FileMark,
    KeptLine,
    KeptObjection,
    ObjectionRow,
    RewrittenLine,
    SignedGroup,
    UnconfirmedEvent,
    as_objection,
    as_unconfirmed,
)
from remand.ledger.order import order_key
from remand.ledger.problems import Problem, TableDifference
from remand.ledger.signatures import IMPORT, MAX_SEQ, Doubt, EventGroup
from remand.ledger.store import LedgerHead
from remand.ledger.traces import FILED, INVALID, FiledRejection, Trace, filed_rejections, trace_event


class QueueState(NamedTuple):
    """How a task stands in the queue."""

    due: Instant | None
    rank: str | None
    pool: str


class MemoryState:
    """Everything the ledger holds. What stands in the tables is never changed, only replaced."""

    def __init__(self, head: LedgerHead) -> None:
        self.head = head
        self.ids: set[str] = set()
        self.events: dict[tuple[str, int, int], EventEntry] = {}
        self.of_task: dict[str, tuple[EventEntry, ...]] = {}
        self.groups: dict[tuple[str, int, bytes], SignedGroup] = {}
        self.unconfirmed: dict[str, UnconfirmedEvent] = {}
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
        self.standings: dict[str, QueueState] = {}
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

    def draft(self) -> MemoryState:
        """A copy to change."""
        drafted = copy(self)
        vars(drafted).update((name, copy(value)) for name, value in vars(self).items())
        return drafted


class MemoryTable:
    """A part of the state; what its methods promise stands in `ledger/store.py`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state


REJECTIONS = (FILED, INVALID)


def _follow(state: MemoryState, entry: EventEntry) -> None:
    """What else is kept of an event that counts: which task its handoff belongs to, and its trace."""
    event, task = entry.event, entry.subject
    if task and isinstance(event, TaskClaimed | HandoffInitiated):
        state.handoffs.setdefault(event.handoff_id, task)
    left = trace_event(event, task)
    if left:
        state.traces.append(left)


class MemoryEvents(MemoryTable):
    """The events. Those of one session stand together, in their order."""

    def add(self, entries: Sequence[EventEntry]) -> None:
        """Keeps the events that are not kept yet, their traces, and which task each handoff belongs to."""
        state = self._state
        for entry in entries:
            event, task = entry.event, entry.subject
            if event.meta.id in state.ids:
                continue
            state.ids.add(event.meta.id)
            state.events[self._free_place(event)] = entry
            if entry.doubt:
                state.unconfirmed[event.meta.id] = as_unconfirmed(entry)
                continue
            if task:
                state.of_task[task] = (*state.of_task.get(task, ()), entry)
            _follow(state, entry)

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
        return [e.line for e in entries if key and e.event.meta.key == key and not e.doubt]

    def lines(self, session: str = "", first: int = 0) -> Iterator[bytes]:
        """Every line, session by session; with a session, all under its name from that number on."""
        for (name, _, number), entry in sorted(self._state.events.items()):
            if not session or (name == session and number >= first):
                yield entry.line

    def rows(self) -> Iterator[KeptLine]:
        for _, entry in sorted(self._state.events.items()):
            is_known = not entry.doubt
            yield KeptLine(
                entry.line, entry.subject if is_known else "", entry.event.meta.key if is_known else ""
            )

    def at(self, session: str, seq: int) -> list[bytes]:
        """The lines under that number of a session and its forks."""
        found: list[bytes] = []
        while entry := self._state.events.get((session, len(found), seq)):
            found.append(entry.line)
        return found

    def drop(self, lines: Collection[bytes]) -> None:
        """Forgets lines. Nobody damages what is in memory."""

    def ids(self, session: str, first: int = 0, last: int = MAX_SEQ) -> set[str]:
        """The ids of a session's events with these numbers, in whichever version."""
        return {
            entry.event.meta.id
            for (name, _, number), entry in self._state.events.items()
            if name == session and (not session or first <= number <= last)
        }

    def remove(self, lines: Iterable[bytes]) -> None:
        """Forgets events by their lines."""
        state, gone = self._state, set(lines)
        for at, entry in list(state.events.items()):
            if entry.line in gone:
                del state.events[at]
                state.ids.discard(entry.event.meta.id)
                state.unconfirmed.pop(entry.event.meta.id, None)
                others = state.of_task.get(entry.subject, ())
                state.of_task[entry.subject] = tuple(one for one in others if one.line not in gone)

    def tail(self, count: int) -> list[bytes]:
        latest = sorted(self._state.events.values(), key=lambda entry: order_key(entry.event))
        return [entry.line for entry in latest[-count:]]

    def assign(self, task_of: Callable[[bytes], str]) -> None:
        """Gives lines of GoT tools that belong to no task yet to the task they turn out to belong to, if any."""
        state = self._state
        for at, entry in state.events.items():
            is_open = entry.event.is_legacy and not entry.subject and not entry.doubt
            task = task_of(entry.line) if is_open else ""
            if task:
                state.events[at] = entry._replace(subject=task)
                state.of_task[task] = (*state.of_task.get(task, ()), state.events[at])


class MemoryTraces(MemoryTable):
    """The events about rejections, in brief."""

    def filed_rejections(self, since: Instant) -> Iterator[FiledRejection]:
        handoffs = self._state.handoffs
        return filed_rejections(self._state.traces, lambda handoff: handoffs.get(handoff, ""), since)

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

    def differences(self, traces: Iterable[Trace]) -> Iterator[TableDifference]:
        wrong = Counter(traces)
        wrong.subtract(self._state.traces)
        tasks = {one.task for one, count in wrong.items() if count}
        yield from (TableDifference("trace", task) for task in sorted(tasks))


class MemoryGroups(MemoryTable):
    """The signed groups."""

    def add(self, groups: Iterable[SignedGroup]) -> None:
        self._state.groups.update(
            ((kept.group.session, kept.group.first, kept.line), kept) for kept in groups
        )

    def doubt(self, group: EventGroup) -> Doubt | None:
        kept = self._state.groups.get((group.session, group.first, signatures.encode_group(group)))
        return kept.doubt if kept else None

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        return [
            kept
            for kept in self.every()
            if kept.group.session == session and kept.group.first <= last and kept.group.last >= first
        ]

    def of_task(self, task_id: str) -> list[SignedGroup]:
        found = (
            (at, kept)
            for at, kept in self._state.groups.items()
            if any(name.task == task_id for name in kept.group.events)
        )
        return [kept for _, kept in sorted(found)]

    def differences(self, groups: Iterable[SignedGroup]) -> Iterator[TableDifference]:  # noqa: ARG002
        """None: the groups themselves are looked through."""
        return iter(())

    def index(self) -> None:
        """Nothing to find out: the groups themselves are looked through."""

    def spans(self, session: str) -> list[tuple[int, int]]:
        return [(kept.group.first, kept.group.last) for kept in self.of_session(session) if not kept.doubt]

    def wrongly_signed(self, session: str) -> list[SignedGroup]:
        return [kept for kept in self.of_session(session) if kept.doubt is Doubt.WRONG_SIGNATURE]

    def imports(self) -> list[SignedGroup]:
        return [kept for kept in self.every() if kept.group.session.startswith(IMPORT)]

    def every(self) -> Iterator[SignedGroup]:
        return (kept for _, kept in sorted(self._state.groups.items()))


class MemoryUnconfirmed(MemoryTable):
    """The events without effect."""

    @property
    def trust(self) -> str:
        """The trust by which they were judged."""
        return self._state.trust

    @trust.setter
    def trust(self, text: str) -> None:
        self._state.trust = text

    @property
    def writer(self) -> str:
        """The key that signs here, while the base does not trust it."""
        return self._state.writer

    @writer.setter
    def writer(self, key: str) -> None:
        self._state.writer = key

    def every(self) -> list[UnconfirmedEvent]:
        return list(self._state.unconfirmed.values())

    def of_task(self, task_id: str, most: int = -1) -> list[UnconfirmedEvent]:
        found = [one for one in self.every() if one.task == task_id and task_id]
        return found if most < 0 else found[:most]

    def of_session(self, session: str, first: int, last: int) -> list[UnconfirmedEvent]:
        return [
            self._state.unconfirmed[entry.event.meta.id]
            for (name, _, number), entry in self._state.events.items()
            if name == session and first <= number <= last and entry.event.meta.id in self._state.unconfirmed
        ]

    def verdict(self, entry: EventEntry) -> Doubt | None:
        name = entry.event.meta.id
        if name not in self._state.ids:
            return None
        found = self._state.unconfirmed.get(name)
        return found.doubt if found else Doubt.NONE

    def judge(self, entries: Iterable[EventEntry]) -> None:
        state = self._state
        places = {entry.event.meta.id: at for at, entry in state.events.items()}
        for entry in entries:
            name, task = entry.event.meta.id, entry.subject
            state.events[places[name]] = entry
            was_doubted = state.unconfirmed.pop(name, None) is not None
            others = tuple(one for one in state.of_task.get(task, ()) if one.event.meta.id != name)
            state.of_task[task] = others if entry.doubt else (*others, entry)
            if entry.doubt:
                state.unconfirmed[name] = as_unconfirmed(entry)
            elif was_doubted:
                _follow(state, entry)


class MemoryObjections(MemoryTable):
    """The noes under keys that are not trusted."""

    def tasks(self) -> list[Task]:
        names = {found[0] for found, _, _ in self._objection_rows()}
        tasks = (self._state.tasks.get(name) for name in sorted(names))
        return [task for task in tasks if task is not None and not task.is_terminal]

    def keys(self, task_id: str) -> list[KeptObjection]:
        return self._group_objections(
            (found._replace(work=""), where)
            for found, where, _ in self._objection_rows()
            if found.task == task_id
        )

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        return self._group_objections(
            (found, where)
            for found, where, _ in self._objection_rows()
            if found.task == task_id
            and (found.work in works if works else found.signer == signer)
            and signer in ("", found.signer)
        )

    def _group_objections(self, found: Iterable[tuple[ObjectionRow, int]]) -> list[KeptObjection]:
        kept: dict[tuple[str, str], KeptObjection] = {}
        for (_, key, work, at), where in found:
            known = kept.get((key, work), KeptObjection(key, work, at, 0, where))
            kept[key, work] = known._replace(at=max(known.at, at), events=known.events + 1)
        latest = sorted(kept.values(), key=lambda one: (one.at, -one.place), reverse=True)
        return latest[:MAX_OBJECTIONS]

    def line(self, place: int) -> bytes:
        return next(line for _, number, line in self._objection_rows() if number == place)

    def _objection_rows(self) -> Iterator[tuple[ObjectionRow, int, bytes]]:
        for where, entry in enumerate(self._state.events.values()):
            found = as_objection(entry.event, entry.subject, entry.doubt, entry.signer)
            if found is not None:
                yield found, where, entry.line
