"""The catalogue of all events that Remand writes, the type for unknown ones, and the task of an event."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import ids
from remand.domain.events import log, reviews, tasks, work
from remand.domain.events.event import Event, TaskEvent
from remand.domain.events.log import (
    MOVES,
    TOKENS,
    VOIDS,
    EventsVoided,
    LedgerMoved,
    MoveBegun,
    TokenCreated,
    TokenRevoked,
)
from remand.domain.events.tasks import EdgeCreated, EdgeDeleted, TaskAdded, TaskDeleted, TaskEdited


class Unknown(Event, tag="?", kw_only=True):
    """An event stored without effect: of another graph element, or of a newer version."""

    kind: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind


def event_task_id(event: Event) -> str:
    """The task of an event; empty if it has none."""
    if isinstance(event, TaskEvent):
        return event.task_id
    if isinstance(event, TaskAdded) and event.id.startswith("task:") and event.meta.seq > 0:
        return event.id[5:]
    if isinstance(event, TaskAdded | TaskEdited | TaskDeleted):
        return ids.parse_task_id(event.id) or ""
    if isinstance(event, EdgeCreated | EdgeDeleted):
        return _waiting_task(event)
    if isinstance(event, EventsVoided):
        return VOIDS
    if isinstance(event, MoveBegun | LedgerMoved):
        return MOVES
    if isinstance(event, TokenCreated | TokenRevoked):
        return TOKENS
    return ""


def _waiting_task(edge: EdgeCreated | EdgeDeleted) -> str:
    src, tgt = ids.parse_task_id(edge.src), ids.parse_task_id(edge.tgt)
    if src is None or tgt is None:
        return ""
    return {"DEPENDS_ON": src, "BLOCKS": tgt}.get(edge.type, "")


NATIVE: tuple[type[Event], ...] = tuple(
    kind
    for module in (tasks, log, reviews, work)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__struct_config__.tag
)
"""All events with a name in the log. Base classes have none."""
