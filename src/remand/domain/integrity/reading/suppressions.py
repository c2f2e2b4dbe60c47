"""The directives by which code keeps a checker quiet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.integrity.reading.source import Source

MAX_COMMENT = 2_000
_CODES = re.compile(r"[A-Za-z@][\w@/.:-]*")


class Suppression(NamedTuple):
    """One directive."""

    kind: str
    line: int
    text: str
    codes: frozenset[str] = frozenset()
    """The findings it names; none when it covers all."""
    is_wide: bool = False
    """True when it covers a whole file or names no finding."""


class _Form(NamedTuple):
    kind: str
    pattern: re.Pattern[str]
    names_codes: bool = True
    """True when the narrow form names what it suppresses."""
    is_wide: bool = False


def _form(kind: str, pattern: str, *, names_codes: bool = True, is_wide: bool = False) -> _Form:
    return _Form(kind, re.compile(pattern, re.IGNORECASE), names_codes, is_wide)


_LIST = r"(?P<codes>[\w@/.,:\s-]*?)"
_FORMS = (
    _form("noqa", r"#\s*(?:ruff|flake8)\s*:\s*(?:noqa|disable)", is_wide=True),
    _form("noqa", r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?"),
    _form(
        "type: ignore",
        r"#\s*(?:type|ty|pyre|pyright)\s*[:-]\s*(?:ignore|fixme)(?:\[(?P<codes>[^\]]*)\])?(?!-)",
    ),
    _form(
        "mypy",
        r"#\s*(?:mypy|pytype)\s*:\s*(?:ignore-errors|disable-error-code|allow-|no-|skip-file)",
        is_wide=True,
    ),
    _form(
        "pyright",
        r"#\s*pyright\s*:\s*(?:basic|off|standard|report\w+\s*=\s*(?:false|none|warning))",
        is_wide=True,
    ),
    _form("pylint", r"#\s*pylint\s*:\s*skip-file", is_wide=True),
    _form("pylint", r"#\s*pylint\s*:\s*disable(?:-next)?\s*=\s*(?P<codes>[\w,\s-]+)"),
    _form("no cover", r"#\s*pragma\s*:\s*no\s*(?:cover|branch)", names_codes=False),
    _form("nosec", r"#\s*(?:nosec|nosemgrep)\b", names_codes=False),
    _form(
        "eslint-disable",
        rf"(?:eslint|oxlint|tslint|stylelint)[-:]disable(?:[-:](?:next-)?line)?\b(?!-)\s*{_LIST}(?:\s--.*)?\s*(?:\*/|$)",
    ),
    _form("eslint rule off", r"/\*\s*eslint\s+[\w@/-]+\s*:\s*(?:0|[\"']?off)", names_codes=False),
    _form("ts-ignore", r"@ts-(?:ignore|expect-error)\b", names_codes=False),
    _form("ts-nocheck", r"@ts-nocheck\b", is_wide=True),
    _form("biome-ignore", r"(?:biome-ignore|deno-lint-ignore|\$FlowFixMe)\S*", names_codes=False),
    _form(
        "coverage ignore",
        r"(?:istanbul|c8|v8)\s+ignore|node:coverage\s+(?:ignore|disable)",
        names_codes=False,
    ),
    _form("nolint", r"//\s*nolint\b(?::(?P<codes>[\w,\s-]+))?|//lint:ignore|//\s*#nosec"),
    _form(
        "NOSONAR",
        r"\bNOSONAR\b|CHECKSTYLE:OFF|NOPMD|@phpstan-ignore|phpcs:ignore|swiftlint:disable",
        names_codes=False,
    ),
    _form("shellcheck disable", r"#\s*shellcheck\s+disable=(?P<codes>[\w,]+)"),
    _form(
        "linter ignore",
        r"#\s*(?:hadolint\s+ignore|yamllint\s+disable|rubocop:disable|zizmor:\s*ignore|checkov:skip|:nocov:)",
        names_codes=False,
    ),
)
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


def suppressions_of(source: Source) -> tuple[Suppression, ...]:
    """Every directive of a file, by its comments and attributes."""
    found: list[Suppression] = []
    if _HINT.search(source.text):
        found += (made for comment in source.comments for made in _in_comment(comment.line, comment.text))
    if source.language in _ATTRIBUTED:
        found += _attributes(source)
    return tuple(found)


def _in_comment(line: int, text: str) -> Iterator[Suppression]:
    for form in _FORMS:
        match = form.pattern.search(text, 0, MAX_COMMENT)
        if match is None:
            continue
        codes = frozenset(_CODES.findall(match.groupdict().get("codes") or ""))
        is_block = "disable" in form.kind and "eslint" in form.kind and "line" not in match[0].lower()
        is_wide = form.is_wide or is_block or (form.names_codes and not codes)
        yield Suppression(form.kind, line, match[0].strip(" */"), codes, is_wide)
        if form.is_wide:
            return


def _attributes(source: Source) -> Iterator[Suppression]:
    for number, line in enumerate(source.lines, 1):
        match = (_DECORATORS if source.language == "python" else _ATTRIBUTES).search(line)
        if match is None or line.lstrip().startswith(("//", "# ", "*")):
            continue
        rust = match.groupdict().get("rust")
        kind = "allow" if rust is not None else match[0].strip("#@![( ").partition("(")[0]
        codes = frozenset(_CODES.findall(rust or ""))
        yield Suppression(kind, number, match[0], codes, is_wide="#![" in match[0])
