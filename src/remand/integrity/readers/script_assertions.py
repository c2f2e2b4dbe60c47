"""What an assertion in JavaScript or TypeScript proves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import BOUNDED, COUNTED, EXACT, LOOSE, NOTHING, Assertion
from remand.integrity.readers.tokens import NUMBER, PATTERN, STRING, BracketedCode, Node

_LOOSE = word_set("""
toBeDefined toBeInstanceOf toHaveBeenCalled toBeCalled exist ok an a instanceOf instanceof toReturn
toHaveReturned called notThrow doesNotThrow pass toBeTypeOf exists
""")
_BOUNDED = word_set("""
toBeTruthy toBeFalsy toContain toMatch toMatchObject toBeGreaterThan toBeLessThan true
toBeGreaterThanOrEqual toBeLessThanOrEqual toHaveProperty include contain
match property above below least most false null undefined toThrow toThrowError throw throws rejects
toContainEqual toHaveBeenCalledTimes truthy falsy notEqual notStrictEqual isTrue isFalse isOk not keys
members notOk toBeOneOf
""")
_BUILT_IN = (
    _LOOSE
    | _BOUNDED
    | word_set("""
toBe toEqual toStrictEqual toBeNull toBeUndefined toBeNaN toHaveLength toBeCloseTo toMatchSnapshot toMatchInlineSnapshot
be equal equals eq eql deep lengthOf length closeTo approximately empty finite NaN
""")
)
"""Matchers that look at nothing but their subject; a project's own may ask the product about it."""
_T_METHODS = word_set("""
is not deepEqual equal same strictEqual notEqual ok true false truthy falsy throws throwsAsync notThrows
rejects like match regex snapshot pass fail notOk
""")
_TYPE_CHECKS = frozenset(("expectTypeOf", "assertType", "expectType", "expectAssignable", "expectError"))
"""Assertions that a type checker checks."""
_HELPER = re.compile(r"(assert|check|verify|expect|ensure)[A-Z]\w*")
_ANYTHING = frozenset(("anything", "any", "objectContaining", "stringContaining", "arrayContaining"))
_FLAGS = frozenset(("true", "false", "null", "undefined"))


MAX_CHAIN = 50
"""Limit of calls followed in a chain."""


class FoundAssertion(NamedTuple):
    place: int
    stop: int
    node: Node
    assertion: Assertion


def chain_links(node: Node | None) -> list[Node]:
    """The names and argument lists of `test.skip.each([…])`, from the left."""
    links: list[Node] = []
    while node is not None and len(links) < MAX_CHAIN:
        if node.kind == "member_expression":
            links += [part for part in (node.child("property"),) if part]
            node = node.child("object")
        elif node.kind == "call_expression":
            links += [part for part in (node.child("arguments"),) if part]
            node = node.child("function")
        elif node.kind in ("await_expression", "non_null_expression", "parenthesized_expression"):
            node = node.children[0] if node.children else None
        else:
            links.append(node)
            break
    return links[::-1]


def callee_names(code: BracketedCode, call: Node) -> list[str]:
    """The names of a called function: `["assert", "equal"]`; a part that is no name is empty."""
    links = chain_links(call.child("function"))
    return [
        code.text(link.start) if link.stop == link.start + 1 and link.field != "arguments" else ""
        for link in links
    ]


def find_assertions(code: BracketedCode, parts: Iterable[Node]) -> list[FoundAssertion]:
    """The assertions in some parts of a file, in order, without nested ones."""
    nodes = code.nodes_in(parts, "member_expression", "call_expression")
    made = [found for node in nodes for found in _assertions_at(code, node)]
    found: list[FoundAssertion] = []
    for item in sorted(made, key=lambda one: one.place):
        if not found or item.place >= found[-1].stop:
            found.append(item)
    return found


def _assertions_at(code: BracketedCode, node: Node) -> Iterator[FoundAssertion]:
    if node.kind == "member_expression":
        name = node.child("property")
        if name is not None and code.text(name.start) == "should":
            yield from _should_assertion(code, node, name.start)
    elif node.kind == "call_expression":
        function, arguments = node.child("function"), node.child("arguments")
        if function is None or arguments is None or arguments.kind != "arguments":
            return
        names = callee_names(code, node)
        if names[-1:] == ["expect"] and len(names) > 1 and "" in names:
            yield _response_assertion(code, node, function, arguments.children)
        elif names[-1:] == ["expect"] or names in (["expect", "soft"], ["expect", "poll"]):
            yield _expect_assertion(code, node, arguments)
        elif len(names) == 1 and names[0] in _TYPE_CHECKS:
            stop = _matcher_chain(code, node).stop
            yield _build(code, node, (node.start, stop), names[0], BOUNDED)
        elif "assert" in names or (names[0] == "t" and len(names) > 1 and names[1] in _T_METHODS):
            method = names[-1] if names[-1] != "assert" else ""
            strength = _assert_strength(code, method, arguments.children)
            subject = code.node_text(arguments.children[0]) if arguments.children else ""
            made = _build(code, node, (node.start, node.stop), subject, strength)
            parts = _conjunct_count(code, arguments.children[0]) if arguments.children else 1
            yield made._replace(assertion=made.assertion._replace(parts=parts))
        elif len(names) == 1 and _HELPER.fullmatch(names[0]):
            yield _build(code, node, (node.start, node.stop), names[0], EXACT)


