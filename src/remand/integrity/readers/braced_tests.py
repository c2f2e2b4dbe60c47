"""The tests of Rust, Go, Java, Kotlin and C#."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import (
    BOUNDED,
    COUNTED,
    EXACT,
    LOOSE,
    NOTHING,
    Assertion,
    ParsedTest,
    SkipMarker,
)
from remand.integrity.readers.expected_values import discount_copies
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode, Node

_ASSERTION_HOLDERS = frozenset(
    ("Assert", "Assertions", "assert", "require", "t", "b", "is", "ClassicAssert", "Should")
)
_LOOSE = frozenset(("NotNil", "NotNull", "IsNotNull", "assertNotNull", "NotEmpty", "IsInstanceOf", "IsType"))
_BOUNDED = word_set("""
True IsTrue False IsFalse assertTrue assertFalse NoError Nil Null assertNull assert Contains Greater Less
assert_ne NotEqual AreNotEqual assertNotEquals Error Panics
""")
_MARKS = {
    "rust": word_set("test rstest test_case wasm_bindgen_test"),
    "java": word_set("Test ParameterizedTest RepeatedTest TestFactory"),
    "kotlin": word_set("Test ParameterizedTest"),
    "csharp": word_set("Fact Theory Test TestMethod TestCase"),
}
_SKIP_MARKS = word_set("ignore should_panic Disabled Ignore Explicit Skip")
_ATTRIBUTES = word_set("attribute_item annotation marker_annotation attribute_list")
_FUNCTIONS = ("function_declaration", "function_item", "method_declaration")
_GO_TEST = re.compile(r"(?:Test|Fuzz)([A-Z_\d].*)?")


class _TestFunction(NamedTuple):
    place: int
    """The position of its name."""
    body: Node
    attributes: list[range]
    is_collected: bool


def parse_braced_tests(code: BracketedCode, language: str) -> tuple[ParsedTest, ...]:
    """All tests of a file in one of these languages; in Go, also the functions that assert for them."""
    found: dict[str, ParsedTest] = {}
    functions = [made for node in code.nodes_of(*_FUNCTIONS) for made in _test_function(code, node, language)]
    if language == "rust":
        functions += [
            made
            for node in code.nodes_of("macro_invocation", "macro_rule")
            for made in _macro_tests(code, node)
        ]
    for function in functions:
        found[code.text(function.place)] = _parse_test(code, function, language)
    return tuple(found.values())


def _test_function(code: BracketedCode, node: Node, language: str) -> Iterator[_TestFunction]:
    name, body = node.child("name"), node.child("body")
    body = body or next((child for child in node.children if child.kind == "function_body"), None)
    if name is None or body is None:
        return
    if language == "go":
        is_test = (
            node.kind == "function_declaration" and _GO_TEST.fullmatch(code.text(name.start)) is not None
        )
        parameters = node.child("parameters")
        is_helper = parameters is not None and "testing" in code.words(parameters.start, parameters.stop)
        if is_test or (is_helper and node.kind == "function_declaration"):
            yield _TestFunction(name.start, body, [], is_test)
        return
    attributes = [range(item.start, item.stop) for item in _attributes(node)]
    if any(_attribute_name(code, item) in _MARKS[language] for item in attributes):
        yield _TestFunction(name.start, body, attributes, is_collected=True)


def _attributes(node: Node) -> list[Node]:
    """A function's attributes: in Rust they precede it, elsewhere they are part of it."""
    if node.kind == "function_item" and node.parent is not None:
        beside = node.parent.children
        before = beside[: next(place for place, one in enumerate(beside) if one is node)]
        count = next((at for at, one in enumerate(reversed(before)) if one.kind != "attribute_item"), None)
        return before if count is None else before[len(before) - count :]
    parts = [part for child in node.children for part in (child, *child.children)]
    return [part for part in parts if part.kind in _ATTRIBUTES]


def _attribute_name(code: BracketedCode, attribute: range) -> str:
    """The last name of an attribute, without its arguments: `test` of `#[tokio::test(flavor = "x")]`."""
    names = []
    for at in attribute:
        if code.text(at) == "(":
            break
        names += [code.text(at)] if code.kind(at) == NAME else []
    return names[-1] if names else ""


