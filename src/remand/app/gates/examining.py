"""The integrity gate at work: what is compared, which trees are composed, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property

from remand.app.gates.ports import Change
from remand.app.gates.run import Run
from remand.app.gates.running import Measured
from remand.app.gates.workshop import Workshop
from remand.domain.gates.figures import GateFinding
from remand.domain.gates.gate import Gate, GatePolicy
from remand.domain.gates.judge import KEPT_FINDINGS
from remand.domain.gates.verdict import INTEGRITY, GateResult, GateStatus
from remand.domain.integrity.comparison import (
    Collected,
    Comparison,
    FileChange,
    Suspicion,
    Weight,
    file_change,
)
from remand.domain.integrity.examine import examine
from remand.domain.patterns import Pattern

KEPT_SUSPICIONS = 200


class Examination:
    """A tree beside its base: what differs, and whether it is honest."""

    def __init__(self, workshop: Workshop, policy: GatePolicy, tree: str, base_tree: str) -> None:
        self._mirror = workshop.mirror
        self._policy = policy
        self._tree = tree
        self._base_tree = base_tree

    @cached_property
    def changes(self) -> list[Change]:
        """The files that differ."""
        return self._mirror.changes(self._base_tree, self._tree) if self._base_tree else []

    def touches(self, patterns: Sequence[Pattern]) -> bool:
        """True when a change is about one of the patterns; without patterns, or without a base, always."""
        if not patterns or not self._base_tree:
            return True
        named = {name for change in self.changes for name in (change.path, change.old_path) if name}
        return any(pattern.matches(name) for pattern in patterns for name in named)

    def judged_tree(self) -> str:
        """The tree that is measured: the head's, with what steers its gates taken from the base."""
        return self._tree

    def result(self, run: Run, gates: Sequence[Gate], found: Mapping[str, Future[Measured]]) -> GateResult:
        """The result of the integrity gate."""
        collected = tuple(filter(None, (self._collected(run, gate, found[gate.name]) for gate in gates)))
        comparison = Comparison(
            changes=tuple(self._read(change) for change in self.changes),
            collected=collected,
            paths=tuple(self._mirror.paths(self._tree)),
            protected=self._policy.protected,
        )
        return judged(examine(comparison))

    def _collected(self, run: Run, gate: Gate, found: Future[Measured]) -> Collected | None:
        """The tests of a gate on both sides; None for a gate that runs no tests."""
        head = found.result().found
        if head is None or not head.tests:
            return None
        base = run.measured(gate, self._base_tree).found
        return Collected(gate=gate.name, base=base.tests if base else (), head=head.tests)

    def _read(self, change: Change) -> FileChange:
        """A change with both of its sides."""
        before = (
            None
            if change.status == "A"
            else self._mirror.file(self._base_tree, change.old_path or change.path)
        )
        after = None if change.status == "D" else self._mirror.file(self._tree, change.path)
        return file_change(
            change.status, change.path, before, after, old_path=change.old_path, mode=change.mode
        )


def judged(suspicions: Sequence[Suspicion]) -> GateResult:
    """The gate's result: anything that a reviewer has to settle holds the work."""
    serious = [one for one in suspicions if one.weight is Weight.HELD]
    notes = [one for one in suspicions if one.weight is not Weight.HELD]
    count = len(serious)
    return GateResult(
        name=INTEGRITY,
        status=GateStatus.HELD if serious else GateStatus.PASSED,
        measured={"findings": float(count)},
        required={"max_findings": 0.0},
        line=f"- Integrity: {count} {'finding' if count == 1 else 'findings'} (requires 0)",
        findings=tuple(_finding(one) for one in (*serious[:KEPT_SUSPICIONS], *notes[:KEPT_FINDINGS])),
        finding_count=len(suspicions),
        suspicions=tuple(one.id for one in serious),
        excess=float(count),
    )


def _finding(one: Suspicion) -> GateFinding:
    severity = "error" if one.weight is Weight.HELD else "note"
    text = f"{one.text} [{one.id}]" if one.weight is Weight.HELD else one.text
    return GateFinding(path=one.path, line=one.line, code=one.code, text=text, severity=severity)
