"""Events of reviews, lockouts and escalations."""

from __future__ import annotations

from remand.domain.event import TaskEvent
from remand.domain.record import Record


class LockoutSet(TaskEvent, tag="lockout.set", kw_only=True):
    """An agent may not work on the task any more."""

    agent: str
    reason: str = ""


class LockoutCleared(TaskEvent, tag="lockout.clear", kw_only=True):
    """An agent may work on the task again."""

    agent: str
    reason: str = ""


class Finding(Record, kw_only=True):
    """One remark of a review."""

    text: str
    path: str = ""
    line: int = 0
    is_blocking: bool = True


class ReviewApproved(TaskEvent, tag="review.approve", kw_only=True):
    """A reviewer accepted the submission at that commit."""

    reviewer: str
    commit: str
    tree: str = ""


class ReviewRejected(TaskEvent, tag="review.reject", kw_only=True):
    """A reviewer sent the submission back."""

    reviewer: str
    commit: str
    tree: str = ""
    findings: tuple[Finding, ...] = ()


class EscalationOpened(TaskEvent, tag="escalation.open", kw_only=True):
    """A question only a human can answer."""

    reason: str = ""
