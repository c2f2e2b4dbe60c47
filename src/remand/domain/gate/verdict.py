"""What was measured of a commit, and what it is worth."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import GateFinding
from remand.domain.record import Record

MAX_BYTES = 180 * 1024
"""Of the 256 KiB of an event."""
MAX_KEPT = 256
INTEGRITY_GATE = "integrity"
"""The name of the gate that watches over the others."""
RUNNER_GATE = "runner"
"""What stands in a verdict for all gates when none of them could even be started."""

_encode = msgspec.json.Encoder().encode


class GateStatus(StrEnum):
    """How a gate, or a whole verdict, came out."""

    PASSED = "passed"
    FAILED = "failed"
    HELD = "held"
    """Only a reviewer or the user can settle it."""
    ERRORED = "errored"
    """It could not be measured, which is nobody's fault and never a pass."""
    TIMED_OUT = "timed_out"
    STALE = "stale"
    OVERRIDDEN = "overridden"


RELEASING = frozenset({GateStatus.PASSED, GateStatus.OVERRIDDEN})
UNMEASURED = frozenset({GateStatus.ERRORED, GateStatus.TIMED_OUT, GateStatus.STALE})
_ORDER = (
    GateStatus.FAILED,
    GateStatus.ERRORED,
    GateStatus.TIMED_OUT,
    GateStatus.STALE,
    GateStatus.HELD,
    GateStatus.OVERRIDDEN,
)


class GateResult(Record, kw_only=True):
    """One gate: its figures against the required ones."""

    name: str
    status: GateStatus
    measured: dict[str, float] = msgspec.field(default_factory=dict)
    required: dict[str, float] = msgspec.field(default_factory=dict)
    base: dict[str, float] = msgspec.field(default_factory=dict)
    """The base's figures, where they were asked for."""
    line: str = ""
    detail: str = ""
    """Why it could not be measured, or what else has to be said."""
    findings: tuple[GateFinding, ...] = ()
    finding_count: int = 0
    """How many there are; of many, only the first are kept."""
    failing: tuple[str, ...] = ()
    """The ids of failing tests, the first of them."""
    failing_count: int = 0
    excess: float = 0.0
    """By how much the thresholds are missed, all together."""
    flaky: tuple[str, ...] = ()
    """Tests that failed, and passed when they were run again."""
    suspicions: tuple[str, ...] = ()
    """The ids of findings that a reviewer has to settle."""
    is_required: bool = True
    is_known: bool = False
    """It was measured before, on the same code; nothing was run for this verdict."""
    seconds: float = 0.0

    @property
    def held_findings(self) -> tuple[tuple[str, GateFinding], ...]:
        """What a reviewer has to settle: each id with its finding; of very many, the last have an empty one.

        The findings that have to be settled come first, and notes, which have no id, after them.
        """
        serious = [finding for finding in self.findings if finding.severity != "note"]
        empty = [GateFinding()] * len(self.suspicions)
        return tuple(zip(self.suspicions, [*serious, *empty], strict=False))


class Verdict(Record, kw_only=True):
    """All gates of one commit, bound to what was measured, against what, by which rules."""

    status: GateStatus
    commit: str
    tree: str
    base: str = ""
    """The commit it was compared with."""
    policy: str = ""
    """The digest of the rules."""
    tools: str = ""
    tier: str = ""
    """What kept the gates' commands apart: bubblewrap, landlock or plain."""
    gates: tuple[GateResult, ...] = ()
    report: str = ""
    """The name of the full report on the machine that measured. Older verdicts have its path there."""

    @property
    def report_name(self) -> str:
        """The report's name alone; empty when there is none."""
        name = self.report.rpartition("/")[2].removesuffix(".md")
        return name if name.replace("-", "").isalnum() else ""

    @property
    def is_release(self) -> bool:
        """True when work may be submitted with it."""
        return self.status in RELEASING

    @property
    def blocking_gates(self) -> tuple[str, ...]:
        """The gates that stand in the way."""
        return tuple(g.name for g in self.gates if g.is_required and g.status not in RELEASING)

    @property
    def suspicions(self) -> tuple[str, ...]:
        """The findings that a reviewer has to settle."""
        return tuple(
            name
            for gate in self.gates
            if gate.is_required and gate.status is GateStatus.HELD
            for name in gate.suspicions
        )

    @property
    def failing_count(self) -> int:
        """How many failing tests there are in all."""
        return sum(gate.failing_count for gate in self.gates if gate.is_required)

    @property
    def excess(self) -> float:
        """By how much the thresholds are missed, over all gates."""
        return sum(gate.excess for gate in self.gates if gate.is_required)


def overall_status(gates: tuple[GateResult, ...]) -> GateStatus:
    """The status of a verdict: of its required gates, the one that matters most.

    A failure is told before what could not be measured, since the agent can continue with it.
    """
    found = {gate.status for gate in gates if gate.is_required}
    return next((status for status in _ORDER if status in found), GateStatus.PASSED)


def make_unstarted_verdict(commit: str, tree: str, why: str) -> Verdict:
    """The verdict when no gate could even be started."""
    gate = GateResult(
        name=RUNNER_GATE, status=GateStatus.ERRORED, line="- Runner: could not be started", detail=why
    )
    return Verdict(status=GateStatus.ERRORED, commit=commit, tree=tree, gates=(gate,))


def fit_to_event(verdict: Verdict) -> Verdict:
    """A verdict that fits into an event: of too much, the first findings of each gate are kept; the counts stay."""
    kept = MAX_KEPT
    while kept and len(_encode(verdict)) > MAX_BYTES:
        kept //= 2
        gates = tuple(
            replace(gate, findings=gate.findings[:kept], failing=gate.failing[:kept], flaky=gate.flaky[:kept])
            for gate in verdict.gates
        )
        verdict = replace(verdict, gates=gates)
    return verdict
