"""The full report of a verdict: everything that the message to the agent leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from remand.domain.gates.figures import GateFinding, Measurement
from remand.domain.gates.judge import failing_ids
from remand.domain.gates.verdict import GateResult, Verdict
from remand.domain.gates.wording import number, title
from remand.domain.secrets import redacted
from remand.domain.visible import visible

MAX_FINDINGS = 5000


def report(verdict: Verdict, found: Mapping[str, Measurement]) -> str:
    """The report, in Markdown; what tools said is data in it."""
    head = [
        f"# {verdict.status.upper()} at {verdict.commit[:12]}",
        "",
        f"- commit {verdict.commit}, code tree {verdict.tree}",
        f"- held against {verdict.base or 'nothing'}",
        f"- rules {verdict.policy}, tools {verdict.tools[:16]}, kept apart by: {verdict.tier}",
    ]
    return "\n".join(
        [*head, *(line for gate in verdict.gates for line in _gate(gate, found.get(gate.name))), ""]
    )


def _gate(gate: GateResult, found: Measurement | None) -> list[str]:
    findings = found.findings if found else gate.findings
    failing = failing_ids(found) if found else gate.failing
    figures = [f"{name} {number(value)}" for name, value in gate.measured.items()]
    base = [f"{name} {number(value)}" for name, value in gate.base.items()]
    rows = [
        "",
        f"## {title(gate.name)}: {gate.status}",
        "",
        gate.line,
        *([f"- measured: {', '.join(figures)}"] if figures else []),
        *([f"- base: {', '.join(base)}"] if base else []),
        *([f"- {_plain(gate.detail)}"] if gate.detail else []),
        *(f"- flaky: {_plain(name)}" for name in gate.flaky),
        *(f"- failing: {_plain(name)}" for name in failing),
        *(f"- {_finding(finding)}" for finding in findings[:MAX_FINDINGS]),
    ]
    more = len(findings) - MAX_FINDINGS
    return [*rows, f"- and {more} more findings"] if more > 0 else rows


def _finding(finding: GateFinding) -> str:
    where = f"{finding.path}:{finding.line}" if finding.line else finding.path
    return _plain(" ".join(part for part in (where, finding.code, finding.text) if part))


def _plain(text: str) -> str:
    return " ".join(redacted(visible(text)).split())
