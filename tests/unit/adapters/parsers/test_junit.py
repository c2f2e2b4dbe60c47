"""JUnit reports: what counts as a test, and when a report is worth nothing."""

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import measured, outcomes, parse, places, recorded

FAILED = '<testcase classname="a" name="bad"><failure message="boom"/></testcase>'
PASSED = '<testcase classname="a" name="good"/>'


def read(*cases: str, status: int = 0, suite: str = "unit", before: str = "") -> Measurement:
    text = f'{before}<testsuites><testsuite name="{suite}">{"".join(cases)}</testsuite></testsuites>'
    return parse("junit", ToolOutput(status=status, report=text.encode(), root="/src"))


def test_parameters_are_part_of_a_tests_id() -> None:
    assert "tests.test_sums::test_sign[2-minus]" in outcomes(measured("junit/pytest-failures"))


def test_every_kind_of_outcome_is_told_apart() -> None:
    found = outcomes(measured("junit/pytest-failures"))

    assert found["tests.test_sums::test_total"] == "passed"
    assert found["tests.test_sums::test_sign[2-minus]"] == "failed"
    assert found["tests.test_sums.TestOdd::test_setup"] == "error"
    assert found["tests.test_sums.TestOdd::test_skipped"] == "skipped"
    assert found["tests.test_sums.TestOdd::test_known"] == "skipped"


def test_tests_of_one_id_are_kept_apart() -> None:
    found = outcomes(measured("junit/pytest-failures"))

    assert found["tests.test_sums.TestOdd::test_teardown"] == "failed"
    assert found["tests.test_sums.TestOdd::test_teardown#2"] == "error"


def test_a_number_that_another_test_has_is_not_given_again() -> None:
    named = [f'<testcase name="{name}"/>' for name in ("a", "a#2", "a", "a")]

    assert list(outcomes(read(*named))) == ["unit::a", "unit::a#2", "unit::a#3", "unit::a#4"]


def test_a_failure_is_placed_where_the_trace_ends() -> None:
    assert ("tests/test_sums.py", 12, "tests.test_sums::test_sign[2-minus]") in places(
        measured("junit/pytest-failures")
    )


@pytest.mark.parametrize(("suite", "line"), [("pytest", 9), ("unit", 3)])
def test_pytests_trace_ends_where_others_begin(suite: str, line: int) -> None:
    trace = "a.py:3: in f\n    g()\na.py:9: Error\n/usr/lib/x.py:1: in x"
    found = read(f'<testcase name="t"><failure>{trace}</failure></testcase>', status=1, suite=suite)

    assert places(found)[0][:2] == ("a.py", line)


@pytest.mark.parametrize(
    ("name", "place"),
    [("jest", "jest/sums.test.cjs"), ("node", "test/sums.test.js"), ("vitest", "vitest/sums.test.js")],
)
def test_a_failure_in_javascript_is_placed_where_the_trace_begins(name: str, place: str) -> None:
    assert [path for path, _, _ in places(measured(f"junit/{name}"))] == [place]


def test_a_test_that_is_expected_to_fail_is_no_failure() -> None:
    assert outcomes(measured("junit/node"))["add::some day"] == "skipped"


@pytest.mark.parametrize("begins", ["Error: a:\n\n1 !== 2\n\n    at f", "[Error: a:\n\n1 !== 2\n] {"])
def test_a_message_without_its_line_breaks_gets_them_from_the_trace(begins: str) -> None:
    failure = f'<failure message="a:1 !== 2">{begins} (test/a.js:4:1)</failure>'
    found = read(f'<testcase name="t">{failure}</testcase>', status=1)

    assert found.findings[0].text == "a:\n\n1 !== 2"


def test_nodes_tests_are_named_by_their_suites() -> None:
    assert "outer::inner # with hash" in outcomes(measured("junit/node"))


def test_files_that_cannot_be_collected_are_failures_and_no_tests() -> None:
    found = measured("junit/pytest-collection")

    assert (found.figures["tests"], found.figures["failures"], found.tests) == (0, 1, ())
    assert found.findings[0].text == "ModuleNotFoundError: No module named 'nothing_there'"
    assert found.findings[0].path == "tests/test_broken.py"


SUBTESTS = ["pytest-subtests", "pytest-subtests-xdist", "pytest-subtests-old"]


@pytest.mark.parametrize("name", SUBTESTS)
def test_a_test_fails_once_however_many_of_its_subtests_fail(name: str) -> None:
    found = outcomes(measured(f"junit/{name}"))
    module = "tests.test_subtests"

    assert {test for test, outcome in found.items() if outcome == "failed"} == {
        f"{module}.TestUnits::test_one_fails",
        f"{module}.TestUnits::test_two_fail_and_the_end",
        f"{module}::test_one_fails",
        f"{module}::test_parameters[1]",
        f"{module}::test_parameters[2]",
    }
    assert {test for test, outcome in found.items() if outcome == "error"} == {
        f"{module}.TestSetUp::test_first",
        f"{module}.TestSetUp::test_second",
    }


