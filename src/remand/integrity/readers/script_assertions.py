"""What an assertion in JavaScript or TypeScript proves, and how often it runs where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import BOUNDED, COUNTED, EXACT, LOOSE, NOTHING, Assertion
from remand.integrity.readers.tokens import NAME, NUMBER, PATTERN, STRING, BracketedCode

_LOOSE = word_set("""
toBeDefined toBeInstanceOf toHaveBeenCalled toBeCalled exist ok an a instanceOf instanceof toReturn
toHaveReturned called notThrow doesNotThrow pass toBeTypeOf exists
""")
_BOUNDED = word_set("""
toBeTruthy toBeFalsy toContain toMatch toMatchObject toBeGreaterThan toBeLessThan true
toBeGreaterThanOrEqual toBeLessThanOrEqual toBeNull toBeUndefined toBeNaN toHaveProperty include contain
match property above below least most false null undefined toThrow toThrowError throw throws rejects
toContainEqual toHaveBeenCalledTimes truthy falsy notEqual notStrictEqual isTrue isFalse isOk not keys
members notOk toBeOneOf
""")
_T_METHODS = word_set("""
is not deepEqual equal same strictEqual notEqual ok true false truthy falsy throws throwsAsync notThrows
rejects like match regex snapshot pass fail notOk
""")
_TYPE_CHECKS = frozenset(("expectTypeOf", "assertType", "expectType", "expectAssignable", "expectError"))
"""Assertions that a type checker judges."""
_HELPER = re.compile(r"(assert|check|verify|expect|ensure)[A-Z]\w*")
_ANYTHING = frozenset(("anything", "any", "objectContaining", "stringContaining", "arrayContaining"))
_FLAGS = frozenset(("true", "false", "null", "undefined"))


def assertion_at(code: BracketedCode, place: int) -> tuple[Assertion, int] | None:
    """The assertion that starts at a place, with the place behind it."""
    name, before = code.text(place), code.text(place - 1)
    if code.kind(place) != NAME:
        return None
    if name == "expect" and code.text(place + 1) == "(" and before != "function":
        return (
            _response_assertion(code, place)
            if before == "." and code.text(place - 2) == ")"
            else _expect_assertion(code, place)
        )
    if name in _TYPE_CHECKS and code.text(place + 1) in ("(", "<"):
        opening = place + 1
        while code.text(opening) not in ("(", ";", "") and opening < place + MAX_LOOKAHEAD:
            opening += 1
        stop = _matcher_chain(code, code.closing_place(opening) + 1)[2]
        return _build_assertion(code, place, max(stop, opening + 1), name, BOUNDED)
    if name == "should" and before == ".":
        if code.text(place + 1) == "(":
            return _build_assertion(
                code, place, code.closing_place(place + 1) + 1, _statement_head(code, place), EXACT
            )
        chain, opening, stop = _matcher_chain(code, place + 1)
        if not chain:
            return None
        return _build_assertion(
            code, place, stop, _statement_head(code, place), _strength(code, chain, opening)
        )
    if name == "assert" and before != "import" and code.text(place + 1) in ("(", "."):
        return _assert_assertion(code, place)
    if name in ("t", "assert") and code.text(place + 1) == "." and code.text(place + 2) in _T_METHODS:
        return _assert_assertion(code, place)
    if _HELPER.fullmatch(name) and code.text(place + 1) == "(" and before not in ("function", "."):
        return _build_assertion(code, place, code.closing_place(place + 1) + 1, name, EXACT)
    return None


def _build_assertion(
    code: BracketedCode, start: int, stop: int, subject: str, strength: int
) -> tuple[Assertion, int]:
    found = Assertion(
        code.line(start), code.text_between(start, stop), subject, strength, code.literals(start, stop)
    )
    return found, stop


def _expect_assertion(code: BracketedCode, place: int) -> tuple[Assertion, int] | None:
    closing = code.closing_place(place + 1)
    subject = code.text_between(place + 2, closing)
    chain, opening, stop = _matcher_chain(code, closing + 1)
    if not chain:
        return _build_assertion(code, place, stop, subject, NOTHING)
    made, stop = _build_assertion(code, place, stop, subject, _strength(code, chain, opening))
    strength = min(made.strength, LOOSE) if subject.startswith("typeof ") else made.strength
    if subject.endswith(".length") and not (
        opening and code.text_between(opening + 1, code.closing_place(opening)) == "0"
    ):
        strength = min(strength, COUNTED)
    if (
        _is_constant(code, place + 2, closing)
        or _is_same(code, (place + 2, closing), opening)
        or (
            ("resolves" in chain or "rejects" in chain)
            and code.text(place - 1)
            not in (
                "await",
                "return",
                "=>",
                "[",
                ",",
            )
        )
    ):
        strength = NOTHING
    names = {
        **dict.fromkeys(("toBeLessThan", "toBeLessThanOrEqual", "below", "most"), "<"),
        **dict.fromkeys(("toBeGreaterThan", "toBeGreaterThanOrEqual", "above", "least"), ">"),
    }
    sign = names.get(chain[-1], "")
    limit = (
        next((_parse_number(code.text_between(*item)) for item in code.arguments(opening)), None)
        if opening
        else None
    )
    return made._replace(
        strength=strength,
        tolerance=_tolerance(code, chain, opening),
        slack=_slack(code, chain, opening),
        bound=((sign, limit) if sign and limit is not None else None),
        parts=_value_count(code, opening),
    ), stop


def _response_assertion(code: BracketedCode, place: int) -> tuple[Assertion, int]:
    """`.expect(201, { slug: 'my-post' })` of a request: each argument is compared."""
    stop = code.closing_place(place + 1) + 1
    arguments = list(code.arguments(place + 1))
    is_value = any(code.kind(start) in (STRING, NUMBER) or code.text(start) in "[{" for start, _ in arguments)
    made, stop = _build_assertion(
        code, place, stop, _statement_head(code, place), EXACT if is_value else BOUNDED
    )
    return made._replace(parts=max(1, len(arguments))), stop


def _matcher_chain(code: BracketedCode, place: int) -> tuple[list[str], int, int]:
    """The names after an `expect(…)`, the bracket of the last one's arguments (0: none), and the place behind."""
    names: list[str] = []
    opening = 0
    while code.text(place) == "." and code.kind(place + 1) == NAME:
        names.append(code.text(place + 1))
        place += 2
        if code.text(place) == "(":
            if names[-1] in ("catch", "finally"):
                return names, 0, code.closing_place(place) + 1
            opening = place
            place = code.closing_place(place) + 1
    return names, opening, place


