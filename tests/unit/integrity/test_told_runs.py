"""What runners tell while tests run is read for what it is, whichever runner tells it."""

from collections.abc import Sequence

from remand.domain.gate.gate import Measurement, TestOutcome, WatchedTest
from remand.integrity.result_records import ResultRecord, compare_with_records

PATH = "/checkout/src/a.test.js"
START, END = ResultRecord(kind="start"), ResultRecord(kind="end")


def result(name: str, outcome: str = "passed") -> ResultRecord:
    return ResultRecord(kind="result", when="call", id=f"{PATH}::{name}", outcome=outcome)


def compared(*records: ResultRecord, passed: Sequence[str] = ("a",)) -> Measurement:
    tests = tuple(TestOutcome(id=name, outcome="passed") for name in passed)
    return compare_with_records(Measurement(tests=tests), (START, *records, END), 0, "/checkout")


def test_lines_that_are_told_for_a_file_are_those_of_its_tests() -> None:
    held = [ResultRecord(kind="held", id=PATH, lines=(line,)) for line in (7, 3)]
    watched = ResultRecord(kind="watched", id=PATH)
    assert compared(watched, *held, result("sums › a")).watched == (
        WatchedTest(id="src/a.test::sums › a", outcome="passed", held_lines=(3, 7)),
    )
    assert compared(*held, result("a")).watched[0].held_lines is None, "nobody watched that file"


def test_a_test_that_is_run_again_counts_by_its_last_result() -> None:
    again = ResultRecord(kind="retry", id=f"{PATH}::a")
    assert compared(result("a", "failed"), again, result("a")).irregularities == ()
    codes = {one.code for one in compared(result("a", "failed"), result("a")).irregularities}
    assert codes == {"harness_tampered", "report_forged"}


def test_a_runner_that_tells_of_no_test_is_taken_by_its_report() -> None:
    assert compared(ResultRecord(kind="unfit")).irregularities == ()
    assert [one.code for one in compared().irregularities] == ["report_forged"]
    assert [
        one.code for one in compared(ResultRecord(kind="unfit"), result("b"), passed="ab").irregularities
    ] == ["report_forged"], "it told of one"
