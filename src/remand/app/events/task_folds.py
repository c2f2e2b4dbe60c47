"""Folds tasks from their events: all tables, or one task from its signed events."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter

import msgspec

from remand.app.events.missing_lines import given_up_repairs, is_contradicted
from remand.app.events.signatures import Verifier, last_counted_number, may_count
from remand.domain.access.keys import Trust
from remand.domain.events.catalogue import NATIVE, event_task_id
from remand.domain.events.event import Event, event_names
from remand.domain.events.log import MOVES, VOIDS, AbandonedLines, EventsVoided, MissingLines, TaskArchived
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.events.tasks import HandoffInitiated, LeaseRenewed, TaskAdded, TaskClaimed
from remand.domain.evolve import archived_history, effective_events, evolve, is_backed, replay, short_id
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.event_tables import FileMark, SignedGroup
from remand.ledger.order import VoidedEvents, order_key
from remand.ledger.problems import LEDGER, BadLine, Problem
from remand.ledger.signatures import ADOPT, IMPORT, MAX_SEQ, Doubt, EventGroup, adoption_session
from remand.ledger.store import EDITED, Transaction
from remand.ledger.traces import TRACED, TRACED_NAMES, Trace, trace_event

TELLING = event_names(*NATIVE) - event_names(LeaseRenewed)
"""The names of all events but renewed leases, which are many, move no task and are told nowhere."""


def task_events(
    tx: Transaction, task_id: str, names: Collection[str] = (), beside: Collection[str] = ()
) -> list[Event]:
    """A task's events in order, without retracted answers; optionally only those with the given names.

    `beside` has the tasks whose events are asked for next.
    An archived state comes first, and only if the archived lines are not all present and do not contradict it.
    """
    return told_events(tx, tx.events.of_task(task_id, beside), names)


def told_events(tx: Transaction, lines: Sequence[bytes], names: Collection[str] = ()) -> list[Event]:
    """The same of the lines of a task's events."""
    if names:
        kinds = codec.line_names(lines)
        if not _CHANGING_OTHERS.isdisjoint(kinds):
            return [event for event in told_events(tx, lines) if event.name in names]
        wanted = codec.encoded_names(frozenset(names))
        told = (line for kind, line in zip(kinds, lines, strict=True) if kind in wanted)
        return sorted(map(codec.decode_stored_line, told), key=order_key)
    if not codec.may_have_kinds(lines, (AnswerRetracted, TaskArchived)):
        return sorted(map(codec.decode_stored_line, lines), key=order_key)
    found = list(effective_events(sorted(codec.decode_stored_lines(lines), key=order_key)))
    if not any(type(event) is TaskArchived for event in found):
        return found
    history = archived_history(found)
    if history is None or history.base is None or is_contradicted(tx, found, history):
        return [event for event in found if type(event) is not TaskArchived]
    return [history.base, *history.later]


_CHANGING_OTHERS = codec.encoded_names(event_names(AnswerRetracted, TaskArchived) | {""})
"""Events that change what others say; the empty name is that of any line that does not begin as ours do."""


def task_lines(tx: Transaction) -> Iterator[tuple[str, list[bytes]]]:
    """Every task by id with the lines of its events, in any order."""
    for task_id, rows in groupby(tx.event_rows.rows(have_task=True), key=itemgetter(1)):
        yield task_id, [row[0] for row in rows]


_STEP = 5000
"""The number of events between two progress reports."""
_HANDOFF_EVENTS = frozenset({TaskClaimed, HandoffInitiated})