def _strength(code: BracketedCode, chain: list[str], opening: int) -> int:
    if "catch" in chain:
        return NOTHING
    matcher = chain[-1]
    is_turned = "not" in chain
    arguments = list(code.arguments(opening)) if opening else []
    if matcher in ("assertions", "hasAssertions"):
        return LOOSE
    if matcher in _LOOSE or (
        is_turned and matcher in ("toBeNull", "toBeUndefined", "toThrow", "null", "undefined", "throw")
    ):
        return LOOSE
    if matcher in ("toThrow", "toThrowError", "throw", "throws"):
        return EXACT if arguments else BOUNDED
    if matcher in ("toHaveLength", "lengthOf", "length"):
        return EXACT if arguments and code.text_between(*arguments[0]) == "0" else COUNTED
    if matcher in _BOUNDED or is_turned:
        return _negated_strength(code, arguments) if is_turned else BOUNDED
    return _argument_strength(code, arguments)


def _negated_strength(code: BracketedCode, arguments: list[tuple[int, int]]) -> int:
    first = code.text_between(*arguments[0]) if arguments else ""
    return LOOSE if first in ("null", "undefined") else BOUNDED


def _argument_strength(code: BracketedCode, arguments: list[tuple[int, int]]) -> int:
    if not arguments:
        return BOUNDED
    shown = code.text_between(*arguments[0])
    if shown in ("true", "false") or shown.startswith("expect.stringMatching"):
        return BOUNDED
    start, stop = arguments[0]
    if (
        code.text(start) == "expect"
        and code.text(start + 2) in _ANYTHING
        and code.closing_place(start + 3) == stop - 1
    ):
        return LOOSE if code.text(start + 2) in ("anything", "any") else BOUNDED
    is_open = any(
        code.text(at) == "expect" and code.text(at + 2) in ("anything", "any") for at in range(start, stop)
    )
    return BOUNDED if is_open else EXACT


