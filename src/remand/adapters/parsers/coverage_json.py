"""Coverage.py: `coverage json -o {report}`."""

from __future__ import annotations

import msgspec

from remand.adapters.parsers.results import Coverage
from remand.adapters.parsers.tool_output import document, report_or_output
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("coverage", "branch_coverage")
DEFAULTS: dict[str, float] = {}


class _Summary(msgspec.Struct):
    covered_lines: int
    num_statements: int
    covered_branches: int = 0
    num_branches: int = 0


class _File(msgspec.Struct):
    summary: _Summary
    missing_lines: list[int]


class _Report(msgspec.Struct):
    files: dict[str, _File]
    totals: _Summary


def parse(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where they were measured. The exit status says nothing about it."""
    report = document(report_or_output(ran), _Report, "coverage.py")
    covered = Coverage(ran.root)
    counted = [0, 0, 0, 0]
    for path, file in report.files.items():
        covered.miss(path, file.missing_lines)
        counted = [one + more for one, more in zip(counted, _counts(file.summary), strict=True)]
    if counted != _counts(report.totals):
        raise UnreadableReport("the report's totals are not the sum of its files")
    covered.count(*counted)
    return covered.measurement()


def _counts(summary: _Summary) -> list[int]:
    return [
        summary.num_statements,
        summary.covered_lines,
        summary.num_branches,
        summary.covered_branches,
    ]
