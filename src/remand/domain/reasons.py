"""The reasons for which an agent may reject a task, and the answers of a director."""

from __future__ import annotations

from enum import Enum, auto


class RejectionReason(Enum):
    """Why a task is rejected. Each reason has its own burden of proof, which the validator holds it to."""

    BLOCKER = auto()
    """An external obstacle blocks the task, and evidence shows it."""
    SCOPE_CREEP = auto()
    """The task grew to more than twice its original scope, and should be split into sub-tasks."""
    MISSING_DEPENDENCY = auto()
    """Another task or decision that is still open has to come first."""
    INFEASIBLE = auto()
    """The requirements of the task exclude each other."""
    UNCLEAR_REQUIREMENTS = auto()
    """The task has several possible meanings, and nobody could say which one applies."""
    OBSOLETE = auto()
    """The task is already done, a duplicate, superseded, or about something that no longer exists."""


class DecisionType(Enum):
    """What the director makes of a rejection."""

    OVERRIDE = auto()
    """The rejection is not accepted; the work continues."""
    ACCEPT = auto()
    """The rejection is accepted: the task is blocked, or cancelled if it is obsolete."""
    ACCEPT_AND_DEFER = auto()
    """The rejection is accepted: the task is deferred until what blocks it is done."""
    ACCEPT_AND_DECOMPOSE = auto()
    """The rejection is accepted: sub-tasks replace the task."""
    ACCEPT_AND_REFORMULATE = auto()
    """The rejection is accepted: a feasible task replaces this one."""


def status_after(decision: DecisionType, reason: RejectionReason | None) -> str:
    """The status of a task after that decision on its rejection; empty when work continues."""
    if decision is DecisionType.ACCEPT and reason is RejectionReason.OBSOLETE:
        return "cancelled"
    return _STATUS_AFTER.get(decision, "")


_STATUS_AFTER = {
    DecisionType.ACCEPT: "blocked",
    DecisionType.ACCEPT_AND_DEFER: "deferred",
    DecisionType.ACCEPT_AND_DECOMPOSE: "decomposed",
    DecisionType.ACCEPT_AND_REFORMULATE: "infeasible",
}


def parse_reason(value: object) -> RejectionReason | None:
    """The reason with that name in any case; None if there is none."""
    if isinstance(value, RejectionReason):
        return value
    if not isinstance(value, str):
        return None
    return RejectionReason.__members__.get(value.strip().upper().replace("-", "_").replace(" ", "_"))


def parse_decision_type(value: object) -> DecisionType | None:
    """The decision with that name in any case; None if there is none."""
    if isinstance(value, DecisionType):
        return value
    if not isinstance(value, str):
        return None
    return DecisionType.__members__.get(value.strip().upper().replace("-", "_").replace(" ", "_"))
