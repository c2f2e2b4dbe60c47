"""Lines in build files, ignore files and test files by which something is not run or not looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_made_path
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import View


class _Line(NamedTuple):
    """A line that may not be added to files of some name."""

    files: re.Pattern[str]
    line: re.Pattern[str]
    code: str


def _row(files: str, line: str, code: str) -> _Line:
    return _Line(re.compile(files), re.compile(line), code)


_BUILDS = r"(pom\.xml|\.gradle(\.kts)?|gradle\.properties|\.(cs|vb|fs)proj|Directory\.Build\.props|CMakeLists\.txt|build\.sbt|mix\.exs)$"
_ROWS = (
    _row(
        _BUILDS,
        r"<(skipTests|maven\.test\.skip|skipITs)>\s*true|<testFailureIgnore>\s*true",
        "failure_ignored",
    ),
    _row(
        _BUILDS,
        r"ignoreFailures\s*(=|\(|\s)\s*true|haltOnFailure\s*=\s*false|<failOnViolation>\s*false",
        "failure_ignored",
    ),
    _row(
        _BUILDS,
        r"<(failOnError|failsOnError|haltOnFailure)>\s*false|-DskipTests|isIgnoreFailures\s*=\s*true",
        "failure_ignored",
    ),
    _row(
        _BUILDS,
        r"<NoWarn>|<WarningLevel>\s*0|TreatWarningsAsErrors>\s*false|allWarningsAsErrors\s*=\s*false",
        "rule_switched_off",
    ),
    _row(
        _BUILDS,
        r"abortOnError\s*(=\s*)?false|-Wno-\w+|-Xlint:none|<RunAnalyzers>\s*false",
        "rule_switched_off",
    ),
    _row(
        _BUILDS,
        r"excludeTestsMatching|<exclude>.*Test|tests?\.enabled\s*=\s*false|enabled\s*=\s*false",
        "tests_left_out",
    ),
    _row(
        r"(^|/)\.(eslint|stylelint|pylint|mypy|flake8|coverage|sonar|oxlint|jshint)ignore$",
        r"^(?!#)\S",
        "rule_switched_off",
    ),
    _row(r"\.py$", r"#\s*doctest:\s*\+SKIP", "test_skipped"),
    _row(
        r"_test\.go$",
        r"^//\s*(go:build|\+build)\s+(?!(linux|darwin|windows|unix|amd64|arm64)\b)",
        "test_uncollected",
    ),
    _row(r"\.rs$", r"#!?\[cfg\(any\(\)\)\]", "test_uncollected"),
)
_LEAST = re.compile(r"(?:minimum|minValue|Threshold)\W{1,6}(0?\.\d+|\d+)", re.IGNORECASE)
_HARMLESS = re.compile(
    r"dist|build|node_modules|vendor|coverage|generated|\.min\.|docs?(/|$)|third_party|\.venv"
)


def switched_off(scene: Scene) -> Iterator[Suspicion]:
    """Lines that the base has not, in files that existed."""
    for view in scene.views:
        if view.after is None or is_made_path(view.path):
            continue
        for row in _ROWS:
            if row.files.search(view.path) and not (view.before is None and row.code == "test_uncollected"):
                yield from _of_row(view, view.after, row)


def _of_row(view: View, after: Source, row: _Line) -> Iterator[Suspicion]:
    had = {line.strip() for line in view.before.lines} if view.before else set()
    for number, line in enumerate(after.lines, 1):
        if row.line.search(line) and line.strip() not in had and not _is_harmless(line, view.path):
            yield suspicion(row.code, view.path, number, f"`{short(line)}`")
            return


def _is_harmless(line: str, path: str) -> bool:
    """True for what tools make, in a list of what is not looked at."""
    return path.endswith("ignore") and _HARMLESS.search(line) is not None


def coverage_lowered(scene: Scene) -> Iterator[Suspicion]:
    """The least coverage a build asks for."""
    for view in scene.views:
        if view.before is None or view.after is None or not re.search(_BUILDS, view.path):
            continue
        old, new = (list(map(float, _LEAST.findall(side.text))) for side in (view.before, view.after))
        if old and (not new or min(new) < min(old)):
            found = f"a coverage of {min(new, default=0):g} is asked for, was {min(old):g}"
            yield suspicion("threshold_lowered", view.path, 0, found)
