"""What `make bench` keeps: figures by subject and size, the page made from them, and what slipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.baseline import PAGE, Baseline, keep, load, slips, with_figures
from benchmarks.report import Goal, SubjectRun, Table


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


def test_figures_of_another_size_are_not_compared() -> None:
    assert slips([a_run(9.0)], kept(a_run(9.0, size="full"))) == ["claims: claims/s / peer: new, 9 ×"]