class Fold:
    """Folds events into tasks in one pass.

    The events of a session come in order. A task that was written by more than one session, or whose events came out of
    order, is marked as tangled and folded again from its own events in order.
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
        self._archived: dict[str, TaskArchived] = {}
        self._unbelieved: set[str] = set()

    def add(self, event: Event, task_id: str) -> None:
        """Adds one event."""
        meta = event.meta
        session = meta.session
        if session != self._session or meta.seq <= self._seq:
            self._switch_session(session, meta.seq)
        self._seq = meta.seq
        is_behind = self._is_behind or event.ts < self._ts
        self._ts = self._ts if is_behind else event.ts
        if is_behind or self._session_of.setdefault(task_id, session) != session:
            self._tangled.add(task_id)
        kind = type(event)
        after = evolve(self.tasks.get(task_id), event)
        if isinstance(event, TaskArchived):
            if after is None:
                self._unbelieved.add(task_id)
            if after is None or task_id in self.tasks:
                self._tangled.add(task_id)
            self._archived[task_id] = event
        elif kind is AnswerRetracted or task_id in self._archived:
            self._tangled.add(task_id)
        self.tasks[task_id] = after
        if kind in _HANDOFF_EVENTS:
            self.handoffs.setdefault(event.handoff_id, task_id)  # type: ignore[attr-defined]

    def _switch_session(self, session: str, seq: int) -> None:
        """Starts another session, or this one again."""
        reach, _ = self._reach.get(self._session, (0, ""))
        self._reach[self._session] = (max(self._seq, reach), self._ts)
        reach, self._ts = self._reach.get(session, (0, ""))
        self._session = session
        self._is_behind = seq <= reach

    @property
    def archived_tasks(self) -> set[str]:
        """Archived tasks that also have other events here, or whose archived state is doubted."""
        return self._archived.keys() & self._tangled | self._unbelieved

    def folded_tasks(self, tx: Transaction) -> dict[str, Task]:
        """The tasks by id. Archived ones whose lines are elsewhere bring their handoffs and traces."""
        for name in self._tangled:
            events = task_events(tx, name)
            self.tasks[name] = replay(events)
            if name in self._archived:
                history = archived_history(events)
                if history is None or history.base is None:
                    del self._archived[name]
                else:
                    self._archived[name] = history.base
        for name, archived in self._archived.items():
            for handoff in archived.handoffs:
                self.handoffs.setdefault(handoff, name)
        return {name: task for name, task in self.tasks.items() if task is not None}

    def traces(self, traces: Iterable[Trace]) -> list[Trace]:
        """All traces: those of events, and those of archived tasks whose lines are elsewhere."""
        found = list(traces)
        known = set(found)
        archived = (Trace(*left) for one in self._archived.values() for left in one.traces)
        return found + [left for left in archived if left not in known]

    def finish(self, tx: Transaction, *, are_known: bool = False) -> None:
        """Replaces the tables by the result. The traces of events are stored already, as they are needed to find archives.

        The files for people are outdated; if all events were known with their effect, only those of tasks whose row
        differed, and those that were edited.
        """
        tasks = self.folded_tasks(tx)
        differing = _differing_rows(tx, tasks) if are_known else None
        tx.tasks.replace_all(tasks.values(), self.handoffs.items())
        if self._archived:
            tx.traces.replace_all(self.traces(tx.traces.every(*TRACED_NAMES)))
        for name in ("",) if differing is None else (EDITED, *sorted(differing)):
            tx.outdated.note(name)


def _differing_rows(tx: Transaction, tasks: Mapping[str, Task]) -> set[str] | None:
    """The tasks whose row is another; None if a row was damaged, or there are rows of other tasks."""
    left = set(tasks)
    differing: set[str] = set()
    try:
        for before in tx.tasks.every():
            left.discard(before.id)
            if before != tasks.get(before.id):
                differing.add(before.id)
    except msgspec.MsgspecError:
        return None
    return None if left or not differing <= tasks.keys() else differing


def rebuild_tables(
    tx: Transaction, note_progress: Callable[[str], None] = lambda _: None, *, are_known: bool = False
) -> None:
    """Folds all confirmed events and replaces the tables by the result; `are_known` if none of them is new or counts anew."""
    # Concurrent commits between reading the events and writing the rows would be lost.
    tx.fence_writers()
    fold = Fold()
    traces: list[Trace | None] = []
    withheld = {found.event_id for found in tx.unconfirmed.every()}
    with without_garbage_collection():
        for count, line in enumerate(tx.events.lines(), 1):
            if not count % _STEP:
                note_progress(f"folding events, {count:,}")
            event = codec.decode_stored_line(line)
            if event.meta.id in withheld:
                continue
            name = event_task_id(event)
            if name:
                fold.add(event, name)
            if type(event) in TRACED:
                traces.append(trace_event(event, name))
        tx.traces.replace_all([left for left in traces if left])
        fold.finish(tx, are_known=are_known)
        assign_imported(tx)


def assign_imported(tx: Transaction) -> None:
    """Finds the tasks of imported lines that name only a handoff, in whichever order they were read."""

    def task_of(line: bytes) -> str:
        event = codec.decode_stored_line(line)
        handoff_id = getattr(event, "handoff_id", "")
        return event_task_id(event) or (tx.names.find_task_id(handoff_id) if handoff_id else "")

    tx.event_rows.assign(task_of)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disables garbage collection during work that creates many objects and no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_MOST_KNOWN, _MOST_DIGESTS = 10_000, 100_000
_encode = msgspec.json.Encoder(order="deterministic").encode
_MAY_BE_COVERED = (Doubt.WRONG_SIGNATURE, Doubt.REVOKED)


class SignedEvents(NamedTuple):
    """A task's events as named by signed groups."""

    events: list[Event]
    missing: tuple[MissingLines, ...]
    """Events that are named but absent or altered, and events whose signature is absent."""


