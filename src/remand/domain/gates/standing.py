"""How a task stands with its gates."""

from __future__ import annotations

from remand.domain.gates.outages import Outage
from remand.domain.gates.verdict import GateStatus
from remand.domain.instant import Instant
from remand.domain.record import Record


class Alert(Record, kw_only=True):
    """That one claim was rejected so often that the user should know."""

    id: str
    handoff_id: str
    """The claim."""
    agent: str
    number: int
    """How many rejections there were."""
    alert_after: int
    escalate_after: int
    at: Instant
    notified: tuple[str, ...] = ()
    """The channels that took the notice."""
    acknowledged_by: str = ""


class Gating(Record, kw_only=True):
    """How the last done claim fared at its gates, and what was settled about the task's findings."""

    status: GateStatus | None = None
    """The last verdict's; None before there was one."""
    handoff_id: str = ""
    """The claim it was measured under."""
    commit: str = ""
    tree: str = ""
    base: str = ""
    policy: str = ""
    tier: str = ""
    standing: tuple[str, ...] = ()
    """The gates that stood in the way."""
    held: tuple[str, ...] = ()
    """The findings that wait for a reviewer."""
    places: tuple[tuple[str, str], ...] = ()
    """The file each of them is about."""
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0
    failing: int = 0
    excess: float = 0.0
    count: int = 0
    """Rejections of the current claim."""
    stalled: int = 0
    """How many of them in a row showed no progress after the alert."""
    is_released: bool = False
    """Work with this code tree may be handed in."""
    accepted: tuple[str, ...] = ()
    """Findings that a reviewer accepted, for as long as the task lives."""
    refused: tuple[tuple[str, str], ...] = ()
    """Findings that a reviewer refused, each with the reviewer's reason: they fail until they are undone."""
    questioned: tuple[str, ...] = ()
    """Whose work had findings for a reviewer; none of them settles one."""
    overridden: tuple[tuple[str, str], ...] = ()
    """What the user let pass: a gate, and the code tree it is let pass for."""
    outages: tuple[Outage, ...] = ()
    """When gates could not be measured for this task, and nothing was measured by them since."""
    alert: Alert | None = None
    """The last alert about the current claim."""
