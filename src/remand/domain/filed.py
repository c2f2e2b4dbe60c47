"""What a task keeps of the rejections that agents filed of it."""

from __future__ import annotations

from remand.domain.record import Record


class Slip(Record, kw_only=True):
    """A rejection that lacked a part which its agent can add: the codes of what was missing."""

    agent: str
    codes: tuple[str, ...]


class Filed(Record, kw_only=True):
    """The last rejection of the task by an agent, and how it was answered."""

    rejection_id: str
    handoff_id: str
    agent: str
    reason: str = ""
    """The reason's name."""
    is_valid: bool = True
    decision: str = ""
    """The decision's name; empty while a director has yet to answer."""
    message: str = ""
    """What the director told the agent when it overrode the rejection."""
    answer: tuple[str, int] = ("", 0)
    """Where the answer and what follows from it stand in the log: the session, and the last number."""
    was_claimed: bool = False
    """The agent had accepted the handoff, and not only been offered it."""
    runner: str = ""
    """The ledger whose scheduler ran the agent; empty when none did."""
    base: str = ""
    """The commit the base was at when the agent took the task."""
