"""Archived tasks: what their history begins with where their events are not all here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from remand.domain.access.keys import Trust
from remand.domain.events.event import Event
from remand.domain.events.log import ARCHIVED_ID, TaskArchived
from remand.domain.record import NamedTuple
from remand.domain.task import Task


class ArchivedHistory(NamedTuple):
    """The history of an archived task of which lines are elsewhere."""

    base: TaskArchived | None
    """What stands in place of the lines; None when nothing does that can be believed."""
    later: tuple[Event, ...]
    """The events after that, in their order."""
    known: frozenset[str]
    """The first digits of the ids of all events that were archived."""
    is_waiting: bool
    """True when an event is here, or in another archive, that belongs among the archived ones, or nothing can be believed:
    all lines are needed."""


def archived_history(events: Sequence[Event]) -> ArchivedHistory | None:
    """The history of a task whose events these are, in their order; None when it is not archived, or every line is here."""
    archives = [event for event in events if type(event) is TaskArchived]
    if not archives:
        return None
    lines = [event for event in events if type(event) is not TaskArchived]
    known = frozenset().union(*(one.event_ids for one in archives))
    if lines and known <= {_short_id(event) for event in lines}:
        return None
    believed = [one for one in archives if archived_state(one) is not None]
    if not believed:
        return ArchivedHistory(None, tuple(lines), known, True)
    base = max(believed, key=lambda one: (len(one.event_ids), one.last, one.meta.id))
    later = tuple(event for event in lines if _place(event) > base.last)
    left = known - base.event_ids - {_short_id(event) for event in later}
    is_late = any(_place(event) <= base.last and _short_id(event) not in known for event in lines)
    return ArchivedHistory(base, later, known, is_late or bool(left))


def archived_state(event: TaskArchived) -> Task | None:
    """The task as it was archived; None when it cannot be read, has not ended, or does not say which events it rests on."""
    _, session, number, _ = event.last
    if not event.ids or not any(name == session and end >= number for name, _, end in event.signed):
        return None
    try:
        task: Task = _decoder()(event.state)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return task if task.id == event.task_id and task.is_terminal else None


def is_backed(event: TaskArchived, trust: Trust) -> bool:
    """True when each key that the archived events rest on is trusted up to the last of them."""
    for session, key_id, number in event.signed:
        key = trust.find_key(key_id)
        if key is None:
            return False
        if key.until is not None:
            end = key.end_of_trust(session)
            if end is None or end.number < number:
                return False
    return True


def short_id(event_id: str) -> str:
    """What an archived task keeps of an event's id."""
    return event_id[:ARCHIVED_ID]


def _short_id(event: Event) -> str:
    return short_id(event.meta.id)


def _place(event: Event) -> tuple[str, str, int, str]:
    meta = event.meta
    return (event.ts, meta.session, meta.seq, meta.id)


@cache
def _decoder() -> Any:
    return msgspec.json.Decoder(Task).decode
