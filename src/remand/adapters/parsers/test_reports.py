"""Reports of tests and coverage: JUnit XML and TAP; Cobertura XML, LCOV and coverage.py's JSON."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from junitparser import Error, Failure, Skipped, TestCase
from junitparser.junitparser import FinalResult

from remand.adapters.parsers import results
from remand.adapters.parsers.results import (
    Coverage,
    Findings,
    RunOutcomes,
    find_places,
    lines,
    report,
    report_or_output,
    require_complaint,
    walk_elements,
)
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# -------------------------------------------------------------------------------------------------- JUnit XML

_ROOTS = ("testsuites", "testsuite")
_PYTEST = (("testsuites", "pytest tests"), ("testsuite", "pytest"))
"""Pytest's names for the elements around its test cases; the inner one can be configured."""
_PYTEST_HEAD = ["name", "errors", "failures", "skipped", "tests", "time", "timestamp", "hostname"]
"""The attributes of pytest's inner element, in order: older releases do not name the outer one."""
_SUBTEST_SUMMARY = re.compile(r"contains \d+ failed subtests?")
"""The failure that pytest adds to a test with failed subtests."""
_TODO = "todo"
"""Node's mark, beside the failure, of a test that may fail."""
_TRACED = 20_000
_UNCOLLECTED = "collection failure"
_PYTEST_INTERRUPTED = 2
_PYTEST_GAVE_UP = {3: "an internal error", 4: "wrong usage"}
_PYTEST_EMPTY = 5


class _ReportReader:
    """What was read of a report so far."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.outcomes = RunOutcomes()
        self.found = Findings(root)
        self.is_pytest = False
        self.is_node = False
        """Node counts expected failures and suites in its heads, besides tests."""
        self.uncollected = 0
        self.announced = {"tests": 0, "failures": 0, "skipped": 0}
        """What the heads of the suites count."""
        self.results = {"failures": 0, "skipped": 0}
        """How many results the test cases have; with subtests, one case has several."""
        self._in_suite = 0
        self._suites: list[str] = []

    def open(self, element: Element) -> None:
        """Reads the start of an element."""
        if not self._suites and element.tag not in _ROOTS:
            raise UnreadableReport(f"this is not a JUnit report: it begins with <{str(element.tag)[:40]}>")
        if element.tag == "testsuite" and not self._in_suite:
            for name in self.announced:
                self.announced[name] += _announced_count(element, name)
            self.announced["failures"] += _announced_count(element, "errors")
            self.is_pytest |= list(element.attrib) == _PYTEST_HEAD
        self._in_suite += element.tag == "testsuite"
        self._suites.append(element.get("name", ""))
        self.is_node |= element.tag == "testsuite" and "disabled" in element.attrib
        self.is_pytest |= (element.tag, element.get("name")) in _PYTEST

    def close(self, element: Element) -> None:
        """Reads the end of an element; for a test case, all of it."""
        if not self._suites:
            raise UnreadableReport("this is not a JUnit report, but a test case alone")
        if element.tag == "testcase":
            self._add(element)
        else:
            self._in_suite -= element.tag == "testsuite"
            self._suites.pop()

    def _add(self, element: Element) -> None:
        case = TestCase.fromelem(element)  # type: ignore[no-untyped-call]  # junitparser types its attributes alone
        outcome = _junit_outcome(case.result)
        failures = [result for result in case.result if isinstance(result, Error | Failure)]
        self.results["failures"] += len(failures)
        self.results["skipped"] += sum(isinstance(result, Skipped) for result in case.result)
        own = [result for result in failures if not _is_summary(result)] or failures
        test_id = self.outcomes.add(self._name(element), outcome, _seconds(element), len(own))
        if outcome in ("passed", "skipped"):
            return
        text = own[0].text or ""
        self.uncollected += own[0].message == _UNCOLLECTED
        path, line = self._place(element, text)
        message = _failure_text(own[0].message or "", text)
        if len(own) > 1:
            message = f"{len(own)} failures, the first: {message}"
        self.found.add(path=path, line=line, code=test_id, text=message)

    @property
    def is_short(self) -> bool:
        """True if the report has fewer test cases or results than its head counts.

        Pytest counts every subtest as a test, but omits those that passed.
        """
        if self.is_node:
            return False
        if self.is_pytest:
            return any(self.announced[name] > count for name, count in self.results.items())
        is_failure_missing = self.announced["failures"] > self.results["failures"]
        return is_failure_missing or self.announced["tests"] > len(self.outcomes.tests)

    def _name(self, element: Element) -> str:
        """The class and the name; node writes `test` for every class and names suites instead."""
        owner, name = element.get("classname", ""), element.get("name", "")
        if owner in ("", "test"):
            owner = " > ".join(filter(None, self._suites[1:])) if not self.is_pytest else ""
        return f"{owner}::{name}" if owner else name

    def _place(self, element: Element, text: str) -> tuple[str, int]:
        """Where it failed: pytest's trace ends with the place, others begin with it."""
        found = find_places(text, self.root)
        if found:
            return found[-1 if self.is_pytest else 0]
        line = element.get("line", "")
        return element.get("file", ""), int(line) if line.isdecimal() and len(line) < 10 else 0


