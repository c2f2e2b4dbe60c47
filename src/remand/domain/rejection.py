"""The records of the protocol: a task rejection as filed by an agent, and the director's decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from remand.domain.instant import to_utc
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, parse_reason

MAX_DEPTH = 64


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a record stamps itself when its maker gives no time; no rule reads it


@dataclass(kw_only=True)
class TaskRejection:
    """A structured rejection. Constructing one never fails on its values: only the validator judges."""

    task_id: str | Any = ""
    handoff_id: str | Any = ""
    agent_id: str | Any = ""
    reason_type: RejectionReason | Any
    reason_summary: str | Any = ""
    reason_detail: str | Any = ""
    what_attempted: list[str] | Any = field(default_factory=list)
    blocking_factor: str | Any = ""
    evidence: list[dict[str, Any]] | Any = field(default_factory=list)
    suggested_alternative: str | Any = ""
    alternative_tasks: list[dict[str, Any]] | Any = field(default_factory=list)
    task_original_scope: str | Any = ""
    scope_growth_factor: float | Any | None = None
    rejected_at: datetime | Any = field(default_factory=_now)

    def __post_init__(self) -> None:
        """Converts a reason's name and a time's text; a time without a zone is local."""
        self.reason_type = parse_reason(self.reason_type) or self.reason_type
        self.rejected_at = _time_in_utc(self.rejected_at)

    @property
    def reason(self) -> RejectionReason | None:
        """The reason, if it is a known one."""
        return self.reason_type if isinstance(self.reason_type, RejectionReason) else None

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain values, as stored in the ledger."""
        return {
            "task_id": _plain_value(self.task_id),
            "handoff_id": _plain_value(self.handoff_id),
            "agent_id": _plain_value(self.agent_id),
            "rejected_at": _plain_value(_plain_name(self.rejected_at)),
            "reason_type": _plain_value(_plain_name(self.reason_type)),
            "reason_summary": _plain_value(self.reason_summary),
            "reason_detail": _plain_value(self.reason_detail),
            "what_attempted": _plain_value(self.what_attempted),
            "blocking_factor": _plain_value(self.blocking_factor),
            "evidence": _plain_value(self.evidence),
            "suggested_alternative": _plain_value(self.suggested_alternative),
            "alternative_tasks": _plain_value(self.alternative_tasks),
            "task_original_scope": _plain_value(self.task_original_scope),
            "scope_growth_factor": _plain_value(self.scope_growth_factor),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskRejection:
        """Restores the record from `to_dict` without changing its argument. Missing fields stay empty."""
        values = {name: _copy(data[name]) for name in FIELDS if name in data}
        values.setdefault("reason_type", "")
        return cls(**values)


FIELDS = tuple(item.name for item in fields(TaskRejection))


@dataclass
class RejectionDecision:
    """The director's answer to a rejection: its type is stored, never guessed from the text."""

    decision_type: DecisionType | Any
    rejection: TaskRejection
    rationale: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: list[str] = field(default_factory=list)
    deferred_task: str = ""

    def __post_init__(self) -> None:
        """Converts a decision's name."""
        self.decision_type = parse_decision_type(self.decision_type) or self.decision_type

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain values."""
        return {
            "decision_type": _plain_name(self.decision_type),
            "rejection": self.rejection.to_dict(),
            "rationale": self.rationale,
            "override_message": self.override_message,
            "reassign_to": self.reassign_to,
            "created_tasks": _copy(self.created_tasks),
            "deferred_task": self.deferred_task,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RejectionDecision:
        """Restores the record from `to_dict` without changing its argument."""
        values = {item.name: _copy(data[item.name]) for item in fields(cls) if item.name in data}
        rejection = values.get("rejection")
        values["rejection"] = TaskRejection.from_dict(rejection if isinstance(rejection, Mapping) else {})
        values.setdefault("decision_type", "")
        return cls(**values)


def _copy(value: Any, depth: int = 0) -> Any:
    """A deep copy of lists and dicts, down to the greatest depth that the ledger accepts."""
    if isinstance(value, dict | list | tuple) and depth > MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, depth + 1) for item in value]
    return value


def _plain_value(value: Any, depth: int = 0) -> Any:
    """A copy that can be written as JSON; other values become their text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {str(key): _plain_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item, depth + 1) for item in value]
    return f"<{type(value).__name__}>"


def _plain_name(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.name if isinstance(value, RejectionReason | DecisionType) else value


def _time_in_utc(value: Any) -> Any:
    """A time in UTC; an invalid time is unchanged, for the validator to report."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value
    return to_utc(value) if isinstance(value, datetime) else value