def _macro_tests(code: BracketedCode, node: Node) -> Iterator[_TestFunction]:
    """Tests in a macro, whose arguments have no syntax tree: `proptest! { #[test] fn adds(a in 0..9) { … } }`."""
    inside = node.children[-1] if node.children else node
    groups = [group for group in inside.children if group.kind == "token_tree"]
    for place in range(inside.start, inside.stop):
        if code.text(place) == "fn" and code.kind(place + 1) == NAME and code.text(place + 2) == "(":
            closing = code.closing_place(place + 2)
            body = next((one for one in groups if one.start > closing and code.text(one.start) == "{"), None)
            marks = [one for one in groups if one.stop <= place and code.text(one.start) == "["][-1:]
            if body is not None and any(
                _attribute_name(code, range(one.start, one.stop)) == "test" for one in marks
            ):
                yield _TestFunction(place + 1, body, [], is_collected=True)


def _parse_test(code: BracketedCode, function: _TestFunction, language: str) -> ParsedTest:
    start, stop = function.body.start, function.body.stop - 1
    spans = list(_assertions(code, function.body, language))
    assertions = tuple(item for item, _ in spans)
    asked = frozenset(word for _, span in spans for word in code.words(span.start, span.stop))
    return ParsedTest(
        name=code.text(function.place),
        line=code.line(function.place),
        is_collected=function.is_collected,
        assertions=assertions,
        skips=(*_marker_skips(code, function.attributes), *_body_skips(code, function.body)),
        words=code.words(start, stop),
        body=code.text_between(start, stop),
        act=code.words(start, stop) - _assertion_words(assertions) - asked - _ASSERTION_HOLDERS,
        calls=code.calls(start, stop),
        literals=code.literals(start, stop),
        # A fuzz target may ask for nothing but that the code does not panic.
        is_smoke=not assertions and language == "go" and code.text(function.place).startswith("Fuzz"),
        is_empty=stop == start + 1,
    )


def _assertion_words(assertions: tuple[Assertion, ...]) -> frozenset[str]:
    """The words and literals of assertions, which are not part of a test's other actions."""
    words = frozenset(word for item in assertions for word in re.findall(r"\w+", item.text))
    literals = frozenset(text for item in assertions for text in item.literals)
    return words | literals | {f'"{text[1:-1]}"' for text in literals if text[:1] == "'"}


_ELSEWHERE = re.compile(
    r"#\[cfg_attr\((?:not\(panic=\"unwind\"\)|panic=\"abort\"|miri|windows"
    r"|target_(?:os|family|arch)=\"(?:windows|macos|wasm\d*|wasi)\"),ignore"
)
"""A test that is ignored only in other builds, or on other platforms, than the gates'."""


def _ends(places: range) -> tuple[int, int]:
    return places.start, places.stop


def _marker_skips(code: BracketedCode, attributes: list[range]) -> Iterator[SkipMarker]:
    for attribute in attributes:
        is_asked = _attribute_name(code, attribute) == "cfg_attr"
        for at in (at for at in attribute if code.kind(at) == NAME):
            word = code.text(at)
            is_feature = word == "feature" and code.text(at + 1) == "="
            if is_feature or (word in _SKIP_MARKS and not (word == "ignore" and code.text(at - 1) == "(")):
                text = code.text_between(at, at + 3) if is_feature else word
                text = f"@{word}" if code.text(at - 1) == "@" else text
                yield SkipMarker(
                    word.lower(),
                    code.line(at),
                    text,
                    is_conditional=is_feature or is_asked,
                    is_foreign=is_asked
                    and _ELSEWHERE.match(code.text_between(*_ends(attribute))) is not None,
                )


_OTHER_SYSTEM = re.compile(
    r'runtime\.GOOS=="(?:windows|darwin|plan9|js|wasip1|aix|solaris|(?:free|net|open)bsd)"'
)


