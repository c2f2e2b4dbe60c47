"""A verdict: the measurement of a commit, the base of comparison, and the result."""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import GateFinding
from remand.domain.record import NamedTuple, Record

MAX_BYTES = 180 * 1024
"""The limit within an event's 256 KiB."""
MAX_KEPT = 256
INTEGRITY_GATE = "integrity"
"""The name of the gate that checks the others."""
RUNNER_GATE = "runner"
"""Stands for all gates in a verdict if none could be started."""

_encode = msgspec.json.Encoder().encode


class GateStatus(StrEnum):
    """The result of a gate or a whole verdict."""

    PASSED = "passed"
    FAILED = "failed"
    HELD = "held"
    """Only a reviewer or the user can settle it."""
    ERRORED = "errored"
    """It could not run, which is nobody's fault and never a pass."""
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
    """One gate: its figures and thresholds."""

    name: str
    status: GateStatus
    measured: dict[str, float] = msgspec.field(default_factory=dict)
    required: dict[str, float] = msgspec.field(default_factory=dict)
    base: dict[str, float] = msgspec.field(default_factory=dict)
    """The base's figures, if needed."""
    line: str = ""
    detail: str = ""
    """Why it could not run, or other remarks."""
    findings: tuple[GateFinding, ...] = ()
    finding_count: int = 0
    """The total number; of many, only the first are kept."""
    failing: tuple[str, ...] = ()
    """The ids of the first failing tests."""
    failing_count: int = 0
    excess: float = 0.0
    """The sum by which thresholds are missed."""
    flaky: tuple[str, ...] = ()
    """Tests that failed and passed when rerun."""
    suspicions: tuple[str, ...] = ()
    """The ids of findings for a reviewer."""
    is_required: bool = True
    is_known: bool = False
    """Whether it was measured before on the same code and did not run for this verdict."""
    seconds: float = 0.0

    @property
    def held_findings(self) -> tuple[tuple[str, GateFinding], ...]:
        """The findings for a reviewer by id; of very many, the last have an empty finding.

        They come first; notes, which have no id, follow.
        """
        if not self.suspicions:
            return ()
        serious = [finding for finding in self.findings if finding.severity != "note"]
        empty = [GateFinding()] * len(self.suspicions)
        return tuple(zip(self.suspicions, [*serious, *empty], strict=False))


class Verdict(Record, kw_only=True):
    """All gates of one commit, with the measured code, the base and the rules."""

    status: GateStatus
    commit: str
    tree: str
    base: str = ""
    """The base of comparison."""
    policy: str = ""
    """The digest of the rules."""
    tools: str = ""
    tier: str = ""
    """The isolation of the gates' commands: bubblewrap, landlock or plain."""
    gates: tuple[GateResult, ...] = ()
    report: str = ""
    """The name of the full report on the measuring machine; a path in older verdicts."""

    @property
    def report_name(self) -> str:
        """The report's name without its path; empty if there is none."""
        name = self.report.rpartition("/")[2].removesuffix(".md")
        return name if name.replace("-", "").isalnum() else ""

    @property
    def allows_submission(self) -> bool:
        """True if it permits submitting the work."""
        return self.status in PASSING

    @property
    def blocking_gates(self) -> tuple[str, ...]:
        """The blocking gates."""
        return tuple(g.name for g in self.gates if g.is_required and g.status not in PASSING)

    @property
    def suspicions(self) -> tuple[str, ...]:
        """The findings for a reviewer."""
        return tuple(
            name
            for gate in self.gates
            if gate.is_required and gate.status is GateStatus.HELD
            for name in gate.suspicions
        )

    @property
    def failing_count(self) -> int:
        """The total number of failing tests."""
        return sum(gate.failing_count for gate in self.gates if gate.is_required)

    @property
    def excess(self) -> float:
        """The sum by which thresholds are missed, over all gates."""
        return sum(gate.excess for gate in self.gates if gate.is_required)


def overall_status(gates: tuple[GateResult, ...]) -> GateStatus:
    """The status of a verdict: the most significant one of its required gates.

    A failure takes precedence over an error, as the agent can fix it.
    """
    statuses = {gate.status for gate in gates if gate.is_required}
    return next((status for status in _ORDER if status in statuses), GateStatus.PASSED)


def make_unstarted_verdict(commit: str, tree: str, why: str) -> Verdict:
    """The verdict if no gate could be started."""
    gate = GateResult(
        name=RUNNER_GATE, status=GateStatus.ERRORED, line="- Runner: could not be started", detail=why
    )
    return Verdict(status=GateStatus.ERRORED, commit=commit, tree=tree, gates=(gate,))


def fit_to_event(verdict: Verdict) -> Verdict:
    """A verdict that fits into an event: if too large, only the first findings of each gate are kept, with all counts."""
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
    """The base branch and a task's claim, as far as git knows both."""

    tip: str
    """The current base; empty if there is none."""
    protected_tip: str
    """The same on the remote if that has the configuration; nobody working here can commit to it."""
    claim_base: str
    """The base at the claim, as recorded in the claim."""
    merge_base: Callable[[str, str], str]
    """The merge base of two commits; empty if there is none."""

    def has(self, commit: str) -> bool:
        """True if the base contains a commit."""
        return self.merge_base(commit, self.tip) == commit

    @property
    def at_claim(self) -> str:
        """The base when the task was claimed; empty if the base never contained that commit.

        A claim is accepted from any file, so an agent could name its own commit there.
        """
        return self.claim_base if self.claim_base and self.tip and self.has(self.claim_base) else ""

    def compared_with(self, commit: str) -> str:
        """Where the work left the base; empty if there is nothing to compare with.

        If anybody here can commit to the base, it counts as it was at the claim. Work on the base itself is compared
        with the base at that time: a commit is not its own base and brings no rules of its own.
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
        """The commit whose rules apply to work on the base itself; empty otherwise: the current base's rules apply."""
        compared = self.compared_with(commit)
        return compared if compared and self.has(commit) else ""

    def may_have_base_rules(self, commit: str) -> bool:
        """True for a commit outside the base, which has moved since: it may have the base's current configuration."""
        compared = self.compared_with(commit)
        return bool(compared) and compared != self.tip and not self.has(commit)

    def has_work(self, commit: str, *, is_on_own_branch: bool) -> bool:
        """True if a commit is neither one of the base at the claim nor of the remote's base now.

        A local base may be worked on itself, unless the task has its own branch.
        """
        foreign = (self.at_claim, self.protected_tip, self.tip if is_on_own_branch else "")
        return not any(tip and self.merge_base(commit, tip) == commit for tip in foreign)