def parse_junit(ran: ToolOutput) -> Measurement:
    """Counts the test cases of the report, which must agree with the exit status."""
    read = _ReportReader(ran.root)
    for event, element in walk_elements(report(ran), "testcase"):
        if event == "start":
            read.open(element)
        else:
            read.close(element)
    failures = read.outcomes.failures
    if read.is_short:
        raise UnreadableReport("the report names fewer tests or results than its own head counts")
    if read.is_pytest and ran.status == _PYTEST_INTERRUPTED and failures and failures == read.uncollected:
        # Pytest runs no test if a test file cannot be loaded; that is a failure of the code.
        figures = {"tests": 0.0, "failures": float(read.uncollected), "skipped": 0.0}
        return Measurement(figures=figures, findings=read.found.kept_findings)
    if read.is_pytest:
        _require_measured(ran, len(read.outcomes.tests))
    if not (ran.status == _PYTEST_EMPTY and read.is_pytest):
        require_complaint(ran, "the test run", failures)
    return Measurement(
        figures=read.outcomes.figures, findings=read.found.kept_findings, tests=read.outcomes.tests
    )


def _require_measured(ran: ToolOutput, tests: int) -> None:
    """Raises if pytest's exit status says that the run was incomplete."""
    if ran.status == _PYTEST_INTERRUPTED:
        raise UnreadableReport("pytest was interrupted")
    if ran.status in _PYTEST_GAVE_UP:
        raise UnreadableReport(f"pytest ended with status {ran.status}: {_PYTEST_GAVE_UP[ran.status]}")
    if ran.status == _PYTEST_EMPTY and tests:
        raise UnreadableReport(f"pytest says that it ran no tests, but reports {tests}")


def _junit_outcome(results: Sequence[FinalResult]) -> str:
    kinds = {type(result) for result in results}
    if any(isinstance(result, Skipped) and result.type == _TODO for result in results):
        return "skipped"
    for kind, outcome in ((Error, "error"), (Failure, "failed"), (Skipped, "skipped")):
        if kind in kinds:
            return outcome
    return "passed"


def _is_summary(result: FinalResult) -> bool:
    return _SUBTEST_SUMMARY.fullmatch(result.message or "") is not None


def _announced_count(element: Element, name: str) -> int:
    text = element.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _seconds(element: Element) -> float:
    try:
        return float(element.get("time", "0").replace(",", ""))
    except ValueError:
        return 0.0


def _failure_text(message: str, text: str) -> str:
    """The message, else the beginning of the trace; its end if a file could not be loaded."""
    if message == _UNCOLLECTED:
        return text.strip().rpartition("\n")[2].removeprefix("E ") or message
    return _with_breaks(message, text) if message.strip() else text