def _body_skips(code: BracketedCode, body: Node) -> Iterator[SkipMarker]:
    for at in range(body.start, body.stop):
        word, owner = code.text(at), code.text(at - 2) if code.text(at - 1) == "." else ""
        if word in ("Skip", "Skipf", "SkipNow") and owner in ("t", "b", "Assert"):
            around = [above for above, _ in body.find(at).ancestors(body)]
            is_nested = any(above.kind == "block" and above is not body for above in around)
            asked = next((above.child("condition") for above in around if above.kind == "if_statement"), None)
            is_foreign = _OTHER_SYSTEM.fullmatch(code.node_text(asked)) is not None
            yield SkipMarker("skip", code.line(at), f"{owner}.{word}", is_nested, is_foreign)
        elif word in ("assumeTrue", "assumeFalse", "Inconclusive") and code.text(at + 2) in ("false", "true"):
            yield SkipMarker("skip", code.line(at), code.text_between(at, code.closing_place(at + 1) + 1))


def _assertions(code: BracketedCode, body: Node, language: str) -> Iterator[tuple[Assertion, range]]:
    """The assertions of a body, each with the places that its text says in another form."""
    surroundings = _Surroundings(code, body)
    own = {
        code.node_text(one.child("name")) for one in code.nodes_of("macro_definition") if _asserts(code, one)
    }
    for at in range(body.start, body.stop):
        if code.kind(at) != NAME:
            continue
        owner = code.text(at - 2) if code.text(at - 1) in (".", "::") else ""
        opening = at + 2 if code.text(at + 1) == "!" else at + 1
        if code.text(opening) != "(":
            continue
        is_call = not owner and code.text(at - 2) != "Fuzz"
        is_handed_on = is_call and code.text(opening + 1) == "t" and language == "go"
        is_own = code.text(at) in own and opening == at + 2
        if not _is_assertion(code.text(at), owner) and not is_handed_on and not is_own:
            continue
        arguments = list(code.arguments(opening))
        if (
            language == "go"
            and owner in _ASSERTION_HOLDERS
            and code.text_between(*arguments[0] if arguments else (0, 0)) in ("t", "b")
        ):
            arguments = arguments[1:]
        end = code.closing_place(opening) + 1
        told = _told_text(code, at, arguments) if owner in _TESTIFY and language == "go" else None
        made = Assertion(
            code.line(at),
            told[0] if told else code.text_between(at, end),
            _subject(code, at, arguments),
            _strength(code, at, arguments),
            code.literals(at, told[1] if told else end),
        )
        if owner in ("t", "b") and made.strength > NOTHING:
            made = made._replace(strength=EXACT)  # It fails the test; what it asks is above it.
        made = surroundings.apply_to(made, at, is_reported=owner in ("t", "b") and language == "go")
        yield discount_copies(code, made, (body.start, at), made.text), range(at, end if told else at)


_TESTIFY = frozenset(("assert", "require"))
_ONE_VALUE = word_set("Nil NotNil NoError Error True False Empty NotEmpty Zero NotZero Panics NotPanics")
_TWO_VALUES = word_set("""
Equal NotEqual EqualValues Exactly Same NotSame Contains NotContains Len ElementsMatch Regexp NotRegexp ErrorIs ErrorContains
EqualError Greater GreaterOrEqual Less LessOrEqual IsType JSONEq Subset
""")


def _told_text(code: BracketedCode, at: int, arguments: list[tuple[int, int]]) -> tuple[str, int] | None:
    """An assertion of testify without its message, and where that begins; those of an error's text in one form."""
    name = code.text(at)
    count = 1 if name in _ONE_VALUE else 2 if name in _TWO_VALUES else 0
    if not count or len(arguments) < count:
        return None
    values = [code.text_between(*item) for item in arguments[:count]]
    stop = arguments[count - 1][1]
    if name == "Contains" and values[0].endswith(".Error()"):
        name, values = "ErrorContains", [values[0].removesuffix(".Error()"), values[1]]
    elif name == "Equal" and values[1].endswith(".Error()"):
        name, values = "EqualError", [values[1].removesuffix(".Error()"), values[0]]
    return f"{name}(t,{','.join(values)})", stop


def _asserts(code: BracketedCode, macro: Node) -> bool:
    """True for a macro of the file's own that asserts."""
    return any(code.text(at).startswith("assert") for at in range(macro.start, macro.stop))


def _subject(code: BracketedCode, at: int, arguments: list[tuple[int, int]]) -> str:
    """The value that is checked; in testify's comparisons, the actual value, which follows the expected one."""
    if code.text(at).startswith(("Equal", "NotEqual", "Exactly", "ElementsMatch")) and len(arguments) > 1:
        expected, found = arguments[:2]
        return code.text_between(*(expected if _are_constant(code, [found]) else found))
    return code.text_between(*arguments[0]) if arguments else ""