def _build(
    code: BracketedCode, node: Node, places: tuple[int, int], subject: str, strength: int
) -> FoundAssertion:
    start, stop = places
    made = Assertion(
        code.line(start),
        code.text_between(start, stop),
        subject,
        strength,
        code.literals(start, stop),
        last_line=code.line(stop - 1),
    )
    return FoundAssertion(start, stop, node, made)


class _MatcherChain(NamedTuple):
    """The names after an `expect(…)`, the arguments of the last one, and the position after it."""

    names: list[str]
    arguments: list[Node]
    is_called: bool
    stop: int


def _matcher_chain(code: BracketedCode, node: Node) -> _MatcherChain:
    names: list[str] = []
    last: Node | None = None
    for _ in range(MAX_CHAIN):
        above = node.parent
        if above is not None and above.kind == "member_expression" and node.field == "object":
            name = above.child("property")
            names.append(code.text(name.start) if name else "")
        elif above is not None and above.kind == "call_expression" and node.field == "function":
            if names[-1:] in (["catch"], ["finally"]):
                return _MatcherChain(names, [], False, above.stop)
            last = above.child("arguments")
        elif above is None or above.kind != "non_null_expression":
            break
        node = above
    return _MatcherChain(names, last.children if last else [], last is not None, node.stop)


def _should_assertion(code: BracketedCode, node: Node, place: int) -> Iterator[FoundAssertion]:
    """`total.should.equal(3)`, and `.should('have.text', 'x')` for a page."""
    subject = code.node_text(node.child("object"))
    above = node.parent
    if above is not None and above.kind == "call_expression" and node.field == "function":
        yield _build(code, above, (place, above.stop), subject, EXACT)
        return
    chain = _matcher_chain(code, node)
    if chain.names:
        yield _build(code, node, (place, chain.stop), subject, _strength(code, chain))


def _expect_assertion(code: BracketedCode, node: Node, arguments: Node) -> FoundAssertion:
    subject = code.text_between(arguments.start + 1, arguments.stop - 1)
    chain = _matcher_chain(code, node)
    if not chain.names:
        return _build(code, node, (node.start, node.stop), subject, NOTHING)
    made = _build(code, node, (node.start, chain.stop), subject, _strength(code, chain))
    strength = made.assertion.strength
    shown = [code.node_text(item) for item in chain.arguments]
    if subject.startswith("typeof "):
        strength = min(strength, LOOSE)
    if subject.endswith(".length") and shown != ["0"]:
        strength = min(strength, COUNTED)
    is_waited = code.text(node.start - 1) in ("await", "return", "=>", "[", ",")
    if all(text.startswith(("Object.keys(", "Reflect.ownKeys(")) for text in (subject, *shown[:1])) and shown:
        strength = min(strength, COUNTED)
    if (
        (chain.names[-1] in _BUILT_IN and _is_constant(code, arguments.start + 1, arguments.stop - 1))
        or shown == [subject]
        or ({"resolves", "rejects"} & set(chain.names) and not is_waited)
    ):
        strength = NOTHING
    sign = _BOUNDS.get(chain.names[-1], "")
    limit = _parse_number(shown[0]) if shown else None
    return made._replace(
        assertion=made.assertion._replace(
            strength=strength,
            tolerance=_tolerance(chain.names[-1], shown),
            slack=_slack(chain.names[-1], shown),
            bound=((sign, limit) if sign and limit is not None else None),
            parts=max(
                [
                    _value_count(code, chain.arguments),
                    *(_conjunct_count(code, one) for one in arguments.children[:1]),
                ]
            ),
        )
    )


_BOUNDS = {
    **dict.fromkeys(("toBeLessThan", "toBeLessThanOrEqual", "below", "most"), "<"),
    **dict.fromkeys(("toBeGreaterThan", "toBeGreaterThanOrEqual", "above", "least"), ">"),
}


def _response_assertion(
    code: BracketedCode, node: Node, function: Node, arguments: list[Node]
) -> FoundAssertion:
    """`.expect(201, { slug: 'my-post' })` on a request: compares each argument."""
    is_value = any(
        code.kind(item.start) in (STRING, NUMBER) or item.kind in ("array", "object") for item in arguments
    )
    subject = code.node_text(function.child("object"))
    made = _build(code, node, (function.stop - 1, node.stop), subject, EXACT if is_value else BOUNDED)
    return made._replace(assertion=made.assertion._replace(parts=max(1, len(arguments))))


