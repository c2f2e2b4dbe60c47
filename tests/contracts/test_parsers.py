"""What every parser keeps to, whatever it is given: a measurement that can be kept, or `Unreadable`."""

import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.parsers.registry import PARSERS, find_parser
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from remand.domain.text.words import remove_invisible
from tests.unit.adapters.parsers.recorded_runs import NAMES, parse, recorded

MAX_FINDINGS = 10_000
MAX_TEXT = 500
CUTS = 50
SEVERITIES = {"error", "warning", "note"}
OUTCOMES = {"passed", "failed", "error", "skipped"}
DOCUMENTS = ("cobertura", "coverage-json", "eslint", "junit", "ruff", "sarif")
DIGITS = b"9" * 5_000
GARBAGE = (
    *(b"", b"\n", b"\x00" * 1_000, b"ok", b"<a/>", b"1..0", b"1..999999999", b"error: \n"),
    *(b"null", b"[]", b"{}", b"[[]]", b"[{}]", b'""', b"NaN", b'{"a":1}\n' * 3),
    *(b"{" * 50_000, b"[" * 50_000, b"<a>" * 50_000, b"\xff\xfe\x00", b"\xef\xbb\xbf"),
    *(b"SF:\nend_of_record", b"FAIL\tp [build failed]\n", b"running 0 tests\n", b"a:1: error: x\n" * 20_000),
    *("\u2028\u0085\u202e\U000e0001".encode() * 999, "ok 1 - é\n1..1".encode("utf-16")),
    *(b"1.." + DIGITS, b"ok " + DIGITS, b"running " + DIGITS + b" tests\n"),
    b"running 1 test\ntest result: ok. "
    + DIGITS
    + b" passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
    b"a.py:" + DIGITS + b": error: x\nFound " + DIGITS + b" errors in 1 file\n",
    b"a.ts(" + DIGITS + b",1): error TS1: x\na.go:" + DIGITS + b":1: x\n",
    b"SF:a\nDA:" + DIGITS + b",1\nend_of_record",
    b'<coverage line-rate="0.' + DIGITS + b'" lines-valid="' + DIGITS + b'" lines-covered="1"/>',
    b'<testsuites><testcase line="' + DIGITS + b'" time="' + DIGITS + b'"><failure/></testcase></testsuites>',
)


def read(parser: str, ran: ToolOutput) -> Measurement | None:
    """Reads a run and holds what comes of it against the contract; None when it is unreadable."""
    why = ""
    found: Measurement | None
    try:
        found = parse(parser, ran)
    except UnreadableReport as unreadable:
        found, why = None, str(unreadable)
    if found is None:
        assert 0 < len(why) < 1_000
        return None
    assert found.figures.keys() <= set(PARSERS[parser]().figures)
    assert all(math.isfinite(value) and value >= 0 for value in found.figures.values())
    assert len(found.findings) <= MAX_FINDINGS
    for finding in found.findings[:50]:
        for text in (finding.path, finding.code, finding.text):
            assert len(text) <= MAX_TEXT
            assert remove_invisible(text) == text
        assert finding.severity in SEVERITIES
        assert not {"\n", "\t"} & {*finding.path, *finding.code}
    assert len({test.id for test in found.tests}) == len(found.tests)
    assert {test.outcome for test in found.tests} <= OUTCOMES
    assert msgspec.json.decode(msgspec.json.encode(found), type=Measurement) == found
    return found


def everywhere(content: bytes, status: int = 0) -> list[ToolOutput]:
    """A content as output, as error output, and as report."""
    return [
        ToolOutput(status=status, output=content, root="/src"),
        ToolOutput(status=status, errors=content, root="/src"),
        ToolOutput(status=status, report=content, root="/src"),
    ]


@pytest.mark.parametrize("parser", tuple(PARSERS))
def test_a_parser_declares_its_figures_and_requires_nothing_else(parser: str) -> None:
    figures = PARSERS[parser]().figures

    assert figures
    assert all(name[:4] in ("max_", "min_") and name[4:] in figures for name in PARSERS[parser]().defaults)


def test_there_is_no_parser_of_another_name() -> None:
    assert find_parser("nose") is None


@pytest.mark.parametrize("parser", tuple(PARSERS))
def test_what_any_tool_says_is_read_or_refused(parser: str) -> None:
    for name in NAMES:
        ran = recorded(name)
        for status in (ran.status, 0, 1, 2, -9):
            read(parser, ran._replace(status=status))


@pytest.mark.parametrize("parser", tuple(PARSERS))
def test_garbage_is_read_or_refused(parser: str) -> None:
    for content in GARBAGE:
        for status in (0, 1):
            for ran in everywhere(content, status):
                read(parser, ran)


@pytest.mark.parametrize("parser", tuple(PARSERS))
def test_five_megabytes_of_random_bytes_are_read_or_refused(parser: str) -> None:
    content = random.Random(parser).randbytes(5 << 20)
    for ran in everywhere(content):
        read(parser, ran)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_truncated_is_read_or_refused(name: str) -> None:
    parser = name.partition("/")[0]
    ran = recorded(name)
    content = ran.output if ran.report is None else ran.report
    for cut in range(CUTS):
        left = content[: len(content) * cut // CUTS]
        short = ran._replace(output=left) if ran.report is None else ran._replace(report=left)
        found = read(parser, short)
        is_lines = "lines" in name or not content.strip()
        assert found is None or is_lines or parser not in DOCUMENTS, (
            f"{cut} of {CUTS} were taken for a report"
        )


@pytest.mark.parametrize("parser", tuple(PARSERS))
def test_a_failed_command_that_says_nothing_never_passes(parser: str) -> None:
    for status in (1, 2, 3, 101, 127, 137):
        found = read(parser, ToolOutput(status=status, root="/src"))
        assert found is None or sum(found.figures.values()) > 0


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, ToolOutput]:
    """A recorded run in which some bytes were put out of place."""
    name = draw(st.sampled_from(NAMES))
    ran = recorded(name)
    content = bytearray(ran.output if ran.report is None else ran.report)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 20))
        content[place : place + length] = draw(
            st.one_of(
                st.binary(max_size=20),
                st.sampled_from(
                    [b'"', b"null", b"-1", b"1e999", b"NaN", b"{", b"]", b"\n", b"<", b"&", b"\\ud800"]
                ),
            )
        )
    status = draw(st.sampled_from([ran.status, 0, 1]))
    made = bytes(content)
    return name.partition("/")[0], (
        ran._replace(output=made, status=status)
        if ran.report is None
        else ran._replace(report=made, status=status)
    )


@given(case=damaged())
def test_what_was_damaged_is_read_or_refused(case: tuple[str, ToolOutput]) -> None:
    read(*case)


@given(
    content=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
)
def test_anything_is_read_or_refused(content: bytes) -> None:
    for parser in PARSERS:
        for ran in everywhere(content):
            read(parser, ran)
