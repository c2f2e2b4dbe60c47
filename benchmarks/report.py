"""What is printed: the machine, one table per subject, and the goals with what was measured."""

from __future__ import annotations

import math
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import apsw

from benchmarks.measure import Times, probe
from benchmarks.scale import Scale

QUIET_SECONDS = 0.001
_PAUSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A figure we want to reach, and the one we have."""

    what: str
    bound: float
    measured: float
    unit: str = "×"
    is_upper: bool = False
    """True when the bound must not be passed; else it must be reached."""

    @property
    def is_met(self) -> bool:
        """True when the figure is as we want it."""
        return self.measured <= self.bound if self.is_upper else self.measured >= self.bound

    @property
    def wanted(self) -> str:
        """The bound in words."""
        return f"{'≤' if self.is_upper else '≥'} {figure(self.bound)} {self.unit}"


@dataclass(slots=True)
class Report:
    """Prints tables as they come and keeps the goals for the end."""

    folder: str
    scale: Scale
    goals: list[Goal] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)

    def machine(self) -> None:
        """Says where this runs."""
        print(f"\n{facts(self.folder)}; {self.scale.name} run")

    def heading(self, text: str) -> None:
        """Starts a subject, with a look at what the disk and the machine are like just now."""
        disk = self._quiet_moment()
        self.probes.append(disk.p50)
        print(f"\n## {text}\n")
        print(
            f"raw append + fdatasync: p50 {micros(disk.p50)} µs, p99 {micros(disk.p99)} µs; "
            f"load {os.getloadavg()[0]:.1f}\n",
            flush=True,
        )

    def _quiet_moment(self) -> Times:
        """Waits a while for the disk to answer within a clock tick: it does not while others use every core."""
        disk = probe(self.folder)
        for _ in range(self.scale.patience):
            if disk.p50 < QUIET_SECONDS:
                break
            time.sleep(_PAUSE_SECONDS)
            disk = probe(self.folder)
        return disk

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Prints a table."""
        print(table(headers, rows), flush=True)
        print()

    def goal(
        self, what: str, measured: float, *, least: float = 0.0, most: float = 0.0, unit: str = "×"
    ) -> None:
        """Keeps a figure that should be at least, or at most, so much."""
        self.goals.append(
            Goal(what=what, bound=most or least, measured=measured, unit=unit, is_upper=bool(most))
        )

    def summary(self) -> None:
        """Prints all goals."""
        rows = [
            (goal.what, goal.wanted, f"{figure(goal.measured)} {goal.unit}", "yes" if goal.is_met else "NO")
            for goal in self.goals
        ]
        probes = ", ".join(micros(seconds) for seconds in self.probes)
        print(f"\n## Summary\n\n{facts(self.folder)}; {self.scale.name} run; raw fdatasync p50 {probes} µs\n")
        self.table(("what", "goal", "measured", "met?"), rows)


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
