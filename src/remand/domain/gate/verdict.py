"""A verdict: what was measured of a commit, what its work was compared with, and what it is worth."""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import GateFinding
from remand.domain.record import NamedTuple, Record

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


PASSING = frozenset({GateStatus.PASSED, GateStatus.OVERRIDDEN})
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
    def allows_submission(self) -> bool:
        """True when work may be submitted with it."""
        return self.status in PASSING

    @property
    def blocking_gates(self) -> tuple[str, ...]:
        """The gates that stand in the way."""
        return tuple(g.name for g in self.gates if g.is_required and g.status not in PASSING)

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


class WorkBase(NamedTuple):
    """The base branch beside a task's claim, as far as git knows both."""

    tip: str
    """Where the base is now; empty when there is none."""
    protected_tip: str
    """The same on the remote, where that has the configuration: whoever works here cannot commit to it."""
    claim_base: str
    """Where the base was at the claim, by the claim's own word."""
    merge_base: Callable[[str, str], str]
    """The last commit that two commits have in common; empty when they have none."""

    def has(self, commit: str) -> bool:
        """True when the base has a commit."""
        return self.merge_base(commit, self.tip) == commit

    @property
    def at_claim(self) -> str:
        """Where the base was when the task was claimed; empty when the base never was there.

        A claim is believed from any file, and an agent that names its own commit there is not compared with that.
        """
        return self.claim_base if self.claim_base and self.tip and self.has(self.claim_base) else ""

    def compared_with(self, commit: str) -> str:
        """Where the work left the base; empty when there is nothing to compare it with.

        A base that anyone here can commit to counts as it was at the claim. Work done on the base itself is compared
        with where the base was then: a commit is not its own base, and brings no rules of its own.
        """
        if not self.tip:
            return ""
        anchor = self.tip if self.protected_tip else self.at_claim or self.tip
        if anchor == self.tip and self.has(commit):
            found = self.at_claim
        else:
            found = self.merge_base(commit, anchor) or anchor
        return found if found != commit else ""

    def rules_commit(self, commit: str) -> str:
        """The commit whose rules hold for work done on the base itself; empty for all else, where the base's rules of now hold."""
        compared = self.compared_with(commit)
        return compared if compared and self.has(commit) else ""

    def may_have_base_rules(self, commit: str) -> bool:
        """True for a commit beside the base, which has moved since: it may have the configuration that the base has now."""
        compared = self.compared_with(commit)
        return bool(compared) and compared != self.tip and not self.has(commit)

    def has_work(self, commit: str, *, is_on_own_branch: bool) -> bool:
        """True when a commit is not one that the base had at the claim, or the remote's base has now.

        A local base may be worked on itself, unless the task has its own branch.
        """
        foreign = (self.at_claim, self.protected_tip, self.tip if is_on_own_branch else "")
        return not any(tip and self.merge_base(commit, tip) == commit for tip in foreign)
