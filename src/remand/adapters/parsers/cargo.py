"""Cargo: diagnostics of the compiler and clippy, and the tests of `cargo test`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from remand.adapters.parsers import results
from remand.adapters.parsers.results import Findings, RunOutcomes, find_places
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

_TESTED = "test result: "


class _Span(msgspec.Struct):
    file_name: str = ""
    line_start: int = 0
    is_primary: bool = False


class _Code(msgspec.Struct):
    code: str = ""


class _Diagnostic(msgspec.Struct):
    message: str
    level: str
    code: _Code | None = None
    spans: list[_Span] = []


class _Message(msgspec.Struct):
    """One line of `--message-format json`."""

    reason: str
    message: _Diagnostic | None = None
    success: bool | None = None


class _Build:
    """The diagnostics of a build, each once even if several targets repeat it, and whether the build succeeded."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self.is_finished = False
        self._seen: set[tuple[str, str, int, str]] = set()

    def read(self, line: _Message) -> None:
        """Reads one message."""
        if line.reason == "build-finished":
            self.is_finished = True
        elif line.reason == "compiler-message" and line.message is not None:
            self._add(line.message)

    def _add(self, diagnostic: _Diagnostic) -> None:
        severity = next((kind for kind in ("error", "warning") if diagnostic.level.startswith(kind)), "")
        span = next((span for span in diagnostic.spans if span.is_primary), _Span())
        key = (severity, span.file_name, span.line_start, diagnostic.message)
        if severity and key not in self._seen:
            self._seen.add(key)
            self.found.add(
                path=span.file_name,
                line=span.line_start,
                code=diagnostic.code.code if diagnostic.code else "",
                text=diagnostic.message,
                severity=severity,
            )


def parse_build(ran: ToolOutput) -> Measurement:
    """Counts the diagnostics of `cargo build`, `check` or `clippy` with `--message-format json`."""
    build = _Build(ran.root)
    for line in results.objects(results.standard_output(ran), _Message):
        if isinstance(line, _Message):
            build.read(line)
        elif line.startswith(_TESTED):
            raise UnreadableReport('this is the output of `cargo test`; read it with parser = "cargo-test"')
    if not build.is_finished:
        raise UnreadableReport(
            "cargo did not say that the build finished; does it run with --message-format json?"
        )
    results.require_complaint(ran, "cargo", build.found.errors)
    return build.found.measurement("errors", "warnings")


# ------------------------------------------------------------------------------------------------------ tests

_RUNNING = re.compile(r"running ([0-9]{1,9}) tests?")
_TEST = re.compile(r"test (.+) \.\.\. (ok|FAILED|ignored|bench:)(?:[ ,].*)?")
_COUNT = "([0-9]{1,9})"
_ENDED = re.compile(
    rf"test result: (?:ok|FAILED)\. {_COUNT} passed; {_COUNT} failed; {_COUNT} ignored; {_COUNT} measured;.*"
)
_SHOWN = re.compile(r"---- (.+) stdout ----")
_TARGET = re.compile(r"\s+(?:Running (?:unittests )?(\S*) ?\((.+)\)|Doc-tests (\S+))")
_HASH = re.compile(r"-[0-9a-f]{16}$")
_MANNER = re.compile(r" - (?:should panic|compile fail|compile|ignore)$")
_LINE = re.compile(r" \(line [0-9]+\)$")
_COMPLAINT = re.compile(r"error(?:\[(E[0-9]+)\])?: (.*)")
_PLACE = re.compile(r"\s*--> (.+):([0-9]{1,9}):[0-9]+")
_SUMMARY = "failures:"
_STOPPED = "error: could not compile "
_OUTCOMES = {"ok": "passed", "FAILED": "failed", "ignored": "skipped", "bench:": "passed"}
_MAX_SHOWN = 12


