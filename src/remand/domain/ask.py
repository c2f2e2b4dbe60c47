"""What every ask has: the wish itself, and what it is about."""

from __future__ import annotations

from remand.domain.record import Record


class Ask(Record, tag_field="ask", tag=str.lower):
    """A wish, as it comes through any door. What follows from it only `decide` says."""


class TaskAsk(Ask, kw_only=True):
    """An ask about one task."""

    task_id: str


class ClaimAsk(TaskAsk, kw_only=True):
    """An ask of the agent that holds the task; the handoff, when given, must be the current one."""

    agent: str
    handoff_id: str = ""
    reason: str = ""
