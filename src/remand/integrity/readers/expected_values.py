"""Detects assertions that compare a value with a copy of itself, in languages with braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import BOUNDED, NOTHING, Assertion
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode

_SIDES = (
    re.compile(r"(?<![\w.])(?P<one>\w+)(?:!=|==|!==|===)(?P<other>\w+)(?![\w.(\[])"),
    re.compile(r"(?:DeepEqual|Equal\w*|Diff|assert_eq!?)\((?:t,)?&?(?P<one>\w+),&?(?P<other>\w+)[,)]"),
    re.compile(r"expect\((?P<one>\w+)\)\.to(?:Equal|StrictEqual|Be)\((?P<other>\w+)\)"),
    re.compile(r"[eE]qual\((?P<one>\w+),(?P<other>\w+)[,)]"),
)
_COPIES = word_set("""
clone copy append make len structuredClone JSON parse stringify slices Clone to_vec to_owned to_string collect iter
cloned into_iter string int byte rune bool float64 Object assign slice Array from concat map range mut let const var for
of in push extend Vec new vec maps
""")
"""Words of an expression that only copies."""


class _Definition(NamedTuple):
    start: int
    stop: int
    name: str
    is_declared: bool


_FILTER = re.compile(r"\.filter\(|^\[.* for .* if ")
_CALL = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\(")
_EQUALS = re.compile(r"(?<![!=<>])={2,3}(?!=)")
_COMMON = word_set(
    "expect assert len str int list dict set String Number Boolean it test filter range enumerate"
)


def is_same_result(rows: str, assertion: str) -> bool:
    """True if rows are filtered by the result of the function that an assertion calls on them."""
    start = _FILTER.search(rows)
    if start is None or not _EQUALS.search(rows, start.start()):
        return False
    asked = set(_CALL.findall(rows, start.start())) - _COMMON
    return bool(asked & set(_CALL.findall(assertion)))


def discount_copies(code: BracketedCode, made: Assertion, places: tuple[int, int], text: str) -> Assertion:
    """Weakens an assertion whose expected value is a copy of the checked one, since that is always equal.

    A copy that is changed before the comparison says what the change says. A copy from before an operation on
    the original honestly says that the operation left it unchanged.
    """
    for one, other in _compared_names(text):
        for found, expected in ((one, other), (other, one)):
            strength = _copy_strength(code, places, found, expected)
            if strength is not None:
                return made._replace(strength=min(made.strength, strength))
    return made


def _compared_names(text: str) -> Iterator[tuple[str, str]]:
    for pattern in _SIDES:
        match = pattern.search(text)
        if match is not None and match["one"] != match["other"] and not match["other"][:1].isdigit():
            yield match["one"], match["other"]


def _copy_strength(code: BracketedCode, places: tuple[int, int], found: str, expected: str) -> int | None:
    """How much an equality proves; None if the expected value is no copy of the checked one."""
    given = list(_definitions(code, *places, expected))
    if not given:
        return None
    items = _item_names(code, *places, found)
    last = 0
    is_copied = False
    for one in given:
        words = [code.text(at) for at in range(one.start, one.stop) if _is_free_name(code, at)]
        values = [at for at in range(one.start, one.stop) if code.kind(at) in (STRING, NUMBER)]
        own = {found, expected, *items}
        if values or set(words) - own - _COPIES or (not words and not one.is_declared):
            return None
        is_copied = is_copied or bool({found, *items} & set(words))
        last = max(last, one.stop)
    if not is_copied:
        return None
    between = [
        code.text(at) for at in range(last, _statement_start(code, places[1])) if code.kind(at) == NAME
    ]
    if found in between:
        return None
    return BOUNDED if expected in between else NOTHING


def _is_free_name(code: BracketedCode, place: int) -> bool:
    """True for a name that is no member, key or type."""
    is_type = code.text(place)[:1].isupper() and code.text(place + 1) == "{"
    return (
        code.kind(place) == NAME
        and code.text(place - 1) != "."
        and code.text(place + 1) != ":"
        and not is_type
    )


def _definitions(code: BracketedCode, start: int, stop: int, name: str) -> Iterator[_Definition]:
    """The definitions of a name: `want := …`, `let want = …`, `copy(want, …)`, `var want []int`."""
    for at in code.places_of(name, start, stop):
        if code.kind(at) != NAME:
            continue
        before, after = code.text(at - 1), code.text(at + 1)
        if before == "var" and after not in (":=", "="):
            yield _Definition(at, at + 1, name, is_declared=True)
        elif after in (":=", "=") and before not in (".", ",", "&"):
            yield _Definition(at + 2, _end_of_line(code, at + 2, stop), name, is_declared=False)
        elif before == "(" and code.text(at - 2) in ("copy", "append"):
            yield _Definition(at, code.closing_place(at - 1), name, is_declared=False)


def _end_of_line(code: BracketedCode, place: int, stop: int) -> int:
    """The end of an expression: at a `;`, at a closing bracket around it, or at the end of its line."""
    first = place
    if code.text(place) == "{":
        return min(code.closing_place(place) + 1, stop)
    while place < stop and code.text(place) not in (";", "}", ")", "{"):
        if place > first and code.line(place) > code.line(place - 1) and code.text(place) != ".":
            break
        place = code.closing_place(place) + 1 if code.text(place) in ("(", "[") else place + 1
        if code.text(place) == "{" and code.text(place - 1) != ")":
            place = code.closing_place(place) + 1
    return min(place, stop)


def _item_names(code: BracketedCode, start: int, stop: int, name: str) -> frozenset[str]:
    """The loop variables over a value: `for _, item := range got`."""
    found: set[str] = set()
    for at in code.places_of(name, start, stop):
        if code.text(at - 1) in ("range", "of", "in"):
            back = at - 2
            while back > start and code.text(back) != "for" and code.line(back) == code.line(at):
                found |= {code.text(back)} if code.kind(back) == NAME else set()
                back -= 1
    return frozenset(found)


def _statement_start(code: BracketedCode, place: int) -> int:
    """The start of an assertion's statement; in Go, that of the condition around it."""
    start = _line_start(code, place)
    above = _line_start(code, start - 1) if code.text(start - 1) == "{" else start
    return above if code.text(above) == "if" else start


def _line_start(code: BracketedCode, place: int) -> int:
    while (
        place > 0 and code.text(place - 1) not in (";", "{", "}") and code.line(place - 1) == code.line(place)
    ):
        place -= 1
    return place
