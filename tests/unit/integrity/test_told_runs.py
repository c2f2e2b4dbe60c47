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


PACKAGE = ResultRecord(kind="package", id="calc/inner", ids=("/checkout/inner", "a_test.go"), names_all=True)
GO_TESTS = b"""package inner

import "testing"

/*
func TestInAComment(t *testing.T) {}
*/
func TestA(t *testing.T) {}
func TestB(t *testing.T) {}
func Testify(t *testing.T) {}
func TestHelper(name string) {}
"""


def texts_of_package(*ids: str, records: Sequence[ResultRecord], outcome: str = "passed") -> list[str]:
    found = Measurement(tests=tuple(TestOutcome(id=f"calc/inner::{name}", outcome=outcome) for name in ids))
    told = compare_with_records(found, records, 0, "/checkout", {"/checkout/inner/a_test.go": GO_TESTS}.get)
    return [f"{one.code}: {one.text}" for one in told.irregularities]


def test_a_package_of_go_has_the_tests_of_its_files_and_a_closing_record() -> None:
    begun = ResultRecord(kind="start", pid=7, id="/checkout/inner")
    whole = (PACKAGE, begun, ResultRecord(kind="end", pid=7))
    assert texts_of_package("TestA/first", "TestA/second#2", "TestB", "ExampleA", records=whole) == []
    assert texts_of_package("TestA", "TestC", records=whole) == [
        "early_exit: `calc/inner::TestB` was to run, and no result came",
        "harness_tampered: a result came for `calc/inner::TestC`, which was not collected",
    ]
    assert texts_of_package("TestA", "TestB", records=(PACKAGE, begun)) == [
        "early_exit: the tests of `calc/inner` ended before their closing record"
    ]
    assert texts_of_package("TestA", records=(PACKAGE, begun), outcome="failed") == [], "it failed anyway"
    some = ResultRecord(kind="package", id=PACKAGE.id, ids=PACKAGE.ids)
    assert texts_of_package("TestA", records=(some, *whole[1:])) == [], "the command names the tests to run"


def test_a_program_of_tests_that_names_all_of_them_has_to_report_all() -> None:
    begun = ResultRecord(kind="start", pid=7, id="calc", names_all=True)
    named = (ResultRecord(kind="collected", pid=7, ids=("a", "b")), ResultRecord(kind="named", pid=7))
    told = [
        ResultRecord(kind="result", when="call", pid=7, id=name, outcome=outcome)
        for name, outcome in (("a", "passed"), ("b", "skipped"))
    ]
    end = ResultRecord(kind="end", pid=7)

    def texts(*records: ResultRecord) -> list[str]:
        ids = ("calc/src/lib.rs::a", "calc/doc::src/lib.rs - a")
        found = Measurement(tests=tuple(TestOutcome(id=one, outcome="passed") for one in ids))
        return [one.text for one in compare_with_records(found, records, 0).irregularities]

    assert texts(begun, *named, *told, end) == [], "a test in the documentation is told by no program"
    assert texts(begun, *named, told[0], end) == ["`b` was to run, and no result came"]
    assert texts(begun, end) == [
        "0 passed while running, and the report names 1",
        "`calc` ended before it had named its tests",
    ]
    assert texts(begun, *named, end, ResultRecord(kind="untold")) == [], "this harness tells nothing"
