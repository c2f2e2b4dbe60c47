"""From a commit to its verdict: every gate measured where the agent cannot reach, and held against the base."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from remand.app.gates.examining import Examination
from remand.app.gates.known import Judged, KnownVerdicts, Question, Terms
from remand.app.gates.preparing import Preparing
from remand.app.gates.reporting import report
from remand.app.gates.run import Run
from remand.app.gates.running import Runner
from remand.app.gates.workshop import Workshop
from remand.domain.gates.gate import Gate, GatePolicy, digest
from remand.domain.gates.judge import untouched
from remand.domain.gates.verdict import GateResult, Verdict, overall
from remand.domain.patterns import Pattern


class Measuring:
    """Measures commits by the gates of one policy."""

    def __init__(self, workshop: Workshop, policy: GatePolicy) -> None:
        self._workshop = workshop
        self._policy = policy
        self._runner = Runner(workshop, policy)
        self._known = KnownVerdicts(workshop.tree, workshop.cache, workshop.tools, self._runner.path, policy)
        self._gates = tuple(self._with_defaults(gate) for gate in policy.gates or ())

    def verdict(self, terms: Terms) -> Judged:
        """The verdict on a commit; an unchanged tree is answered at once."""
        asked = self._known.question(terms)
        return self._known.answer(asked, terms) or Judged(self._measured(asked, terms))

    def _measured(self, asked: Question, terms: Terms) -> Verdict:
        run = Run(self._runner, asked.base_tree)
        gates = self._results(run, asked.tree, asked.base_tree)
        verdict = Verdict(
            status=overall(gates),
            commit=terms.commit,
            tree=asked.tree,
            base=terms.base,
            policy=digest(self._policy),
            tools=asked.tools,
            tier=self._workshop.sandbox.tier,
            gates=gates,
        )
        name = asked.key[:16]
        verdict = replace(verdict, report=self._workshop.reports.write(name, report(verdict, run.found)))
        self._known.keep(asked, verdict)
        return verdict

    def _with_defaults(self, gate: Gate) -> Gate:
        parser = self._workshop.parser(gate.parser)
        return gate if gate.require or parser is None else replace(gate, require=dict(parser.defaults))

    def _results(self, run: Run, tree: str, base_tree: str) -> tuple[GateResult, ...]:
        """Every gate's result, all of them run at once."""
        examination = Examination(self._workshop, self._policy, tree, base_tree)
        judged_tree = examination.judged_tree
        touched = [gate for gate in self._gates if examination.touches(_patterns(gate))]
        preparing = Preparing(self._workshop, self._policy, self._runner)
        with (
            preparing.folders(touched, judged_tree, base_tree) as run.prepared,
            ThreadPoolExecutor(6 * len(touched) + 1) as pool,
        ):
            found = {gate.name: pool.submit(run.measured, gate, judged_tree) for gate in touched}
            integrity = (
                pool.submit(examination.result, run, touched, found, pool)
                if self._policy.integrity and self._gates and base_tree
                else None
            )
            results = [
                pool.submit(run.judged, gate, found[gate.name]) if gate.name in found else None
                for gate in self._gates
            ]
            gates = [
                untouched(gate) if result is None else result.result()
                for gate, result in zip(self._gates, results, strict=True)
            ]
            return (*gates, integrity.result()) if integrity else tuple(gates)


def _patterns(gate: Gate) -> list[Pattern]:
    return [Pattern(text) for text in gate.paths]