@lru_cache(maxsize=1)
def _lossy_functions(code: BracketedCode) -> frozenset[str]:
    """The functions of a file that catch a panic and drop it; kept while the tests of one file are read."""
    found: set[str] = set()
    for node in code.nodes_of("function_item") if code.mentions["catch_unwind"] else ():
        name, block = node.child("name"), node.child("body")
        if name is None or block is None:
            continue
        words = code.words(block.start, block.stop)
        if "catch_unwind" in words and not words & _PASSES_ON:
            found.add(code.text(name.start))
    return frozenset(found)


class _Surroundings:
    """The context of the assertions in one body."""

    def __init__(self, code: BracketedCode, body: Node) -> None:
        self._code = code
        self._body = body
        self._exits: dict[int, int] = {}

    def apply_to(self, made: Assertion, at: int, *, is_reported: bool) -> Assertion:
        """An assertion in its context; one that reports a failure is read by the condition around it."""
        code = self._code
        for above, below in self._body.find(at).ancestors(self._body):
            if is_reported and above.kind in ("if_statement", "for_statement", "func_literal"):
                made = _with_condition(code, above, below, made) if below.field == "consequence" else made
                is_reported = False
            if above.kind == "if_expression" and below.field == "consequence":
                test = above.child("condition")
                is_bound = (
                    test is not None and test.kind.startswith("let_") and not above.child("alternative")
                )
                made = made._replace(is_conditional=True) if is_bound else made
            elif (above.kind == "match_block" and any(_is_idle_arm(code, arm) for arm in above.children)) or (
                above.kind in ("block", "statement_list") and below.start > self._first_exit(above)
            ):
                made = made._replace(is_conditional=True)
            elif (
                (above.kind == "let_declaration" and self._is_dropped(above))
                or self._is_lost(above, below)
                or self._is_only_named(above, below)
                or self._tidies_up(above, below, made)
            ):
                made = made._replace(strength=NOTHING)
            elif above.kind == "call_expression" and below.field == "function":
                is_ignored = code.text(below.stop - 1) in ("ok", "unwrap_or_default")
                is_caught = is_ignored and "catch_unwind" in code.calls(below.start, at)
                made = made._replace(strength=NOTHING) if is_caught else made
        return made

    def _tidies_up(self, call: Node, below: Node, made: Assertion) -> bool:
        """True for clean-up that checks nothing of the product: `t.Cleanup(func() { assert.NoError(t,
        os.Remove(path)) })`.
        """
        if call.kind != "call_expression" or below.field != "arguments":
            return False
        name = self._code.node_text(call.child("function"))
        return name.endswith(".Cleanup") and made.text.startswith("NoError(") and "os.Remove" in made.text

    def _is_lost(self, above: Node, below: Node) -> bool:
        """True in a goroutine that nothing waits for, and in a closure for a function that catches its panic."""
        code, body = self._code, self._body
        if above.kind == "go_statement":
            return not _WAITS & code.words(above.stop, body.stop) and not any(
                code.text(at) == "<-" for at in range(above.stop, body.stop)
            )
        if above.kind == "call_expression" and below.kind == "arguments":
            return code.text(above.start) in _lossy_functions(code)
        if above.kind in ("arguments", "argument_list") and below.kind in (
            "closure_expression",
            "func_literal",
        ):
            return self._is_kept_unused(above, below)
        return False

    def _is_kept_unused(self, arguments: Node, closure: Node) -> bool:
        """True for a closure that a function of the file takes and never uses, or in a list that nothing iterates over."""
        code, call = self._code, arguments.parent
        function = call.child("function") if call is not None else None
        if call is None or function is None or function.kind != "identifier":
            return False
        name = code.node_text(function)
        if name == "append":
            kept = code.text(arguments.start + 1)
            idle = ("append", "len")
            places = range(self._body.start, self._body.stop)
            return not any(
                code.text(at) == kept
                and code.text(at - 1) not in ("var", ",")
                and code.text(at + 1) not in (":=", "=")
                and not (code.text(at - 1) == "(" and code.text(at - 2) in idle)
                for at in places
            )
        makers = code.nodes_of("function_item", "function_declaration")
        maker = next((one for one in makers if code.node_text(one.child("name")) == name), None)
        names, body = (maker.child("parameters"), maker.child("body")) if maker is not None else (None, None)
        place = next(at for at, one in enumerate(arguments.children) if one is closure)
        if names is None or body is None or place >= len(names.children):
            return False
        parameter = code.text(names.children[place].start)
        return not any(code.text(at) == parameter for at in range(body.start, body.stop))

    def _is_only_named(self, above: Node, below: Node) -> bool:
        """True in a closure, an iterator or a thread whose result is never used."""
        code = self._code
        if above.kind == "short_var_declaration" and code.text(below.start) == "func":
            return not self._uses(above, lambda at: code.text(at - 1) != "=" or code.text(at - 2) != "_")
        is_thread = above.kind == "call_expression" and code.node_text(above.child("function")).endswith(
            "thread::spawn"
        )
        is_lazy = (
            above.kind == "call_expression"
            and above.stop > above.start
            and code.text(below.start - 1) in _LAZY
            and below.kind == "arguments"
        )
        statement = above.parent
        if statement is None or not (is_thread or is_lazy):
            return False
        if statement.kind != "let_declaration":
            return is_lazy and statement.kind == "expression_statement"
        if is_lazy:
            return not self._uses(statement, lambda _: True)
        return not self._uses(statement, self._is_join_asked)

    def _is_join_asked(self, at: int) -> bool:
        """False for `let _ = handle.join();` and `handle.join().ok();`, which drop a thread's failure."""
        code = self._code
        if code.text(at + 2) != "join":
            return True
        is_dropped = code.text(at - 1) in (";", "{", "}") or code.text_between(at - 2, at) == "_="
        return not is_dropped or (code.text(at + 5) == "." and code.text(at + 6) != "ok")

    def _uses(self, declaration: Node, counts: Callable[[int], bool]) -> bool:
        """True if a declared name is used later in the body in a way that counts."""
        code = self._code
        pattern = declaration.child("pattern") or declaration.child("left")
        if pattern is None or pattern.stop > pattern.start + 1:
            return True
        name = code.text(pattern.start)
        places = range(declaration.stop, self._body.stop)
        return any(code.text(at) == name and counts(at) for at in places)

    def _first_exit(self, block: Node) -> int:
        """Where a branch that only returns may leave a block early."""
        if id(block) not in self._exits:
            left = (item.start for item in block.children if self._may_leave(item))
            self._exits[id(block)] = next(left, block.stop)
        return self._exits[id(block)]

    def _may_leave(self, statement: Node) -> bool:
        parts = [statement, *statement.children] if statement.kind == "expression_statement" else [statement]
        return any(self._is_exit(part) for part in parts)

    def _is_exit(self, statement: Node) -> bool:
        """True for a branch that only returns, or in a loop for one that skips a row by its result."""
        branch = statement.child("consequence") or statement.child("alternative")
        shown = self._code.node_text(branch)
        if shown in ("{continue}", "{continue;}") and statement.child("condition") is not None:
            asked = self._code.words(statement.start, branch.start if branch else 0)
            return bool(self._results & asked)
        return shown in ("{return}", "{return;}")

    @cached_property
    def _results(self) -> frozenset[str]:
        """The names that the body assigns from a call, with the functions called."""
        code = self._code
        given = [
            at
            for at in range(self._body.start, self._body.stop)
            if code.text(at + 1) in (":=", "=") and code.kind(at + 2) == NAME and code.text(at + 3) == "("
        ]
        given = [at for at in given if code.text(at + 2) not in _CONVERSIONS]
        return frozenset(code.text(at + by) for at in given for by in (0, 2)) - {
            "err",
            "ok",
            "len",
            "append",
            "make",
        }

    def _is_dropped(self, node: Node) -> bool:
        """True for code whose failure is dropped, such as `let _ = catch_unwind(|| { … });`, and a closure
        that nobody calls.
        """
        code, value, pattern = self._code, node.child("value"), node.child("pattern")
        name = code.text(node.start + 1)
        if value is not None and value.kind == "closure_expression" and pattern is not None:
            return not any(code.text(at) == name for at in range(node.stop, self._body.stop))
        return name == "_" and value is not None and "catch_unwind" in code.calls(value.start, value.stop)