def signed_voids(tx: Transaction, verifier: Verifier) -> VoidedEvents:
    """Everything voided, by verified signatures."""
    groups = _verified_groups(tx, tx.groups.of_task(VOIDS), verifier)
    if not groups:
        return VoidedEvents(())
    return VoidedEvents(_signed_events(tx, VOIDS, verifier, groups).events)


def signed_moves(tx: Transaction, verifier: Verifier) -> list[Event]:
    """The user's events about moves of the log in order, by verified signatures."""
    if not tx.groups.of_task(MOVES):
        return []
    return verified_task_events(tx, MOVES, verifier).events


def verified_task_events(tx: Transaction, task_id: str, verifier: Verifier) -> SignedEvents:
    """A task's events in order, by verified signatures; the tables are not relied on."""
    groups = _verified_groups(tx, tx.groups.of_task(task_id), verifier)
    return signed_task_events(tx, task_id, verifier, signed_voids(tx, verifier), groups)


def signed_task_events(
    tx: Transaction, task_id: str, verifier: Verifier, voids: VoidedEvents, groups: Collection[EventGroup]
) -> SignedEvents:
    """A task's events in order, found by the groups that name them; each line must match the id that names it.

    Voided events (by verified signatures) have no effect, and lines given up or held back are not
    missing.
    """
    events, missing = _signed_events(tx, task_id, verifier, groups)
    missing = tuple(one for one in missing if one.id not in voids.ids)
    if missing:
        held, given = tx.held.ids(), _signed_given_up(tx, verifier)
        missing = tuple(
            one
            for one in missing
            if one.id not in held and not any(up.covers(one.session, one.first) for up in given)
        )
    counted = sorted((event for event in events if event not in voids), key=order_key)
    if any(type(event) is TaskArchived for event in counted):
        told = archived_history(counted)
        if told is not None and is_contradicted(tx, counted, told):
            counted = [event for event in counted if type(event) is not TaskArchived]
    history = archived_history(counted) if missing else None
    if history is not None and history.base is not None:
        missing = tuple(one for one in missing if short_id(one.id) not in history.known)
    return SignedEvents(counted, missing)


def _signed_events(
    tx: Transaction, task_id: str, verifier: Verifier, groups: Collection[EventGroup]
) -> SignedEvents:
    """What signed groups name of a task, unordered, including void and given-up events."""
    named = _named_events(groups, task_id, verifier.trust)
    events: dict[str, Event] = {}
    missing: list[MissingLines] = []
    for event in filter(None, map(_read_event, tx.events.of_task(task_id))):
        meta = event.meta
        if _event_key(event) in named and event_task_id(event) == task_id:
            if type(event) is not TaskArchived or is_backed(event, verifier.trust):
                events[meta.id] = event
        elif not event.is_legacy:
            missing.append(
                MissingLines(
                    session=meta.session,
                    first=meta.seq,
                    last=meta.seq,
                    id=meta.id,
                    task=task_id,
                    is_unsigned=True,
                )
            )
    for (session, event_id), lines in named.items():
        if event_id in events:
            continue
        own = _find_event(tx, session, lines)
        if type(own) is TaskArchived and not is_backed(own, verifier.trust):
            continue
        if own is not None and event_task_id(own) == task_id:
            events[event_id] = own
        else:
            missing.append(lines)
    counted = [event for event in events.values() if _may_count(tx, event, verifier)]
    return SignedEvents(counted, tuple(missing))


def _may_count(tx: Transaction, event: Event, verifier: Verifier) -> bool:
    """True unless an event about the log itself was written by an actor who may not, by verified signatures."""
    if verifier.trust.may_give(event):
        return True
    return isinstance(event, EventsVoided) and may_count(event, verifier.trust, _SoundGroups(tx, verifier))


