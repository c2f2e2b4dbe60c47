"""Compilers and the tests of compiled languages."""

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import measured, outcomes, parse, places, recorded

FINISHED = b'{"reason":"build-finished","success":true}\n'
PASSED = b"test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"


def say(parser: str, output: bytes, status: int = 0, errors: bytes = b"") -> Measurement:
    return parse(parser, ToolOutput(status=status, output=output, errors=errors, root="/src"))


def test_what_the_compiler_repeats_for_every_target_counts_once() -> None:
    assert recorded("cargo/clippy-findings").output.count(b'"reason":"compiler-message"') == 4
    assert places(measured("cargo/clippy-findings")) == [
        ("src/lib.rs", 9, "unused_variables"),
        ("src/lib.rs", 10, "clippy::needless_return"),
    ]


def test_a_build_that_did_not_finish_has_measured_nothing() -> None:
    ran = recorded("cargo/clippy-clean")

    with pytest.raises(UnreadableReport, match="did not say that the build finished"):
        parse("cargo", ran._replace(output=ran.output.replace(FINISHED, b"")))


def test_a_build_that_failed_over_nothing_contradicts_itself() -> None:
    with pytest.raises(UnreadableReport, match="explains why"):
        say("cargo", FINISHED.replace(b"true", b"false"), status=101)


def test_cargos_tests_have_a_parser_of_their_own() -> None:
    with pytest.raises(UnreadableReport, match="cargo-test"):
        parse("cargo", recorded("cargo-test/failures-json"))


def test_cargos_tests_are_named_by_binary_and_source() -> None:
    assert outcomes(measured("cargo-test/failures")) == {
        "sums/src/lib.rs::more::later": "skipped",
        "sums/src/lib.rs::more::panics": "passed",
        "sums/src/lib.rs::more::adds_wrongly": "failed",
        "sums/src/lib.rs::tests::adds": "passed",
        "whole/tests/whole.rs::adds": "passed",
        "sums/doc::src/lib.rs - add": "passed",
    }


def test_tests_of_rust_and_go_are_told_with_what_their_failures_say() -> None:
    for name in ("cargo-test/failures", "go/test-failures"):
        found = measured(name)
        texts = {finding.code: finding.text for finding in found.findings}
        assert [(one.id, one.outcome) for one in found.watched] == [
            (one.id, one.outcome) for one in found.tests
        ]
        assert {one.id: one.text for one in found.watched if one.text} == texts


def test_a_failed_rust_test_says_where_and_why() -> None:
    (finding,) = measured("cargo-test/failures").findings

    assert (finding.path, finding.line) == ("src/lib.rs", 28)
    assert "assertion `left == right` failed: arithmetic\n  left: 3\n right: 4" in finding.text
    assert "failures:" not in finding.text


def test_code_that_does_not_compile_has_no_tests_and_the_compilers_errors() -> None:
    for name in ("broken", "broken-json"):
        found = measured(f"cargo-test/{name}")
        assert (found.figures["tests"], found.figures["errors"]) == (0, 1)
        assert places(found) == [("src/lib.rs", 10, "E0308")]


@pytest.mark.parametrize(
    "output",
    [
        b"running 2 tests\ntest a ... ok\n",
        b"running 1 test\ntest a ... ok\n" + PASSED + b"running 1 test\n",
        b"running 2 tests\ntest a ... ok\n" + PASSED,
        b"running 1 test\ntest a ... FAILED\n" + PASSED,
        b"running 1 test\ntest a ... ok\ntest b ... ok\n" + PASSED,
        b"",
        PASSED,
    ],
    ids=[
        "ended early",
        "second ended early",
        "one missing",
        "other outcome",
        "one too many",
        "silent",
        "no beginning",
    ],
)
def test_a_test_binary_whose_words_do_not_add_up_is_not_believed(output: bytes) -> None:
    with pytest.raises(UnreadableReport):
        say("cargo-test", output)


def test_what_a_test_printed_is_no_test() -> None:
    ran = recorded("cargo-test/failures")
    said = b"thread 'more::adds_wrongly'"
    assert said in ran.output
    forged = ran.output.replace(said, b"test forged ... ok\n" + said)

    assert parse("cargo-test", ran._replace(output=forged)).figures["tests"] == 6


