"""Short ways to say that a task was rejected, and how that was answered."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import events as e
from remand.ledger import codec
from remand.ledger.store import Entry
from remand.testing.builders import H1, T1


def filed(task_id: str = T1, number: int = 1, **fields: Any) -> e.HandoffRejected:
    """Alice rejected a task for a blocker."""
    record = {"reason_type": "BLOCKER", "blocking_factor": "The ladder is gone"}
    standard = {"handoff_id": H1, "agent": "Alice", "rejection_id": f"R-{number}", "rejection": record}
    return e.HandoffRejected(task_id=task_id, **{**standard, **fields})


def filed_invalid(task_id: str = T1, number: int = 1, **fields: Any) -> e.HandoffRejectionInvalid:
    """Alice rejected a task without having earned it."""
    valid = filed(task_id, number, **fields)
    told = {name: getattr(valid, name) for name in ("handoff_id", "agent", "rejection_id", "rejection")}
    return e.HandoffRejectionInvalid(task_id=task_id, **told)


def answered(
    decision: str, task_id: str = T1, number: int = 1, created: tuple[str, ...] = ()
) -> e.RejectionAnswered:
    """The director answered a rejection."""
    told = e.Decision(decision_type=decision, rationale="So it is.", created_tasks=created)
    return e.RejectionAnswered(task_id=task_id, handoff_id=H1, rejection_id=f"R-{number}", decision=told)


def woken(task_id: str = T1) -> e.TaskWoken:
    """A deferred task woke."""
    return e.TaskWoken(task_id=task_id)


def of_got(event: str, at: str = "2025-12-20T10:00:00Z", **fields: object) -> Entry:
    """A line of a GoT tool."""
    told = {"ts": at, "event": event, "meta": {"branch": "main", "session": "s"}, **fields}
    line = msgspec.json.encode(told)
    return Entry(codec.read(line), line, "")
