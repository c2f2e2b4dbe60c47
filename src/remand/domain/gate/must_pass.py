"""The tests that a task names as its proof: which they are in a run, and whether they pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from remand.domain.gate.gate import GateFinding, Measurement, TestOutcome
from remand.domain.gate.verdict import GateResult, GateStatus

MAX_NAMED = 100
_WORDS = re.compile(r"[^\w*?]+")
_ENDING = re.compile(r"\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb)(?=::|$| )")
_NOT_RUN = "no test of this name ran; the task must pass it"
_PARAMETERS = re.compile(r"\[.*\]$|#\d+$")


def pattern_path(pattern: str) -> str:
    """The file that a pattern names; empty when it names a test alone."""
    path, marks, _ = pattern.partition("::")
    return path if marks or "/" in path or _ENDING.search(path) else ""


def is_file_of(path: str, pattern: str) -> bool:
    """True when a pattern names a file, of whose path the last parts are enough."""
    wanted = _words(_ENDING.sub("", pattern_path(pattern)))
    return _ends_with(_words(_ENDING.sub("", path)), wanted)


def is_named_by(test_id: str, pattern: str) -> bool:
    """True when a pattern, written as the runner's user writes it, names a test as its report does.

    `tests/test_x.py::test_y` names `tests.test_x::test_y` and its rows; `*` and `?` stand for parts of a word.
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
    patterns: Sequence[str], found: Iterable[Measurement], *, is_complete: bool = True
) -> GateResult:
    """The result for the tests that a task names: each pattern must name one that ran, and all of these must pass.

    The base has no part in it: that they failed there is why they are named. Where a gate could not be measured, it may
    have the tests that are missing, and that is nobody's failure.
    """
    tests = [test for measured in found for test in measured.tests]
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