def test_a_failed_exit_status_is_not_explained_by_what_tests_print() -> None:
    passed = b"running 1 test\ntest a ... ok\n" + PASSED

    with pytest.raises(UnreadableReport, match="explains why"):
        say("cargo-test", passed, status=101, errors=b"error[E0308]: x\nerror: could not compile `x`\n")


def test_gos_subtests_count_and_not_the_test_that_holds_them() -> None:
    assert outcomes(measured("go/test-failures")) == {
        "example.test/calc/calc::TestAdd": "passed",
        "example.test/calc/calc::TestTable/two": "failed",
        "example.test/calc/calc::TestLater": "skipped",
    }


def event(action: str, test: str = "", more: str = "") -> bytes:
    test = f',"Test":"{test}"' if test else ""
    return f'{{"Action":"{action}","Package":"p"{test}{more}}}\n'.encode()


def test_a_test_that_failed_by_itself_counts_beside_those_it_holds() -> None:
    output = (
        *(event("run", "T"), event("run", "T/a/b"), event("pass", "T/a/b")),
        *(event("fail", "T"), event("fail")),
    )

    assert outcomes(say("go", b"".join(output), status=1)) == {"p::T/a/b": "passed", "p::T": "failed"}


def test_a_go_test_that_never_ended_failed_with_its_package() -> None:
    assert outcomes(say("go", event("run", "T") + event("fail"), status=1)) == {"p::T": "failed"}


def test_a_package_that_passed_without_ending_its_tests_is_not_believed() -> None:
    with pytest.raises(UnreadableReport, match="never ended"):
        say("go", event("run", "T") + event("pass"))


def test_events_that_break_off_are_not_believed() -> None:
    with pytest.raises(UnreadableReport, match="break off"):
        say("go", event("run", "T") + event("pass", "T"))


def test_a_package_that_failed_without_a_failed_test_is_one_failure() -> None:
    said = event("output", more=',"Output":"panic: in init\\n"')
    found = say("go", said + event("fail"), status=1)

    assert outcomes(found) == {"p": "error"}
    assert found.findings[0].text == "panic: in init"


def test_gos_panic_is_placed_in_the_repository() -> None:
    assert places(measured("go/test-panic")) == [
        ("calc/panic_test.go", 5, "example.test/calc/calc::TestPanic")
    ]


def test_gos_silence_is_a_build_without_complaint() -> None:
    assert say("go", b"").figures == {"errors": 0, "failures": 0}
    assert say("go", b"", errors=b"go: downloading example.test/x v1.0.0\n").figures["errors"] == 0


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        (0, b'go: warning: "./..." matched no packages\n'),
        (1, b"go: cannot find main module\n"),
        (1, b""),
        (1, b"x.go:3:8: module lookup disabled by GOPROXY=off\n"),
        (1, b'go: example.test/x@v1: Get "https://elsewhere.test": dial tcp: lookup: no such host\n'),
    ],
)
def test_a_go_that_could_not_work_has_measured_nothing(status: int, errors: bytes) -> None:
    with pytest.raises(UnreadableReport):
        say("go", b"", status=status, errors=errors)


def test_vet_repeats_itself_for_a_packages_tests_and_counts_once() -> None:
    one = b'{"printf": [{"posn": "/src/a.go:6:2", "message": "m"}]}'

    assert say("go", b'{"p": ' + one + b"}\n" + b'{"p [p.test]": ' + one + b"}\n").figures["errors"] == 1


def test_tscs_complaints_are_placed_coloured_or_not() -> None:
    assert places(measured("tsc/findings"))[:2] == [("shape.ts", 2, "TS2322"), ("shape.ts", 6, "TS2322")]
    assert places(measured("tsc/findings-pretty")) == places(measured("tsc/findings"))


def test_a_complaint_of_tsc_about_no_file_is_an_error_unless_it_is_about_the_set_up() -> None:
    about_types = b"error TS2688: Cannot find type definition file for 'node'.\n"

    assert say("tsc", about_types, status=2).figures["errors"] == 1
    with pytest.raises(UnreadableReport, match="could not start"):
        say("tsc", b"error TS18003: No inputs were found in config file 'tsconfig.json'.\n", status=2)


@pytest.mark.parametrize(("output", "errors"), [(b"Version 6.0.3\n", b""), (b"", b"warning: x\n")])
def test_what_is_no_output_of_tsc_is_not_read(output: bytes, errors: bytes) -> None:
    with pytest.raises(UnreadableReport, match="not the output of tsc"):
        say("tsc", output, errors=errors)
