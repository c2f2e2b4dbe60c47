"""TAP 13 and 14, with subtests."""

from __future__ import annotations

import re

from remand.adapters.parsers.results import Findings, RunOutcomes, find_places
from remand.adapters.parsers.tool_output import lines, report_or_output, require_complaint
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("tests", "failures", "skipped")
DEFAULTS = {"max_failures": 0.0}
MAX_DEPTH = 32
_INDENT = 4
_BLOCK_INDENT = 2
_PLAN = re.compile(r"1\.\.([0-9]{1,9})(?:\s*#.*)?")
_POINT = re.compile(r"(not )?ok(?:\s+([0-9]{1,9}))?(?:\s+(?:- ?)?(.*))?")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(skip|todo)", re.IGNORECASE)
_BAIL = re.compile(r"Bail out!(.*)", re.IGNORECASE)
_FIELD = re.compile(r"\s*(duration_ms|error|message|operator|location|at): (.+)")


class _Point:
    """One line `ok` or `not ok`, with what its YAML block says."""

    def __init__(self, names: tuple[str, ...], outcome: str) -> None:
        self.names = names
        self.outcome = outcome
        self.said: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """How long it took, where it says so."""
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
        """Counts a point, whose number nothing else may have."""
        self.points += 1
        own = int(number) if number else self.points
        if own in self._numbers:
            raise UnreadableReport(f"there are two tests of number {own}")
        self._numbers.add(own)

    def require_planned(self) -> None:
        """Raises when another number of tests was planned than was run."""
        if self.planned is None:
            raise UnreadableReport(
                "there is no plan such as 1..4: the tests stopped early, or this is not TAP"
            )
        if self.planned != self.points:
            raise UnreadableReport(f"{self.planned} tests were planned, and {self.points} reported")


class _Document:
    """Reads line by line; lines that are no TAP are what tests have printed."""

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._last: _Point | None = None
        self._depth = -1
        self._block = ""
        self.bail: str | None = None

    def read(self, line: str) -> None:
        """Takes one line in."""
        if self._block:
            self._read_block(line)
            return
        text = line.lstrip(" ")
        depth, odd = divmod(len(line) - len(text), _INDENT)
        if text == "---" and depth == self._depth and odd == _BLOCK_INDENT:
            self._block = line.replace("---", "...")
        elif odd or depth > min(len(self._levels), MAX_DEPTH):
            return
        elif match := _POINT.fullmatch(text):
            self._point(depth, bool(match[1]), match[2], match[3] or "")
        elif match := _PLAN.fullmatch(text):
            self._plan(depth, int(match[1]))
        elif match := _BAIL.match(text):
            self.bail = match[1].strip()

    def leaves(self) -> list[_Point]:
        """All points that hold no others; raises when the document is not whole."""
        top = self._levels[0]
        if self.bail is None:
            if len(self._levels) > 1 or self._block:
                raise UnreadableReport("the last subtest, or what is said of a test, breaks off")
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
        outcome, name = _outcome(is_bad, text)
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
        """Ends the subtests below a depth, whose points belong to the point that follows them."""
        ended, self._levels[depth + 1 :] = self._levels[depth + 1 :], []
        for level in ended:
            level.require_planned()
        return [leaf for level in ended for leaf in level.leaves]


def parse(ran: ToolOutput) -> Measurement:
    """Counts the points that hold no others, once the plan is kept."""
    document = _Document()
    for line in lines(report_or_output(ran)):
        document.read(line)
    outcomes = RunOutcomes()
    found = Findings(ran.root)
    for point in document.leaves():
        test_id = outcomes.add(" > ".join(point.names), point.outcome, point.seconds)
        if point.outcome == "failed":
            where = point.said.get("location") or point.said.get("at") or ""
            path, number = next(iter(find_places(where, ran.root)), ("", 0))
            text = point.said.get("error") or point.said.get("message") or point.names[-1]
            found.add(path=path, line=number, code=test_id, text=text)
    require_complaint(ran, "the test run", outcomes.failures)
    return Measurement(figures=outcomes.figures, findings=found.kept_findings, tests=outcomes.tests)


def _outcome(is_bad: bool, text: str) -> tuple[str, str]:
    """How a point counts, and its name: a failed TODO is no failure yet, a skipped test none at all."""
    directive = _DIRECTIVE.search(text)
    name = text[: directive.start()] if directive else text
    name = name.replace("\\#", "#").replace("\\\\", "\\").strip()
    is_skipped = directive is not None and (directive[1].lower() == "skip" or is_bad)
    return ("skipped" if is_skipped else "failed" if is_bad else "passed"), name
