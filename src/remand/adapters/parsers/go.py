"""Go: `go test -json`, `go vet -json`, and what `go build` and `go vet` say as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from remand.adapters.parsers.findings import Findings
from remand.adapters.parsers.go_events import Event, Tested
from remand.adapters.parsers.json_text import objects, values
from remand.adapters.parsers.outcomes import Outcomes
from remand.adapters.parsers.source import complained, lines, printed, require_complaint
from remand.app.gates.ports import Ran
from remand.domain.gates.figures import Measurement, Unreadable

FIGURES = ("errors", "failures", "tests", "skipped")
DEFAULTS = {"max_errors": 0.0, "max_failures": 0.0}
_PLACE = re.compile(r"(?:vet: )?([^\s:{}\[\]\"][^:]*):([0-9]{1,9}):(?:[0-9]+:)? (.*)")
_BROKEN = re.compile(r"FAIL\t(\S+) \[(?:build|setup) failed\]")
_NOISE = ("# ", "go: downloading ", "go: finding ", "too many errors")
_OFFLINE = ("dial tcp", "module lookup disabled", "GOPROXY")


class _Diagnostic(msgspec.Struct):
    posn: str
    message: str


class _Failed(msgspec.Struct):
    error: str = ""


_Vetted = dict[str, dict[str, list[_Diagnostic] | _Failed]]


class _Complaints:
    """What compiler and vet complain of, each thing once however many builds of a package repeat it."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self._seen: set[tuple[str, str]] = set()

    def read(self, line: str) -> bool:
        """Takes a line of text in; False when it is no complaint."""
        if any(sign in line for sign in _OFFLINE):
            raise Unreadable("go could not fetch a module; a prepare step with `go mod download` has to")
        match = _PLACE.fullmatch(line)
        if match:
            self.add(f"{match[1]}:{match[2]}", match[3])
        return match is not None

    def add(self, place: str, text: str, code: str = "") -> None:
        """Adds a complaint about a place, which is `path:line` with or without a column."""
        if (place, text) in self._seen:
            return
        self._seen.add((place, text))
        parts = re.fullmatch(r"(.*?):([0-9]{1,9})(?::[0-9]+)?", place)
        path, line = (parts[1], int(parts[2])) if parts else (place, 0)
        self.found.add(path=path, line=line, code=code, text=text)


def parse(ran: Ran) -> Measurement:
    """Counts tests when there are any events of tests, else what vet or the compiler complains of."""
    rows = list(objects(printed(ran), Event))
    broken = [match[1] for row in rows if isinstance(row, str) and (match := _BROKEN.match(row))]
    events = [row for row in rows if isinstance(row, Event)]
    if events or broken:
        return _tested(ran, events, broken)
    return _vetted(ran, [row for row in rows if isinstance(row, str)])


def _tested(ran: Ran, events: list[Event], broken: list[str]) -> Measurement:
    complaints = _Complaints(ran.root)
    tested, outcomes = Tested(), Outcomes()
    broken += [event.failed_build for event in events if event.failed_build]
    for line in _built(ran, events):
        complaints.read(line)
    for event in events:
        tested.read(event)
    errors = complaints.found.errors
    if broken and not errors:
        for package in broken:
            complaints.add(package, "could not be built")
        errors = complaints.found.errors
    tested.settle(outcomes, complaints.found, ran.root)
    require_complaint(ran, "go test", outcomes.failures + errors)
    figures = {**outcomes.figures, "errors": float(errors)}
    return Measurement(figures=figures, findings=complaints.found.kept, tests=outcomes.tests)


def _built(ran: Ran, events: list[Event]) -> Iterator[str]:
    """The lines of the compiler: events since Go 1.24, standard error before."""
    for event in events:
        if event.action == "build-output":
            yield event.output.rstrip("\n")
    yield from lines(complained(ran))


def _vetted(ran: Ran, stdout: list[str]) -> Measurement:
    complaints = _Complaints(ran.root)
    every = (*stdout, *lines(complained(ran)))
    rest = [line for line in every if not line.startswith(_NOISE) and not complaints.read(line)]
    has_complained = bool(complaints.found.errors)
    try:
        for value in values("\n".join(rest)):
            _add_vetted(msgspec.convert(value, _Vetted), complaints)
    except ValueError:
        if not (ran.status and has_complained):
            raise Unreadable("this is no output of go vet, go build or go test -json") from None
    require_complaint(ran, "go", complaints.found.errors)
    figures = {"errors": float(complaints.found.errors), "failures": 0.0}
    return Measurement(figures=figures, findings=complaints.found.kept)


def _add_vetted(vetted: _Vetted, complaints: _Complaints) -> None:
    for package, analyses in vetted.items():
        for analysis, result in analyses.items():
            if isinstance(result, _Failed):
                complaints.add(package, result.error, analysis)
            else:
                for one in result:
                    complaints.add(one.posn, one.message, analysis)