def _is_constant(code: BracketedCode, start: int, stop: int) -> bool:
    """True for `expect(true)` and `expect(1 + 1)`: nothing of the product is looked at."""
    tokens = code.tokens[start:stop]
    return (
        bool(tokens)
        and all(
            token.kind in (STRING, NUMBER, PATTERN)
            or token.text in (*_FLAGS, "!", "+", "-", "*", "===", "==")
            for token in tokens
        )
        and not any(token.text.startswith("`") and "${" in token.text for token in tokens)
    )


def _is_same(code: BracketedCode, subject: tuple[int, int], opening: int) -> bool:
    arguments = list(code.arguments(opening)) if opening else []
    if len(arguments) != 1:
        return False
    return code.text_between(*arguments[0]) == code.text_between(*subject)


def _tolerance(code: BracketedCode, chain: list[str], opening: int) -> float:
    if chain[-1] not in ("toBeCloseTo", "closeTo", "approximately"):
        return 0.0
    numbers = [_parse_number(code.text_between(*item)) for item in code.arguments(opening)] if opening else []
    scale = abs(numbers[0] or 1.0) if numbers and numbers[0] is not None else 1.0
    second = numbers[1] if len(numbers) > 1 and numbers[1] is not None else None
    if chain[-1] != "toBeCloseTo":
        return (second or 0.0) / scale
    digits = min(max(2.0 if second is None else second, -300.0), 300.0)
    return float(10.0**-digits) / 2 / scale


def _slack(code: BracketedCode, chain: list[str], opening: int) -> float:
    """How far off may be what a test compares nearly, in units of the last digit, where it says so."""
    arguments = [code.text_between(*item) for item in code.arguments(opening)] if opening else []
    numbers = [_parse_number(text) for text in arguments]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return 0.0
    digits = min(len(arguments[0].partition(".")[2]), 15)
    if chain[-1] == "toBeCloseTo":
        return float(10.0 ** -min(max(numbers[1], -15.0), 15.0)) / 2 * float(10**digits)
    return abs(numbers[1]) * float(10**digits) if chain[-1] in ("closeTo", "approximately") else 0.0


def _parse_number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _value_count(code: BracketedCode, opening: int) -> int:
    first = next(iter(code.arguments(opening)), None) if opening else None
    if first is None or code.text(first[0]) not in "[{":
        return 1
    return max(1, sum(1 for _ in code.arguments(first[0])))


def _statement_head(code: BracketedCode, place: int) -> str:
    start = place
    while start > 0 and code.text(start - 1) not in (";", "{", "}") and place - start < 40:
        start -= 1
    return code.text_between(start, place - 1)


def _assert_assertion(code: BracketedCode, place: int) -> tuple[Assertion, int] | None:
    opening, method = place + 1, ""
    while code.text(opening) == ".":
        method = code.text(opening + 1)
        opening += 2
    if code.text(opening) != "(":
        return None
    arguments = list(code.arguments(opening))
    stop = code.closing_place(opening) + 1
    subject = code.text_between(*arguments[0]) if arguments else ""
    return _build_assertion(code, place, stop, subject, _assert_strength(code, method, arguments))


def _assert_strength(code: BracketedCode, method: str, arguments: list[tuple[int, int]]) -> int:
    if method == "pass":
        return LOOSE  # the test got there, which is what it asks
    if not arguments:
        return NOTHING
    first = code.text_between(*arguments[0])
    if method in ("", "ok", "true", "isTrue", "truthy", "isOk"):
        if _is_constant(code, *arguments[0]):
            return NOTHING
        return EXACT if "===" in first or "==" in first.replace("!==", "") else BOUNDED
    if method in _LOOSE:
        return LOOSE
    if len(arguments) > 1 and (
        first == code.text_between(*arguments[1])
        or (_is_constant(code, *arguments[0]) and _is_constant(code, *arguments[1]))
    ):
        return NOTHING
    if method in ("throws", "rejects"):
        return EXACT if len(arguments) > 1 else BOUNDED
    if method in _BOUNDED:
        return BOUNDED
    is_flag = len(arguments) > 1 and code.text_between(*arguments[1]) in ("true", "false")
    return BOUNDED if is_flag else EXACT


