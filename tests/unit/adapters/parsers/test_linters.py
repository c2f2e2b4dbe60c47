"""Linters and type checkers: what counts, and what no report is."""

import json

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import measured, parse, places

VIOLATION = {"filename": "/src/a.py", "code": "F401", "location": {"row": 3}, "message": "unused"}


def say(parser: str, output: object, status: int = 1, **more: object) -> Measurement:
    """Reads what a tool printed: bytes as they are, everything else as JSON."""
    content = output if isinstance(output, bytes) else json.dumps(output).encode()
    return parse(parser, ToolOutput(status=status, output=content, root="/src")._replace(**more))


def sarif(*results: object, **run: object) -> Measurement:
    run = {"tool": {"driver": {"name": "x"}}, "results": results, **run}
    return say("sarif", {"version": "2.1.0", "runs": [run]}, status=0)


def test_violations_are_placed() -> None:
    assert places(measured("ruff/findings")) == [("pkg/sums.py", 1, "F401"), ("pkg/sums.py", 2, "F401")]
    assert places(measured("ruff/findings-lines")) == places(measured("ruff/findings"))


def test_ruffs_warnings_are_told_from_its_errors() -> None:
    rows = [{**VIOLATION, "severity": severity} for severity in ("error", "warning", "info", "new")]

    assert say("ruff", rows).figures == {"errors": 2, "warnings": 1}


def test_violations_count_whatever_the_exit_status_says() -> None:
    assert say("ruff", [VIOLATION], status=0).figures["errors"] == 1


def test_a_report_is_read_instead_of_the_output() -> None:
    assert say("ruff", b"noise", report=json.dumps([VIOLATION]).encode()).figures["errors"] == 1


@pytest.mark.parametrize(
    "output", [b"", b" \n", b"All checks passed!\n", b"[{}]", b"{}", b"[1]", b"null", b"[", b"[]x"]
)
def test_what_is_no_report_of_ruff_is_not_read(output: bytes) -> None:
    with pytest.raises(UnreadableReport):
        say("ruff", output, status=0)


@pytest.mark.parametrize("parser", ["eslint", "ruff"])
def test_a_linter_that_failed_over_nothing_contradicts_itself(parser: str) -> None:
    with pytest.raises(UnreadableReport, match="nothing that it reports explains why"):
        say(parser, [])


@pytest.mark.parametrize("parser", ["eslint", "mypy", "ruff", "sarif", "tsc"])
def test_output_that_was_cut_is_not_read(parser: str) -> None:
    with pytest.raises(UnreadableReport, match="more than is kept"):
        say(parser, [VIOLATION], is_cut=True)


@pytest.mark.parametrize(
    "odd",
    [
        b'"message": "first", "message": "second"',
        b'"message": "\xff\xfe"',
        b'"message": "\\ud800"',
        b'"message": "\x00\x1b[31m"',
        b'"message": "m", "extra": NaN',
        b'"message": "m", "extra": 1e999',
        b'"message": "m", "extra": ' + b"9" * 4_000,
    ],
    ids=["twice", "no utf-8", "half a pair", "control", "nan", "infinite", "digits"],
)
def test_odd_json_is_read_all_the_same(odd: bytes) -> None:
    assert say("ruff", b'[{"filename": "a.py", ' + odd + b"}]").figures["errors"] == 1


@pytest.mark.parametrize(
    "odd", [b"[" * 100_000, b'{"a":' * 100_000, b'[{"filename": "a", "message": "m", "b": ' + b"[" * 9_999]
)
def test_json_that_is_nested_too_deeply_is_not_read(odd: bytes) -> None:
    with pytest.raises(UnreadableReport):
        say("ruff", odd)


def test_json_in_utf_16_is_read() -> None:
    assert say("ruff", json.dumps([VIOLATION]).encode("utf-16")).figures["errors"] == 1
    assert say("ruff", b"\xef\xbb\xbf" + json.dumps([VIOLATION]).encode()).figures["errors"] == 1


def test_what_a_directive_suppresses_does_not_count_with_eslint() -> None:
    assert "no-unused-vars" not in [code for _, _, code in places(measured("eslint/findings"))]


def test_errors_come_before_warnings() -> None:
    assert [finding.severity for finding in measured("eslint/findings").findings] == [
        "error",
        "error",
        "warning",
    ]


