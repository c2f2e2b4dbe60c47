"""Assertions that a passing test did not execute are findings where the runs say something."""

from remand.domain.gate.gate import WatchedTest
from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.result_records import find_unreached_assertions
from tests.unit.integrity.changes import added, modified

KEPT = "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n"
LAZY = "def test_a():\n    def check(x):\n        assert f(x) == x + 1\n    map(check, [1, 2])\n"


def ran(*lines: int, outcome: str = "passed", name: str = "test_a", is_watched: bool = True) -> WatchedTest:
    return WatchedTest(id=f"tests.test_a::{name}", outcome=outcome, held_lines=lines if is_watched else None)


def found(change: FileDiff, base: tuple[WatchedTest, ...], *head: WatchedTest) -> list[str]:
    return [item.code for item in find_unreached_assertions(Comparison(changes=(change,)), base, head)]


def test_a_new_test_of_which_no_assertion_is_executed_is_found() -> None:
    new = added("tests/test_a.py", LAZY)
    assert found(new, (), ran()) == ["assertion_not_reached"]
    assert found(new, (), ran(3)) == []
    assert found(new, (), ran(outcome="failed")) == []
    assert found(new, (), ran(is_watched=False)) == [], "nothing is known then"


def test_tests_that_prove_by_something_else_are_none() -> None:
    for body in (
        "    f(1)\n",
        "    mock.assert_called_once_with(1)\n",
        "    npt.assert_allclose(f(1), 2)\n",
        "    with pytest.raises(ValueError):\n        assert f(1)\n",
    ):
        assert found(added("tests/test_a.py", f"def test_a():\n{body}"), (), ran()) == []


def test_an_assertion_whose_failure_is_what_is_expected_proves_nothing() -> None:
    for error in ("Exception", "AssertionError", "(ValueError, BaseException)"):
        text = f"def test_a():\n    with pytest.raises({error}):\n        assert f(1) == 2\n"
        assert found(added("tests/test_a.py", text), (), ran()) == ["assertion_not_reached"]


def test_an_assertion_that_held_on_the_base_and_is_not_executed_any_more_is_found() -> None:
    left_out = modified(
        "tests/test_a.py", KEPT, KEPT.replace("    assert f(2)", "    if late():\n        assert f(2)")
    )
    assert found(left_out, (ran(2, 3),), ran(2)) == ["assertion_not_reached"]
    assert found(left_out, (ran(2, 3),), ran(2, 4)) == []
    assert found(left_out, (ran(2),), ran(2)) == [], "it was not executed on the base either"
    assert found(modified("tests/test_a.py", KEPT, LAZY), (ran(2, 3),), ran()) == ["assertion_not_reached"]


def test_the_rows_of_a_table_count_together() -> None:
    new = added("tests/test_a.py", LAZY)
    assert found(new, (), ran(name="test_a[1]"), ran(3, name="test_a[2]")) == []
    assert found(new, (), ran(name="test_a[1]"), ran(name="test_a[2]")) == ["assertion_not_reached"]
