"""What a change of trust would change: the events that lose or gain their effect, and the tasks that differ then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from remand.app.rebuild import story
from remand.app.signatures import Subjects, Verifier, last_counted
from remand.domain.events import Event
from remand.domain.evolve import replay
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.signatures import VOID, Doubt, Group
from remand.ledger.store import Transaction


class EventCount(Record, kw_only=True):
    """How many events of a kind and task are concerned."""

    task_id: str
    event: str
    count: int


class StatusChange(Record, kw_only=True):
    """A task whose status would be another; empty where there is, or would be, no such task."""

    task_id: str
    before: str
    after: str


class TrustChange(Record, kw_only=True):
    """What would change."""

    lost: tuple[EventCount, ...] = ()
    gained: tuple[EventCount, ...] = ()
    tasks: tuple[StatusChange, ...] = ()


class Moved(NamedTuple):
    """The events that would lose their effect, and those that would gain it."""

    lost: list[Event]
    gained: list[Event]


def moved_events(view: Transaction, verifier: Verifier, key: str) -> Moved:
    """The events whose effect depends on how far a key is trusted, if it were trusted as the verifier does."""
    kept = list(view.groups.every())
    after = verifier.doubts(one.group for one in kept if one.group.key == key)
    concerned = {name.id for group in after for name in group.events}
    counted = {
        event_id
        for one in kept
        if not (after.get(one.group, one.doubt))
        for event_id in _counted(one.group, verifier)
        if event_id in concerned
    }
    doubts = {one.event_id: one.doubt for one in view.unconfirmed.every()}
    found = Moved([], [])
    for line in view.events.lines() if concerned else ():
        event = codec.recall(line)
        doubt = doubts.get(event.meta.id, Doubt.NONE)
        if event.meta.id not in concerned or doubt is Doubt.VOID:
            continue
        if not doubt and event.meta.id not in counted:
            found.lost.append(event)
        elif doubt and event.meta.id in counted:
            found.gained.append(event)
    return found


def _counted(group: Group, verifier: Verifier) -> Iterable[str]:
    last = last_counted(group, verifier.trust)
    return (name.id for seq, name in group.numbered() if seq <= last and name.task != VOID)


def trust_change(
    view: Transaction, *, lost: Sequence[Event] = (), gained: Sequence[Event] = ()
) -> TrustChange:
    """What changes when events lose their effect and others gain it."""
    subjects = Subjects(view)
    less = _by_task(lost, subjects)
    more = _by_task(gained, subjects)
    tasks = []
    for task_id in sorted({*less, *more} - {""}):
        gone = {event.meta.id for event in less.get(task_id, ())}
        events = [event for event in story(view, task_id) if event.meta.id not in gone]
        task, then = view.tasks.get(task_id), replay(sorted([*events, *more.get(task_id, ())], key=place))
        before, after = (str(one.status) if one else "" for one in (task, then))
        if before != after:
            tasks.append(StatusChange(task_id=task_id, before=before, after=after))
    return TrustChange(lost=_counts(less), gained=_counts(more), tasks=tuple(tasks))


def _by_task(events: Iterable[Event], subjects: Subjects) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[subjects.of(event)].append(event)
    return found


def _counts(events: dict[str, list[Event]]) -> tuple[EventCount, ...]:
    counts = Counter((task_id, event.name) for task_id, own in events.items() for event in own)
    return tuple(
        EventCount(task_id=task_id, event=name, count=count)
        for (task_id, name), count in sorted(counts.items())
    )