def _strength(code: BracketedCode, chain: _MatcherChain) -> int:
    if "catch" in chain.names:
        return NOTHING
    matcher = chain.names[-1]
    is_turned = "not" in chain.names
    first = code.node_text(chain.arguments[0]) if chain.arguments else ""
    if matcher in ("assertions", "hasAssertions"):
        return LOOSE
    if matcher in _LOOSE or (
        is_turned and matcher in ("toBeNull", "toBeUndefined", "toThrow", "null", "undefined", "throw")
    ):
        return LOOSE
    if matcher in ("toThrow", "toThrowError", "throw", "throws"):
        return EXACT if chain.arguments else BOUNDED
    if matcher in ("toHaveLength", "lengthOf", "length"):
        return EXACT if first == "0" else COUNTED
    if is_turned:
        return LOOSE if first in ("null", "undefined") else BOUNDED
    if matcher in ("toBeNull", "toBeUndefined", "toBeNaN"):
        return EXACT  # As exact as any value.
    if matcher in _BOUNDED or not chain.arguments:
        return BOUNDED
    return _argument_strength(code, chain.arguments[0], first)


def _argument_strength(code: BracketedCode, value: Node, shown: str) -> int:
    if shown in ("true", "false") or shown.startswith("expect.stringMatching"):
        return BOUNDED
    names = callee_names(code, value) if value.kind == "call_expression" else []
    if len(names) == 2 and names[0] == "expect" and names[1] in _ANYTHING:
        return LOOSE if names[1] in ("anything", "any") else BOUNDED
    is_open = any(
        code.text(at) == "expect" and code.text(at + 2) in ("anything", "any")
        for at in range(value.start, value.stop)
    )
    return BOUNDED if is_open else EXACT


def _is_constant(code: BracketedCode, start: int, stop: int) -> bool:
    """True for `expect(true)` and `expect(1 + 1)`, which check nothing of the product."""
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


def _tolerance(matcher: str, arguments: list[str]) -> float:
    if matcher not in ("toBeCloseTo", "closeTo", "approximately"):
        return 0.0
    numbers = [_parse_number(item) for item in arguments]
    scale = abs(numbers[0] or 1.0) if numbers and numbers[0] is not None else 1.0
    second = numbers[1] if len(numbers) > 1 and numbers[1] is not None else None
    if matcher != "toBeCloseTo":
        return (second or 0.0) / scale
    digits = min(max(2.0 if second is None else second, -300.0), 300.0)
    return float(10.0**-digits) / 2 / scale


def _slack(matcher: str, arguments: list[str]) -> float:
    """The tolerance of an approximate comparison, in units of the last digit, if given."""
    numbers = [_parse_number(text) for text in arguments]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return 0.0
    digits = min(len(arguments[0].partition(".")[2]), 15)
    if matcher == "toBeCloseTo":
        return float(10.0 ** -min(max(numbers[1], -15.0), 15.0)) / 2 * float(10**digits)
    return abs(numbers[1]) * float(10**digits) if matcher in ("closeTo", "approximately") else 0.0


def _parse_number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _conjunct_count(code: BracketedCode, value: Node) -> int:
    """How many conditions `a && b && c` combines."""
    count = 1
    while value.kind == "binary_expression":
        left, right = value.child("left"), value.child("right")
        if left is None or right is None or code.text_between(left.stop, right.start) != "&&":
            break
        count, value = count + 1, left
    return count


def _value_count(code: BracketedCode, arguments: list[Node]) -> int:
    if arguments and arguments[0].kind == "template_string":
        return max(1, code.text(arguments[0].start).count('": '))  # The members of a snapshot.
    is_listed = bool(arguments) and arguments[0].kind in ("array", "object")
    return max(1, len(arguments[0].children)) if is_listed else 1


def _assert_strength(code: BracketedCode, method: str, arguments: list[Node]) -> int:
    if method == "pass":
        return LOOSE  # The test got there, which is all it checks.
    if not arguments:
        return NOTHING
    shown = [code.node_text(item) for item in arguments[:2]]
    constant = [_is_constant(code, item.start, item.stop) for item in arguments[:2]]
    if method in ("", "ok", "true", "isTrue", "truthy", "isOk"):
        if constant[0]:
            return NOTHING
        return EXACT if "===" in shown[0] or "==" in shown[0].replace("!==", "") else BOUNDED
    if method in _LOOSE:
        return LOOSE
    if len(shown) > 1 and (shown[0] == shown[1] or all(constant)):
        return NOTHING
    if method in ("throws", "rejects"):
        return EXACT if len(arguments) > 1 else BOUNDED
    is_flag = len(shown) > 1 and shown[1] in ("true", "false")
    return BOUNDED if method in _BOUNDED or is_flag else EXACT
