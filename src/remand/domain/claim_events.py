"""Events of claims and handoffs: who takes a task, keeps it, leaves it and hands it in."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain.event import AnswerEvent, ClaimEvent, TaskEvent
from remand.domain.instant import Instant


class TaskClaimed(ClaimEvent, tag="task.claim", kw_only=True):
    """An agent took the task from the queue, which is a handoff from the queue."""

    attempt: int
    epoch: int
    lease_expires_at: Instant
    branch: str = ""
    base: str = ""
    """Where the base was then: what the work is held against, should it be done on the base itself."""


class HandoffInitiated(AnswerEvent, tag="handoff.initiate", kw_only=True):
    """The task was passed to one agent, for which it is reserved until the offer lapses."""

    handoff_id: str
    source_agent: str = ""
    target_agent: str = ""
    instructions: str = ""
    lapses_at: Instant = ""
    context: dict[str, Any] = msgspec.field(default_factory=dict)


class HandoffAccepted(ClaimEvent, tag="handoff.accept", kw_only=True):
    """The target agent took the handoff: a claim with its lease."""

    acknowledgment: str = ""
    attempt: int = 0
    epoch: int = 0
    lease_expires_at: Instant = ""
    branch: str = ""
    base: str = ""


class HandoffCompleted(ClaimEvent, tag="handoff.complete", kw_only=True):
    """The agent handed in its work under an accepted handoff: a done claim."""

    commit: str = ""
    tree: str = ""
    branch: str = ""
    is_branch_given: bool = False
    """It is the task's branch from now on, whichever it had."""
    pr: int = 0
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    artifacts: list[Any] = msgspec.field(default_factory=list)


class HandoffLapsed(TaskEvent, tag="handoff.lapse", kw_only=True):
    """Nobody accepted the handoff in time; the task is free for others again."""

    handoff_id: str


class LeaseRenewed(ClaimEvent, tag="task.heartbeat", kw_only=True):
    """The agent is still at work."""

    lease_expires_at: Instant


class LeaseExpired(ClaimEvent, tag="task.expire", kw_only=True):
    """The agent was not heard of; the task returned to its queue without blame."""


class TaskReleased(ClaimEvent, tag="task.release", kw_only=True):
    """The agent gave the task back untouched."""

    reason: str = ""


class TaskContinued(ClaimEvent, tag="task.continue", kw_only=True):
    """The agent stopped in the middle; another session goes on from there."""

    reason: str = ""


class TaskWaiting(ClaimEvent, tag="task.wait", kw_only=True):
    """The agent waits for something outside."""

    waiting_for: str


class TaskFailed(ClaimEvent, tag="task.fail", kw_only=True):
    """The agent gave up without a valid rejection."""

    reason: str = ""


class TaskSubmitted(ClaimEvent, tag="task.submit", kw_only=True):
    """A done claim passed its gates and awaits review."""

    commit: str
    tree: str = ""
    branch: str = ""
    is_branch_given: bool = False
    """It is the task's branch from now on, whichever it had."""
    pr: int = 0
    gates: tuple[str, ...] = ()
