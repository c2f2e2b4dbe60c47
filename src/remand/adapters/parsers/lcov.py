"""LCOV tracefiles, as node, coverage.py, istanbul, grcov and lcov write them."""

from __future__ import annotations

from typing import TypeVar

from remand.adapters.parsers.results import Coverage
from remand.adapters.parsers.tool_output import lines, report_or_output
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("coverage", "branch_coverage")
DEFAULTS: dict[str, float] = {}
MAX_MEASURED = 2_000_000
Key = TypeVar("Key")
_END = "end_of_record"
_DIGITS = 9


class _Tracefile:
    """The files of a report; one that several records tell of is reached where any of them reached it."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, bool]] = {}
        self.branches: dict[str, dict[str, bool]] = {}
        self._path: str | None = None
        self._size = 0

    def read(self, line: str) -> None:
        """Takes one line in; kinds nobody asks for are passed over."""
        kind, _, rest = line.partition(":")
        if kind == "SF":
            self._open(rest)
        elif line == _END:
            self._path = None
        elif kind == "DA":
            number, hits = (*rest.split(","), "", "")[:2]
            self._reach(self.lines[self._inside()], _number(number), hits)
        elif kind == "BRDA":
            branch, _, taken = rest.rpartition(",")
            self._reach(self.branches[self._inside()], branch[:200], taken)

    def close(self) -> None:
        """Raises when the report breaks off, or tells of nothing."""
        if self._path is not None:
            raise UnreadableReport("the last record of the report breaks off")
        if not self.lines:
            raise UnreadableReport("this is not an LCOV report: it has no record of a file")

    def _open(self, path: str) -> None:
        if self._path is not None:
            raise UnreadableReport("a record of the report begins before the last one ended")
        self._path = path
        self.lines.setdefault(path, {})
        self.branches.setdefault(path, {})

    def _inside(self) -> str:
        if self._path is None:
            raise UnreadableReport("this is not an LCOV report: it counts lines of no file")
        return self._path

    def _reach(self, reached: dict[Key, bool], key: Key, hits: str) -> None:
        self._size += 1
        if self._size > MAX_MEASURED:
            raise UnreadableReport(f"the report has more than {MAX_MEASURED} lines and branches")
        is_reached = hits != "-" and hits.strip("0") != ""
        if is_reached and not hits.isdecimal():
            raise UnreadableReport(f"the report counts {hits[:40]!r} hits of a line")
        reached[key] = reached.get(key, False) or is_reached


def parse(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where there are any. The exit status says nothing about it."""
    trace = _Tracefile()
    for line in lines(report_or_output(ran)):
        trace.read(line)
    trace.close()
    covered = Coverage(ran.root)
    for path, reached in trace.lines.items():
        branches = trace.branches[path].values()
        covered.count(len(reached), sum(reached.values()), len(branches), sum(branches))
        covered.miss(path, (number for number, is_reached in reached.items() if not is_reached))
    return covered.measurement()


def _number(text: str) -> int:
    if not (text.isdecimal() and len(text) <= _DIGITS):
        raise UnreadableReport(f"the report counts hits of line {text[:40]!r}")
    return int(text)
