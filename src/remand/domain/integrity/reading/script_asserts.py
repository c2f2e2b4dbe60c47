"""What an assertion in JavaScript or TypeScript proves."""

from __future__ import annotations

import re

from remand.domain.integrity.reading.cases import BOUNDED, COUNTED, EXACT, LOOSE, NOTHING, Assertion
from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.tokens import NAME, NUMBER, PATTERN, STRING

_LOOSE = frozenset(
    (
        *("toBeDefined", "toBeInstanceOf", "toHaveBeenCalled", "toBeCalled", "exist", "ok", "an"),
        *("a", "instanceOf", "instanceof", "toReturn", "toHaveReturned", "called", "notThrow"),
        *("doesNotThrow", "pass", "toBeTypeOf", "exists"),
    )
)
_BOUNDED = frozenset(
    (
        *("toBeTruthy", "toBeFalsy", "toContain", "toMatch", "toMatchObject", "toBeGreaterThan"),
        *("toBeLessThan", "true", "toBeGreaterThanOrEqual", "toBeLessThanOrEqual", "toBeNull"),
        *("toBeUndefined", "toBeNaN", "toHaveProperty", "include", "contain", "match", "property"),
        *("above", "below", "least", "most", "false", "null", "undefined", "toThrow", "toThrowError"),
        *("throw", "throws", "rejects", "toContainEqual", "toHaveBeenCalledTimes", "truthy", "falsy"),
        *("notEqual", "notStrictEqual", "isTrue", "isFalse", "isOk", "not", "keys", "members"),
        *("notOk", "toBeOneOf"),
    )
)
_T_METHODS = frozenset(
    (
        *("is", "not", "deepEqual", "equal", "same", "strictEqual", "notEqual", "ok", "true"),
        *("false", "truthy", "falsy", "throws", "throwsAsync", "notThrows", "rejects", "like"),
        *("match", "regex", "snapshot", "pass", "fail", "notOk"),
    )
)
_HELPER = re.compile(r"(assert|check|verify|expect|ensure)[A-Z]\w*")
_ANYTHING = frozenset(("anything", "any", "objectContaining", "stringContaining", "arrayContaining"))
_FLAGS = frozenset(("true", "false", "null", "undefined"))


def assertion_at(code: Code, place: int) -> tuple[Assertion, int] | None:
    """The assertion that starts at a place, with the place behind it."""
    name, before = code.text(place), code.text(place - 1)
    if code.kind(place) != NAME:
        return None
    if name == "expect" and code.text(place + 1) == "(" and before != "function":
        return (
            _answered(code, place)
            if before == "." and code.text(place - 2) == ")"
            else _expected(code, place)
        )
    if name == "should" and before == ".":
        return _should(code, place)
    if name == "assert" and before != "import" and code.text(place + 1) in ("(", "."):
        return _asserted(code, place)
    if name in ("t", "assert") and code.text(place + 1) == "." and code.text(place + 2) in _T_METHODS:
        return _asserted(code, place)
    if _HELPER.fullmatch(name) and code.text(place + 1) == "(" and before not in ("function", "."):
        return _made(code, place, code.close(place + 1) + 1, name, EXACT)
    return None


def _made(code: Code, start: int, stop: int, subject: str, strength: int) -> tuple[Assertion, int]:
    found = Assertion(
        code.line(start), code.shown(start, stop), subject, strength, code.literals(start, stop)
    )
    return found, stop


def _expected(code: Code, place: int) -> tuple[Assertion, int] | None:
    closing = code.close(place + 1)
    subject = code.shown(place + 2, closing)
    chain, opening, stop = _chain(code, closing + 1)
    if not chain:
        return _made(code, place, stop, subject, NOTHING)
    made, stop = _made(code, place, stop, subject, _strength(code, chain, opening))
    strength = min(made.strength, LOOSE) if subject.startswith("typeof ") else made.strength
    if subject.endswith(".length") and not (opening and code.shown(opening + 1, code.close(opening)) == "0"):
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
    return made._replace(
        strength=strength,
        tolerance=_tolerance(code, chain, opening),
        slack=_slack(code, chain, opening),
        bound=_bound(code, chain, opening),
        parts=_parts(code, opening),
    ), stop


def _answered(code: Code, place: int) -> tuple[Assertion, int]:
    """`.expect(201, { slug: 'my-post' })` of a request: each argument is compared."""
    stop = code.close(place + 1) + 1
    arguments = list(code.arguments(place + 1))
    is_value = any(code.kind(start) in (STRING, NUMBER) or code.text(start) in "[{" for start, _ in arguments)
    made, stop = _made(code, place, stop, _statement_head(code, place), EXACT if is_value else BOUNDED)
    return made._replace(parts=max(1, len(arguments))), stop


def _chain(code: Code, place: int) -> tuple[list[str], int, int]:
    """The names after an `expect(…)`, the bracket of the last one's arguments (0: none), and the place behind."""
    names: list[str] = []
    opening = 0
    while code.text(place) == "." and code.kind(place + 1) == NAME:
        names.append(code.text(place + 1))
        place += 2
        if code.text(place) == "(":
            if names[-1] in ("catch", "finally"):
                return names, 0, code.close(place) + 1
            opening = place
            place = code.close(place) + 1
    return names, opening, place


def _strength(code: Code, chain: list[str], opening: int) -> int:
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
        return EXACT if arguments and code.shown(*arguments[0]) == "0" else COUNTED
    if matcher in _BOUNDED or is_turned:
        return _turned_none(code, arguments) if is_turned else BOUNDED
    return _of_arguments(code, arguments)


