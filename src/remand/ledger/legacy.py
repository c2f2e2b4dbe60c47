"""Lines of GoT tools, which have no id, sequence number or chain, as events."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from remand.domain import ids
from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event, Meta
from remand.domain.events.tasks import (
    Decision,
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskAdded,
    TaskChanges,
    TaskData,
    TaskDeleted,
    TaskEdited,
)
from remand.domain.instant import parse_instant
from remand.domain.reasons import parse_decision_type
from remand.ledger.problems import BadLine

_RANKS = {
    "node.create": -3,
    "decision.create": -3,
    "edge.create": -2,
    "handoff.initiate": -2,
    "handoff.reject.response": 0,
}
"""The order of one session's lines with the same time: creation before changes, a rejection before its answer."""
MAX_NAMES = 50
"""How many created tasks an imported answer may name, and how many issues a rejection may list."""


def translate_legacy_line(fields: dict[str, Any]) -> Event:
    """The event in a line of a GoT tool. Its id is the hash of its content, so copies have the same id."""
    name, meta = fields["event"], fields.get("meta", {})
    ts = parse_instant(fields["ts"])
    if ts is None:
        raise BadLine(f"has an invalid time: {fields['ts'][:40]!r}")
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    stamp = Meta(
        id=sha256(canonical.encode()).hexdigest()[:32],
        session=_text(meta.get("session")),
        seq=_RANKS.get(name, -1),
        actor=_text(fields.get("agent") or fields.get("source_agent")),
        branch=_text(meta.get("branch")),
    )
    reader = _READERS.get(name)
    event = reader(fields) if reader else None
    if event is None:
        rest = {key: value for key, value in fields.items() if key not in ("ts", "event", "meta")}
        return Unknown(ts=ts, meta=stamp, kind=name, fields=rest)
    return type(event)(**{**_event_fields(event), "ts": ts, "meta": stamp})


