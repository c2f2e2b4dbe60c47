"""TAP: plans are kept, subtests count, and giving up is no failure."""

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import measured, outcomes, parse, places


def say(*lines: str, status: int = 0) -> Measurement:
    return parse(
        "tap",
        ToolOutput(status=status, output="\n".join(["TAP version 14", *lines, ""]).encode(), root="/src"),
    )


def test_tests_are_named_by_what_holds_them() -> None:
    assert outcomes(measured("tap/node")) == {
        "add > adds": "passed",
        "add > adds wrongly": "failed",
        "add > later": "skipped",
        "add > some day": "skipped",
        "outer > inner # with hash": "passed",
    }


def test_a_failure_says_where_and_why() -> None:
    found = measured("tap/node")

    assert places(found) == [("test/sums.test.js", 7, "add > adds wrongly")]
    assert found.findings[0].text == "3 == 4"


def test_a_failed_todo_is_no_failure_and_a_passed_one_has_passed() -> None:
    found = say("1..2", "not ok 1 - a # TODO later", "ok 2 - b # todo")

    assert outcomes(found) == {"a": "skipped", "b": "passed"}


def test_an_escaped_hash_begins_no_directive() -> None:
    assert outcomes(say("1..1", "not ok 1 - a \\# SKIP b", status=1)) == {"a # SKIP b": "failed"}


def test_everything_skipped_is_no_test() -> None:
    assert say("1..0 # SKIP no database").figures["tests"] == 0


def test_a_test_that_fails_beside_what_it_holds_counts() -> None:
    found = say("    ok 1 - inner", "    1..1", "not ok 1 - outer", "1..1", status=1)

    assert outcomes(found) == {"outer > inner": "passed", "outer": "failed"}


def test_failures_under_a_todo_are_no_failures() -> None:
    found = say("    not ok 1 - inner", "    1..1", "not ok 1 - outer # TODO", "1..1")

    assert outcomes(found) == {"outer > inner": "skipped"}


def test_what_tests_print_is_no_test() -> None:
    found = say(
        "1..1", "okay", "  ok 7", "---", "ok 1 - a", "  ---", "  not: ok", "  ok 2 - b", "  ...", "..."
    )

    assert outcomes(found) == {"a": "passed"}


@pytest.mark.parametrize(
    "lines",
    [
        ("ok 1 - a",),
        ("1..2", "ok 1 - a"),
        ("1..1", "ok 1 - a", "ok 2 - b"),
        ("1..2", "ok 1 - a", "ok 1 - a"),
        ("1..1", "ok 1 - a", "1..1"),
        ("    ok 1 - inner", "    1..2", "ok 1 - outer", "1..1"),
        ("1..1", "ok 1 - a", "    ok 1 - inner"),
        ("1..1", "ok 1 - a", "  ---", "not ok 2 - b"),
        ("not a test",),
    ],
    ids=["no plan", "too few", "too many", "twice", "two plans", "inner plan", "open", "block", "text"],
)
def test_a_plan_that_is_not_kept_is_not_believed(lines: tuple[str, ...]) -> None:
    with pytest.raises(UnreadableReport):
        say(*lines)


def test_giving_up_is_no_failure_of_the_code() -> None:
    with pytest.raises(UnreadableReport, match="gave up: no database"):
        say("1..2", "ok 1 - a", "Bail out! no database", status=1)


def test_giving_up_after_a_failure_is_that_failure() -> None:
    found = say("1..9", "ok 1 - a", "not ok 2 - b", "Bail out!", status=1)

    assert found.figures == {"tests": 2, "failures": 1, "skipped": 0}


def test_a_failed_run_without_a_failure_is_a_contradiction() -> None:
    with pytest.raises(UnreadableReport, match="explains why"):
        say("1..1", "ok 1 - a", status=1)
