"""Coverage.py: `coverage json -o {report}`."""

from __future__ import annotations

import msgspec

from remand.adapters.parsers.covered import Covered
from remand.adapters.parsers.json_text import document
from remand.adapters.parsers.source import said
from remand.app.gates.ports import Ran
from remand.domain.gates.figures import Measurement, Unreadable

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


def parse(ran: Ran) -> Measurement:
    """The share of lines, and of branches where they were measured. The exit status says nothing about it."""
    report = document(said(ran), _Report, "coverage.py")
    covered = Covered(ran.root)
    counted = [0, 0, 0, 0]
    for path, file in report.files.items():
        covered.miss(path, file.missing_lines)
        counted = [one + more for one, more in zip(counted, _counts(file.summary), strict=True)]
    if counted != _counts(report.totals):
        raise Unreadable("the report's totals are not the sum of its files")
    covered.count(*counted)
    return covered.measurement()


def _counts(summary: _Summary) -> list[int]:
    return [
        summary.num_statements,
        summary.covered_lines,
        summary.num_branches,
        summary.covered_branches,
    ]
