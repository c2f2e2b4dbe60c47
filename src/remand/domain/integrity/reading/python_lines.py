"""The tests of a Python file that this Python cannot parse, by its lines and their indentation."""

from __future__ import annotations

import re

from remand.domain.integrity.reading.cases import EXACT, NOTHING, Assertion, Case, Skip, names_smoke

_DEF = re.compile(r"([ \t]*)(?:async\s+)?def\s+(\w+)\s*\(")
_CLASS = re.compile(r"([ \t]*)class\s+(\w+)")
_ASSERTION = re.compile(r"\s*(?:await\s+)?(?:assert\b|self\.assert\w+\(|(?:with\s+)?pytest\.raises\()")
_EMPTY = re.compile(r"\s*(?:assert\s+(?:True|1|not\s+False)|self\.assertTrue\(True\))\s*(?:#.*)?$")
_SKIP = re.compile(r"\s*@?(?:pytest\.mark\.|unittest\.|pytest\.|self\.)?(skip\w*|xfail|expectedFailure)\b")
_WORD = re.compile(r"\w+")


def cases_of(lines: list[str]) -> tuple[Case, ...]:
    """Every function named like a test."""
    found: dict[str, Case] = {}
    scope = ""
    for at, line in enumerate(lines):
        outer = _CLASS.match(line)
        if outer:
            scope = f"{outer[2]} › "
        start = _DEF.match(line)
        if start and start[2].startswith("test"):
            case = _case(lines, at, start, scope if start[1] else "")
            found[case.name] = case
    return tuple(found.values())


def _case(lines: list[str], at: int, start: re.Match[str], scope: str) -> Case:
    body = _body(lines, at, len(start[1]))
    text = "\n".join(line.strip() for _, line in body)
    return Case(
        name=f"{scope}{start[2]}",
        line=at + 1,
        is_collected=True,
        assertions=tuple(_assertion(number, line) for number, line in body if _ASSERTION.match(line)),
        skips=tuple(_skips(lines, at, body)),
        words=frozenset(_WORD.findall(text)),
        body=text,
        act=frozenset(word for _, line in body if not _ASSERTION.match(line) for word in _WORD.findall(line)),
        calls=frozenset(re.findall(r"(\w+)\(", text)),
        is_smoke=names_smoke(start[2]),
        is_empty=text.strip() in ("", "pass", "..."),
    )


def _body(lines: list[str], at: int, indent: int) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(lines[at + 1 :], at + 2):
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        found.append((number, line))
    return found


def _assertion(number: int, line: str) -> Assertion:
    text = line.strip()
    return Assertion(number, text, text.partition("==")[0].strip(), NOTHING if _EMPTY.match(line) else EXACT)


def _skips(lines: list[str], at: int, body: list[tuple[int, str]]) -> list[Skip]:
    above = at - 1
    marked: list[Skip] = []
    while above >= 0 and lines[above].strip().startswith("@"):
        match = _SKIP.match(lines[above])
        if match:
            marked.append(Skip(match[1], above + 1, lines[above].strip(), "skipif" in match[1].lower()))
        above -= 1
    inside = [(number, line, _SKIP.match(line)) for number, line in body]
    return marked + [
        Skip(match[1], number, line.strip()) for number, line, match in inside if match and "(" in line
    ]