def _with_breaks(message: str, trace: str) -> str:
    """A message with line breaks: node omits them there, but not in the trace."""
    trace = trace[:_TRACED]
    at = trace.replace("\n", "").find(message)
    if at < 0 or message in trace:
        return message
    places = [place for place, char in enumerate(trace) if char != "\n"]
    return trace[places[at] : places[at + len(message) - 1] + 1]


# ----------------------------------------------------------------------------------------- TAP, with subtests

MAX_SUBTESTS = 32
_INDENT = 4
_BLOCK_INDENT = 2
_PLAN = re.compile(r"1\.\.([0-9]{1,9})(?:\s*#.*)?")
_POINT = re.compile(r"(not )?ok(?:\s+([0-9]{1,9}))?(?:\s+(?:- ?)?(.*))?")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(skip|todo)", re.IGNORECASE)
_BAIL = re.compile(r"Bail out!(.*)", re.IGNORECASE)
_FIELD = re.compile(r"\s*(duration_ms|error|message|operator|location|at): (.+)")


class _Point:
    """One line `ok` or `not ok`, with its YAML block."""

    def __init__(self, names: tuple[str, ...], outcome: str) -> None:
        self.names = names
        self.outcome = outcome
        self.said: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """Its duration, if given."""
        try:
            return float(self.said.get("duration_ms", "0")) / 1000
        except ValueError:
            return 0.0


class _Level:
    """The points of one test document, or of one subtest."""

    def __init__(self) -> None:
        self.planned: int | None = None
        self.points = 0
        self.leaves: list[_Point] = []
        self._numbers: set[int] = set()

    def count(self, number: str | None) -> None:
        """Counts a point; raises if its number was used before."""
        self.points += 1
        own = int(number) if number else self.points
        if own in self._numbers:
            raise UnreadableReport(f"there are two tests of number {own}")
        self._numbers.add(own)

    def require_planned(self) -> None:
        """Raises if the number of tests differs from the plan."""
        if self.planned is None:
            raise UnreadableReport(
                "there is no plan such as 1..4: the tests stopped early, or this is not TAP"
            )
        if self.planned != self.points:
            raise UnreadableReport(f"{self.planned} tests were planned, and {self.points} reported")


class _Document:
    """Reads line by line; lines that are not TAP are output of the tests."""

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._last: _Point | None = None
        self._depth = -1
        self._block = ""
        self.bail: str | None = None

    def read(self, line: str) -> None:
        """Reads one line."""
        if self._block:
            self._read_block(line)
            return
        text = line.lstrip(" ")
        depth, odd = divmod(len(line) - len(text), _INDENT)
        if text == "---" and depth == self._depth and odd == _BLOCK_INDENT:
            self._block = line.replace("---", "...")
        elif odd or depth > min(len(self._levels), MAX_SUBTESTS):
            return
        elif match := _POINT.fullmatch(text):
            self._point(depth, bool(match[1]), match[2], match[3] or "")
        elif match := _PLAN.fullmatch(text):
            self._plan(depth, int(match[1]))
        elif match := _BAIL.match(text):
            self.bail = match[1].strip()

    def leaves(self) -> list[_Point]:
        """All points without subtests; raises if the document is incomplete."""
        top = self._levels[0]
        if self.bail is None:
            if len(self._levels) > 1 or self._block:
                raise UnreadableReport("the report ends within a subtest or a test's details")
            top.require_planned()
            return top.leaves
        leaves = [leaf for level in self._levels for leaf in level.leaves]
        if not any(leaf.outcome == "failed" for leaf in leaves):
            raise UnreadableReport(f"the tests gave up: {self.bail[:200] or 'no reason is given'}")
        return leaves

    def _read_block(self, line: str) -> None:
        if line.rstrip() == self._block:
            self._block = ""
        elif self._last is not None and (match := _FIELD.fullmatch(line)):
            self._last.said.setdefault(match[1], match[2].strip("'\""))

    def _plan(self, depth: int, planned: int) -> None:
        level = self._level(depth)
        if level.planned is not None:
            raise UnreadableReport("there are two plans")
        level.planned = planned

    def _level(self, depth: int) -> _Level:
        if depth == len(self._levels):
            self._levels.append(_Level())
        return self._levels[depth]

    def _point(self, depth: int, is_bad: bool, number: str | None, text: str) -> None:
        level = self._level(depth)
        level.count(number)
        outcome, name = _tap_outcome(is_bad, text)
        children = self._close(depth)
        for child in children:
            child.names = (name, *child.names)
            if outcome == "skipped" and child.outcome == "failed":
                child.outcome = "skipped"
        self._last, self._depth = _Point((name or f"test {level.points}",), outcome), depth
        level.leaves += children
        if not children or (outcome == "failed" and all(child.outcome != "failed" for child in children)):
            level.leaves.append(self._last)

    def _close(self, depth: int) -> list[_Point]:
        """Ends the subtests below a depth; their points belong to the point that follows them."""
        ended, self._levels[depth + 1 :] = self._levels[depth + 1 :], []
        for level in ended:
            level.require_planned()
        return [leaf for level in ended for leaf in level.leaves]


