"""The tests of Rust, Go, Java, Kotlin and C# files, by their tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import BOUNDED, EXACT, LOOSE, NOTHING, Assertion, ParsedTest, SkipMarker
from remand.integrity.readers.tokens import NAME, STRING, BracketedCode

_ASSERTS = re.compile(
    r"(assert\w*|assert_eq|assert_ne|debug_assert\w*|Errorf?|Fatalf?|Fail|FailNow|fail|verify|should\w*|expect\w*)"
)
_HOLDERS = frozenset(("Assert", "Assertions", "assert", "require", "t", "b", "is", "ClassicAssert", "Should"))
_LOOSE = frozenset(("NotNil", "NotNull", "IsNotNull", "assertNotNull", "NotEmpty", "IsInstanceOf", "IsType"))
_BOUNDED = word_set("""
True IsTrue False IsFalse assertTrue assertFalse NoError Nil Null assertNull assert Contains Greater Less
assert_ne NotEqual AreNotEqual assertNotEquals Error
""")
_MARKS = {
    "rust": ("test", "rstest", "test_case", "tokio", "async_std", "proptest", "wasm_bindgen_test"),
    "java": ("@Test", "@ParameterizedTest", "@RepeatedTest", "@TestFactory"),
    "kotlin": ("@Test", "@ParameterizedTest"),
    "csharp": ("Fact", "Theory", "Test", "TestMethod", "TestCase"),
}
_MAX_LOOKAHEAD = 300
"""Tokens that are looked at around a declaration."""
_SKIP_MARKS = frozenset(("ignore", "should_panic", "@Disabled", "@Ignore", "Ignore", "Explicit", "Skip"))


def parse_braced_tests(code: BracketedCode, language: str) -> tuple[ParsedTest, ...]:
    """Every test of a file in one of these languages."""
    found: dict[str, ParsedTest] = {}
    for place, token in enumerate(code.tokens):
        if token.kind != NAME or token.text[0] == "@" or code.text(place + 1) not in ("(", "<"):
            continue
        marks = _attribute_places(code, place, language)
        if marks is None:
            continue
        at = place + 1
        limit = min(len(code.tokens), place + _MAX_LOOKAHEAD)
        while at < limit and code.text(at) not in ("{", ";"):
            at = code.closing_place(at) + 1 if code.text(at) in ("(", "[") else at + 1
        block = at if code.text(at) == "{" else 0
        if block:
            found[token.text] = _parse_test(code, place, block, marks)
    return tuple(found.values())


def _attribute_places(code: BracketedCode, place: int, language: str) -> list[int] | None:
    """The places of the words in a test's attributes; None when it is no test."""
    if language == "go":
        is_test = code.text(place - 1) == "func" and re.match(r"Test[A-Z_\d]", code.text(place)) is not None
        return [] if is_test else None
    if language == "rust" and code.text(place - 1) != "fn":
        return None
    if language not in _MARKS:
        return None
    start = _declaration_start(code, place)
    words = [at for at in range(start, place) if code.kind(at) == NAME]
    return words if any(code.text(at) in _MARKS[language] for at in words) else None


def _declaration_start(code: BracketedCode, place: int) -> int:
    """Where a declaration starts, its attributes included."""
    at = place - 1
    while at >= max(0, place - _MAX_LOOKAHEAD) and code.text(at) not in (";", "{", "}"):
        at -= 1
    return at + 1


def _parse_test(code: BracketedCode, place: int, block: int, marks: list[int]) -> ParsedTest:
    stop = code.closing_place(block)
    assertions = tuple(_assertions(code, block, stop))
    return ParsedTest(
        name=code.text(place),
        line=code.line(place),
        is_collected=True,
        assertions=assertions,
        skips=(*_marker_skips(code, marks), *_body_skips(code, block, stop)),
        words=code.words(block, stop),
        body=code.text_between(block, stop),
        act=code.words(block, stop) - frozenset(word for item in assertions for word in item.literals),
        calls=code.calls(block, stop),
        literals=code.literals(block, stop),
        is_empty=stop == block + 1,
    )


def _marker_skips(code: BracketedCode, marks: list[int]) -> Iterator[SkipMarker]:
    for at in marks:
        word = code.text(at)
        if word in _SKIP_MARKS:
            yield SkipMarker(word.lstrip("@").lower(), code.line(at), word)


def _body_skips(code: BracketedCode, start: int, stop: int) -> Iterator[SkipMarker]:
    for at in range(start, stop):
        word, owner = code.text(at), code.text(at - 2) if code.text(at - 1) == "." else ""
        if word in ("Skip", "Skipf", "SkipNow") and owner in ("t", "b", "Assert"):
            yield SkipMarker(
                "skip", code.line(at), f"{owner}.{word}", is_conditional=_is_nested(code, start, at)
            )
        elif word in ("assumeTrue", "assumeFalse", "Inconclusive") and code.text(at + 2) in ("false", "true"):
            yield SkipMarker("skip", code.line(at), code.text_between(at, code.closing_place(at + 1) + 1))


def _is_nested(code: BracketedCode, start: int, at: int) -> bool:
    """True inside a further block of the body, as under an `if`."""
    places = range(max(start + 1, at - _MAX_LOOKAHEAD), at)
    return any(code.text(place) == "{" and at < code.closing_place(place) for place in places)


def _assertions(code: BracketedCode, start: int, stop: int) -> Iterator[Assertion]:
    for at in range(start, stop):
        if code.kind(at) != NAME:
            continue
        owner = code.text(at - 2) if code.text(at - 1) in (".", "::") else ""
        opening = at + 2 if code.text(at + 1) == "!" else at + 1
        if code.text(opening) != "(" or not _is_assertion(code.text(at), owner):
            continue
        arguments = list(code.arguments(opening))
        end = code.closing_place(opening) + 1
        subject = code.text_between(*arguments[0]) if arguments else ""
        yield Assertion(
            code.line(at),
            code.text_between(at, end),
            subject,
            _strength(code, at, arguments),
            code.literals(at, end),
        )


def _is_assertion(name: str, owner: str) -> bool:
    if owner in ("t", "b"):
        return name in ("Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow")
    if owner in _HOLDERS:
        return name[:1].isupper() or name.startswith("assert")
    return name.startswith(("assert", "debug_assert")) or (name in ("verify", "fail") and not owner)


def _strength(code: BracketedCode, at: int, arguments: list[tuple[int, int]]) -> int:
    name = code.text(at)
    first = code.text_between(*arguments[0]) if arguments else ""
    if first in ("true", "1 == 1") and name.lower().endswith(("assert", "true")):
        return NOTHING
    if len(arguments) > 1 and (
        first == code.text_between(*arguments[1]) or _are_constant(code, arguments[:2])
    ):
        return NOTHING if not name.startswith(("Error", "Fatal")) else EXACT
    if name in _LOOSE or first.endswith((".is_ok()", ".is_some()", "!=null")):
        return LOOSE
    if name in _BOUNDED and not (name == "assert" and "==" in first):
        return BOUNDED
    return EXACT


def _are_constant(code: BracketedCode, arguments: list[tuple[int, int]]) -> bool:
    return all(stop == start + 1 and code.kind(start) in (STRING, "number") for start, stop in arguments)
