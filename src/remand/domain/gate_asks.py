"""What is asked about gates: by the coordinator what they measured, by people what becomes of it."""

from __future__ import annotations

from remand.domain.ask import TaskAsk
from remand.domain.gates.verdict import Verdict


class SettleFinding(TaskAsk, kw_only=True):
    """Accept or refuse a finding of the integrity gate."""

    finding: str
    is_accepted: bool
    reason: str = ""


class OverrideGate(TaskAsk, kw_only=True):
    """Let a gate's failure pass, for the code tree it was measured on."""

    gate: str
    reason: str


class RecordVerdict(TaskAsk, kw_only=True):
    """Note what the gates measured of an agent's done claim."""

    agent: str
    handoff_id: str = ""
    verdict: Verdict
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0


class NoteGatesMeasured(TaskAsk, kw_only=True):
    """Note that gates could be measured again, and close the task's question about its gates once none is broken."""

    gates: tuple[str, ...] = ()
    """None: the rules may have changed."""
