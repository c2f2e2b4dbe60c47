"""One run of all gates on one commit."""

from __future__ import annotations

from concurrent.futures import Future

from msgspec.structs import replace

from remand.app.gates.running import Measured, Runner
from remand.domain.gates.figures import Measurement, Unreadable
from remand.domain.gates.gate import Gate
from remand.domain.gates.judge import broken, is_uncollected, judge, needs_base, unmeasured
from remand.domain.gates.verdict import GateResult, GateStatus


class Run:
    """One run of the gates: what is measured on which tree, each once."""

    def __init__(self, runner: Runner, base_tree: str) -> None:
        self.found: dict[str, Measurement] = {}
        self.prepared: dict[str, str] = {}
        self._runner = runner
        self._base_tree = base_tree

    def measured(self, gate: Gate, tree: str, *, is_fresh: bool = False) -> Measured:
        """What a gate shows on a tree; afresh, what is known of it is measured again."""
        prepared = self.prepared.get(gate.name, "")
        if prepared.startswith("!"):
            return Measured(status=GateStatus.ERRORED, why=prepared[1:])
        return self._runner.run(gate, tree, prepared, is_fresh=is_fresh)

    def _base(self, gate: Gate) -> Measured:
        return self.measured(gate, self._base_tree)

    def _runs_on_base(self, gate: Gate) -> bool:
        """True when the base can be measured now: the tool may have gone since the base was measured last."""
        base = self._base(gate) if self._base_tree else Measured()
        if base.found is not None and base.is_known:
            base = self.measured(gate, self._base_tree, is_fresh=True)
        return base.found is not None

    def judged(self, gate: Gate, found: Future[Measured]) -> GateResult:
        """A gate's result, the base measured only where it matters."""
        measured = found.result()
        if measured.found is None:
            if measured.is_by_tool and self._runs_on_base(gate):
                return broken(gate, measured.why)
            return unmeasured(gate, measured.status, measured.why)
        self.found[gate.name] = measured.found
        if is_uncollected(measured.found) and self._base_tree:
            base_found = self._base(gate).found
            if base_found is not None and is_uncollected(base_found, at_least=measured.found):
                why = "The tests cannot be collected on the base either; mend that first."
                return unmeasured(gate, GateStatus.ERRORED, why)
        try:
            base = None
            if self._base_tree and needs_base(gate, measured.found):
                base = self._base(gate).found
            result = judge(gate, measured.found, base, flaky=measured.flaky)
        except Unreadable as why:
            return unmeasured(gate, GateStatus.ERRORED, f"{why}.")
        return replace(result, seconds=measured.seconds, is_known=measured.is_known)
