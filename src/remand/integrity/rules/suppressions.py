"""Directives in code that suppress a checker: more of them, or wider ones, than on the base."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from remand.integrity.changeset import Changeset
from remand.integrity.comparison import MAX_TEXT, Comparison
from remand.integrity.paths import is_benchmark_path, is_generated_path, is_test_path, language_of
from remand.integrity.readers.cases import without_common
from remand.integrity.readers.source import SourceFile
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

MAX_COMMENT = 2_000
_CODES = re.compile(r"[A-Za-z@][\w@/.:-]*")


class Suppression(NamedTuple):
    kind: str
    line: int
    text: str
    codes: frozenset[str] = frozenset()
    """The findings that it names; empty if it covers all."""
    is_wide: bool = False
    """True if it covers a whole file or names no finding."""
    is_usual: bool = False
    """True on code that no test can run here or no checker can follow: imports for type checkers, other platforms."""


class _Form(NamedTuple):
    kind: str
    pattern: re.Pattern[str]
    names_codes: bool = True
    """True if the narrow form names what it suppresses."""
    is_wide: bool = False


def _compile_form(kind: str, pattern: str, *, names_codes: bool = True, is_wide: bool = False) -> _Form:
    return _Form(kind, re.compile(pattern, re.IGNORECASE), names_codes, is_wide)


_LIST = r"(?P<codes>[\w@/.,:\s-]*?)"
_FORMS = (
    _compile_form("noqa", r"#\s*(?:ruff|flake8)\s*:\s*(?:noqa|disable)", is_wide=True),
    _compile_form("noqa", r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?"),
    _compile_form("type: ignore",
        r"#\s*(?:type|ty|pyre|pyright)\s*[:-]\s*(?:ignore|fixme)(?:\[(?P<codes>[^\]]*)\])?(?!-)"),
    _compile_form("mypy", r"#\s*(?:mypy|pytype)\s*:\s*(?:ignore-errors|disable-error-code|allow-|no-|skip-file)",
        is_wide=True),
    _compile_form("pyright", r"#\s*pyright\s*:\s*(?:basic|off|standard|report\w+\s*=\s*(?:false|none|warning))",
        is_wide=True),
    _compile_form("pylint", r"#\s*pylint\s*:\s*skip-file", is_wide=True),
    _compile_form("pylint", r"#\s*pylint\s*:\s*disable(?:-next)?\s*=\s*(?P<codes>[\w,\s-]+)"),
    _compile_form("no cover", r"#\s*pragma\s*:\s*no\s*(?:cover|branch)", names_codes=False),
    _compile_form("nosec", r"#\s*(?:nosec|nosemgrep)\b(?:\s*:?\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?"),
    _compile_form("eslint-disable",
        rf"(?:eslint|oxlint|tslint|stylelint)[-:]disable(?:[-:](?:next-)?line)?\b(?!-)\s*{_LIST}(?:\s--.*)?\s*(?:\*/|$)"),
    _compile_form("eslint rule off", r"/\*\s*eslint\s+[\w@/-]+\s*:\s*(?:0|[\"']?off)", names_codes=False),
    # It fails once there is no error: it asserts one.
    _compile_form("ts-expect-error", r"@ts-expect-error\b", names_codes=False),
    _compile_form("ts-ignore", r"@ts-ignore\b"),
    _compile_form("ts-nocheck", r"@ts-nocheck\b", is_wide=True),
    _compile_form("biome-ignore",
        r"(?:biome-ignore|deno-lint-ignore)(?:-\w+)*\s+(?P<codes>[\w/-]+)|(?:biome-ignore|deno-lint-ignore|\$FlowFixMe)\S*"),
    _compile_form("coverage ignore", r"(?:istanbul|c8|v8)\s+ignore|node:coverage\s+(?:ignore|disable)",
        names_codes=False),
    _compile_form("nolint", r"//\s*nolint\b(?::\s*(?P<codes>[\w,\s-]+))?|//lint:ignore|//\s*#nosec(?:\s+(?P<rules>G\d+(?:[,\s]+G\d+)*))?"),
    _compile_form("NOSONAR", r"\bNOSONAR\b|CHECKSTYLE:OFF|NOPMD|@phpstan-ignore|phpcs:ignore|swiftlint:disable",
        names_codes=False),
    _compile_form("shellcheck disable", r"#\s*shellcheck\s+disable=(?P<codes>[\w,]+)"),
    _compile_form("linter ignore",
        r"#\s*(?:hadolint\s+ignore|yamllint\s+disable|rubocop:disable|zizmor:\s*ignore|checkov:skip|:nocov:)",
        names_codes=False),
)  # fmt: skip
_HINT = re.compile(
    "noqa|ignore|disable|fixme|mypy|pyright|pytype|skip|pragma|nosem|nosec|eslint|@ts-|coverage|nolint|nosonar"
    "|checkstyle|nopmd|nocov",
    re.IGNORECASE,
)
_ATTRIBUTES = re.compile(
    r"#!?\[\s*(?:cfg_attr\([^)\]]*,\s*)?(?:allow|expect)\s*\((?P<rust>[^)\]]*)\)|@SuppressWarnings\b|@SuppressFBWarnings\b"
    r"|@Suppress\(|#pragma\s+warning\s+disable|\[\s*(?:\w+:\s*)?SuppressMessage\b|\[\s*ExcludeFromCodeCoverage\b"
    r"|#\[\s*coverage\(\s*off|#\[\s*tarpaulin::skip"
)
_DECORATORS = re.compile(r"^\s*@(?:typing\.)?no_type_check\b")
_ATTRIBUTED = frozenset(("rust", "java", "kotlin", "csharp", "python"))


def read_suppressions(source: SourceFile) -> tuple[Suppression, ...]:
    """All directives of a file, in its comments and attributes."""
    found: list[Suppression] = []
    if _HINT.search(source.text):
        found += (
            made for comment in source.comments for made in _comment_suppressions(comment.line, comment.text)
        )
    if source.language in _ATTRIBUTED:
        found += _attribute_suppressions(source)
    lines = source.lines
    return tuple(
        item._replace(is_usual=item.line <= len(lines) and bool(_USUAL.search(lines[item.line - 1])))
        for item in found
    )


def count_suppressions(path: str, content: bytes) -> int:
    """The number of directives in a file; 0 for a generated or unread file."""
    is_left_out = is_generated_path(path) or not language_of(path) or len(content) > MAX_TEXT
    if is_left_out or b"\0" in content[:8000]:
        return 0
    return len(read_suppressions(SourceFile(path, content.decode("utf-8", "replace"))))


def _comment_suppressions(line: int, text: str) -> Iterator[Suppression]:
    for form in _FORMS:
        match = form.pattern.search(text, 0, MAX_COMMENT)
        if match is None:
            continue
        named = match.groupdict()
        codes = frozenset(_CODES.findall(named.get("codes") or named.get("rules") or ""))
        is_block = "disable" in form.kind and "eslint" in form.kind and "line" not in match[0].lower()
        is_wide = form.is_wide or is_block or (form.names_codes and not codes)
        yield Suppression(form.kind, line, match[0].strip(" */"), codes, is_wide)
        if form.is_wide:
            return


def _attribute_suppressions(source: SourceFile) -> Iterator[Suppression]:
    for number, line in enumerate(source.lines, 1):
        match = (_DECORATORS if source.language == "python" else _ATTRIBUTES).search(line)
        if match is None or line.lstrip().startswith(("//", "# ", "*")):
            continue
        rust = match.groupdict().get("rust")
        kind = "allow" if rust is not None else match[0].strip("#@![( ").partition("(")[0]
        codes = frozenset(_CODES.findall(rust or ""))
        yield Suppression(kind, number, match[0], codes, is_wide="#![" in match[0])


_USUAL = re.compile(
    r"TYPE_CHECKING|__main__|NotImplementedError|\bplatform\b|\bWIN\b|version_info|abstractmethod|overload\b|ImportError"
    r"|ModuleNotFoundError|assert_never|__repr__"
)
"""Lines on which a directive says nothing about the change's own work."""
_WHOLE_FILES = frozenset(("noqa", "mypy", "pyright", "pylint", "eslint-disable", "ts-nocheck", "allow"))
CATEGORIES = {
    **dict.fromkeys(
        ("type: ignore", "mypy", "pyright", "ts-ignore", "ts-expect-error", "ts-nocheck"), "types"
    ),
    **dict.fromkeys(("no_type_check", "@no_type_check"), "types"),
    **dict.fromkeys(("no cover", "coverage ignore", "ExcludeFromCodeCoverage", "coverage"), "coverage"),
}
"""What each kind of directive suppresses; all others suppress a linter."""
SuppressionsByPath = list[tuple[str, list[Suppression], list[Suppression]]]
"""By path: the suppressions of the base, and of the head."""


