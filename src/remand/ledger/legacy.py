"""Lines of GoT tools, which have no id, sequence number or chain, as events."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from remand.domain import events as e
from remand.domain import ids
from remand.domain.instant import parse
from remand.domain.reasons import decision_named
from remand.ledger.problems import BadLine

_RANKS = {
    "node.create": -3,
    "decision.create": -3,
    "edge.create": -2,
    "handoff.initiate": -2,
    "handoff.reject.response": 0,
}
"""Lines of one time in one session: what creates comes before what changes, and a rejection before its answer."""
MAX_NAMES = 50
"""How many tasks an imported answer may say it created, and how many issues a rejection may list."""


def translate(fields: dict[str, Any]) -> e.Event:
    """The event in a line of a GoT tool. Its id is the hash of its content, so that copies are known as such."""
    name, meta = fields["event"], fields.get("meta", {})
    ts = parse(fields["ts"])
    if ts is None:
        raise BadLine(f"has a time that is none: {fields['ts'][:40]!r}")
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    stamp = e.Meta(
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
        return e.Unknown(ts=ts, meta=stamp, kind=name, fields=rest)
    return type(event)(**{**_fields(event), "ts": ts, "meta": stamp})


def _fields(event: e.Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _text(value: Any) -> str:
    """A text, whatever was there; `{"old": …, "new": …}` (a hand edit) means the new one."""
    if isinstance(value, dict) and "new" in value:
        value = value["new"]
    return value if isinstance(value, str) else "" if value is None else str(value)


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _node_created(fields: dict[str, Any]) -> e.Event | None:
    task, data = ids.task_id(_text(fields.get("id"))), fields.get("data")
    if task is None or fields.get("type") != "TASK" or not isinstance(data, dict):
        return None
    return e.TaskAdded(
        id=ids.task_node(task),
        type="TASK",
        data=e.TaskData(
            title=_text(data.get("title")),
            description=_text(data.get("description")),
            status=_text(data.get("status")) or "pending",
            priority=_text(data.get("priority")) or "medium",
            category=_text(data.get("category")),
        ),
    )


def _node_updated(fields: dict[str, Any]) -> e.Event | None:
    task, changes = ids.task_id(_text(fields.get("id"))), fields.get("changes")
    if task is None or not isinstance(changes, dict):
        return None
    return e.TaskEdited(
        id=ids.task_node(task),
        changes=e.TaskChanges(
            title=_optional(changes.get("title")),
            description=_optional(changes.get("description")),
            status=_optional(changes.get("status")),
            priority=_optional(changes.get("priority")),
            category=_optional(changes.get("category")),
        ),
    )


def _node_deleted(fields: dict[str, Any]) -> e.Event | None:
    task = ids.task_id(_text(fields.get("id")))
    return None if task is None else e.TaskDeleted(id=ids.task_node(task))


def _edge_created(fields: dict[str, Any]) -> e.Event | None:
    src, tgt = ids.node_id(_text(fields.get("src"))), ids.node_id(_text(fields.get("tgt")))
    if src is None or tgt is None:
        raise BadLine("links nodes whose ids are none")
    weight = fields.get("weight", 1.0)
    return e.EdgeCreated(
        src=src,
        tgt=tgt,
        type=_text(fields.get("type")),
        weight=float(weight) if isinstance(weight, int | float) and abs(weight) < 1e9 else 1.0,
    )


def _edge_deleted(fields: dict[str, Any]) -> e.Event | None:
    src, tgt = ids.node_id(_text(fields.get("src"))), ids.node_id(_text(fields.get("tgt")))
    if src is None or tgt is None:
        raise BadLine("unlinks nodes whose ids are none")
    return e.EdgeDeleted(src=src, tgt=tgt, type=_text(fields.get("type")))


def _handoff_id(fields: dict[str, Any]) -> str:
    return ids.handoff_id(_text(fields.get("handoff_id"))) or ""


def _initiated(fields: dict[str, Any]) -> e.Event | None:
    context = fields.get("context")
    return e.HandoffInitiated(
        task_id=ids.task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        source_agent=_text(fields.get("source_agent")),
        target_agent=_text(fields.get("target_agent")),
        instructions=_text(fields.get("instructions")),
        context=context if isinstance(context, dict) else {},
    )


def _accepted(fields: dict[str, Any]) -> e.Event | None:
    return e.HandoffAccepted(
        task_id=ids.task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        agent=_text(fields.get("agent")),
        acknowledgment=_text(fields.get("acknowledgment")),
    )


def _completed(fields: dict[str, Any]) -> e.Event | None:
    result, artifacts = fields.get("result"), fields.get("artifacts")
    return e.HandoffCompleted(
        task_id=ids.task_id(_text(fields.get("task_id"))) or "",
        handoff_id=_handoff_id(fields),
        agent=_text(fields.get("agent")),
        result=result if isinstance(result, dict) else {},
        artifacts=artifacts if isinstance(artifacts, list) else [],
    )


def _rejected(fields: dict[str, Any]) -> e.Event | None:
    return e.HandoffRejected(
        **_rejection(fields), reason=_words(fields.get("reason")), suggestion=_words(fields.get("suggestion"))
    )


def _rejected_without_cause(fields: dict[str, Any]) -> e.Event | None:
    issues = fields.get("validation_issues")
    messages = tuple(filter(None, map(_words, issues[:MAX_NAMES]))) if isinstance(issues, list) else ()
    return e.HandoffRejectionInvalid(**_rejection(fields), validation_issues=messages)


def _rejection(fields: dict[str, Any]) -> dict[str, Any]:
    """What both kinds of rejections have. The record names the task; lines without one name the handoff alone."""
    record = _object(fields.get("rejection"))
    return {
        "task_id": _task_of(fields, record),
        "handoff_id": _handoff_id(fields) or _handoff_id(record),
        "agent": _words(fields.get("agent")) or _words(record.get("agent_id")),
        "rejection": record,
    }


def _answered(fields: dict[str, Any]) -> e.Event | None:
    decision = _object(fields.get("decision"))
    record = _object(decision.get("rejection"))
    named = decision_named(decision.get("decision_type"))
    created = decision.get("created_tasks")
    tasks = map(ids.task_id, map(_words, created if isinstance(created, list) else ()))
    return e.RejectionAnswered(
        task_id=_task_of(fields, record),
        handoff_id=_handoff_id(fields) or _handoff_id(record),
        decision=e.Decision(
            decision_type=named.name if named else "UNKNOWN",
            rejection=record,
            rationale=_words(decision.get("rationale")),
            override_message=_words(decision.get("override_message")),
            reassign_to=_words(decision.get("reassign_to")),
            created_tasks=tuple(dict.fromkeys(filter(None, tasks)))[:MAX_NAMES],
            deferred_task=ids.task_id(_words(decision.get("deferred_task"))) or "",
        ),
    )


def _task_of(fields: dict[str, Any], record: dict[str, Any]) -> str:
    return ids.task_id(_words(record.get("task_id"))) or ids.task_id(_words(fields.get("task_id"))) or ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> str:
    """The text that a field holds; empty when it holds something else."""
    return value if isinstance(value, str) else ""


_READERS = {
    "node.create": _node_created,
    "node.update": _node_updated,
    "node.delete": _node_deleted,
    "edge.create": _edge_created,
    "edge.delete": _edge_deleted,
    "handoff.initiate": _initiated,
    "handoff.accept": _accepted,
    "handoff.complete": _completed,
    "handoff.reject": _rejected,
    "handoff.reject.invalid": _rejected_without_cause,
    "handoff.reject.response": _answered,
}
