"""The parsers by name: what each measures, and its default thresholds."""

from __future__ import annotations

from collections.abc import Callable

from remand.adapters.parsers import cargo, go, linters, test_reports
from remand.app.gates.ports import ReportParser
from remand.domain.gate.gate import Gate

_COVERAGE = ("coverage", "branch_coverage")
_TESTS = ("tests", "failures", "skipped")
_NO_ERRORS, _NO_FAILURES = {"max_errors": 0.0}, {"max_failures": 0.0}

PARSERS: dict[str, Callable[[], ReportParser]] = {
    "cargo": lambda: ReportParser(cargo.parse_build, ("errors", "warnings"), _NO_ERRORS),
    "cargo-test": lambda: ReportParser(cargo.parse_test, (*_TESTS, "errors"), _NO_FAILURES | _NO_ERRORS),
    "cobertura": lambda: ReportParser(test_reports.parse_cobertura, _COVERAGE, {}),
    "coverage-json": lambda: ReportParser(test_reports.parse_coverage_json, _COVERAGE, {}),
    "eslint": lambda: ReportParser(linters.parse_eslint, ("errors", "warnings"), _NO_ERRORS),
    "exit": lambda: ReportParser(linters.parse_exit_status, ("errors",), _NO_ERRORS),
    "go": lambda: ReportParser(
        go.parse, ("errors", "failures", "tests", "skipped"), _NO_ERRORS | _NO_FAILURES
    ),
    "junit": lambda: ReportParser(test_reports.parse_junit, _TESTS, _NO_FAILURES),
    "lcov": lambda: ReportParser(test_reports.parse_lcov, _COVERAGE, {}),
    "mypy": lambda: ReportParser(linters.parse_mypy, ("errors", "notes"), _NO_ERRORS),
    "ruff": lambda: ReportParser(linters.parse_ruff, ("errors", "warnings"), _NO_ERRORS),
    "sarif": lambda: ReportParser(linters.parse_sarif, ("errors", "warnings", "notes"), _NO_ERRORS),
    "tap": lambda: ReportParser(test_reports.parse_tap, _TESTS, _NO_FAILURES),
    "tsc": lambda: ReportParser(linters.parse_tsc, ("errors", "warnings"), _NO_ERRORS),
}
"""A parser's module is loaded at its first use."""


def find_parser(name: str) -> ReportParser | None:
    """The parser of that name with its figures and default thresholds; None if there is none."""
    return PARSERS[name]() if name in PARSERS else None


def gate_fault(gate: Gate) -> str:
    """What is wrong with a gate's configuration; empty if nothing is."""
    known = find_parser(gate.parser)
    if known is None:
        return f"`gates.{gate.name}.parser` is `{gate.parser}`; use one of {', '.join(PARSERS)}."
    unknown = next((key for key in gate.require if key[4:] not in known.figures), "")
    if not unknown:
        return ""
    figures = ", ".join(known.figures)
    return f"`gates.{gate.name}.require.{unknown}` does not name a figure of `{gate.parser}`; it gives {figures}."