def find_suppressions(changeset: Changeset) -> Iterator[Suspicion]:
    """Kinds of suppression that increased, or cover more."""
    found: SuppressionsByPath = [
        (view.path, _suppressions_or_none(view.before), _suppressions_or_none(view.after))
        for view in changeset.views
        if not is_generated_path(view.path)
    ]
    before = Counter(item.kind for _, old, _ in found for item in old)
    after = Counter(item.kind for _, _, new in found for item in new)
    more = {kind for kind in after if after[kind] > before[kind]}
    measured = frozenset(changeset.comparison.measured)
    yield from _find_added(found, more, measured)
    yield from _find_widened(found, more, measured)
    yield from _find_too_many(changeset.comparison, before.total(), after.total(), found)


def _find_too_many(
    comparison: Comparison, had: int, has: int, found: SuppressionsByPath
) -> Iterator[Suspicion]:
    """More directives in the whole project than its policy allows, if the change added some."""
    limit, elsewhere = comparison.max_suppressions, comparison.unchanged_suppressions
    if limit is None or has <= had or elsewhere + has <= limit:
        return
    path = next(path for path, old, new in found if len(new) > len(old))
    text = f"{elsewhere + has} suppressions, {elsewhere + had} before; the project allows {limit}"
    yield suspicion("suppressions_over_limit", path, 0, text)


