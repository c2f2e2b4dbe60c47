"""The tests a task names as its proof must pass, whatever the base does."""

import pytest

from remand.domain.gate.gate import Measurement, TestOutcome
from remand.domain.gate.judge import is_named_by, judge_must_pass
from remand.domain.gate.verdict import GateStatus


@pytest.mark.parametrize(
    ("test_id", "pattern"),
    [
        ("tests.test_x::test_y", "tests/test_x.py::test_y"),
        ("tests.test_x::test_y[1-a]", "tests/test_x.py::test_y"),
        ("tests.test_x::test_y[1-a]", "tests/test_x.py::test_y[1-a]"),
        ("tests.test_x.TestY::test_z", "tests/test_x.py::TestY::test_z"),
        ("tests.test_x::test_y", "tests/test_*.py::test_*"),
        ("src/a.test.ts::cart > adds two", "src/a.test.ts::cart > adds two"),
        ("example.com/m/a::TestWrap", "a::TestWrap"),
        ("calc::tests::adds", "tests::adds"),
    ],
)
def test_a_pattern_names_a_test_as_its_user_writes_it(test_id: str, pattern: str) -> None:
    assert is_named_by(test_id, pattern)


def test_a_pattern_names_no_other_test() -> None:
    assert not is_named_by("tests.test_x::test_yy", "tests/test_x.py::test_y")
    assert not is_named_by("tests.test_z::test_y", "tests/test_x.py::test_y")
    assert not is_named_by("tests.test_x::test_y[2]", "tests/test_x.py::test_y[1]")


def test_each_pattern_must_name_tests_that_ran_and_all_of_them_must_pass() -> None:
    def status(**outcomes: str) -> GateStatus:
        tests = tuple(TestOutcome(id=f"tests.t::{name}", outcome=how) for name, how in outcomes.items())
        return judge_must_pass(("tests/t.py::a*", "tests/t.py::b"), [Measurement(tests=tests)]).status

    assert status(a1="passed", a2="passed", b="passed") is GateStatus.PASSED
    assert status(a1="passed", a2="failed", b="passed") is GateStatus.FAILED
    assert status(a1="passed", b="skipped") is GateStatus.FAILED
    assert status(a1="passed") is GateStatus.FAILED, "a test that does not run proves nothing"