MAX_REPEATS = 1000
MAX_LOOKAHEAD = 200
"""Tokens that are looked at for the end of a statement, or the head of a loop."""
_FAILING = frozenset(("throw", "expect", "fail", "assert", "done", "reject", "t"))


class CodeRange(NamedTuple):
    """Some tokens, and how they are run."""

    start: int
    stop: int
    kind: str
    times: int = 1
    line: int = 0


class CodeRanges:
    """The ranges of a body, asked for by places that only ever go on."""

    def __init__(self, code: BracketedCode, start: int, stop: int) -> None:
        self._waiting = sorted(_body_ranges(code, start, stop), reverse=True)
        self._around: list[CodeRange] = []
        self.catching: list[int] = []
        """The lines of handlers that caught an assertion."""

    def apply_to(self, found: Assertion, place: int) -> Assertion:
        """An assertion as it is run where it stands."""
        while self._waiting and self._waiting[-1].start <= place:
            self._around.append(self._waiting.pop())
        self._around = [part for part in self._around if part.stop > place]
        for part in self._around:
            found = self._apply_range(found, part)
        return found

    def _apply_range(self, found: Assertion, part: CodeRange) -> Assertion:
        if part.kind == "if":
            return found._replace(is_conditional=True)
        if part.kind == "caught":
            if part.line not in self.catching[-1:]:
                self.catching.append(part.line)
            return found._replace(strength=NOTHING)
        return found._replace(times=min(found.times * part.times, MAX_REPEATS))


def _body_ranges(code: BracketedCode, start: int, stop: int) -> Iterator[CodeRange]:
    blocks: list[int] = []
    returned: set[int] = set()
    for place in range(start, stop):
        word = code.text(place)
        if word == "{":
            blocks.append(code.closing_place(place))
        elif word == "}" and blocks:
            blocks.pop()
        elif word == "=>" and _is_unused_arrow(code, place, range(start, stop)):
            yield CodeRange(place, _statement_end(code, place + 1), "loop", 0)
        elif (
            word == "function"
            and code.kind(place + 1) == NAME
            and not _uses(code, place + 1, range(start, stop))
        ):
            yield CodeRange(place, _statement_end(code, code.closing_place(place + 2) + 1), "loop", 0)
        elif word in _TIMERS and code.text(place + 1) == "(" and not _waits(code, start, stop):
            yield CodeRange(place, code.closing_place(place + 1), "loop", 0)
        elif word in RANGE_READERS and code.text(place + 1) in ("(", "{"):
            yield from RANGE_READERS[word](code, place)
        elif word == "return" and _is_bare_return(code, place) and blocks and blocks[-1] not in returned:
            returned.add(blocks[-1])
            yield CodeRange(place, blocks[-1], "loop", 0)
            if len(blocks) > 1 and _is_branch(code, code.openings.get(blocks[-1], 0) - 1):
                yield CodeRange(blocks[-1], blocks[-2], "if")
        elif (
            word == "return" and code.text(place + 1) in (";", "}") and blocks and _is_branch(code, place - 1)
        ):
            yield CodeRange(place, blocks[-1], "if")


def _is_unused_arrow(code: BracketedCode, place: int, body: range) -> bool:
    """True for `const verify = () => …` whose name the body neither calls nor hands on."""
    head = code.openings.get(place - 1, place - 1)
    head -= code.text(head - 1) == "async"
    name = code.text(head - 2)
    if code.text(head - 1) != "=" or code.text(head - 3) not in ("const", "let"):
        return False
    uses = _uses(code, head - 2, body)
    return bool(name) and all(
        code.text(at - 1) == "void" or (code.text(at - 1) == ";" and code.text(at + 1) == ";") for at in uses
    )


def _uses(code: BracketedCode, place: int, body: range) -> list[int]:
    """Where else in a body the name at a place stands."""
    return [at for at in body if at != place and code.text(at) == code.text(place)]


_TIMERS = frozenset(("setTimeout", "setInterval", "setImmediate"))


