"""Coverage reports: Cobertura XML, LCOV tracefiles, and the JSON of coverage.py. The exit status says nothing about coverage."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from remand.adapters.parsers import results
from remand.adapters.parsers.results import Coverage
from remand.adapters.parsers.xml_output import walk_elements
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# ------------------------------------ Cobertura XML, as coverage.py, istanbul, gcovr and many others write it

_SHARES = 1_000_000
"""What a bare rate is counted in, where the report does not say of how many lines it is."""
_TOLERANCE = 0.01
_COUNT_DIGITS = 10


def parse_cobertura(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where there are any. The exit status says nothing about it."""
    covered = Coverage(ran.root)
    sources: list[str] = []
    depth = 0
    for event, element in walk_elements(results.report(ran), "class"):
        if event == "start":
            if not depth:
                _count(element, covered)
            depth += 1
            continue
        depth -= element.tag != "class"
        if element.tag == "source":
            sources.append((element.text or "").strip())
        elif element.tag == "class":
            covered.miss(_path(element, sources), _missed_lines(element))
    return covered.measurement()


def _count(root: Element, covered: Coverage) -> None:
    if root.tag != "coverage":
        raise UnreadableReport(f"this is not a Cobertura report: it begins with <{str(root.tag)[:40]}>")
    lines, reached = _share(root, "lines", "line-rate")
    has_branches = root.get("branches-valid", "") != "0" and root.get("branch-rate") is not None
    branches, taken = _share(root, "branches", "branch-rate") if has_branches else (0, 0)
    covered.count(lines, reached, branches, taken)


def _share(root: Element, what: str, rate_name: str) -> tuple[int, int]:
    """How many there are and how many were reached, by count where the report counts, else by rate."""
    rate = _rate(root.get(rate_name, ""), rate_name)
    valid, reached = _integer(root.get(f"{what}-valid", "")), _integer(root.get(f"{what}-covered", ""))
    if valid is None or reached is None:
        return _SHARES, round(rate * _SHARES)
    if valid and abs(reached / valid - rate) > _TOLERANCE:
        raise UnreadableReport(f"the report's {rate_name} {rate} contradicts {reached} of {valid} {what}")
    return valid, reached


def _rate(text: str, name: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UnreadableReport(f"the report's {name} is {text[:40]!r}, and should be between 0 and 1")
    return rate


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _COUNT_DIGITS else None


def _missed_lines(element: Element) -> list[int]:
    """The lines of a class that were not reached."""
    numbers = [
        _integer(line.get("number", "")) for line in element.iterfind("lines/line") if line.get("hits") == "0"
    ]
    return [number for number in numbers if number is not None]


def _path(element: Element, sources: list[str]) -> str:
    """A file's path, which is relative to a source folder; which one is known when there is only one."""
    path = element.get("filename", "")
    return posixpath.join(sources[0], path) if len(sources) == 1 else path


# ------------------------------------------------------------------- Coverage.py: `coverage json -o {report}`


class _Summary(msgspec.Struct):
    covered_lines: int
    num_statements: int
    covered_branches: int = 0
    num_branches: int = 0


class _CoveredFile(msgspec.Struct):
    summary: _Summary
    missing_lines: list[int]


class _CoverageReport(msgspec.Struct):
    files: dict[str, _CoveredFile]
    totals: _Summary


def parse_coverage_json(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where they were measured. The exit status says nothing about it."""
    found = results.document(results.report_or_output(ran), _CoverageReport, "coverage.py")
    covered = Coverage(ran.root)
    counted = [0, 0, 0, 0]
    for path, file in found.files.items():
        covered.miss(path, file.missing_lines)
        counted = [one + more for one, more in zip(counted, _counts(file.summary), strict=True)]
    if counted != _counts(found.totals):
        raise UnreadableReport("the report's totals are not the sum of its files")
    covered.count(*counted)
    return covered.measurement()


def _counts(summary: _Summary) -> list[int]:
    return [summary.num_statements, summary.covered_lines, summary.num_branches, summary.covered_branches]


# --------------------------------- LCOV tracefiles, as node, coverage.py, istanbul, grcov and lcov write them

MAX_MEASURED = 2_000_000
Key = TypeVar("Key")
_RECORD_END = "end_of_record"
_LINE_DIGITS = 9


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
        elif line == _RECORD_END:
            self._path = None
        elif kind == "DA":
            number, hits = (*rest.split(","), "", "")[:2]
            self._reach(self.lines[self._inside()], _line_number(number), hits)
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


def parse_lcov(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where there are any. The exit status says nothing about it."""
    trace = _Tracefile()
    for line in results.lines(results.report_or_output(ran)):
        trace.read(line)
    trace.close()
    covered = Coverage(ran.root)
    for path, reached in trace.lines.items():
        branches = trace.branches[path].values()
        covered.count(len(reached), sum(reached.values()), len(branches), sum(branches))
        covered.miss(path, (number for number, is_reached in reached.items() if not is_reached))
    return covered.measurement()


def _line_number(text: str) -> int:
    if not (text.isdecimal() and len(text) <= _LINE_DIGITS):
        raise UnreadableReport(f"the report counts hits of line {text[:40]!r}")
    return int(text)
