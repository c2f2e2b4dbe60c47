"""Go: `go test -json`, `go vet -json`, and the text of `go build` and `go vet`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from remand.adapters.parsers import results
from remand.adapters.parsers.results import Findings, RunOutcomes, find_places
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

_ENDS = {"pass": "passed", "bench": "passed", "fail": "failed", "skip": "skipped"}
_FRAME = re.compile(r"\s*(?:=== |--- |PASS$|FAIL\b|exit status )")
_SHOWN_LINES = 20
_DEPTH = 20


class GoTestEvent(msgspec.Struct, rename="pascal"):
    """One line of `go test -json`."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""
    elapsed: float = 0.0
    failed_build: str = ""


class GoTestRun:
    """The packages and tests of one run, with their outcomes."""

    def __init__(self) -> None:
        self._open: dict[str, set[str]] = {}
        self._ended: dict[tuple[str, str], list[tuple[str, float]]] = {}
        self._said: dict[tuple[str, str], list[str]] = {}
        self._fell: list[str] = []
        self._failed: set[str] = set()

    def read(self, event: GoTestEvent) -> None:
        """Reads one event of a package or a test."""
        if not event.package:
            return
        running = self._open.setdefault(event.package, set())
        if event.action == "run":
            running.add(event.test)
        elif event.action == "output":
            self._add_output(event)
        elif event.action in _ENDS and event.test:
            running.discard(event.test)
            self._end(event.package, event.test, _ENDS[event.action], event.elapsed)
        elif event.action in _ENDS:
            self._end_package(event)

    def _add_output(self, event: GoTestEvent) -> None:
        lines = self._said.setdefault((event.package, event.test), [])
        if len(lines) < _SHOWN_LINES and not _FRAME.match(event.output):
            lines.append(event.output)

    def _end(self, package: str, test: str, outcome: str, seconds: float) -> None:
        self._ended.setdefault((package, test), []).append((outcome, seconds))
        if outcome == "passed":
            self._said.pop((package, test), None)
        elif outcome == "failed":
            self._failed.add(package)

    def _end_package(self, event: GoTestEvent) -> None:
        left = self._open.pop(event.package)
        if left and event.action != "fail":
            raise UnreadableReport(f"{event.package} passed, but {min(left)} was started but never ended")
        for test in sorted(left):
            self._end(event.package, test, "failed", 0.0)
        if event.action == "fail" and not event.failed_build:
            self._fell.append(event.package)

    def settle(self, outcomes: RunOutcomes, findings: Findings, root: str) -> None:
        """Adds all tests to the outcomes; a parent of subtests counts only if it failed by itself."""
        if self._open:
            raise UnreadableReport(f"the events of {min(self._open)} break off")
        holders, blamed = self._holders()
        for (package, test), ends in self._ended.items():
            for outcome, seconds in ends:
                if (package, test) in holders and (outcome != "failed" or (package, test) in blamed):
                    continue
                test_id = outcomes.add(f"{package}::{test}", outcome, seconds)
                if outcome == "failed":
                    self._add_failure(package, test, test_id, findings, root)
        for package in self._fell:
            if package not in self._failed:
                self._add_failure(package, "", outcomes.add(package, "error"), findings, root)

    def _holders(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """The parents of subtests, and those of them that failed only because a subtest did."""
        holders: set[tuple[str, str]] = set()
        blamed: set[tuple[str, str]] = set()
        for (package, test), ends in self._ended.items():
            holder = self._holder(package, test)
            holders.add(holder)
            if any(outcome == "failed" for outcome, _ in ends):
                blamed.add(holder)
        return holders, blamed

    def _holder(self, package: str, test: str) -> tuple[str, str]:
        """The test that started a subtest, whose own name may contain slashes."""
        for _ in range(_DEPTH):
            test = test.rpartition("/")[0]
            if not test or (package, test) in self._ended:
                break
        return package, test

    def _add_failure(self, package: str, test: str, test_id: str, findings: Findings, root: str) -> None:
        text = "".join(self._said.get((package, test), ())).strip()
        inside = [(path, line) for path, line in find_places(text, root) if "/" in path]
        path, line = inside[-1] if inside else ("", 0)
        findings.add(path=path, line=line, code=test_id, text=text or "failed")


_PLACE = re.compile(r"(?:vet: )?([^\s:{}\[\]\"][^:]*):([0-9]{1,9}):(?:[0-9]+:)? (.*)")
_BROKEN = re.compile(r"FAIL\t(\S+) \[(?:build|setup) failed\]")
_NOISE = ("# ", "go: downloading ", "go: finding ", "too many errors")
_OFFLINE = ("dial tcp", "module lookup disabled", "GOPROXY")


class _Diagnostic(msgspec.Struct):
    posn: str
    message: str


class _AnalysisFailure(msgspec.Struct):
    error: str = ""


_VetReport = dict[str, dict[str, list[_Diagnostic] | _AnalysisFailure]]


class _Complaints:
    """Messages of the compiler and vet, each once even if several builds of a package repeat it."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self._seen: set[tuple[str, str]] = set()

    def read(self, line: str) -> bool:
        """Reads a line of text; False if it is no diagnostic."""
        if any(sign in line for sign in _OFFLINE):
            raise UnreadableReport(
                "go could not fetch a module; a prepare step with `go mod download` has to"
            )
        match = _PLACE.fullmatch(line)
        if match:
            self.add(f"{match[1]}:{match[2]}", match[3])
        return match is not None

    def add(self, place: str, text: str, code: str = "") -> None:
        """Adds a diagnostic at a place: `path:line`, with or without a column."""
        if (place, text) in self._seen:
            return
        self._seen.add((place, text))
        parts = re.fullmatch(r"(.*?):([0-9]{1,9})(?::[0-9]+)?", place)
        path, line = (parts[1], int(parts[2])) if parts else (place, 0)
        self.found.add(path=path, line=line, code=code, text=text)


def parse(ran: ToolOutput) -> Measurement:
    """Counts tests if there are test events, else the messages of vet or the compiler."""
    rows = list(results.objects(results.standard_output(ran), GoTestEvent))
    broken = [match[1] for row in rows if isinstance(row, str) and (match := _BROKEN.match(row))]
    events = [row for row in rows if isinstance(row, GoTestEvent)]
    if events or broken:
        return _measure_tests(ran, events, broken)
    return _measure_vet(ran, [row for row in rows if isinstance(row, str)])


def _measure_tests(ran: ToolOutput, events: list[GoTestEvent], broken: list[str]) -> Measurement:
    complaints = _Complaints(ran.root)
    tested, outcomes = GoTestRun(), RunOutcomes()
    broken += [event.failed_build for event in events if event.failed_build]
    for line in _compiler_lines(ran, events):
        complaints.read(line)
    for event in events:
        tested.read(event)
    errors = complaints.found.errors
    if broken and not errors:
        for package in broken:
            complaints.add(package, "could not be built")
        errors = complaints.found.errors
    tested.settle(outcomes, complaints.found, ran.root)
    results.require_complaint(ran, "go test", outcomes.failures + errors)
    figures = {**outcomes.figures, "errors": float(errors)}
    return Measurement(
        figures=figures,
        findings=complaints.found.kept_findings,
        tests=outcomes.tests,
        watched=results.watched_tests(outcomes, complaints.found),
    )


def _compiler_lines(ran: ToolOutput, events: list[GoTestEvent]) -> Iterator[str]:
    """The compiler's output: events since Go 1.24, standard error before."""
    for event in events:
        if event.action == "build-output":
            yield event.output.rstrip("\n")
    yield from results.lines(results.error_output(ran))


def _measure_vet(ran: ToolOutput, stdout: list[str]) -> Measurement:
    complaints = _Complaints(ran.root)
    every = (*stdout, *results.lines(results.error_output(ran)))
    rest = [line for line in every if not line.startswith(_NOISE) and not complaints.read(line)]
    has_complained = bool(complaints.found.errors)
    try:
        for value in results.values("\n".join(rest)):
            _add_vet_report(msgspec.convert(value, _VetReport), complaints)
    except ValueError:
        if not (ran.status and has_complained):
            raise UnreadableReport("this is not the output of go vet, go build or go test -json") from None
    results.require_complaint(ran, "go", complaints.found.errors)
    figures = {"errors": float(complaints.found.errors), "failures": 0.0}
    return Measurement(figures=figures, findings=complaints.found.kept_findings)


def _add_vet_report(vetted: _VetReport, complaints: _Complaints) -> None:
    for package, analyses in vetted.items():
        for analysis, result in analyses.items():
            if isinstance(result, _AnalysisFailure):
                complaints.add(package, result.error, analysis)
            else:
                for diagnostic in result:
                    complaints.add(diagnostic.posn, diagnostic.message, analysis)
