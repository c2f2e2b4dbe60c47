"""Compares a gate's figures with the thresholds, and with a base that may already miss them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from remand.domain.gate.gate import (
    Gate,
    GateFinding,
    GateMode,
    Measurement,
    TestOutcome,
    UnreadableReport,
    format_number,
    gate_title,
    parse_thresholds,
    render_measurement,
)
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.text.redaction import MAX_TEXT, redact
from remand.domain.text.words import shorten
from remand.startup import lazy_pattern

MAX_KEPT_FINDINGS = 20
MAX_IDS = 100
MAX_TEXT_LENGTH = 400
MAX_WHY_LENGTH = 1000
MAX_FIGURE = 1e12
_FAILED_OUTCOMES = frozenset({"failed", "error"})


def needs_base(gate: Gate, measurement: Measurement) -> bool:
    """True if the base must be measured before the gate can be judged."""
    require_figures(measurement)
    if gate.mode is GateMode.STRICT or _is_empty(measurement):
        return False
    return gate.mode is GateMode.RATCHET or bool(_missed_thresholds(gate.require, measurement.figures))


def judge_gate(
    gate: Gate, measurement: Measurement, base: Measurement | None, *, flaky: tuple[str, ...] = ()
) -> GateResult:
    """The result of a measured gate."""
    require_figures(measurement)
    if base is not None:
        require_figures(base)
    missed = _missed_thresholds(gate.require, measurement.figures)
    failing = failing_ids(measurement)
    new = _new_failures(measurement, base)
    is_excused = base is not None and gate.mode is not GateMode.STRICT and not new
    standing = {
        name: by
        for name, by in missed.items()
        if not (is_excused and base and _is_no_worse(name, measurement.figures, base.figures))
    }
    worse = _worse_figures(gate, measurement, base, new)
    is_empty = _is_empty(measurement)
    status = GateStatus.FAILED if standing or worse or is_empty else GateStatus.PASSED
    shown = new if base is not None and gate.mode is not GateMode.STRICT and new else failing
    return GateResult(
        name=gate.name,
        status=status,
        measured=dict(measurement.figures),
        required=dict(gate.require),
        base=dict(base.figures) if base is not None else {},
        line=_render_line(gate, measurement, is_empty=is_empty),
        detail=_render_detail(
            gate, measurement, base, new=new, worse=worse, is_excused=bool(missed) and not standing
        ),
        findings=select_findings(_sort_new_first(measurement.findings, base), new),
        finding_count=len(measurement.findings),
        failing=tuple(map(clean_text, shown[:MAX_IDS])),
        failing_count=len(shown) if status is GateStatus.FAILED else 0,
        excess=float(sum({**worse, **standing}.values()) + (1 if is_empty else 0)),
        flaky=tuple(map(clean_text, flaky[:MAX_IDS])),
        is_required=gate.required,
    )


def make_unmeasured_result(gate: Gate, status: GateStatus, why: str) -> GateResult:
    """The result of a gate that could not be measured."""
    said = "timed out" if status is GateStatus.TIMED_OUT else "could not be measured"
    return GateResult(
        name=gate.name,
        status=status,
        required=dict(gate.require),
        line=f"- {gate_title(gate.name)}: {said}",
        detail=clean_text(why, MAX_WHY_LENGTH),
        is_required=gate.required,
    )


def is_uncollected(measurement: Measurement, at_least: Measurement | None = None) -> bool:
    """True if no test could be collected, with at least as many load failures as `at_least`."""
    failures = measurement.figures.get("failures", 0.0)
    known = at_least.figures.get("failures", 0.0) if at_least is not None else 1.0
    return _is_empty(measurement) and failures >= known > 0


def make_broken_result(gate: Gate, why: str) -> GateResult:
    """The result of a gate that can be measured on the base but not here: the work broke it."""
    return GateResult(
        name=gate.name,
        status=GateStatus.FAILED,
        required=dict(gate.require),
        line=f"- {gate_title(gate.name)}: no longer runs to completion (requires that it completes, as on the base)",
        findings=(GateFinding(text=clean_text(why, MAX_WHY_LENGTH)),),
        finding_count=1,
        excess=1.0,
        is_required=gate.required,
    )


def make_untouched_result(gate: Gate) -> GateResult:
    """The result of a gate whose files were not changed."""
    return GateResult(
        name=gate.name,
        status=GateStatus.PASSED,
        required=dict(gate.require),
        line=f"- {gate_title(gate.name)}: not run",
        detail="None of the files that this gate checks were changed.",
        is_required=gate.required,
    )


def select_findings(findings: tuple[GateFinding, ...], new: tuple[str, ...] = ()) -> tuple[GateFinding, ...]:
    """The findings to record: new failures and the most severe first, redacted and truncated."""
    return tuple(
        replace(
            finding,
            path=clean_text(finding.path),
            code=clean_text(finding.code),
            text=clean_text(finding.text),
        )
        for finding in _sort_by_severity(findings, frozenset(new))[:MAX_KEPT_FINDINGS]
    )


def clean_text(text: str, limit: int = MAX_TEXT_LENGTH) -> str:
    """A tool's text as recorded: invalid UTF-8 escaped, redacted and truncated.

    Redaction comes before truncation, or half of a secret could remain.
    """
    plain = redact(text[:MAX_TEXT].encode("utf-8", "backslashreplace").decode())
    return shorten(plain, limit)


def failing_ids(measurement: Measurement) -> tuple[str, ...]:
    """The distinct ids of the failed tests."""
    return tuple(dict.fromkeys(test.id for test in measurement.tests if test.outcome in _FAILED_OUTCOMES))


def require_figures(measurement: Measurement) -> None:
    """Raises `UnreadableReport` for a figure that is not a number, which cannot be compared."""
    for name, value in measurement.figures.items():
        if not abs(value) < MAX_FIGURE:
            raise UnreadableReport(f"the parser read `{name}` as {value}, which is not a number")


def _is_empty(measurement: Measurement) -> bool:
    """True if no tests were collected, which is a failure whatever the exit status."""
    return measurement.figures.get("tests") == 0


def _missed_thresholds(require: Mapping[str, float], figures: Mapping[str, float]) -> dict[str, float]:
    """The missed thresholds, each with its excess."""
    missed: dict[str, float] = {}
    for figure, bound, limit in parse_thresholds(require):
        if figure not in figures:
            raise UnreadableReport(
                f"the parser returned no figure `{figure}`, which `{bound}_{figure}` requires"
            )
        over = figures[figure] - limit if bound == "max" else limit - figures[figure]
        if not over <= 0:
            missed[f"{bound}_{figure}"] = over
    return missed


def _is_no_worse(threshold: str, figures: Mapping[str, float], base: Mapping[str, float]) -> bool:
    figure = threshold[4:]
    if figure not in base:
        return False
    return figures[figure] <= base[figure] if threshold.startswith("max") else figures[figure] >= base[figure]


def _new_failures(measurement: Measurement, base: Measurement | None) -> tuple[str, ...]:
    """The tests that fail here and not on the base, or in more of their subtests."""
    if base is None:
        return failing_ids(measurement)
    now, known = _failure_counts(measurement), _failure_counts(base)
    return tuple(name for name, count in now.items() if count > known.get(name, 0))


def _failure_counts(measurement: Measurement) -> dict[str, int]:
    return {test.id: test.failure_count for test in measurement.tests if test.outcome in _FAILED_OUTCOMES}


def _worse_figures(
    gate: Gate, measurement: Measurement, base: Measurement | None, new: tuple[str, ...]
) -> dict[str, float]:
    """What a ratchet forbids: worse figures and newly failing tests, even within the threshold."""
    if gate.mode is not GateMode.RATCHET or base is None:
        return {}
    newly = {"max_failures": float(len(new))} if new else {}
    return newly | {
        name: abs(measurement.figures[name[4:]] - base.figures[name[4:]])
        for name in gate.require
        if name[4:] in base.figures and not _is_no_worse(name, measurement.figures, base.figures)
    }


def _render_line(gate: Gate, measurement: Measurement, *, is_empty: bool) -> str:
    if is_empty and is_uncollected(measurement):
        count = format_number(measurement.figures["failures"])
        files = "1 test file" if count == "1" else f"{count} test files"
        return f"- {gate_title(gate.name)}: {files} could not be loaded, so no test ran (requires at least 1)"
    if is_empty:
        return f"- {gate_title(gate.name)}: no tests were collected (requires at least 1)"
    if not gate.require:
        return f"- {gate_title(gate.name)}: measured (requires nothing)"
    line = render_measurement(gate.name, gate.parser, measurement.figures, gate.require)
    tests = measurement.figures.get("tests", 0.0)
    if not tests or measurement.figures.get("failures"):
        return line
    # The total shows that a run of few tests is not a run of all.
    ran = f"{format_number(tests)} {'test' if tests == 1 else 'tests'}"
    return line.replace(": 0 failures", f": 0 failures in {ran}", 1)


def _render_detail(
    gate: Gate,
    measurement: Measurement,
    base: Measurement | None,
    *,
    new: tuple[str, ...],
    worse: Mapping[str, float],
    is_excused: bool,
) -> str:
    if base is None:
        return ""
    known = {name: limit for name, limit in gate.require.items() if name[4:] in base.figures}
    if not known:
        return ""
    at_base = render_measurement(gate.name, gate.parser, base.figures, known).partition(": ")[2]
    at_base = at_base.partition(" (requires")[0]
    if is_excused and not worse:
        return f"The base already has {at_base}; nothing got worse."
    if new and len(new) < len(failing_ids(measurement)):
        are_new = f"{len(new)} of the failures {'is' if len(new) == 1 else 'are'} new"
        return f"The base has {at_base}; {are_new}.{_render_subtests(new, base)}"
    if worse:
        return f"The base has {at_base}; this gate may not get worse (ratchet).{_render_subtests(new, base)}"
    return f"The base has {at_base}.{_render_subtests(new, base)}"


def _render_subtests(new: tuple[str, ...], base: Measurement) -> str:
    count = len(set(new) & set(failing_ids(base)))
    if not count:
        return ""
    return f" {count} {'test fails' if count == 1 else 'tests fail'} in more subtests than on the base."


def _sort_new_first(findings: tuple[GateFinding, ...], base: Measurement | None) -> tuple[GateFinding, ...]:
    """Findings that the base does not have come first, as an agent fixes its own."""
    left = Counter((one.path, one.code, one.text) for one in base.findings) if base is not None else Counter()
    new: list[GateFinding] = []
    old: list[GateFinding] = []
    for finding in findings:
        key = (finding.path, finding.code, finding.text)
        (old if left[key] > 0 else new).append(finding)
        left[key] -= 1
    return (*new, *old)


def _sort_by_severity(findings: tuple[GateFinding, ...], new: frozenset[str]) -> tuple[GateFinding, ...]:
    """New failures first, errors before warnings, otherwise in the tool's order."""
    order = {"error": 0, "warning": 1}
    return tuple(
        sorted(findings, key=lambda finding: (finding.code not in new, order.get(finding.severity, 2)))
    )


