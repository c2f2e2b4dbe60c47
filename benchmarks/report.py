"""What is printed: the machine, one table per subject, and the goals with what was measured."""

from __future__ import annotations

import math
import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

import apsw
import msgspec

from benchmarks.measure import Quiet, Times, probe
from benchmarks.scale import Scale


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A figure we want to reach, and the one we have."""

    what: str
    bound: float
    measured: float
    unit: str = "×"
    is_upper: bool = False
    """True when the bound must not be passed; else it must be reached."""
    is_loud: bool = False
    """True when others kept the machine so busy that the figure says little."""

    @property
    def is_met(self) -> bool:
        """True when the figure is as we want it."""
        return self.measured <= self.bound if self.is_upper else self.measured >= self.bound

    @property
    def verdict(self) -> str:
        """Whether it is met, in words."""
        return ("yes" if self.is_met else "NO") + (", but loud" if self.is_loud else "")

    @property
    def wanted(self) -> str:
        """The bound in words."""
        return f"{'≤' if self.is_upper else '≥'} {figure(self.bound)} {self.unit}"


class Table(msgspec.Struct, kw_only=True):
    """A table as it was printed."""

    title: str = ""
    headers: list[str]
    rows: list[list[str]]
    note: str = ""


class SubjectRun(msgspec.Struct, kw_only=True):
    """What one run measured of one subject, on which commit and how busy a machine."""

    subject: str
    size: str
    commit: str
    at: str
    load: float
    machine: str
    goals: list[Goal] = []
    tables: list[Table] = []


class Report:
    """Prints tables as they come and keeps what was measured of each subject."""

    def __init__(self, folder: str, scale: Scale, commit: str = "") -> None:
        self.folder = folder
        self.scale = scale
        self.runs: list[SubjectRun] = []
        self._commit = commit
        self._probes: list[float] = []
        self._title = ""

    def machine(self) -> None:
        """Says where this runs."""
        print(f"\n{facts(self.folder)}; {self.scale.name} run")

    def start(self, subject: str) -> None:
        """Keeps what follows under this subject."""
        self.runs.append(
            SubjectRun(
                subject=subject,
                size=self.scale.name,
                commit=self._commit,
                at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
                load=os.getloadavg()[0],
                machine=facts(self.folder),
            )
        )

    def heading(self, text: str) -> None:
        """Starts a part of a subject, with a look at what the disk and the machine are like just now."""
        disk = probe(self.folder)
        self._probes.append(disk.p50)
        self._title = text
        print(f"\n## {text}\n")
        print(
            f"raw append + fdatasync: p50 {micros(disk.p50)} µs, p99 {micros(disk.p99)} µs; "
            f"load {os.getloadavg()[0]:.1f}\n",
            flush=True,
        )

    def quiet(self) -> Quiet:
        """Moments to measure in."""
        return Quiet(self.folder, self.scale.patience)

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], quiet: Quiet | None = None
    ) -> None:
        """Prints a table, and how the disk was meanwhile."""
        print(table(headers, rows))
        note = ""
        if quiet is not None:
            loud = "; too loud for ratios" if quiet.is_loud else ""
            note = f"(raw append + fdatasync meanwhile: {micros(quiet.raw)} µs{loud})"
            print(f"\n{note}")
        print(flush=True)
        cells = [[str(cell) for cell in row] for row in rows]
        self.runs[-1].tables.append(Table(title=self._title, headers=list(headers), rows=cells, note=note))
        self._title = ""

    def goal(
        self,
        what: str,
        measured: float,
        quiet: Quiet | None = None,
        *,
        least: float = 0.0,
        most: float = 0.0,
        unit: str = "×",
    ) -> None:
        """Keeps a figure that should be at least, or at most, so much."""
        self.runs[-1].goals.append(
            Goal(
                what=what,
                bound=most or least,
                measured=measured,
                unit=unit,
                is_upper=bool(most),
                is_loud=quiet is not None and quiet.is_loud,
            )
        )

    def summary(self) -> None:
        """Prints all goals."""
        rows = [
            (goal.what, goal.wanted, f"{figure(goal.measured)} {goal.unit}", goal.verdict)
            for run in self.runs
            for goal in run.goals
        ]
        probes = ", ".join(micros(seconds) for seconds in self._probes)
        print(f"\n## Summary\n\n{facts(self.folder)}; {self.scale.name} run; raw fdatasync p50 {probes} µs\n")
        print(table(("what", "goal", "measured", "met?"), rows), flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table with even columns."""
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def figure(value: float) -> str:
    """A number with three figures that count."""
    if math.isnan(value):
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def micros(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:,.0f}"


def millis(seconds: float) -> str:
    """Seconds as milliseconds."""
    return figure(seconds * 1e3)


def per_second(times: Times, count: int = 1) -> str:
    """The rate that goes with the median."""
    return f"{count / times.p50:,.0f}"


def facts(folder: str) -> str:
    """Cores, versions and the file system that is written to."""
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()} (peers {sqlite3.sqlite_version}), "
        f"{_file_system(folder)} on {platform.system()} {platform.release().split('-')[0]}"
    )


def _file_system(folder: str) -> str:
    """The kind of file system a folder is on."""
    best, kind = "", "unknown file system"
    try:
        with open("/proc/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return kind
    path = os.path.realpath(folder)
    for place, name in mounts:
        if (path + "/").startswith(place.rstrip("/") + "/") and len(place) >= len(best):
            best, kind = place, name
    return kind
