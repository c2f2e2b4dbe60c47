"""Coverage: one figure for lines and one for branches, whoever writes the report."""

import json

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import measured, parse, recorded


def cobertura(attributes: str, inside: str = "") -> Measurement:
    return parse(
        "cobertura",
        ToolOutput(status=0, report=f"<coverage {attributes}>{inside}</coverage>".encode(), root="/src"),
    )


def lcov(*lines: str) -> Measurement:
    return parse("lcov", ToolOutput(status=0, report="\n".join(lines).encode(), root="/src"))


def test_three_reports_of_one_run_give_the_same_figures() -> None:
    reports = [
        measured(name) for name in ("cobertura/coverage-py", "coverage-json/branches", "lcov/coverage-py")
    ]

    assert reports[0].figures == pytest.approx(reports[1].figures)
    assert reports[0] == reports[1] == reports[2]


def test_lines_that_were_not_reached_are_named() -> None:
    found = measured("coverage-json/branches").findings

    assert [(one.path, one.line, one.text, one.severity) for one in found] == [
        ("pkg/clean.py", 1, "2 lines not covered: 1-2", "note"),
        ("pkg/sums.py", 12, "2 lines not covered: 12, 15", "note"),
    ]


def test_coverage_is_measured_whatever_the_exit_status_says() -> None:
    assert recorded("cobertura/coverage-py-under").status == 2
    assert measured("cobertura/coverage-py-under").figures["branch_coverage"] == 50


def test_a_bare_rate_is_a_figure_too() -> None:
    assert cobertura('line-rate="0.875"').figures == {"coverage": 87.5}


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        'line-rate="NaN"',
        'line-rate="1.5"',
        'line-rate="-1"',
        'line-rate="x"',
        'line-rate="1" lines-valid="0" lines-covered="0"',
        'line-rate="1" lines-valid="10" lines-covered="2"',
        'line-rate="1" lines-valid="10" lines-covered="20"',
        f'line-rate="1" lines-valid="{"9" * 400}" lines-covered="x" branch-rate="7"',
    ],
)
def test_a_cobertura_report_that_counts_nothing_or_wrongly_is_not_read(attributes: str) -> None:
    with pytest.raises(UnreadableReport):
        cobertura(attributes)


def test_a_file_that_several_records_tell_of_is_reached_where_one_reached_it() -> None:
    first = ("SF:/src/a.c", "DA:1,0", "DA:2,0", "BRDA:1,0,0,0", "BRDA:1,0,1,0", "end_of_record")
    second = ("SF:/src/a.c", "DA:2,4", "BRDA:1,0,0,-", "BRDA:1,0,1,7", "end_of_record")

    for found in (lcov(*first, *second), lcov(*second, *first)):
        assert found.figures == {"coverage": 50, "branch_coverage": 50}
        assert [(one.path, one.text) for one in found.findings] == [("a.c", "1 line not covered: 1")]


def test_coberturas_files_lie_in_their_source_folder() -> None:
    file = '<class filename="a.py"><lines><line number="3" hits="0"/></lines></class>'

    def paths(sources: str) -> list[str]:
        found = cobertura('line-rate="0.5"', f"<sources>{sources}</sources>{file}")
        return [one.path for one in found.findings]

    assert paths("<source>/src/lib</source>") == ["lib/a.py"]
    assert paths("<source>/src/lib</source><source>/src/app</source>") == ["a.py"]


@pytest.mark.parametrize(
    "lines",
    [
        ("",),
        ("TN:",),
        ("SF:a", "DA:1,1"),
        ("SF:a", "DA:1,1", "SF:b", "end_of_record"),
        ("DA:1,1", "end_of_record"),
        ("SF:a", "DA:x,1", "end_of_record"),
        ("SF:a", "DA:1,many", "end_of_record"),
        ("SF:a", "DA", "end_of_record"),
        ("SF:a", "end_of_record"),
    ],
)
def test_an_lcov_report_that_breaks_off_or_counts_nothing_is_not_read(lines: tuple[str, ...]) -> None:
    with pytest.raises(UnreadableReport):
        lcov(*lines)


def test_totals_must_be_the_sum_of_the_files() -> None:
    ran = recorded("coverage-json/lines")
    report = json.loads(ran.report or b"")
    report["totals"]["covered_lines"] += 1

    with pytest.raises(UnreadableReport, match="not the sum"):
        parse("coverage-json", ran._replace(report=json.dumps(report).encode()))


def test_a_report_of_no_files_has_measured_nothing() -> None:
    totals = {"covered_lines": 0, "num_statements": 0}

    with pytest.raises(UnreadableReport, match="nothing was measured"):
        parse(
            "coverage-json", ToolOutput(status=0, report=json.dumps({"files": {}, "totals": totals}).encode())
        )


def test_many_ranges_are_cut() -> None:
    lines = [f"DA:{2 * number},0" for number in range(1, 1_000)]
    (finding,) = lcov("SF:a", *lines, "end_of_record").findings

    assert finding.text.startswith("999 lines not covered: 2, 4, 6, ")
    assert len(finding.text) <= 500
