"""The tests of files in languages with braces, by their tokens: JavaScript and TypeScript; Rust, Go, Java, Kotlin and C#."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.text.words import word_list, word_set
from remand.integrity.readers.cases import (
    BOUNDED,
    EXACT,
    LOOSE,
    NOTHING,
    Assertion,
    ParsedTest,
    SkipMarker,
    is_smoke_name,
)
from remand.integrity.readers.script_assertions import RANGE_READERS, CodeRange, CodeRanges, assertion_at
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode, unquote

_GROUPS = frozenset(("describe", "context", "suite", "xdescribe", "fdescribe", "xcontext", "xsuite"))
_TESTS = frozenset(("it", "test", "specify", "xit", "xtest", "fit", "ftest", "xspecify", "bench"))
_NAMES = _GROUPS | _TESTS
_SKIPS = frozenset(("skip", "todo", "fixme", "fails", "failing", "fail", "only"))
_TEST_HOLDERS = frozenset(("Deno", "QUnit", "t", "tap", "node", "mocha", "vitest"))
_DEFINES = frozenset(("function", "const", "let"))
_LOOKS = word_list("getBy findBy getAllBy findAllBy assert expect verify check should waitFor fail")
_MAX_REPEATS = 1000
_SCRIPT_LOOKAHEAD = 60
"""Tokens that are looked at for the end of a value."""


class _RunnerCall(NamedTuple):
    """A call of `it`, `describe` and the like."""

    name: str
    line: int
    start: int
    opening: int
    closing: int
    times: int
    skips: tuple[SkipMarker, ...]
    is_group: bool


def parse_script_tests(code: BracketedCode) -> tuple[ParsedTest, ...]:
    """Every test with the descriptions it stands in, and every other function that asserts."""
    found: dict[str, ParsedTest] = {}
    groups: list[_RunnerCall] = []
    own = frozenset(code.text(place + 1) for place, token in enumerate(code.tokens) if token.text in _DEFINES)
    around = _EnclosingRanges(code)
    for call in _runner_calls(code):
        groups = [group for group in groups if group.closing > call.start]
        if call.is_group:
            groups.append(call)
            continue
        case = around.apply_to(_parse_script_test(code, call, groups, own), call)
        name = case.name if case.name not in found else f"{case.name} ({len(found)})"
        found[name] = case._replace(name=name)
    for helper in _helper_functions(code):
        found.setdefault(helper.name, helper)
    return tuple(found.values())


class _EnclosingRanges:
    """The written-out loops and the conditions that tests of a file are defined in, asked for in their order."""

    def __init__(self, code: BracketedCode) -> None:
        self._code = code
        self._waiting = sorted(_enclosing_ranges(code), key=lambda item: item[1].start, reverse=True)
        self._open: list[tuple[int, CodeRange]] = []

    def apply_to(self, case: ParsedTest, call: _RunnerCall) -> ParsedTest:
        """A test as often as loops define it, and only where a condition lets it be defined."""
        while self._waiting and self._waiting[-1][1].start <= call.start:
            self._open.append(self._waiting.pop())
        self._open = [item for item in self._open if item[1].stop > call.start]
        for head, part in self._open:
            case = (
                self._make_conditional(case, head, part)
                if part.kind == "if"
                else self._repeat_test(case, head, part)
            )
        return case

    def _repeat_test(self, case: ParsedTest, head: int, part: CodeRange) -> ParsedTest:
        times = (item._replace(times=min(item.times * part.times, _MAX_REPEATS)) for item in case.assertions)
        return case._replace(
            assertions=tuple(times), literals=case.literals | self._code.literals(head, part.start)
        )

    def _make_conditional(self, case: ParsedTest, head: int, part: CodeRange) -> ParsedTest:
        text = self._code.text_between(head, min(part.start, head + _SCRIPT_LOOKAHEAD))
        skip = SkipMarker("if", self._code.line(head), text, is_conditional=True)
        return case._replace(skips=(*case.skips, skip))


def _enclosing_ranges(code: BracketedCode) -> Iterator[tuple[int, CodeRange]]:
    """Every such range, with where its head begins."""
    for place, token in enumerate(code.tokens):
        if token.text in ("for", "forEach", "if") and code.text(place + 1) == "(":
            head = code.openings.get(place - 2, place) if token.text == "forEach" else place
            yield from ((head, part) for part in RANGE_READERS[token.text](code, place))


def _runner_calls(code: BracketedCode) -> Iterator[_RunnerCall]:
    """Groups and tests in their order; what is inside a test belongs to it."""
    place = 0
    while place < len(code.tokens):
        call = _parse_call(code, place) if _is_runner(code, place) else None
        if call is not None:
            yield call
        place = max(call.closing, place + 1) if call is not None and not call.is_group else place + 1


def _is_runner(code: BracketedCode, place: int) -> bool:
    if code.text(place) not in _NAMES or code.kind(place) != NAME:
        return False
    return code.text(place - 1) != "." or code.text(place - 2) in _TEST_HOLDERS


def _parse_call(code: BracketedCode, place: int) -> _RunnerCall | None:
    name = code.text(place)
    skips = (
        [SkipMarker("skip", code.line(place), name)]
        if name[0] in "xf" and name not in ("fit", "ftest", "fdescribe")
        else []
    )
    if name in ("fit", "ftest", "fdescribe"):
        skips = [SkipMarker("only", code.line(place), name)]
    at, times = place + 1, 1
    while code.text(at) == "." and code.kind(at + 1) == NAME:
        word, at = code.text(at + 1), at + 2
        if word == "macro":
            return None  # defines what tests share, and is none
        if word in _SKIPS:
            skips.append(SkipMarker(word, code.line(at - 1), f"{name}.{word}"))
        if word in ("each", "for", "skipIf", "runIf", "if", "table"):
            if word in ("skipIf", "runIf", "if"):
                shown = code.text_between(at, code.closing_place(at) + 1)
                skips.append(
                    SkipMarker(word, code.line(at), f"{name}.{word}{shown}", shown not in ("(true)", "(1)"))
                )
            times *= _row_count(code, at)
            at = code.closing_place(at) + 1 if code.text(at) == "(" else at + 1
    if code.text(at) != "(":
        return None
    closing = code.closing_place(at)
    start, stop = next(code.arguments(at), (at, at))
    first = code.text_between(start, min(stop, start + 12))
    return _RunnerCall(
        unquote(first) if code.kind(start) == STRING and stop == start + 1 else first,
        code.line(place),
        place,
        at,
        closing,
        times,
        (*skips, *_option_skips(code, at)),
        name in _GROUPS,
    )


def _row_count(code: BracketedCode, at: int) -> int:
    """How many cases a table has that is written out."""
    if code.kind(at) == STRING:
        return max(1, sum(1 for line in code.text(at).split("\n") if "|" in line or "${" in line) - 1)
    if code.text(at) != "(" or code.text(at + 1) != "[":
        return 1
    return min(sum(1 for _ in code.arguments(at + 1)), _MAX_REPEATS)


def _option_skips(code: BracketedCode, opening: int) -> Iterator[SkipMarker]:
    """`{ skip: true }` and its like, given to the call itself."""
    for start, _ in code.arguments(opening):
        if code.text(start) != "{":
            continue
        for item, stop in code.arguments(start):
            value = code.text(item + 2)
            if (
                code.text(item) in ("skip", "todo", "fails")
                and code.text(item + 1) == ":"
                and value != "false"
            ):
                is_plain = stop == item + 3 and (value == "true" or code.kind(item + 2) == STRING)
                yield SkipMarker(
                    code.text(item), code.line(item), code.text_between(item, stop), not is_plain
                )


def _parse_script_test(
    code: BracketedCode, call: _RunnerCall, groups: list[_RunnerCall], own: frozenset[str]
) -> ParsedTest:
    scope = "".join(f"{group.name} › " for group in groups)
    times = call.times
    for group in groups:
        times *= group.times
    outer = tuple(skip for group in groups for skip in group.skips)
    body = _parse_body(code, call.opening, call.closing)
    return ParsedTest(
        name=f"{scope}{call.name}",
        line=call.line,
        is_collected=True,
        assertions=tuple(
            item._replace(times=min(item.times * times, _MAX_REPEATS)) for item in body.assertions
        ),
        skips=(*call.skips, *outer, *body.skips),
        words=code.words(body.start, call.closing),
        body=code.text_between(body.start, call.closing),
        act=body.act,
        calls=code.calls(body.start, call.closing),
        literals=code.literals(call.start, call.opening) | code.literals(body.start, call.closing),
        traps=body.traps,
        examples=_example_count(code, body.start, call.closing),
        is_smoke=is_smoke_name(call.name),
        is_plain=_is_plain(code.calls(body.start, call.closing), own),
        is_empty=body.is_empty,
    )


def _example_count(code: BracketedCode, start: int, stop: int) -> float:
    """`{ numRuns: 100 }` of a property."""
    for place in range(start, min(stop, len(code.tokens))):
        if (
            code.text(place) == "numRuns"
            and code.kind(place + 2) == NUMBER
            and code.text(place + 2).isdecimal()
        ):
            return float(code.text(place + 2)[:9])
    return 0.0


def _is_plain(called: frozenset[str], own: frozenset[str]) -> bool:
    """True when a test calls nothing that is defined beside it, and looks nothing up that must be there."""
    return not called & own and not any(name.startswith(_LOOKS) for name in called)


def _helper_functions(code: BracketedCode) -> Iterator[ParsedTest]:
    """Functions of the file, which may assert for its tests."""
    done = 0
    names = Counter(token.text for token in code.tokens)
    for place, token in enumerate(code.tokens):
        if token.text != "function" or place < done or code.kind(place + 1) != NAME:
            continue
        if names[code.text(place + 1)] < 2:
            continue  # nobody calls it
        block = code.closing_place(place + 2) + 1
        if code.text(block) != "{":
            continue
        done = code.closing_place(block)
        body = _parse_body(code, block, done)
        yield ParsedTest(
            name=code.text(place + 1),
            line=token.line,
            is_collected=False,
            assertions=body.assertions,
            act=body.act,
            words=code.words(block, done),
            body=code.text_between(block, done),
        )


class _TestBody(NamedTuple):
    start: int
    assertions: tuple[Assertion, ...]
    skips: tuple[SkipMarker, ...]
    act: frozenset[str]
    traps: tuple[tuple[str, int, str], ...]
    is_empty: bool


def _parse_body(code: BracketedCode, opening: int, closing: int) -> _TestBody:
    first = next(code.arguments(opening), None) if code.text(opening) == "(" else None
    start = first[1] + 1 if first else opening + 1
    stop = min(closing, len(code.tokens))
    ranges = CodeRanges(code, start, stop)
    found: list[Assertion] = []
    covered: list[tuple[int, int]] = []
    place = start
    while place < stop:
        made = assertion_at(code, place)
        if made is not None:
            found.append(ranges.apply_to(made[0], place))
            covered.append((place, made[1]))
        place = max(made[1], place + 1) if made is not None else place + 1
    known = _assigned_texts(code, start, stop)
    found = [_resolve_assertion(item, known) for item in found]
    act = _uncovered_places(covered, start, stop)
    words = frozenset(code.text(at) for at in act if code.kind(at) in (NAME, STRING, NUMBER))
    return _TestBody(
        start=start,
        assertions=tuple(item for item in found if item.times > 0),
        skips=tuple(_inner_skips(code, start, closing)),
        act=words,
        traps=tuple(("assertion_swallowed", line, "catch") for line in ranges.catching),
        is_empty=not words - {"async", "done", "function"},
    )


def _assigned_texts(code: BracketedCode, start: int, stop: int) -> dict[str, str]:
    """What names were given in a body: `const order = await submit(cart);`"""
    found: dict[str, str] = {}
    for place in range(start, stop):
        if code.text(place) in ("const", "let") and code.text(place + 2) == "=":
            end = next(
                (at for at in range(place + 3, min(stop, place + _SCRIPT_LOOKAHEAD)) if code.text(at) == ";"),
                0,
            )
            first = place + 4 if code.text(place + 3) == "await" else place + 3
            if end:
                found[code.text(place + 1)] = code.text_between(first, end)
    return found


def _resolve_assertion(item: Assertion, known: dict[str, str]) -> Assertion:
    """An assertion by what its names were given; what is compared with itself proves little."""
    name, dot, rest = item.subject.partition(".")
    subject = f"{known[name]}{dot}{rest}" if name in known else item.subject
    expected = known.get(item.text.rpartition("(")[2].rstrip(")"), "")
    strength = min(item.strength, LOOSE) if expected == subject else item.strength
    return item._replace(subject=subject, strength=strength)


def _uncovered_places(covered: list[tuple[int, int]], start: int, stop: int) -> list[int]:
    """The places that no assertion covers."""
    found: list[int] = []
    for begin, end in (*covered, (stop, stop)):
        found += range(start, begin)
        start = max(start, end)
    return found


def _inner_skips(code: BracketedCode, start: int, stop: int) -> Iterator[SkipMarker]:
    for place in range(start, min(stop, len(code.tokens))):
        if code.text(place) not in ("skip", "fixme", "pending", "todo") or code.text(place + 1) != "(":
            continue
        owner = code.text(place - 2) if code.text(place - 1) == "." else ""
        if owner in ("this", "t", "ctx", "test", "context", "it") or code.text(place) == "pending":
            is_asked = next(code.arguments(place + 1), None) is not None and owner == "test"
            yield SkipMarker("skip", code.line(place), f"{owner}.{code.text(place)}()", is_asked)


_ASSERTS = re.compile(
    r"(assert\w*|assert_eq|assert_ne|debug_assert\w*|Errorf?|Fatalf?|Fail|FailNow|fail|verify|should\w*|expect\w*)"
)
_ASSERTION_HOLDERS = frozenset(
    ("Assert", "Assertions", "assert", "require", "t", "b", "is", "ClassicAssert", "Should")
)
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
        is_helper = marks is None and language == "go" and _takes_runner(code, place)
        if marks is None and not is_helper:
            continue
        at = place + 1
        limit = min(len(code.tokens), place + _MAX_LOOKAHEAD)
        while at < limit and code.text(at) not in ("{", ";"):
            at = code.closing_place(at) + 1 if code.text(at) in ("(", "[") else at + 1
        block = at if code.text(at) == "{" else 0
        if block:
            case = _parse_test(code, place, block, marks or [], language)
            found[token.text] = case._replace(is_collected=not is_helper)
    return tuple(found.values())


def _takes_runner(code: BracketedCode, place: int) -> bool:
    """True for a Go function that is given the test it asserts for: `func check(t *testing.T, …)`."""
    return (
        code.text(place - 1) == "func"
        and code.text(place + 1) == "("
        and "testing" in code.words(place + 1, min(code.closing_place(place + 1), place + 8))
    )


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


def _parse_test(code: BracketedCode, place: int, block: int, marks: list[int], language: str) -> ParsedTest:
    stop = code.closing_place(block)
    assertions = tuple(_assertions(code, block, stop, language))
    return ParsedTest(
        name=code.text(place),
        line=code.line(place),
        is_collected=True,
        assertions=assertions,
        skips=(*_marker_skips(code, marks), *_body_skips(code, block, stop)),
        words=code.words(block, stop),
        body=code.text_between(block, stop),
        act=code.words(block, stop) - _assertion_words(assertions),
        calls=code.calls(block, stop),
        literals=code.literals(block, stop),
        is_empty=stop == block + 1,
    )


def _assertion_words(assertions: tuple[Assertion, ...]) -> frozenset[str]:
    """The words and literals of assertions, which are no part of what a test does besides."""
    words = frozenset(word for item in assertions for word in re.findall(r"\w+", item.text))
    literals = frozenset(text for item in assertions for text in item.literals)
    return words | literals | {f'"{text[1:-1]}"' for text in literals if text[:1] == "'"}


def _marker_skips(code: BracketedCode, marks: list[int]) -> Iterator[SkipMarker]:
    for at in marks:
        word = code.text(at)
        is_feature = word == "feature" and code.text(at + 1) == "="
        if is_feature or (word in _SKIP_MARKS and not (word == "ignore" and code.text(at - 1) == "(")):
            text = code.text_between(at, at + 3) if is_feature else word
            yield SkipMarker(word.lstrip("@").lower(), code.line(at), text, is_conditional=is_feature)


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


def _dropped_panics(code: BracketedCode, start: int, stop: int) -> list[range]:
    """`let _ = catch_unwind(|| { … });` and `catch_unwind(…).ok()`: what fails inside fails nothing."""
    found = []
    for at in range(start, stop):
        if code.text(at) == "catch_unwind" and code.text(at + 1) == "(":
            end = code.closing_place(at + 1)
            head = [code.text(place) for place in range(max(start, at - 8), at)]
            if "_" in head[-8:] or code.text(end + 2) in ("ok", "unwrap_or_default"):
                found.append(range(at, end))
        elif code.text(at) == "let" and code.text(at + 2) == "=" and code.text(at + 3) in ("||", "|"):
            end = next(
                (one for one in range(at, stop) if code.text(one) == ";" and not _is_inside(code, at, one)),
                stop,
            )
            if not any(code.text(one) == code.text(at + 1) for one in range(end, stop)):
                found.append(range(at, end))  # a closure that nobody calls
    return found


def _is_inside(code: BracketedCode, start: int, at: int) -> bool:
    """True when a bracket that opened after a place is still open at another."""
    return any(code.closing_place(one) > at for one in range(start, at) if code.text(one) in ("(", "{", "["))


def _assertions(code: BracketedCode, start: int, stop: int, language: str) -> Iterator[Assertion]:
    dropped = _dropped_panics(code, start, stop)
    bound = _bound_blocks(code, start, stop) if language in ("rust", "go") else []
    for at in range(start, stop):
        if code.kind(at) != NAME:
            continue
        owner = code.text(at - 2) if code.text(at - 1) in (".", "::") else ""
        opening = at + 2 if code.text(at + 1) == "!" else at + 1
        if code.text(opening) != "(":
            continue
        is_handed_on = not owner and code.text(at - 1) != "func" and code.text(opening + 1) == "t"
        if not _is_assertion(code.text(at), owner) and not is_handed_on:
            continue
        arguments = list(code.arguments(opening))
        end = code.closing_place(opening) + 1
        subject = code.text_between(*arguments[0]) if arguments else ""
        made = Assertion(
            code.line(at),
            code.text_between(at, end),
            subject,
            NOTHING if any(at in part for part in dropped) else _strength(code, at, arguments),
            code.literals(at, end),
            is_conditional=any(at in part for part in bound),
        )
        yield _with_condition(code, start, at, made) if owner in ("t", "b") and language == "go" else made


def _bound_blocks(code: BracketedCode, start: int, stop: int) -> list[range]:
    """What a value of another shape passes by: `if let` without `else`, and what follows a branch that returns."""
    found = []
    for at in range(start, stop):
        if code.text(at) == "if" and code.text(at + 1) == "let":
            opening = next(
                (one for one in range(at, min(stop, at + _MAX_LOOKAHEAD)) if code.text(one) == "{"), at
            )
            closing = code.closing_place(opening)
            if code.text(closing + 1) != "else":
                found.append(range(opening, closing))
        elif [code.text(one) for one in range(at, at + 3)] in (["{", "return", "}"], ["{", "return", ";"]):
            found.append(range(at, stop))  # what follows is only reached without it
    return found


def _with_condition(code: BracketedCode, start: int, at: int, made: Assertion) -> Assertion:
    """An assertion of Go by the condition it stands under, which says what is compared."""
    opening = next(
        (
            one
            for one in range(at, max(start, at - _MAX_LOOKAHEAD), -1)
            if code.closing_place(one) > at and code.text(one) == "{"
        ),
        start,
    )
    head = next(
        (one for one in range(opening, max(start, opening - _MAX_LOOKAHEAD), -1) if code.text(one) == "if"), 0
    )
    if opening == start or not head or code.line(head) < code.line(opening) - 1:
        return made
    signs = [
        one for one in range(head, opening) if code.text(one) in _ORDERS or code.text(one) in ("==", "!=")
    ]
    words = code.words(head, opening)
    is_bounded = signs and all(code.text(one) in _ORDERS for one in signs) and "DeepEqual" not in words
    is_empty = len(signs) == 1 and code.text(signs[0]) == "==" and code.text(signs[0] + 1) == '""'
    return made._replace(
        text=f"{code.text_between(head, opening)} {made.text}",
        subject=code.text_between(head + 1, signs[-1] if signs else opening),
        strength=min(made.strength, LOOSE if is_empty else BOUNDED if is_bounded else EXACT),
        literals=code.literals(head, opening),
    )


_ORDERS = frozenset(("<", ">", "<=", ">="))


def _is_assertion(name: str, owner: str) -> bool:
    if owner in ("t", "b"):
        return name in ("Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow")
    if owner in _ASSERTION_HOLDERS:
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
    if name in _BOUNDED and not (name == "assert" and "==" in first and "||" not in first):
        return BOUNDED
    return EXACT


def _are_constant(code: BracketedCode, arguments: list[tuple[int, int]]) -> bool:
    return all(stop == start + 1 and code.kind(start) in (STRING, "number") for start, stop in arguments)
