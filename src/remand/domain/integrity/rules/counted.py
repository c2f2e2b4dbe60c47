"""Tests in languages that are read by their lines alone: how many there are, are skipped, and assert."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_test_path
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_FILES = re.compile(r"\.(rb|php|exs?|swift|scala|dart|cc|cpp|cxx|bats|pl|t|lua|clj|hs)$")
_TEST = re.compile(
    r"^\s*(?:(?:f|x)?(?:it|specify|scenario|example|test)\b\s*[\"'({]|def test_|@test\b|(?:public\s+)?func(?:tion)? test|TEST(?:_F|_P)?\()"
)
_SKIP = re.compile(
    r"^\s*(?:x(?:it|describe|context|specify|scenario|test)\b|pending\b|skip\b|@tag :skip|@tag skip|\$this->markTest(?:Skipped|Incomplete)"
    r"|GTEST_SKIP|throw XCTSkip|DISABLED_)|\bDISABLED_\w+"
)
_NAMES = {"test_deleted": "tests", "test_skipped": "skipped tests", "assertion_removed": "assertions"}
_ASSERTION = re.compile(
    r"\bexpect\b|\bassert\w*|\brefute\w*|\bshould\b|XCTAssert\w*|\bEXPECT_\w+|\bASSERT_\w+|\brun\b.*&&|\[\s*\"\$status\""
)


def fewer(scene: Scene) -> Iterator[Suspicion]:
    """Fewer tests or assertions, or more skips, than on the base, over all such files of the change."""
    views = [view for view in scene.views if _FILES.search(view.path) and is_test_path(view.path)]
    for pattern, code, sign in (
        (_TEST, "test_deleted", -1),
        (_SKIP, "test_skipped", 1),
        (_ASSERTION, "assertion_removed", -1),
    ):
        old = sum(len(_places(view.before, pattern)) for view in views)
        new = sum(len(_places(view.after, pattern)) for view in views)
        if (new - old) * sign <= 0 or (sign < 0 and scene.vanished):
            continue
        for view in views:
            had, has = _places(view.before, pattern), _places(view.after, pattern)
            if (len(has) - len(had)) * sign > 0:
                found = f"{len(has)} {_NAMES[code]}, was {len(had)}"
                yield suspicion(code, view.path, has[-1] if has and sign > 0 else 0, found)
                break


def _places(source: Source | None, pattern: re.Pattern[str]) -> list[int]:
    lines = source.lines if source else []
    return [
        number
        for number, line in enumerate(lines, 1)
        if pattern.search(line) and not line.lstrip().startswith(("#", "//"))
    ]
