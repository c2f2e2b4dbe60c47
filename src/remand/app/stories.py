"""A task's story and its handoffs, told from its events."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import events as e
from remand.domain.evolve import evolve
from remand.domain.record import Record
from remand.domain.task import Task


class HandoffView(Record, kw_only=True):
    """A handoff as it stands."""

    handoff_id: str
    task_id: str
    agent: str
    status: str
    source: str = ""
    instructions: str = ""
    initiated_at: str = ""
    accepted_at: str = ""
    completed_at: str = ""
    ended_at: str = ""
    override_message: str = ""
    result: dict[str, Any] = msgspec.field(default_factory=dict)


_ENDINGS: dict[type[e.Event], str] = {
    e.LeaseExpired: "expired",
    e.TaskReleased: "released",
    e.TaskContinued: "continued",
    e.GateErrored: "continued",
    e.TaskFailed: "failed",
    e.HandoffLapsed: "lapsed",
    e.HandoffResumed: "overridden",
}
OPEN = ("initiated", "accepted", "overridden")


def handoffs(events: list[e.Event]) -> list[HandoffView]:
    """Every handoff of a task, those that lost a merge marked as conflicts, those left open closed with the task."""
    found: dict[str, HandoffView] = {}
    task: Task | None = None
    for event in events:
        lost = len(task.conflicts) if task else 0
        task = evolve(task, event)
        has_lost = task is not None and len(task.conflicts) > lost
        _follow(found, event, has_lost)
        if task is not None and (task.is_terminal or task.claim is None):
            _close_left_over(found, task, event)
    return list(found.values())


def _follow(found: dict[str, HandoffView], event: e.Event, has_lost: bool) -> None:
    match event:
        case e.HandoffInitiated():
            earlier = found.get(event.handoff_id)
            found[event.handoff_id] = HandoffView(
                handoff_id=event.handoff_id,
                task_id=event.task_id,
                agent=event.target_agent,
                status="conflict" if has_lost else "initiated",
                source=event.source_agent,
                instructions=event.instructions,
                initiated_at=event.ts,
                override_message=earlier.override_message if earlier else "",
            )
        case e.TaskClaimed():
            found[event.handoff_id] = HandoffView(
                handoff_id=event.handoff_id,
                task_id=event.task_id,
                agent=event.agent,
                status="conflict" if has_lost else "accepted",
                source="queue",
                initiated_at=event.ts,
                accepted_at=event.ts,
            )
        case e.HandoffAccepted() if event.handoff_id in found:
            _change(
                found, event.handoff_id, has_lost, status="accepted", accepted_at=event.ts, agent=event.agent
            )
        case e.HandoffCompleted() if event.handoff_id in found:
            _change(
                found,
                event.handoff_id,
                has_lost,
                status="completed",
                completed_at=event.ts,
                result=event.result,
            )
        case e.TaskSubmitted():
            _change(found, event.handoff_id, has_lost, status="completed", completed_at=event.ts)
        case e.HandoffRejected() | e.HandoffRejectionInvalid():
            _change(found, event.handoff_id, has_lost, status="rejected")
        case e.RejectionAnswered() if event.decision.decision_type == "OVERRIDE":
            text = event.decision.override_message
            _change(found, event.handoff_id, has_lost, status="overridden", override_message=text)
        case e.RejectionAnswered():
            _change(found, event.handoff_id, has_lost, status="rejection_accepted", ended_at=event.ts)
        case _:
            ending, handoff_id = _ENDINGS.get(type(event)), getattr(event, "handoff_id", "")
            if ending:
                ended_at = "" if ending in OPEN else event.ts
                _change(found, handoff_id, has_lost, status=ending, ended_at=ended_at)


def _change(found: dict[str, HandoffView], handoff_id: str, has_lost: bool, **changes: Any) -> None:
    if handoff_id in found and not has_lost:
        found[handoff_id] = msgspec.structs.replace(found[handoff_id], **changes)


def _close_left_over(found: dict[str, HandoffView], task: Task, event: e.Event) -> None:
    """Open handoffs close with their task, or when its claim was ended from outside."""
    if task.is_legacy:
        return
    offered = {offer.handoff_id for offer in task.offers}
    for handoff_id, view in found.items():
        if view.status in OPEN and handoff_id not in offered:
            found[handoff_id] = msgspec.structs.replace(view, status="closed", ended_at=event.ts)


def history(events: list[e.Event]) -> list[dict[str, Any]]:
    """The events of a task as plain rows: time, name, actor, and what they say."""
    rows = []
    for event in events:
        fields = msgspec.to_builtins(event)
        fields.pop("meta", None)
        who = {"ts": event.ts, "event": event.name, "actor": event.meta.actor, "event_id": event.meta.id}
        rows.append(fields | who)
    return rows
