"""What `make bench` keeps: figures by subject and size, the page made from them, and what slipped."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

import benchmarks.__main__ as program
from benchmarks.baseline import PAGE, Baseline, keep, load, slips, with_figures
from benchmarks.report import Goal, Report, SubjectRun, Table


def a_run(measured: float, *, size: str = "quick", is_upper: bool = False) -> SubjectRun:
    goal = Goal(what="claims/s / peer", bound=8.0, measured=measured, is_upper=is_upper)
    shown = Table(title="Claims", headers=["queue", "rate"], rows=[["ours", "9"]])
    return SubjectRun(
        subject="claims",
        size=size,
        commit="0123456789",
        at="2026-01-01 00:00 UTC",
        load=0.5,
        machine="2 cores",
        goals=[goal],
        tables=[shown],
    )


def kept(run: SubjectRun) -> Baseline:
    return Baseline(runs={run.size: {run.subject: run}})


def test_the_page_shows_the_figures_that_are_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert with_figures(page, load()) == page, (
        "docs/benchmarks.md is not what baseline.json says; run make bench"
    )


def test_a_run_replaces_its_subject_at_its_size_alone(tmp_path: Path) -> None:
    file, page = tmp_path / "baseline.json", tmp_path / "page.md"
    page.write_text("# Page\n<!-- begin: written by `make bench` -->\n<!-- end -->\nTail\n")

    keep([a_run(7.0, size="full")], file, page)
    keep([a_run(9.0)], file, page)
    keep([a_run(float("nan"))], file, page)

    runs = load(file).runs
    assert [goal.measured for goal in runs["full"]["claims"].goals] == [7.0]
    assert runs["quick"]["claims"].goals == [], "a figure that could not be measured is not kept as one"
    assert "| `claims` | claims/s / peer | ≥ 8 × | 7 ×      | NO   |" in page.read_text()
    assert page.read_text().endswith("Tail\n")


def test_the_page_is_the_same_whatever_was_measured_first(tmp_path: Path) -> None:
    file, page = tmp_path / "baseline.json", tmp_path / "page.md"
    page.write_text("<!-- begin: written by `make bench` -->\n<!-- end -->\n")

    for subject in ("hook", "claims", "growth"):
        keep([msgspec.structs.replace(a_run(7.0), subject=subject)], file, page)

    assert with_figures(page.read_text(), load(file)) == page.read_text()


@pytest.mark.parametrize(
    ("before", "now", "is_upper", "is_worse"),
    [(10.0, 8.6, False, False), (10.0, 8.4, False, True), (2.0, 2.29, True, False), (2.0, 2.31, True, True)],
)
def test_a_figure_slips_when_it_is_worse_by_more_than_15_percent(
    before: float, now: float, is_upper: bool, is_worse: bool
) -> None:
    found = slips([a_run(now, is_upper=is_upper)], kept(a_run(before, is_upper=is_upper)))

    assert bool(found) == is_worse
    assert all("claims/s / peer" in sentence and "0123456789" in sentence for sentence in found)


def test_a_figure_that_was_not_measured_again_is_named() -> None:
    assert slips([a_run(float("nan"))], kept(a_run(9.0))) == [
        "claims: claims/s / peer: not measured, 9 × at 0123456789"
    ]


RATIOS = {"faster": (10.0, 20.0), "as fast": (10.0, 8.6), "slower": (10.0, 8.4), "much slower": (10.0, 1.0)}
"""Before and now."""


def measure_ratios(report: Report) -> None:
    for name, (_, now) in RATIOS.items():
        report.goal(name, now, least=10)


@pytest.mark.parametrize(
    ("now", "code", "named"),
    [
        (RATIOS, 1, ["a: slower: 8.4 ×, 10 × at 01", "a: much slower: 1 ×, 10 × at 01"]),
        (dict.fromkeys(RATIOS, (10.0, 10.0)), 0, []),
    ],
)
def test_a_run_with_compare_names_every_ratio_that_slipped_and_keeps_nothing(
    now: dict[str, tuple[float, float]],
    code: int,
    named: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    goals = [Goal(what=name, bound=10, measured=before) for name, (before, _) in RATIOS.items()]
    before = msgspec.structs.replace(a_run(1.0), subject="a", commit="01", goals=goals)
    monkeypatch.setattr(program, "SUBJECTS", {"a": measure_ratios})
    monkeypatch.setattr(program.baseline, "load", lambda: kept(before))
    monkeypatch.setattr(program.baseline, "keep", lambda _: pytest.fail("something was kept"))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setitem(globals(), "RATIOS", now)
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "REMAND_COORDINATOR"):
        monkeypatch.setenv(name, "")  # the run sets them, and they are put back

    with pytest.raises(SystemExit) as ended:
        program.main(["--quick", "--compare"])

    assert ended.value.code == code
    _, found = capsys.readouterr().out.split("## Compared with benchmarks/baseline.json")
    assert [line[2:] for line in found.splitlines() if line.startswith("- ")] == named


def test_figures_of_another_size_are_not_compared() -> None:
    assert slips([a_run(9.0)], kept(a_run(9.0, size="full"))) == ["claims: claims/s / peer: new, 9 ×"]
