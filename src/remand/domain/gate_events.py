"""Events of gates: what was measured of done claims, and what reviewers and the user said to it."""

from __future__ import annotations

from remand.domain.event import ClaimEvent, OverridingEvent, TaskEvent
from remand.domain.gates.verdict import Verdict
from remand.domain.instant import Instant


class GatePassed(ClaimEvent, tag="gate.pass", kw_only=True):
    """The gates let a done claim through. Without enforcement they do so whatever they measured."""

    verdict: Verdict
    is_observed: bool = False
    """True when nothing is enforced: the verdict says what would have been."""


class GateRejected(ClaimEvent, tag="gate.reject", kw_only=True):
    """The gates refused a done claim; the agent goes on."""

    verdict: Verdict
    number: int = 1
    """The how-manieth of this claim."""
    has_progress: bool = False
    """Fewer failing tests than at the rejection before, or a smaller sum."""
    stalled: int = 0
    """How many in a row, this one among them, showed no progress after the alert."""
    because: str = ""
    """Why a reviewer refused what was held."""


class GateHeld(ClaimEvent, tag="gate.hold", kw_only=True):
    """A done claim waits for a reviewer's word on findings of the integrity gate."""

    verdict: Verdict
    lease_expires_at: Instant = ""
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0


class GateErrored(ClaimEvent, tag="gate.error", kw_only=True):
    """The gates could not be run; nobody is to blame, and another session goes on."""

    verdict: Verdict


class GateAlerted(TaskEvent, tag="gate.alert", kw_only=True):
    """One claim was rejected so often that a human should know."""

    agent: str
    number: int
    handoff_id: str = ""
    """The claim; empty in events that were written without it, which reach nobody."""
    alert_after: int = 0
    """The threshold that was reached."""
    escalate_after: int = 0
    """At which rejection of the claim a human takes over."""


class FindingAccepted(OverridingEvent, tag="gate.accept", kw_only=True):
    """A reviewer accepted a finding of the integrity gate."""

    finding: str
    reviewer: str
    reason: str = ""


class FindingRefused(TaskEvent, tag="gate.refuse", kw_only=True):
    """A reviewer refused a finding of the integrity gate: it has to be undone."""

    finding: str
    reviewer: str
    reason: str = ""


class GateOverridden(OverridingEvent, tag="gate.override", kw_only=True):
    """The user let a gate's failure pass, for one code tree."""

    gate: str
    tree: str
    reason: str


class GateRecovered(TaskEvent, tag="gate.recover", kw_only=True):
    """Gates that could not be measured for this task have been measured since, for another task or by the user."""

    gates: tuple[str, ...]