def _turned_none(code: Code, arguments: list[tuple[int, int]]) -> int:
    first = code.shown(*arguments[0]) if arguments else ""
    return LOOSE if first in ("null", "undefined") else BOUNDED


def _of_arguments(code: Code, arguments: list[tuple[int, int]]) -> int:
    if not arguments:
        return BOUNDED
    shown = code.shown(*arguments[0])
    if shown in _FLAGS or shown.startswith("expect.stringMatching"):
        return BOUNDED
    start, stop = arguments[0]
    if (
        code.text(start) == "expect"
        and code.text(start + 2) in _ANYTHING
        and code.close(start + 3) == stop - 1
    ):
        return LOOSE if code.text(start + 2) in ("anything", "any") else BOUNDED
    is_open = any(
        code.text(at) == "expect" and code.text(at + 2) in ("anything", "any") for at in range(start, stop)
    )
    return BOUNDED if is_open else EXACT


def _is_constant(code: Code, start: int, stop: int) -> bool:
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


def _is_same(code: Code, subject: tuple[int, int], opening: int) -> bool:
    arguments = list(code.arguments(opening)) if opening else []
    if len(arguments) != 1:
        return False
    return code.shown(*arguments[0]) == code.shown(*subject)


def _tolerance(code: Code, chain: list[str], opening: int) -> float:
    if chain[-1] not in ("toBeCloseTo", "closeTo", "approximately"):
        return 0.0
    numbers = [_number(code.shown(*item)) for item in code.arguments(opening)] if opening else []
    scale = abs(numbers[0] or 1.0) if numbers and numbers[0] is not None else 1.0
    second = numbers[1] if len(numbers) > 1 and numbers[1] is not None else None
    if chain[-1] != "toBeCloseTo":
        return (second or 0.0) / scale
    digits = min(max(2.0 if second is None else second, -300.0), 300.0)
    return float(10.0**-digits) / 2 / scale


def _slack(code: Code, chain: list[str], opening: int) -> float:
    """How far off may be what a test compares nearly, in units of the last digit, where it says so."""
    arguments = [code.shown(*item) for item in code.arguments(opening)] if opening else []
    numbers = [_number(text) for text in arguments]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return 0.0
    digits = min(len(arguments[0].partition(".")[2]), 15)
    if chain[-1] == "toBeCloseTo":
        return float(10.0 ** -min(max(numbers[1], -15.0), 15.0)) / 2 * float(10**digits)
    return abs(numbers[1]) * float(10**digits) if chain[-1] in ("closeTo", "approximately") else 0.0


def _bound(code: Code, chain: list[str], opening: int) -> tuple[str, float] | None:
    names = {
        **dict.fromkeys(("toBeLessThan", "toBeLessThanOrEqual", "below", "most"), "<"),
        **dict.fromkeys(("toBeGreaterThan", "toBeGreaterThanOrEqual", "above", "least"), ">"),
    }
    sign = names.get(chain[-1], "")
    limit = next((_number(code.shown(*item)) for item in code.arguments(opening)), None) if opening else None
    return (sign, limit) if sign and limit is not None else None


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _parts(code: Code, opening: int) -> int:
    first = next(iter(code.arguments(opening)), None) if opening else None
    if first is None or code.text(first[0]) not in "[{":
        return 1
    return max(1, sum(1 for _ in code.arguments(first[0])))


def _should(code: Code, place: int) -> tuple[Assertion, int] | None:
    if code.text(place + 1) == "(":
        return _made(code, place, code.close(place + 1) + 1, _statement_head(code, place), EXACT)
    chain, opening, stop = _chain(code, place + 1)
    if not chain:
        return None
    return _made(code, place, stop, _statement_head(code, place), _strength(code, chain, opening))


def _statement_head(code: Code, place: int) -> str:
    start = place
    while start > 0 and code.text(start - 1) not in (";", "{", "}") and place - start < 40:
        start -= 1
    return code.shown(start, place - 1)


def _asserted(code: Code, place: int) -> tuple[Assertion, int] | None:
    opening, method = place + 1, ""
    while code.text(opening) == ".":
        method = code.text(opening + 1)
        opening += 2
    if code.text(opening) != "(":
        return None
    arguments = list(code.arguments(opening))
    stop = code.close(opening) + 1
    subject = code.shown(*arguments[0]) if arguments else ""
    return _made(code, place, stop, subject, _of_assert(code, method, arguments))


def _of_assert(code: Code, method: str, arguments: list[tuple[int, int]]) -> int:
    if not arguments:
        return NOTHING
    first = code.shown(*arguments[0])
    if method in ("", "ok", "true", "isTrue", "truthy", "isOk"):
        if _is_constant(code, *arguments[0]):
            return NOTHING
        return EXACT if "===" in first or "==" in first.replace("!==", "") else BOUNDED
    if method in _LOOSE:
        return LOOSE
    if len(arguments) > 1 and (first == code.shown(*arguments[1]) or _both_constant(code, arguments)):
        return NOTHING
    if method in ("throws", "rejects"):
        return EXACT if len(arguments) > 1 else BOUNDED
    if method in _BOUNDED:
        return BOUNDED
    return BOUNDED if len(arguments) > 1 and code.shown(*arguments[1]) in _FLAGS else EXACT


def _both_constant(code: Code, arguments: list[tuple[int, int]]) -> bool:
    return _is_constant(code, *arguments[0]) and _is_constant(code, *arguments[1])