MAX_NAMED = 100
_WORDS = lazy_pattern(r"[^\w*?]+")
_ENDING = lazy_pattern(r"\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb)(?=::|$| )")
_NOT_RUN = "no test of this name ran; the task must pass it"
_PARAMETERS = lazy_pattern(r"\[.*\]$|#\d+$")


def pattern_path(pattern: str) -> str:
    """The file in a pattern; empty if it only names a test."""
    path, marks, _ = pattern.partition("::")
    return path if marks or "/" in path or _ENDING.search(path) else ""


def is_file_of(path: str, pattern: str) -> bool:
    """True if a pattern names a file, by at least the last parts of its path."""
    wanted = _words(_ENDING.sub("", pattern_path(pattern)))
    return _ends_with(_words(_ENDING.sub("", path)), wanted)


def is_named_by(test_id: str, pattern: str) -> bool:
    """True if a pattern in the runner's notation names a test as its report does.

    `tests/test_x.py::test_y` names `tests.test_x::test_y` and its rows; `*` and `?` match parts of a word.
    """
    names = {_PARAMETERS.sub("", test_id), test_id}
    wanted = {_words(pattern), _words(_ENDING.sub("", pattern))}
    return any(_ends_with(_words(name), words) for name in names for words in wanted)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in _WORDS.split(text) if word)