class _Suite:
    """The tests of one binary, as its output names them."""

    def __init__(self, announced: int) -> None:
        self.announced = announced
        self.tests: list[tuple[str, str]] = []
        self.said: dict[str, list[str]] = {}
        self.is_ended = False
        self._shown = ""
        self._is_summary = False

    def read(self, line: str) -> None:
        """Reads one line. Once the details of failures begin, the lines are output of the tests."""
        if (match := _SHOWN.fullmatch(line)) and not self._is_summary:
            self._shown = _plain(match[1])
            self.said[self._shown] = []
        elif match := _ENDED.fullmatch(line):
            self._end(*map(int, match.groups()))
        elif self._shown:
            self._keep(line)
        elif match := _TEST.fullmatch(line):
            self.tests.append((_plain(match[1]), _OUTCOMES[match[2]]))

    def _keep(self, line: str) -> None:
        lines = self.said[self._shown]
        self._is_summary = self._is_summary or line == _SUMMARY
        if len(lines) < _MAX_SHOWN and not self._is_summary:
            lines.append(line)

    def _end(self, passed: int, failed: int, ignored: int, measured: int) -> None:
        counted = [outcome for _, outcome in self.tests]
        named = (counted.count("passed"), counted.count("failed"), counted.count("skipped"))
        if named != (passed + measured, failed, ignored) or len(counted) != self.announced:
            raise UnreadableReport(
                f"cargo announced {self.announced} tests and counted {passed + measured} passed, {failed} failed,"
                f" {ignored} ignored, but names {len(counted)}; tests must not write past libtest's capture"
            )
        self.is_ended = True


def parse_test(ran: ToolOutput) -> Measurement:
    """Counts the tests of `cargo test`. If the code does not compile, counts the compiler's errors instead."""
    build = _Build(ran.root)
    suites = list(_suites(results.standard_output(ran), build))
    stderr = list(results.lines(results.error_output(ran)))
    findings = Findings(ran.root)
    outcomes = RunOutcomes()
    targets = [name for name in map(_target, stderr) if name]
    names = targets if len(targets) == len(suites) else [""] * len(suites)
    for suite, name in zip(suites, names, strict=True):
        _add(suite, name, outcomes, findings, ran.root)
    if not suites:
        findings = _compile_errors(build, stderr, ran.root)
    results.require_complaint(ran, "cargo test", outcomes.failures + findings.errors)
    errors = 0 if suites else findings.errors
    figures = {**outcomes.figures, "errors": float(errors)}
    return Measurement(
        figures=figures,
        findings=findings.kept_findings,
        tests=outcomes.tests,
        watched=results.watched_tests(outcomes, findings),
    )


def _suites(content: bytes, build: _Build) -> Iterator[_Suite]:
    suite: _Suite | None = None
    for line in results.objects(content, _Message):
        if isinstance(line, _Message):
            build.read(line)
        elif suite is not None:
            suite.read(line)
            if suite.is_ended:
                yield suite
                suite = None
        elif match := _RUNNING.fullmatch(line):
            suite = _Suite(int(match[1]))
    if suite is not None:
        raise UnreadableReport("a test binary ended before it reported its tests")


def _add(suite: _Suite, name: str, outcomes: RunOutcomes, findings: Findings, root: str) -> None:
    for test, outcome in suite.tests:
        test_id = outcomes.add(f"{name}::{test}" if name else test, outcome)
        if outcome == "failed":
            text = "\n".join(suite.said.get(test, ())).strip()
            path, line = next(iter(find_places(text, root)), ("", 0))
            findings.add(path=path, line=line, code=test_id, text=text or "failed")


def _target(line: str) -> str:
    """The target that a line of stderr announces: the binary's name and source, without the build's hash."""
    match = _TARGET.fullmatch(line)
    if match is None:
        return ""
    if match[3]:
        return f"{match[3]}/doc"
    binary = _HASH.sub("", match[2].rpartition("/")[2])
    return f"{binary}/{match[1]}" if match[1] else binary


def _plain(name: str) -> str:
    """A test's name without the suffix about how it should end, and a doc test's without its line number, which changes."""
    return _LINE.sub("", _MANNER.sub("", name))


def _compile_errors(build: _Build, stderr: list[str], root: str) -> Findings:
    """The compiler errors because of which no test ran."""
    if not any(line.startswith(_STOPPED) for line in stderr):
        raise UnreadableReport("cargo ran no tests, and did not say that it could not compile them")
    return build.found if build.found.errors else _complaints(stderr, root)


def _complaints(stderr: list[str], root: str) -> Findings:
    """The compiler's errors in its human-readable output; cargo prints each once."""
    findings = Findings(root)
    for number, line in enumerate(stderr):
        match = _COMPLAINT.fullmatch(line)
        if match is None or line.startswith(_STOPPED):
            continue
        place = next(filter(None, map(_PLACE.fullmatch, stderr[number + 1 : number + 3])), None)
        findings.add(
            path=place[1] if place else "",
            line=int(place[2]) if place else 0,
            code=match[1] or "",
            text=match[2],
        )
    return findings
