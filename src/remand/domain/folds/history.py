"""The history a task is folded from: what an archived one begins with, and without answers that were taken back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.domain.access.keys import Trust
from remand.domain.events.event import Event
from remand.domain.events.log import ARCHIVED_ID, TaskArchived
from remand.domain.events.reviews import AnswerRetracted, EscalationAnswered, EscalationNotified
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, RejectionAnswered
from remand.domain.events.work import FindingAccepted, FindingRefused, GateOverridden, GateRecovered
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


ANSWERS = (EscalationAnswered, RejectionAnswered, FindingAccepted, FindingRefused)
_OTHER_COMMANDS = (HandoffRejected, HandoffRejectionInvalid, GateOverridden, GateRecovered)
"""What an answer comes with that is no decision of its own: the rules answered a rejection, a gate was overridden or runs again."""
_WITHOUT_EFFECT = (EscalationNotified, AnswerRetracted)
"""What may follow an answer while nobody has acted on it."""


def last_answer(events: Sequence[Event]) -> list[Event]:
    """All events of the command that gave a task's last answer, while nothing has followed; else none."""
    told = [event for event in events if not isinstance(event, _WITHOUT_EFFECT)]
    if not told or told[-1].is_legacy:
        return []
    end = command_end(told[-1])
    found = [event for event in told if command_end(event) == end]
    is_answer = any(isinstance(event, ANSWERS) for event in found)
    return found if is_answer and not any(isinstance(event, _OTHER_COMMANDS) for event in found) else []


def command_end(event: Event) -> tuple[str, int]:
    """The session and number of the last event of the command that an event follows from."""
    return event.meta.session, event.meta.seq + event.meta.more


def effective_events(events: Sequence[Event]) -> Sequence[Event]:
    """A task's events in their order, without the answers that were taken back.

    A retraction counts when nobody had acted on the answer before it, in the order that all ledgers agree on. One that
    does not keeps the id of its answer, and `evolve` records a conflict.
    """
    if not any(isinstance(event, AnswerRetracted) and event.answer for event in events):
        return events
    kept: list[Event] = []
    for event in events:
        found = last_answer(kept) if isinstance(event, AnswerRetracted) and event.answer else []
        if isinstance(event, AnswerRetracted) and event.answer in [one.meta.origin for one in found]:
            gone = {one.meta.id for one in found}
            kept = [one for one in kept if one.meta.id not in gone]
            kept.append(replace(event, answer=""))
        else:
            kept.append(event)
    return kept
