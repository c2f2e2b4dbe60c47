"""Every parser reads what its real tool said."""

import pytest

from remand.domain.gate.gate import UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import NAMES, measured

LINTED = {
    "cargo/build-broken": {"errors": 1, "warnings": 0},
    "cargo/clippy-clean": {"errors": 0, "warnings": 0},
    "cargo/clippy-denied": {"errors": 2, "warnings": 0},
    "cargo/clippy-findings": {"errors": 0, "warnings": 2},
    "eslint/clean": {"errors": 0, "warnings": 0},
    "eslint/findings": {"errors": 2, "warnings": 1},
    "eslint/max-warnings": {"errors": 0, "warnings": 1},
    "eslint/syntax": {"errors": 1, "warnings": 0},
    "mypy/clean": {"errors": 0, "notes": 0},
    "mypy/clean-json": {"errors": 0, "notes": 0},
    "mypy/findings": {"errors": 2, "notes": 0},
    "mypy/findings-columns": {"errors": 2, "notes": 1},
    "mypy/findings-json": {"errors": 2, "notes": 0},
    "mypy/syntax": {"errors": 1, "notes": 0},
    "mypy/syntax-json": {"errors": 1, "notes": 0},
    "ruff/clean": {"errors": 0, "warnings": 0},
    "ruff/findings": {"errors": 2, "warnings": 0},
    "ruff/findings-lines": {"errors": 2, "warnings": 0},
    "ruff/syntax": {"errors": 1, "warnings": 0},
    "sarif/eslint": {"errors": 2, "warnings": 1, "notes": 0},
    "sarif/ruff": {"errors": 2, "warnings": 0, "notes": 0},
    "sarif/ruff-clean": {"errors": 0, "warnings": 0, "notes": 0},
    "tsc/clean": {"errors": 0, "warnings": 0},
    "tsc/findings": {"errors": 4, "warnings": 0},
    "tsc/findings-pretty": {"errors": 4, "warnings": 0},
}
GO = {
    "go/build-broken": {"errors": 2, "failures": 0},
    "go/vet-broken": {"errors": 2, "failures": 0},
    "go/vet-clean": {"errors": 0, "failures": 0},
    "go/vet-findings": {"errors": 1, "failures": 0},
    "go/vet-findings-text": {"errors": 1, "failures": 0},
    "go/test-broken": {"errors": 2, "tests": 1, "failures": 0, "skipped": 0},
    "go/test-clean": {"errors": 0, "tests": 1, "failures": 0, "skipped": 0},
    "go/test-exit-0": {"errors": 0, "tests": 0, "failures": 0, "skipped": 0},
    "go/test-failures": {"errors": 0, "tests": 3, "failures": 1, "skipped": 1},
    "go/test-none": {"errors": 0, "tests": 0, "failures": 0, "skipped": 0},
    "go/test-panic": {"errors": 0, "tests": 2, "failures": 1, "skipped": 0},
    "go/test-vet": {"errors": 1, "tests": 0, "failures": 0, "skipped": 0},
}
TESTED = {
    "cargo-test/broken": {"errors": 1, "tests": 0, "failures": 0, "skipped": 0},
    "cargo-test/broken-json": {"errors": 1, "tests": 0, "failures": 0, "skipped": 0},
    "cargo-test/clean": {"errors": 0, "tests": 3, "failures": 0, "skipped": 0},
    "cargo-test/failures": {"errors": 0, "tests": 6, "failures": 1, "skipped": 1},
    "cargo-test/failures-json": {"errors": 0, "tests": 6, "failures": 1, "skipped": 1},
    "junit/jest": {"tests": 3, "failures": 1, "skipped": 1},
    "junit/mocha": {"tests": 3, "failures": 1, "skipped": 1},
    "junit/node": {"tests": 5, "failures": 1, "skipped": 2},
    "junit/node-clean": {"tests": 1, "failures": 0, "skipped": 0},
    "junit/pytest-clean": {"tests": 2, "failures": 0, "skipped": 0},
    "junit/pytest-collection": {"tests": 0, "failures": 1, "skipped": 0},
    "junit/pytest-collection-continued": {"tests": 12, "failures": 5, "skipped": 2},
    "junit/pytest-failures": {"tests": 11, "failures": 4, "skipped": 2},
    "junit/pytest-none": {"tests": 0, "failures": 0, "skipped": 0},
    "junit/pytest-subtests": {"tests": 13, "failures": 7, "skipped": 4},
    "junit/pytest-subtests-clean": {"tests": 2, "failures": 0, "skipped": 0},
    "junit/pytest-subtests-old": {"tests": 13, "failures": 7, "skipped": 4},
    "junit/pytest-subtests-xdist": {"tests": 13, "failures": 7, "skipped": 4},
    "junit/pytest-xunit1": {"tests": 11, "failures": 4, "skipped": 2},
    "junit/vitest": {"tests": 4, "failures": 1, "skipped": 1},
    "tap/node": {"tests": 5, "failures": 1, "skipped": 2},
    "tap/node-clean": {"tests": 1, "failures": 0, "skipped": 0},
    "tap/tape": {"tests": 4, "failures": 1, "skipped": 2},
    "tap/tape-exit-0": {"tests": 2, "failures": 1, "skipped": 0},
    "tap/tape-plan": {"tests": 2, "failures": 1, "skipped": 0},
}
COVERED = {
    "cobertura/coverage-py": {"coverage": 100 * 9 / 13, "branch_coverage": 50},
    "cobertura/coverage-py-lines": {"coverage": 100 * 9 / 13},
    "cobertura/coverage-py-under": {"coverage": 100 * 9 / 13, "branch_coverage": 50},
    "cobertura/jest": {"coverage": 75, "branch_coverage": 50},
    "coverage-json/branches": {"coverage": 100 * 9 / 13, "branch_coverage": 50},
    "coverage-json/lines": {"coverage": 100 * 9 / 13},
    "lcov/coverage-py": {"coverage": 100 * 9 / 13, "branch_coverage": 50},
    "lcov/jest": {"coverage": 75, "branch_coverage": 50},
    "lcov/node": {"coverage": 100, "branch_coverage": 100},
}
READABLE = {**LINTED, **GO, **{f"{name}-old": figures for name, figures in GO.items()}, **TESTED, **COVERED}
UNREADABLE = {
    "cargo/manifest": "did not say that the build finished",
    "eslint/no-files": "status 2",
    "junit/pytest-usage": "wrong usage",
    "mypy/missing": "reports 1 errors, of which 0 can be read",
    "ruff/configuration": "status 2",
    "tsc/no-file": "could not start: TS6053",
    "tsc/no-project": "could not start: TS5058",
}


@pytest.mark.parametrize("name", READABLE)
def test_the_figures_of_a_real_run_are_read(name: str) -> None:
    assert measured(name).figures == pytest.approx(READABLE[name])


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_tool_that_could_not_work_has_measured_nothing(name: str) -> None:
    with pytest.raises(UnreadableReport, match=UNREADABLE[name]):
        measured(name)


def test_every_recorded_run_is_looked_at() -> None:
    assert sorted({*READABLE, *UNREADABLE}) == NAMES


@pytest.mark.parametrize("name", READABLE)
def test_findings_name_files_from_the_repositorys_root(name: str) -> None:
    assert [
        finding.path for finding in measured(name).findings if finding.path.startswith(("/", "file:"))
    ] == []


@pytest.mark.parametrize("name", [*TESTED, *GO])
def test_as_many_tests_are_named_as_are_counted(name: str) -> None:
    found = measured(name)
    bad = [test for test in found.tests if test.outcome in ("failed", "error")]

    assert len(found.tests) == found.figures.get("tests", 0)
    assert not found.tests or found.figures["failures"] == len(bad)