def _ends_with(words: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    end = words[-len(wanted) :] if wanted else ()
    return bool(end) and len(end) == len(wanted) and all(map(fnmatchcase, end, wanted))


def judge_must_pass(
    patterns: Sequence[str], measurements: Iterable[Measurement], *, is_complete: bool = True
) -> GateResult:
    """The result for the tests that a task names: each pattern must match a test that ran, and all of these must pass.

    The base is irrelevant: the tests are named because they fail there. If a gate could not be measured, missing tests
    may be its, and that is nobody's failure.
    """
    tests = [test for measured in measurements for test in measured.tests]
    problems = [finding for pattern in patterns for finding in _problems(pattern, tests)]
    unique = list({finding.code + finding.text: finding for finding in problems}.values())
    count = len(unique)
    is_missing = not is_complete and all(finding.text == _NOT_RUN for finding in unique)
    failed = GateStatus.ERRORED if is_missing else GateStatus.FAILED
    return GateResult(
        name="must-pass",
        status=failed if unique else GateStatus.PASSED,
        measured={"failures": float(count)},
        required={"max_failures": 0.0},
        line=f"- Must-pass: {count} {'failure' if count == 1 else 'failures'} (requires 100% pass)",
        findings=tuple(unique[:MAX_NAMED]),
        finding_count=count,
        failing=tuple(finding.code for finding in unique[:MAX_NAMED]),
        failing_count=count,
        excess=float(count),
    )


def _problems(pattern: str, tests: Sequence[TestOutcome]) -> Iterable[GateFinding]:
    named = [test for test in tests if is_named_by(test.id, pattern)]
    if not named:
        yield GateFinding(path=pattern_path(pattern), code=pattern, text=_NOT_RUN)
    for test in named:
        if test.outcome != "passed":
            text = f"{test.outcome}; the task must pass it"
            yield GateFinding(path=pattern_path(pattern), code=test.id, text=text)
