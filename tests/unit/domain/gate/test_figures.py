"""Holds how a gate's figures read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.gate.gate import format_number, gate_title, parse_thresholds, render_measurement


@pytest.mark.parametrize(
    ("name", "parser", "figures", "require", "line"),
    [
        ("build", "exit", {"errors": 12}, {"max_errors": 0}, "- Build: 12 compilation errors (requires 0)"),
        (
            "lint",
            "ruff",
            {"errors": 509, "warnings": 344},
            {"max_errors": 0, "max_warnings": 50},
            "- Lint: 509 errors, 344 warnings (requires 0 errors, max 50 warnings)",
        ),
        (
            "tests",
            "junit",
            {"failures": 73},
            {"max_failures": 0},
            "- Tests: 73 failures (requires 100% pass)",
        ),
    ],
)
def test_a_line_reads_as_in_the_requirements(
    name: str, parser: str, figures: dict[str, float], require: dict[str, float], line: str
) -> None:
    assert render_measurement(name, parser, figures, require) == line


@pytest.mark.parametrize(
    ("name", "parser", "figures", "require", "line"),
    [
        (
            "coverage",
            "cobertura",
            {"coverage": 71.5},
            {"min_coverage": 80},
            "- Coverage: 71.5% (requires 80%)",
        ),
        (
            "tests",
            "junit",
            {"failures": 1, "coverage": 66.666},
            {"max_failures": 0, "min_coverage": 80},
            "- Tests: 1 failure, 66.67% coverage (requires 100% pass, 80% coverage)",
        ),
        (
            "coverage",
            "lcov",
            {"coverage": 90, "branch_coverage": 60},
            {"min_coverage": 80, "min_branch_coverage": 70},
            "- Coverage: 90%, 60% branch coverage (requires 80% coverage, 70% branch coverage)",
        ),
        ("types", "mypy", {"errors": 1}, {"max_errors": 0}, "- Types: 1 error (requires 0)"),
        ("types", "tsc", {"errors": 1}, {"max_errors": 0}, "- Types: 1 compilation error (requires 0)"),
        ("lint", "ruff", {"errors": 7}, {"max_errors": 5}, "- Lint: 7 errors (requires max 5)"),
        ("tests", "junit", {"failures": 7}, {"max_failures": 5}, "- Tests: 7 failures (requires max 5)"),
        ("tests", "tap", {"tests": 7}, {"min_tests": 10}, "- Tests: 7 tests (requires min 10)"),
        (
            "tests",
            "junit",
            {"tests": 7, "skipped": 2},
            {"min_tests": 10, "max_skipped": 0},
            "- Tests: 7 tests, 2 skipped (requires min 10 tests, 0 skipped)",
        ),
        ("size", "custom", {"dead_lines": 3}, {"max_dead_lines": 0}, "- Size: 3 dead lines (requires 0)"),
    ],
)
def test_every_threshold_is_told_with_its_figure(
    name: str, parser: str, figures: dict[str, float], require: dict[str, float], line: str
) -> None:
    assert render_measurement(name, parser, figures, require) == line


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (100, "100"),
        (1e12, "1000000000000"),
        (71.5, "71.5"),
        (71.52, "71.52"),
        (66.66666, "66.67"),
        (0.1, "0.1"),
        (79.999, "79.999"),
        (-2, "-2"),
    ],
)
def test_a_figure_has_no_decimals_it_does_not_need(value: float, shown: str) -> None:
    assert format_number(value) == format_number(float(value)) == shown


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_worded_all_the_same(value: float) -> None:
    assert format_number(value) == str(value)


@given(st.floats(0, 1e6))
def test_a_figure_is_shown_as_it_is(value: float) -> None:
    assert float(format_number(value)) == pytest.approx(value, abs=0.0051)


@pytest.mark.parametrize(("name", "shown"), [("lint", "Lint"), ("e2e-ui", "E2e-ui"), ("", "")])
def test_a_line_begins_with_the_gates_name(name: str, shown: str) -> None:
    assert gate_title(name) == shown


def test_thresholds_keep_their_order() -> None:
    assert parse_thresholds({"min_b": 1, "max_a_b": 2}) == [("b", "min", 1), ("a_b", "max", 2)]