_CONVERSIONS = word_set(
    "rune byte string int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 float32 float64"
)
_LAZY = frozenset(("map", "inspect", "filter", "filter_map", "flat_map", "take_while", "skip_while"))
"""Methods of Rust that call nothing until the next item is requested."""
_WAITS = word_set("Wait WaitGroup Sleep Eventually Cleanup Lock")
_PASSES_ON = word_set("resume_unwind unwrap unwrap_err expect expect_err is_err is_ok assert assert_eq Err")


def _is_idle_arm(code: BracketedCode, arm: Node) -> bool:
    """True for `Err(_) => ()`: what an assertion in another arm is reached on depends on the result."""
    return code.node_text(arm.child("value")) in ("()", "{}")


def _with_condition(code: BracketedCode, branch: Node, block: Node, made: Assertion) -> Assertion:
    """An assertion of Go, read by the condition around it, which says what is compared."""
    head, opening = branch.start, block.start
    signs = [
        one for one in range(head, opening) if code.text(one) in _ORDERS or code.text(one) in ("==", "!=")
    ]
    words = code.words(head, opening)
    is_bounded = signs and all(code.text(one) in _ORDERS for one in signs) and "DeepEqual" not in words
    is_empty = len(signs) == 1 and code.text(signs[0]) == "==" and code.text(signs[0] + 1) == '""'
    is_part = not signs and bool(words & _PART_QUESTIONS)
    is_absent = len(signs) == 1 and code.text(signs[0]) == "==" and code.text(signs[0] + 1) == "nil"
    is_asked = bool(words & _ENVIRONMENT) and any(code.text(at) == "&&" for at in range(head, opening))
    calls = [code.text(at) for at in range(head, opening) if code.text(at + 1) == "("]
    if len(signs) == 1 and (
        calls == ["len", "len"] or (calls == ["len"] and _is_number_asked(code, signs[0]))
    ):
        made = made._replace(strength=min(made.strength, COUNTED))
    if words & _KINDS:
        made = made._replace(strength=min(made.strength, LOOSE))
    return made._replace(
        is_conditional=made.is_conditional or is_asked,
        text=f"{code.text_between(head, opening)} {made.text}",
        subject=code.text_between(head + 1, signs[-1] if signs else opening),
        strength=min(
            made.strength,
            LOOSE if is_empty or is_absent else BOUNDED if is_bounded or is_part else EXACT,
        ),
        literals=code.literals(head, opening),
    )


