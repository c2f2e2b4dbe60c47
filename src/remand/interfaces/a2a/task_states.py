"""A task of the ledger as A2A shows it: its state, what is asked, and the reasons of every no, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from a2a.helpers.proto_helpers import new_data_artifact, new_data_part, new_text_part
from a2a.types import a2a_pb2 as wire

from remand.domain.task import Status

JSON_TYPE = "application/json"
REASONS = "urn:remand:reasons:1"
"""The extension by which status messages have reasons as data: a list of objects with `kind`, `code` and `message`."""

STATES: Mapping[Status, wire.TaskState] = {
    Status.INCOMING: wire.TASK_STATE_SUBMITTED,
    Status.DEFERRED: wire.TASK_STATE_SUBMITTED,
    Status.CLAIMED: wire.TASK_STATE_WORKING,
    Status.PROVISIONAL: wire.TASK_STATE_WORKING,
    Status.REJECTED: wire.TASK_STATE_WORKING,
    Status.NEEDS_CONTINUATION: wire.TASK_STATE_WORKING,
    Status.DECOMPOSED: wire.TASK_STATE_WORKING,
    Status.BLOCKED: wire.TASK_STATE_INPUT_REQUIRED,
    Status.ESCALATED: wire.TASK_STATE_INPUT_REQUIRED,
    Status.DONE: wire.TASK_STATE_COMPLETED,
    Status.INFEASIBLE: wire.TASK_STATE_REJECTED,
    Status.FAILED: wire.TASK_STATE_FAILED,
    Status.CANCELLED: wire.TASK_STATE_CANCELED,
}
"""What each status is in A2A. Work that a gate or a reviewer rejected is worked on again, so the task goes on."""
FINAL = frozenset(
    {
        wire.TASK_STATE_COMPLETED,
        wire.TASK_STATE_REJECTED,
        wire.TASK_STATE_FAILED,
        wire.TASK_STATE_CANCELED,
    }
)


def task_state(row: Mapping[str, Any], questions: Iterable[Mapping[str, Any]]) -> wire.TaskState:
    """The state of a task, by its row and the open questions; with a question about it, it waits for an answer."""
    state = STATES[Status(row["status"])]
    is_asked = any(question.get("task_id") == row["task_id"] for question in questions)
    return wire.TASK_STATE_INPUT_REQUIRED if is_asked and state not in FINAL else state


def context_id(row: Mapping[str, Any]) -> str:
    """The context of a task: what it was handed in with, which the ledger keeps as its category; else its own."""
    return str(row.get("category") or row["task_id"])


def make_wire_task(row: Mapping[str, Any], questions: Iterable[Mapping[str, Any]]) -> wire.Task:
    """A task as A2A has it, by what `remand task show` says (or a row of `task list`) and the open questions."""
    asked = [question for question in questions if question.get("task_id") == row["task_id"]]
    state = task_state(row, asked)
    made = wire.Task(id=row["task_id"], context_id=context_id(row), status=wire.TaskStatus(state=state))
    history = row.get("history") or ()
    if history:
        made.status.timestamp.FromJsonString(history[-1]["ts"])
    reasons = list(find_reasons(row)) if state != wire.TASK_STATE_COMPLETED else []
    if reasons or asked:
        made.status.message.CopyFrom(_status_message(row, reasons, asked))
    made.metadata.update(
        {"status": row["status"], "title": row["title"], "priority": row["priority"], "agent": row["agent"]}
    )
    if row.get("submission"):
        work = {"commit": row["submission"]["commit"], "branch": row["branch"], "pr": row["pr"]}
        made.artifacts.append(new_data_artifact("submission", work, artifact_id="submission"))
    return made


def refusal_task(message: wire.Message, reason: Mapping[str, Any]) -> wire.Task:
    """What is answered to a task that was not taken in. The ledger has none of it: it is known by the message's id."""
    name = f"refused-{message.message_id}"
    made = wire.Task(id=name, context_id=message.context_id or name)
    made.status.state = wire.TASK_STATE_REJECTED
    made.status.message.CopyFrom(_message(name, name, str(reason["message"]), {"reasons": [dict(reason)]}))
    return made


def find_reasons(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every no that a task has had and that still tells something: of each kind the last one, the newest last."""
    last = {event["event"]: event for event in row.get("rejections") or ()}
    decisions = {event.get("rejection_id"): event["decision"] for event in row.get("decisions") or ()}
    for event in sorted(last.values(), key=lambda event: str(event["ts"])):
        at = {"at": event["ts"]}
        match event["event"]:
            case "gate.reject":
                yield _gate_reason(event["verdict"]) | {"agent": event["agent"]} | at
            case "review.reject":
                yield _review_reason(event) | at
            case _:
                yield _task_reason(event, decisions.get(event.get("rejection_id"))) | at
    if row.get("superseded_by"):
        yield {
            "kind": "task",
            "code": "superseded",
            "message": f"{row['superseded_by']} takes its place.",
            "superseded_by": row["superseded_by"],
        }


def _gate_reason(verdict: Mapping[str, Any]) -> dict[str, Any]:
    failed = [gate for gate in verdict["gates"] if gate["status"] not in ("passed", "overridden")]
    names = ("name", "status", "measured", "required", "line")
    return {
        "kind": "gate",
        "code": "gate_rejected",
        "message": "\n".join(gate.get("line", gate["name"]) for gate in failed),
        "commit": verdict["commit"],
        "gates": [{name: gate[name] for name in names if name in gate} for gate in failed],
    }


def _review_reason(event: Mapping[str, Any]) -> dict[str, Any]:
    findings = list(event.get("findings") or ())
    return {
        "kind": "review",
        "code": "review_rejected",
        "message": "\n".join(str(finding.get("text", "")) for finding in findings),
        "commit": event["commit"],
        "reviewer": event["reviewer"],
        "findings": findings,
    }


def _task_reason(event: Mapping[str, Any], decision: Mapping[str, Any] | None) -> dict[str, Any]:
    rejection = event.get("rejection") or {}
    return {
        "kind": "task",
        "code": str(
            rejection.get("reason_type") or rejection.get("reason") or event.get("reason") or "rejected"
        ),
        "message": str(
            rejection.get("reason_summary") or rejection.get("summary") or event.get("reason") or ""
        ),
        "agent": event.get("agent", ""),
        "is_valid": event["event"] == "handoff.reject",
        "rejection": rejection,
        "issues": list(event.get("issues") or ()),
        "decision": dict(decision) if decision else None,
    }


def _status_message(
    row: Mapping[str, Any], reasons: list[dict[str, Any]], asked: list[Mapping[str, Any]]
) -> wire.Message:
    """The message of a status: what is asked and why, in words and as data."""
    texts = [str(question.get("question", "")) for question in asked] or [reasons[-1]["message"]]
    data: dict[str, Any] = {"reasons": reasons}
    if asked:
        data["questions"] = [_question(question) for question in asked]
    return _message(row["task_id"], context_id(row), "\n\n".join(texts), data)


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    names = ("escalation_id", "question", "options", "deadline", "default")
    return {name: question[name] for name in names if name in question}


def _message(task_id: str, context: str, text: str, data: Mapping[str, Any]) -> wire.Message:
    return wire.Message(
        message_id=f"status-{task_id}",
        task_id=task_id,
        context_id=context,
        role=wire.ROLE_AGENT,
        parts=[new_text_part(text), new_data_part(dict(data), JSON_TYPE)],
        extensions=[REASONS],
    )