class _SoundGroups:
    """The groups of sessions with verified signatures."""

    def __init__(self, tx: Transaction, verifier: Verifier) -> None:
        self._tx = tx
        self._verifier = verifier

    def of_session(self, session: str, first: int = 0, last: int = MAX_SEQ) -> list[SignedGroup]:
        """A session's groups that overlap a range of numbers."""
        kept = self._tx.groups.of_session(session, first, last)
        sound = _sound_subset(self._tx, [one.group for one in kept], self._verifier)
        return [one._replace(doubt=Doubt.NONE) for one in kept if one.group in sound]

    def imports(self) -> list[SignedGroup]:
        """None: this source is only asked about sessions."""
        return []


def _named_events(
    groups: Iterable[EventGroup], task_id: str, trust: Trust
) -> dict[tuple[str, str], MissingLines]:
    """Where groups name events of a task, by session and event id; imported lines have no session."""
    found: dict[tuple[str, str], MissingLines] = {}
    for group in groups:
        session = "" if group.session.startswith(IMPORT) else group.session.removeprefix(ADOPT)
        last = last_counted_number(group, trust)
        for seq in group.numbers_by_task.get(task_id, ()):
            if seq <= last:
                event_id = group.events[seq - group.first].id
                found[session, event_id] = MissingLines(
                    session=group.session, first=seq, last=seq, id=event_id, task=task_id
                )
    return found


def _event_key(event: Event) -> tuple[str, str]:
    return ("" if event.is_legacy else event.meta.session, event.meta.id)


def _find_event(tx: Transaction, session: str, named: MissingLines) -> Event | None:
    """A stored event of its session, whichever task its row names."""
    if not session:
        return None
    is_adopted = named.session != session
    lines = tx.events.lines(session) if is_adopted else tx.events.lines(session, named.first, named.first)
    return next((event for event in map(_read_event, lines) if event and event.meta.id == named.id), None)


def _signed_given_up(tx: Transaction, verifier: Verifier) -> list[AbandonedLines]:
    """The lines that the user gave up, by signed events."""
    return [one.lines for one in given_up_repairs(tx) if _is_signed(tx, one.event, verifier)]


def _is_signed(tx: Transaction, event: Event, verifier: Verifier) -> bool:
    """True if a valid group names an event without a task, and its line is as signed."""
    meta = event.meta
    kept = [
        *tx.groups.of_session(meta.session, meta.seq, meta.seq),
        *tx.groups.of_session(adoption_session(meta.session)),
    ]
    sound = _sound_subset(tx, [one.group for one in kept], verifier)
    if not verifier.trust.may_give(event):
        return False
    lines = _named_events(sound, event_task_id(event), verifier.trust).get(_event_key(event))
    return lines is not None and _find_event(tx, meta.session, lines) == event


def _verified_groups(tx: Transaction, kept: Sequence[SignedGroup], verifier: Verifier) -> list[EventGroup]:
    """The groups among these that count by verified signatures."""
    sound = _sound_subset(tx, [one.group for one in kept], verifier) if kept else set()
    return [one.group for one in kept if one.group in sound]


def _accepted_groups(tx: Transaction, kept: Sequence[SignedGroup], verifier: Verifier) -> list[EventGroup]:
    """The groups among these that count by the tables' judgement; those that they doubt are verified."""
    doubted = [one.group for one in kept if one.doubt]
    sound = _sound_subset(tx, doubted, verifier) if doubted else set()
    return [one.group for one in kept if not one.doubt or one.group in sound]


def _read_event(line: bytes) -> Event | None:
    """The event of a line; None if its id is not the hash of its content."""
    try:
        event = codec.decode_stored_line(line, codec.line_kind(line))
    except BadLine:
        return None
    return event if event.is_legacy or codec.content_hash(line) == event.meta.id else None


def _sound_subset(tx: Transaction, groups: list[EventGroup], verifier: Verifier) -> set[EventGroup]:
    """The groups that count by their own signature, or by what follows in their session."""
    doubts = verifier.doubts(groups)
    for session in {group.session for group, doubt in doubts.items() if doubt in _MAY_BE_COVERED}:
        later = verifier.doubts(one.group for one in tx.groups.of_session(session))
        doubts |= {group: doubt for group, doubt in later.items() if group in doubts}
    return {group for group, doubt in doubts.items() if not doubt}