def _suppressions_or_none(source: SourceFile | None) -> list[Suppression]:
    return list(read_suppressions(source)) if source is not None else []


def _find_added(found: SuppressionsByPath, kinds: set[str], measured: frozenset[str]) -> Iterator[Suspicion]:
    for path, old, new in found:
        for kind in sorted(kinds):
            had, has = ([item for item in side if item.kind == kind] for side in (old, new))
            added = without_common(has, had)
            if not added or len(has) <= len(had):
                continue
            held = [item for item in added if _is_held(item, path, measured)]
            noted = [item for item in added if item not in held]
            for code, items in (("suppression_added", held), ("suppression_noted", noted)):
                texts = [item.text for item in items]
                if items:
                    message = f"{quote_names(texts)} added"
                    yield suspicion(code, path, items[0].line, message, "\n".join(sorted(texts)))


def _is_held(item: Suppression, path: str, measured: frozenset[str]) -> bool:
    """True if it suppresses all rules or a whole file, or hides product code from what a gate measures."""
    if item.is_usual:
        return False
    if is_test_path(path) or is_benchmark_path(path):
        is_whole_file = item.is_wide and item.kind in _WHOLE_FILES
        return is_whole_file and not item.codes
    return item.is_wide or CATEGORIES.get(item.kind, "lint") in measured


def _find_widened(
    found: SuppressionsByPath, added_kinds: set[str], measured: frozenset[str]
) -> Iterator[Suspicion]:
    """Suppressions that lost the code they were for, or gained others."""
    wide = Counter(item.kind for _, _, new in found for item in new if item.is_wide)
    wide.subtract(Counter(item.kind for _, old, _ in found for item in old if item.is_wide))
    codes = Counter(item.kind for _, _, new in found for item in new for _ in item.codes)
    codes.subtract(Counter(item.kind for _, old, _ in found for item in old for _ in item.codes))
    for path, old, new in found:
        had = {item.text for item in old}
        for item in new:
            if item.kind in added_kinds or item.text in had:
                continue
            is_wider = item.is_wide and wide[item.kind] > 0
            names_more = len(item.codes) > 1 and codes[item.kind] > 0 and wide[item.kind] >= 0
            if is_wider or names_more:
                code = "suppression_widened" if _is_held(item, path, measured) else "suppression_noted"
                yield suspicion(code, path, item.line, f"`{item.text}` covers more than before")