def _event_fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _text(value: Any) -> str:
    """A text, whatever the type; for a hand edit `{"old": …, "new": …}`, the new one."""
    if isinstance(value, dict) and "new" in value:
        value = value["new"]
    return value if isinstance(value, str) else "" if value is None else str(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _read_task_added(fields: dict[str, Any]) -> Event | None:
    task, data = ids.parse_task_id(_text(fields.get("id"))), fields.get("data")
    if task is None or fields.get("type") != "TASK" or not isinstance(data, dict):
        return None
    return TaskAdded(
        id=ids.task_node_id(task),
        type="TASK",
        data=TaskData(
            title=_text(data.get("title")),
            description=_text(data.get("description")),
            status=_text(data.get("status")) or "pending",
            priority=_text(data.get("priority")) or "medium",
            category=_text(data.get("category")),
        ),
    )


def _read_task_edited(fields: dict[str, Any]) -> Event | None:
    task, changes = ids.parse_task_id(_text(fields.get("id"))), fields.get("changes")
    if task is None or not isinstance(changes, dict):
        return None
    return TaskEdited(
        id=ids.task_node_id(task),
        changes=TaskChanges(
            title=_optional_text(changes.get("title")),
            description=_optional_text(changes.get("description")),
            status=_optional_text(changes.get("status")),
            priority=_optional_text(changes.get("priority")),
            category=_optional_text(changes.get("category")),
        ),
    )


def _read_task_deleted(fields: dict[str, Any]) -> Event | None:
    task = ids.parse_task_id(_text(fields.get("id")))
    return None if task is None else TaskDeleted(id=ids.task_node_id(task))


def _read_edge_created(fields: dict[str, Any]) -> Event | None:
    src, tgt = ids.parse_node_id(_text(fields.get("src"))), ids.parse_node_id(_text(fields.get("tgt")))
    if src is None or tgt is None:
        raise BadLine("links nodes with invalid ids")
    weight = fields.get("weight", 1.0)
    return EdgeCreated(
        src=src,
        tgt=tgt,
        type=_text(fields.get("type")),
        weight=float(weight) if isinstance(weight, int | float) and abs(weight) < 1e9 else 1.0,
    )


def _read_edge_deleted(fields: dict[str, Any]) -> Event | None:
    src, tgt = ids.parse_node_id(_text(fields.get("src"))), ids.parse_node_id(_text(fields.get("tgt")))
    if src is None or tgt is None:
        raise BadLine("unlinks nodes with invalid ids")
    return EdgeDeleted(src=src, tgt=tgt, type=_text(fields.get("type")))


def _handoff_id(fields: dict[str, Any]) -> str:
    return ids.parse_handoff_id(_text(fields.get("handoff_id"))) or ""


def _read_handoff_initiated(fields: dict[str, Any]) -> Event | None:
    context = fields.get("context")
    return HandoffInitiated(
        task_id=ids.parse_task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        source_agent=_text(fields.get("source_agent")),
        target_agent=_text(fields.get("target_agent")),
        instructions=_text(fields.get("instructions")),
        context=context if isinstance(context, dict) else {},
    )


def _read_handoff_accepted(fields: dict[str, Any]) -> Event | None:
    return HandoffAccepted(
        task_id=ids.parse_task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        agent=_text(fields.get("agent")),
        acknowledgment=_text(fields.get("acknowledgment")),
    )


def _read_handoff_completed(fields: dict[str, Any]) -> Event | None:
    result, artifacts = fields.get("result"), fields.get("artifacts")
    return HandoffCompleted(
        task_id=ids.parse_task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        agent=_text(fields.get("agent")),
        result=result if isinstance(result, dict) else {},
        artifacts=artifacts if isinstance(artifacts, list) else [],
    )


def _read_handoff_rejected(fields: dict[str, Any]) -> Event | None:
    return HandoffRejected(
        **_rejection_fields(fields),
        reason=_words(fields.get("reason")),
        suggestion=_words(fields.get("suggestion")),
    )


def _read_rejection_invalid(fields: dict[str, Any]) -> Event | None:
    issues = fields.get("validation_issues")
    messages = tuple(filter(None, map(_words, issues[:MAX_NAMES]))) if isinstance(issues, list) else ()
    return HandoffRejectionInvalid(**_rejection_fields(fields), validation_issues=messages)


def _rejection_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of both kinds of rejections. The record names the task; lines without one name only the handoff."""
    record = _object(fields.get("rejection"))
    return {
        "task_id": _task_of(fields, record),
        "handoff_id": _handoff_id(fields) or _handoff_id(record),
        "agent": _words(fields.get("agent")) or _words(record.get("agent_id")),
        "rejection": record,
    }


def _read_rejection_answered(fields: dict[str, Any]) -> Event | None:
    decision = _object(fields.get("decision"))
    record = _object(decision.get("rejection"))
    named = parse_decision_type(decision.get("decision_type"))
    created = decision.get("created_tasks")
    tasks = map(ids.parse_task_id, map(_words, created if isinstance(created, list) else ()))
    return RejectionAnswered(
        task_id=_task_of(fields, record),
        handoff_id=_handoff_id(fields) or _handoff_id(record),
        decision=Decision(
            decision_type=named.name if named else "UNKNOWN",
            rejection=record,
            rationale=_words(decision.get("rationale")),
            override_message=_words(decision.get("override_message")),
            reassign_to=_words(decision.get("reassign_to")),
            created_tasks=tuple(dict.fromkeys(filter(None, tasks)))[:MAX_NAMES],
            deferred_task=ids.parse_task_id(_words(decision.get("deferred_task"))) or "",
        ),
    )


def _task_of(fields: dict[str, Any], record: dict[str, Any]) -> str:
    return (
        ids.parse_task_id(_words(record.get("task_id")))
        or ids.parse_task_id(_words(fields.get("task_id")))
        or ""
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> str:
    """A field's text; empty if it holds something else."""
    return value if isinstance(value, str) else ""


_READERS = {
    "node.create": _read_task_added,
    "node.update": _read_task_edited,
    "node.delete": _read_task_deleted,
    "edge.create": _read_edge_created,
    "edge.delete": _read_edge_deleted,
    "handoff.initiate": _read_handoff_initiated,
    "handoff.accept": _read_handoff_accepted,
    "handoff.complete": _read_handoff_completed,
    "handoff.reject": _read_handoff_rejected,
    "handoff.reject.invalid": _read_rejection_invalid,
    "handoff.reject.response": _read_rejection_answered,
}