def _is_number_asked(code: BracketedCode, sign: int) -> bool:
    """True for `len(found) != 3`: a count and a number alone are compared."""
    return code.kind(sign + 1) == NUMBER and code.text(sign - 1) == ")" and code.text(sign + 2) == "{"


_PART_QUESTIONS = word_set("Contains ContainsAny ContainsRune HasPrefix HasSuffix MatchString EqualFold")
"""What asks whether a part of a value is there."""
_KINDS = frozenset(('"%T"', "TypeOf", "Kind"))
"""What gives a value's type, and no more."""
_ENVIRONMENT = word_set("Getenv LookupEnv GOOS GOARCH Short")
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
    is_own = _OWN_HELPER.fullmatch(name) is not None and code.text(at + 1) == "("
    if len(arguments) > 1 and (
        first == code.text_between(*arguments[1]) or (_are_constant(code, arguments[:2]) and not is_own)
    ):
        return NOTHING if not name.startswith(("Error", "Fatal")) else EXACT
    if name in ("assert_eq", "assert_ne") and first.endswith((".len()", ".count()")):
        return COUNTED
    is_variant = name == "assert" and first.endswith(".is_err()")
    if name in _LOOSE or is_variant or first.endswith((".is_ok()", ".is_some()", "!=null")):
        return LOOSE
    if name in _BOUNDED and not (
        name == "assert" and ("==" in first or first.endswith(".is_none()")) and "||" not in first
    ):
        return BOUNDED
    return EXACT


_OWN_HELPER = re.compile(r"assert_(?!eq$|ne$|equals?$)[a-z_]+")
"""A function of the project's own, which asks the product for what it is given."""


def _are_constant(code: BracketedCode, arguments: list[tuple[int, int]]) -> bool:
    return all(stop == start + 1 and code.kind(start) in (STRING, "number") for start, stop in arguments)