def parse_tap(ran: ToolOutput) -> Measurement:
    """Counts the points without subtests; raises if the plan was not kept."""
    document = _Document()
    for line in lines(report_or_output(ran)):
        document.read(line)
    outcomes = RunOutcomes()
    findings = Findings(ran.root)
    for point in document.leaves():
        test_id = outcomes.add(" > ".join(point.names), point.outcome, point.seconds)
        if point.outcome == "failed":
            where = point.said.get("location") or point.said.get("at") or ""
            path, number = next(iter(find_places(where, ran.root)), ("", 0))
            text = point.said.get("error") or point.said.get("message") or point.names[-1]
            findings.add(path=path, line=number, code=test_id, text=text)
    require_complaint(ran, "the test run", outcomes.failures)
    return Measurement(figures=outcomes.figures, findings=findings.kept_findings, tests=outcomes.tests)


def _tap_outcome(is_bad: bool, text: str) -> tuple[str, str]:
    """A point's outcome and name: a failed TODO is no failure, a skipped test does not count."""
    directive = _DIRECTIVE.search(text)
    name = text[: directive.start()] if directive else text
    name = name.replace("\\#", "#").replace("\\\\", "\\").strip()
    is_skipped = directive is not None and (directive[1].lower() == "skip" or is_bad)
    return ("skipped" if is_skipped else "failed" if is_bad else "passed"), name


# ------------------------------------ Cobertura XML, as coverage.py, istanbul, gcovr and many others write it

_SHARES = 1_000_000
"""The denominator for a bare rate, if the report gives no line counts."""
_TOLERANCE = 0.01
_COUNT_DIGITS = 10


def parse_cobertura(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches if there are any. The exit status does not matter."""
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
    """How many there are and how many ran, by the report's counts, else by its rate."""
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
    """The lines of a class that did not run."""
    numbers = [
        _integer(line.get("number", "")) for line in element.iterfind("lines/line") if line.get("hits") == "0"
    ]
    return [number for number in numbers if number is not None]


def _path(element: Element, sources: list[str]) -> str:
    """A file's path, which the report gives relative to a source folder. Resolved only if there is just one."""
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
    """The share of lines, and of branches if they were measured. The exit status does not matter."""
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
    """The files of a report; a line in several records ran if it ran in any of them."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, bool]] = {}
        self.branches: dict[str, dict[str, bool]] = {}
        self._path: str | None = None
        self._size = 0

    def read(self, line: str) -> None:
        """Reads one line; ignores other kinds of records."""
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
        """Raises if the report is cut off or empty."""
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
    """The share of lines, and of branches if there are any. The exit status does not matter."""
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
