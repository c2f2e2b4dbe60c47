"""The flat form of a task's state: the input of a ledger's digest, and the content of older ledger files.

The names and their order are those of the first release, so that a log keeps its digest however a task is
composed.
"""

from __future__ import annotations

from typing import Any

from remand.domain.gate.state import GateState
from remand.domain.record import Record
from remand.domain.task import Task

_TASK = """
id title details.created_at details.created_by details.scope details.priority details.category details.skills branch
details.aliases pr links.parent status queue claim claims.offers claims.epoch claims.attempt_count
reviews.rejection_count gates.rejection_count=gate_rejection_count links.depends_on links.waits_for links.children
claims.waiting_for submission reviews.approved_commit people.authors people.reviewers people.lockouts people.unlocked
reviews.rounds reviews.feedback people.holders reviews.requested reviews.sources inbox.escalation people.fixer
rejections.last_rejection=filed rejections.invalid_by rejections.slips rejections.accepted_by links.superseded_by
gates=gating runs spent forge claims.exits inbox.conflicts inbox.notices inbox.dismissals is_legacy
"""
_GATES = """
status handoff_id commit tree base policy tier blocking=standing held places branch is_branch_given pr progress.failing
progress.excess progress.count progress.stalled is_released decisions.accepted decisions.refused decisions.questioned
decisions.overridden outages progress.alert
"""


def _read_layout(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The name of each field in the flat form, with its path through the parts of the record."""
    pairs = (word.partition("=") for word in text.split())
    return tuple((name or way.rpartition(".")[2], tuple(way.split("."))) for way, _, name in pairs)


_TASK_LAYOUT, _GATES_LAYOUT = _read_layout(_TASK), _read_layout(_GATES)
_NEW_TASK, _NEW_GATES = Task(id="", title=""), GateState()


def flat_state(task: Task) -> dict[str, Any]:
    """The fields of a task by name, without those that have their default."""
    flat = _flatten(task, _NEW_TASK, _TASK_LAYOUT)
    if "gating" in flat:
        flat["gating"] = _flatten(task.gates, _NEW_GATES, _GATES_LAYOUT)
    return flat


def _flatten(
    record: Record, default: Record, layout: tuple[tuple[str, tuple[str, ...]], ...]
) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, way in layout:
        value, usual = record, default
        for part in way:
            value, usual = getattr(value, part), getattr(usual, part)
        # As msgspec omits defaults: by identity.
        if value is not usual or name in {"id", "title"}:
            flat[name] = value
    return flat


def compose_state(flat: dict[str, Any]) -> dict[str, Any]:
    """Converts the flat form of older tables into the state that tables store since version 16."""
    flat = dict(flat)
    gates, count = flat.pop("gating", None), flat.pop("gate_rejection_count", 0)
    state = _compose(flat, _TASK_LAYOUT)
    if gates is not None or count:
        state["gates"] = _compose(gates or {}, _GATES_LAYOUT) | ({"rejection_count": count} if count else {})
    return state


def _compose(flat: dict[str, Any], layout: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, (*parts, last) in layout:
        if name in flat:
            inner = state
            for part in parts:
                inner = inner.setdefault(part, {})
            inner[last] = flat[name]
    return state