def _waits(code: BracketedCode, start: int, stop: int) -> bool:
    """True for a test that can wait for what a timer runs, or runs the timers itself."""
    waiting = {
        "await",
        "Promise",
        "done",
        "advanceTimersByTime",
        "runAllTimers",
        "useFakeTimers",
        "resolve",
        "tick",
    }
    return bool(code.words(start, stop) & waiting)


def _is_bare_return(code: BracketedCode, place: int) -> bool:
    """True for a `return` by itself: what follows in its block is never run."""
    return code.text(place + 1) in (";", "}") and code.text(place - 1) in ("{", ";", "}")


def _is_branch(code: BracketedCode, place: int) -> bool:
    """True where the condition of an `if` closes."""
    return code.text(place) == ")" and code.text(code.openings.get(place, 0) - 1) == "if"


def _if_ranges(code: BracketedCode, place: int) -> Iterator[CodeRange]:
    closing = code.closing_place(place + 1)
    condition = code.text_between(place + 2, min(closing, place + 6))
    block = closing + 1
    if condition in ("false", "0", "!1", "!true"):
        yield CodeRange(block, _statement_end(code, block), "loop", 0)
    elif condition not in ("true", "1"):
        yield CodeRange(block, _statement_end(code, block), "if")


def _statement_end(code: BracketedCode, place: int) -> int:
    """Where a block or a single statement ends."""
    if code.text(place) == "{":
        return code.closing_place(place)
    limit = min(place + MAX_LOOKAHEAD, len(code.tokens))
    while place < limit and code.text(place) not in (";", "}"):
        place = code.closing_place(place) + 1 if code.text(place) in ("(", "[", "{") else place + 1
    return place


def _try_ranges(code: BracketedCode, place: int) -> Iterator[CodeRange]:
    end = code.closing_place(place + 1)
    if code.text(end + 1) == "finally" and "return" in code.words(end + 2, code.closing_place(end + 2)):
        yield CodeRange(place + 1, end, "caught", line=code.line(end + 1))
    if code.text(end + 1) != "catch":
        return
    block = code.closing_place(end + 2) + 1 if code.text(end + 2) == "(" else end + 2
    if not code.words(block, code.closing_place(block)) & _FAILING:
        yield CodeRange(place + 1, end, "caught", line=code.line(end + 1))
    yield CodeRange(block, code.closing_place(block), "if")


def _for_ranges(code: BracketedCode, place: int) -> Iterator[CodeRange]:
    closing = code.closing_place(place + 1)
    for at in range(place + 2, min(closing, place + MAX_LOOKAHEAD)):
        if code.text(at) == "of" and code.text(at + 1) == "[":
            yield CodeRange(
                closing + 1, _statement_end(code, closing + 1), "loop", sum(1 for _ in code.arguments(at + 1))
            )
            return


def _for_each_ranges(code: BracketedCode, place: int) -> Iterator[CodeRange]:
    """`[1, 2].forEach(…)`"""
    opening = code.openings.get(place - 2)
    if opening is not None and code.text(opening) == "[":
        yield CodeRange(
            place + 1, code.closing_place(place + 1), "loop", sum(1 for _ in code.arguments(opening))
        )


def _then_ranges(code: BracketedCode, place: int) -> Iterator[CodeRange]:
    """`.then(…)` of a promise that nobody waits for: the test is over before it is run."""
    start = place
    while (
        start > 0 and place - start < MAX_LOOKAHEAD and code.text(start - 1) not in (";", "{", "}", "=>", "(")
    ):
        start = code.openings.get(start - 1, start - 1)
    is_kept = code.text(start - 1) in ("=>", "(") or code.text(start) in (
        "await",
        "return",
        "const",
        "let",
        "yield",
    )
    stop = code.closing_place(place + 1)
    if not is_kept and not has_completion_call(code, place, stop):
        yield CodeRange(place + 1, stop, "loop", 0)


def has_completion_call(code: BracketedCode, start: int, stop: int) -> bool:
    """True when a callback says that the test is done."""
    return bool(code.words(start, min(stop + MAX_LOOKAHEAD, len(code.tokens))) & {"done", "resolve", "end"})


RANGE_READERS = {
    "if": _if_ranges,
    "try": _try_ranges,
    "for": _for_ranges,
    "forEach": _for_each_ranges,
    "then": _then_ranges,
}