def test_mypys_codes_are_read_from_text_and_from_json() -> None:
    expected = [("pkg/sums.py", 6, "assignment"), ("pkg/sums.py", 7, "return-value")]

    assert places(measured("mypy/findings")) == expected
    assert places(measured("mypy/findings-json")) == expected


def test_a_mypy_that_says_nothing_has_measured_nothing() -> None:
    with pytest.raises(UnreadableReport, match="reported neither"):
        say("mypy", b"", status=0)


def test_a_mypy_that_speaks_of_more_errors_than_it_shows_is_not_believed() -> None:
    with pytest.raises(UnreadableReport, match="reports 2"):
        say("mypy", b"a.py:1: error: x  [y]\nFound 2 errors in 1 file (checked 1 source file)\n")


def test_a_crash_of_mypy_is_no_error_of_the_code() -> None:
    with pytest.raises(UnreadableReport, match="crashed"):
        say("mypy", b"a.py:1: error: INTERNAL ERROR -- Please try using mypy master\n", status=2)


def test_a_pretty_mypy_is_read() -> None:
    said = b"a.py:1: error: one two\nthree  [code]\n    x = 1\n    ^\nFound 1 error in 1 file (checked 1 source file)\n"

    assert say("mypy", said).figures["errors"] == 1


def test_suppressed_and_vanished_results_do_not_count_in_sarif() -> None:
    found = sarif(
        {"message": {"text": "kept"}, "level": "error"},
        {"message": {"text": "suppressed"}, "level": "error", "suppressions": [{"kind": "inSource"}]},
        {"message": {"text": "refused"}, "level": "error", "suppressions": [{"status": "rejected"}]},
        {"message": {"text": "gone"}, "level": "error", "baselineState": "absent"},
        {"message": {"text": "fine"}, "kind": "pass"},
        {"message": {"text": "unsure"}, "kind": "review"},
    )

    assert [finding.text for finding in found.findings] == ["kept", "refused", "unsure"]
    assert found.figures == {"errors": 2, "warnings": 0, "notes": 1}


def test_a_result_without_a_level_has_its_rules_or_is_a_warning() -> None:
    rules = [{"id": "R1", "defaultConfiguration": {"level": "error"}}, {"id": "R2"}]
    found = sarif(
        {"message": {"text": "a"}, "ruleId": "R1"},
        {"message": {"text": "b"}, "ruleIndex": 0},
        {"message": {"text": "c"}, "ruleId": "R2"},
        {"message": {"text": "d"}, "ruleIndex": 99},
        tool={"driver": {"name": "x", "rules": rules}},
    )

    assert found.figures == {"errors": 2, "warnings": 2, "notes": 0}


def test_addresses_in_sarif_become_paths() -> None:
    def at(uri: str, base: str = "") -> object:
        place = {"artifactLocation": {"uri": uri, "uriBaseId": base}, "region": {"startLine": 7}}
        return {"message": {"text": "x"}, "locations": [{"physicalLocation": place}]}

    found = sarif(
        at("file:///src/a%20b.c"),
        at("sub/c%2B.c"),
        at("d.c", "ROOT"),
        at("e.c", "OTHER"),
        at("https://elsewhere.test/f.c"),
        originalUriBaseIds={"ROOT": {"uri": "file:///src/lib/"}},
    )

    assert [finding.path for finding in found.findings] == [
        *("a b.c", "sub/c+.c", "lib/d.c", "e.c"),
        "https:/elsewhere.test/f.c",
    ]
    assert {finding.line for finding in found.findings} == {7}


@pytest.mark.parametrize(
    "log",
    [
        {"version": "2.0.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": []}]},
        {"version": "2.1.0", "runs": []},
        {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}}]},
        {"version": "2.1.0", "runs": [{"results": []}]},
        {
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {"driver": {"name": "x"}},
                    "results": [],
                    "invocations": [{"executionSuccessful": False}],
                }
            ],
        },
    ],
    ids=["version", "no run", "no results", "no tool", "failed"],
)
def test_a_sarif_log_of_no_whole_run_is_not_read(log: object) -> None:
    with pytest.raises(UnreadableReport):
        say("sarif", log, status=0)