class SignedTasks:
    """Remembers which tasks this process has folded from signed events, so that each is folded only once.

    Of all but the latest, it keeps a digest.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Task, bool]] = {}
        self._digests: dict[str, tuple[bytes, bool]] = {}

    def is_known(self, task: Task, *, is_verified: bool) -> bool:
        """True if a task was folded here from its events, verified as required."""
        known = self._known.get(task.id)
        if known is not None:
            return known[1] >= is_verified and (known[0] is task or known[0] == task)
        digest, was_verified = self._digests.pop(task.id, (b"", False))
        if digest and digest == _digest(task):
            self.note(task, is_verified=was_verified)
            return was_verified >= is_verified
        return False

    def note(self, task: Task, *, is_verified: bool) -> None:
        """Records a task that was folded from all its events."""
        if len(self._known) >= _MOST_KNOWN:
            self._keep_digests()
        self._known[task.id] = (task, is_verified)

    def follow(self, before: Task | None, after: Task) -> None:
        """Records a task's next state after events decided here, if its previous state was known or it is new."""
        if before is None:
            self.note(after, is_verified=True)
        elif (known := self._known.get(before.id)) is not None and (known[0] is before or known[0] == before):
            self._known[after.id] = (after, known[1])

    def _keep_digests(self) -> None:
        """Keeps no more than the digests of the tasks that were noted first."""
        if len(self._digests) >= _MOST_DIGESTS:
            self._digests.clear()
        for name, (task, is_verified) in list(islice(self._known.items(), _MOST_KNOWN // 10)):
            self._digests[name] = (_digest(task), is_verified)
            del self._known[name]


def _digest(task: Task) -> bytes:
    return sha256(_encode(task)).digest()[:16]


class TaskSource:
    """The tasks that decisions in one transaction depend on."""

    def __init__(self, tx: Transaction, signed: SignedTasks, verifier: Verifier) -> None:
        self._tx = tx
        self._signed = signed
        self.verifier = verifier
        self.begin()

    def begin(self) -> None:
        """Begins another change."""
        self.missing: dict[str, tuple[MissingLines, ...]] = {}
        """Of the tasks that were asked for: the events that signed groups name and that are absent."""
        self._changed: set[str] = set()
        """The tasks changed in this transaction, which is signed at its end."""
        self._voids: VoidedEvents | None = None

    def get(self, task_id: str, *, is_verified: bool = False) -> Task | None:
        """A task as it follows from its signed events. A row that differs is corrected, and that is recorded.

        Signatures are verified again unless the task was only added, as then no event could retract another.
        """
        found = self._tx.tasks.get(task_id) if task_id else None
        is_known = found is not None and self._signed.is_known(found, is_verified=is_verified)
        if not task_id or is_known or task_id in self._changed:
            return found
        story, is_verified = self._story(task_id, is_verified=is_verified)
        task = replay(story.events)
        if story.missing:
            self.missing[task_id] = story.missing
        if task == found:
            task = found
        else:
            self._correct_row(task_id, task)
        if task is not None and not story.missing:
            self._signed.note(task, is_verified=is_verified)
        return task

    def _story(self, task_id: str, *, is_verified: bool) -> tuple[SignedEvents, bool]:
        """What signed groups name of a task, and whether their signatures were verified."""
        kept = self._tx.groups.of_task(task_id)
        if not is_verified:
            accepted = _accepted_groups(self._tx, kept, self.verifier)
            story = self._signed_events(task_id, accepted)
            if all(type(event) is TaskAdded for event in story.events):
                return story, False
            if accepted == _verified_groups(self._tx, kept, self.verifier):
                return story, True
        return self._signed_events(task_id, _verified_groups(self._tx, kept, self.verifier)), True

    def _signed_events(self, task_id: str, groups: list[EventGroup]) -> SignedEvents:
        if self._voids is None:
            self._voids = signed_voids(self._tx, self.verifier)
        return signed_task_events(self._tx, task_id, self.verifier, self._voids, groups)

    def expect_task(self, task_id: str) -> None:
        """Skips the lookup for a new random id: no event names it."""
        self._changed.add(task_id)

    def follow(self, before: Task | None, after: Task) -> None:
        """Applies the events decided in this transaction to a task."""
        self._changed.add(after.id)
        self._signed.follow(before, after)

    def _correct_row(self, task_id: str, task: Task | None) -> None:
        if task is not None:
            self._tx.tasks.put(task)
            self._tx.outdated.note(task_id)
        known = [problem for problem in self._tx.files.problems() if problem.file == LEDGER]
        text = f"the row of {task_id} in the table task was not what its signed events say; the events hold"
        new = Problem(file=LEDGER, line=0, problem=text)
        if new not in known:
            self._tx.files.note(FileMark(LEDGER, 0, 0, 0), [*known, new])
