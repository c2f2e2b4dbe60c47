"""What runs measured before: kept in `baseline.json`, compared with a new run, and shown in `docs/benchmarks.md`.

A figure is known by its subject and its words, at one size: a quick run is compared with a quick run alone.
"""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path

import msgspec

from benchmarks.report import Goal, SubjectRun, figure, table

FILE = Path(__file__).with_name("baseline.json")
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
SLIP = 0.15
"""A figure that is worse than before by more than this share of it has slipped; less is noise."""

_BEGIN, _END = "<!-- begin: written by `make bench` -->", "<!-- end -->"
_REGION = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)


class Baseline(msgspec.Struct, kw_only=True):
    """The newest run of each subject at each size, by size and subject."""

    runs: dict[str, dict[str, SubjectRun]] = {}


def load(path: Path = FILE) -> Baseline:
    """What runs measured before; empty when nothing was kept."""
    return msgspec.json.decode(path.read_bytes(), type=Baseline) if path.exists() else Baseline()


def keep(runs: list[SubjectRun], path: Path = FILE, page: Path = PAGE) -> None:
    """Replaces what is kept of these subjects at this size, and writes the page anew."""
    baseline = load(path)
    for run in runs:
        measured = [goal for goal in run.goals if not math.isnan(goal.measured)]
        kept = msgspec.structs.replace(run, goals=measured)
        baseline.runs.setdefault(run.size, {})[run.subject] = kept
    path.write_bytes(msgspec.json.format(msgspec.json.encode(baseline, order="sorted"), indent=1) + b"\n")
    page.write_text(with_figures(page.read_text(encoding="utf-8"), load(path)), encoding="utf-8")


def slips(runs: list[SubjectRun], baseline: Baseline) -> list[str]:
    """A sentence for each figure that is worse than before by more than the bound, is new, or was not measured again."""
    found = []
    for run in runs:
        before = baseline.runs.get(run.size, {}).get(run.subject)
        known = {goal.what: goal for goal in before.goals} if before else {}
        measured = {goal.what: goal for goal in run.goals if not math.isnan(goal.measured)}
        for what, goal in measured.items():
            old = known.get(what)
            if old is None:
                found.append(f"{run.subject}: {what}: new, {figure(goal.measured)} {goal.unit}")
            elif has_slipped(goal, old):
                is_loud = goal.is_loud or old.is_loud
                found.append(
                    f"{run.subject}: {what}: {figure(goal.measured)} {goal.unit}, {_kept_figure(old, before)}"
                    f"{' (a loud machine)' if is_loud else ''}"
                )
        found += [
            f"{run.subject}: {what}: not measured, {_kept_figure(old, before)}"
            for what, old in known.items()
            if what not in measured
        ]
    return found


def _kept_figure(old: Goal, run: SubjectRun | None) -> str:
    return f"{figure(old.measured)} {old.unit} at {run.commit if run else ''}"


def has_slipped(goal: Goal, old: Goal) -> bool:
    """True when the figure is worse than it was by more than the bound."""
    if goal.is_upper:
        return goal.measured > old.measured * (1 + SLIP)
    return goal.measured < old.measured * (1 - SLIP)


def current_commit() -> str:
    """The commit that is measured, with a mark when the tree has changes other than what a run keeps."""
    written = [f":!{path.relative_to(PAGE.parents[1])}" for path in (FILE, PAGE)]
    commit = _git("rev-parse", "--short=10", "HEAD")
    is_changed = bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", *written))
    return f"{commit}{'-dirty' if is_changed else ''}" if commit else "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(PAGE.parents[1]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def with_figures(page: str, baseline: Baseline) -> str:
    """The page with what was measured in its marked region."""
    if not _REGION.search(page):
        raise ValueError(f"docs/benchmarks.md has no region {_BEGIN} … {_END}")
    text = f"{_BEGIN}\n\n{render(baseline)}\n{_END}"
    return _REGION.sub(lambda _: text, page)


def render(baseline: Baseline) -> str:
    """All goals with what was measured, then the tables of each subject; of each subject the largest size."""
    chosen: dict[str, SubjectRun] = {}
    for size in ("full", "usual", "quick"):
        for subject, run in baseline.runs.get(size, {}).items():
            chosen.setdefault(subject, run)
    rows = [
        (f"`{run.subject}`", goal.what, goal.wanted, f"{figure(goal.measured)} {goal.unit}", goal.verdict)
        for run in chosen.values()
        for goal in run.goals
    ]
    parts = ["### Goals\n", table(("subject", "what", "goal", "measured", "met?"), rows), ""]
    for run in chosen.values():
        parts += [
            f"### `{run.subject}`\n",
            f"{run.size} run of {run.at} at commit {run.commit}, load {run.load:.1f}; {run.machine}\n",
        ]
        for shown in run.tables:
            parts += [f"{shown.title}\n" if shown.title else "", table(shown.headers, shown.rows), ""]
            parts += [f"{shown.note}\n"] if shown.note else []
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))