@pytest.mark.parametrize("name", SUBTESTS)
def test_the_finding_of_a_test_with_subtests_is_its_first_failure(name: str) -> None:
    found = measured(f"junit/{name}")
    texts = {finding.code.removeprefix("tests.test_subtests"): finding.text for finding in found.findings}

    assert texts["::test_one_fails"] == "assert (1 % 2) == 0"
    assert texts[".TestUnits::test_two_fail_and_the_end"] == "3 failures, the first: AssertionError: 1 != 0"
    assert len(texts) == len(found.findings) == 7


@pytest.mark.parametrize("name", SUBTESTS)
def test_the_failures_within_a_test_are_counted(name: str) -> None:
    counts = {test.id: test.failure_count for test in measured(f"junit/{name}").tests}

    assert counts["tests.test_subtests::test_one_fails"] == 1
    assert counts["tests.test_subtests.TestUnits::test_two_fail_and_the_end"] == 3


SUITE = (
    '<testsuites name="pytest tests"><testsuite name="s" tests="{}" failures="{}" errors="{}" skipped="{}">'
)


@pytest.mark.parametrize("head", [(1, 2, 0, 0), (1, 0, 2, 0), (1, 1, 1, 0), (1, 1, 0, 1)])
def test_a_report_of_pytest_has_every_failure_and_skip_that_its_head_counts(head: tuple[int, ...]) -> None:
    text = f"{SUITE.format(*head)}{FAILED}</testsuite></testsuites>"

    with pytest.raises(UnreadableReport, match="than its own head counts"):
        parse("junit", ToolOutput(status=1, report=text.encode()))


def test_a_report_of_another_runner_has_every_test_that_its_head_counts() -> None:
    text = f'<testsuites><testsuite name="unit" tests="2">{PASSED}</testsuite></testsuites>'

    with pytest.raises(UnreadableReport, match="than its own head counts"):
        parse("junit", ToolOutput(status=0, report=text.encode()))


@pytest.mark.parametrize("status", [2, 3, 4])
def test_a_pytest_that_gave_up_has_measured_nothing(status: int) -> None:
    with pytest.raises(UnreadableReport):
        read(PASSED, FAILED, status=status, suite="pytest")


def test_a_pytest_that_says_it_ran_nothing_cannot_report_tests() -> None:
    with pytest.raises(UnreadableReport, match="reports 1"):
        read(PASSED, status=5, suite="pytest")


def test_other_runners_may_end_with_the_number_of_failures() -> None:
    assert read(FAILED, FAILED, FAILED, status=3).figures["failures"] == 3


def test_a_suite_without_a_name_is_not_pytests() -> None:
    assert read("<properties/>", FAILED, status=4).figures["failures"] == 1


@pytest.mark.parametrize("status", [0, 1, 5])
def test_without_a_report_nothing_was_measured(status: int) -> None:
    with pytest.raises(UnreadableReport, match="left no report"):
        parse("junit", ToolOutput(status=status, output=b"2 passed"))


def test_failures_count_whatever_the_exit_status_says() -> None:
    assert read(PASSED, FAILED, status=0).figures["failures"] == 1


def test_a_failed_run_without_a_failure_is_a_contradiction() -> None:
    with pytest.raises(UnreadableReport, match="nothing that it reports explains why"):
        read(PASSED, status=1)


def test_cut_output_does_not_matter_where_the_report_is_whole() -> None:
    assert parse("junit", recorded("junit/pytest-clean")._replace(is_cut=True)).figures["tests"] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not xml",
        b"<html><body/></html>",
        b"<testcase/>",
        b"<testsuites><testsuite><testcase/></testsuites>",
        b"<testsuites>\x00</testsuites>",
        b"<testsuite>" * 5_000 + b"</testsuite>" * 5_000,
        b'<?xml version="1.0" encoding="utf-7"?><testsuites/>',
        b'<?xml version="1.0" encoding="rot13"?><testsuites/>',
        b"\xff\xfe<\x00",
    ],
    ids=["empty", "text", "html", "case", "unbalanced", "nul", "deep", "utf-7", "rot13", "utf-16"],
)
def test_what_is_no_junit_report_is_not_read(content: bytes) -> None:
    with pytest.raises(UnreadableReport):
        parse("junit", ToolOutput(status=0, report=content))


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE t [<!ATTLIST testcase name CDATA "long">]>',
        '<!DOCTYPE t SYSTEM "file:///etc/hostname" []>',
    ],
    ids=["bomb", "external", "default", "subset"],
)
def test_a_report_declares_nothing(declared: str) -> None:
    with pytest.raises(UnreadableReport, match="not readable XML"):
        read(PASSED, before=declared)


def test_a_report_of_100_megabytes_is_not_read() -> None:
    with pytest.raises(UnreadableReport, match="at most"):
        parse("junit", ToolOutput(status=0, report=bytes(100 << 20)))


def test_a_report_in_utf_16_is_read() -> None:
    text = f'<?xml version="1.0"?><testsuites><testsuite name="unit">{FAILED}</testsuite></testsuites>'

    assert parse("junit", ToolOutput(status=1, report=text.encode("utf-16"))).figures["failures"] == 1


def test_times_that_are_none_do_not_matter() -> None:
    found = read(
        *(f'<testcase name="t" time="{time}"/>' for time in ("nan", "inf", "-1", "x", "1e999", "1,000.5"))
    )

    assert [test.seconds for test in found.tests] == [0, 0, 0, 0, 0, 1000.5]
