"""The values, written out in tests of Go and Rust, that results are compared with exactly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode, Node, test_module_range

_FAILS = re.compile(r"\b(?:[tb]|c|tb)\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\bpanic\(")
_SAME = re.compile(r"(?:reflect\.DeepEqual|(?:bytes|slices|maps|cmp)\.Equal)\(")
_ASSERTS_SAME = re.compile(
    r"(?:assert|require|is|should)\.(?:Equal|EqualValues|Exactly|ElementsMatch|JSONEq)(?:f)?"
)
HELPER_NAME = re.compile(r"expect|assert|check|same|verify|should|equal|match|compare", re.IGNORECASE)
_TAKES_VALUES = re.compile(
    rf"{_FAILS.pattern}|{_SAME.pattern}|{HELPER_NAME.pattern}|\b(?:len|Log|Logf|Run|Diff|unwrap)\(",
    re.IGNORECASE,
)
_MAKERS = word_set("""
true false nil None Some Ok Err vec String Vec Box from to_string to_owned into to_vec as i8 i16 i32 i64 i128 isize u8 u16 u32
u64 u128 usize f32 f64 bool char str string int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 byte rune float32 float64
map struct error fmt Sprint Sprintf Sprintln errors New strings Join append format interface any
""")
"""Words of an expression that makes a value without asking the product."""
_TYPE = re.compile(r"[A-Z]\w*")
_MAX_DEPTH = 4
_FUNCTIONS = ("function_declaration", "method_declaration", "function_item")
_DEFINITIONS = {
    "short_var_declaration": ("left", "right"),
    "var_spec": ("name", "value"),
    "const_spec": ("name", "value"),
    "let_declaration": ("pattern", "value"),
    "const_item": ("name", "value"),
    "static_item": ("name", "value"),
}


class _Function(NamedTuple):
    name: str
    parameters: tuple[str, ...]
    node: Node


class ComparedValue(NamedTuple):
    function: str
    """In which it is compared, or which hands it to what compares it."""
    place: int


def compared_values(code: BracketedCode, language: str) -> tuple[ComparedValue, ...]:
    """The figures, texts and truths of a file that functions of tests compare with."""
    return tuple(dict.fromkeys(_Reader(code, language).values()))


def silent_lines(code: BracketedCode) -> frozenset[int]:
    """The lines of a file in Go on which a test fails without showing what it compared."""
    found = set()
    for node in code.nodes_of("call_expression"):
        if not _FAILS.match(f"{code.node_text(node.child('function'))}("):
            continue
        above = next((one for one, below in node.ancestors() if one.kind == "if_statement"), None)
        condition = above.child("condition") if above else None
        shown = code.words(node.start, node.stop)
        if condition is not None and not all(shown & one for one in _subjects(code, condition)):
            found.add(code.line(node.start))
    return frozenset(found)


def _subjects(code: BracketedCode, condition: Node) -> Iterator[frozenset[str]]:
    """The names of what each part of a condition asks about; an empty set where a call is asked."""
    left, right = condition.child("left"), condition.child("right")
    if left is not None and right is not None and code.text(left.stop) in ("||", "&&"):
        yield from _subjects(code, left)
        yield from _subjects(code, right)
    elif left is not None and right is not None:
        is_call = left.kind == "call_expression" and code.text(left.start) != "len"
        yield (
            frozenset()
            if is_call
            else code.words(left.start, left.stop) | code.words(right.start, right.stop)
        )
    else:
        same = _SAME.match(code.text_between(condition.start + 1, condition.stop))
        yield code.words(condition.start, condition.stop) if same else frozenset()


class _Reader:
    def __init__(self, code: BracketedCode, language: str) -> None:
        self._code = code
        self._language = language
        tests = test_module_range(code) if language == "rust" else range(0)
        self._functions = {
            code.node_text(node.child("name")): _Function(
                code.node_text(node.child("name")), tuple(self._parameters(node)), node
            )
            for node in code.nodes_of(*_FUNCTIONS)
            if not tests or node.start in tests
        }

    def values(self) -> Iterator[ComparedValue]:
        for function in self._functions.values():
            for side in self._sides(function.node):
                yield from self._resolve(side, function, 0)

    def _parameters(self, node: Node) -> Iterator[str]:
        given = node.child("parameters")
        for one in given.children if given else ():
            names = [part for part in one.children if part.field in ("name", "pattern")]
            yield from (self._code.node_text(part) for part in names)

    # -------------------------------------------------------------------------------------- what is compared

    def _sides(self, function: Node) -> Iterator[range]:
        nodes = [node for node in function.walk() if node.children]
        for node in nodes:
            if node.kind == "if_statement" and self._language == "go":
                condition, then = node.child("condition"), node.child("consequence")
                if condition and then and _FAILS.search(self._code.node_text(then)):
                    yield from self._failing_sides(condition)
            elif node.kind == "call_expression" and self._language == "go":
                yield from self._argument_values(node)
            elif node.kind == "macro_invocation":
                yield from self._assertion_sides(node)

    def _failing_sides(self, condition: Node) -> Iterator[range]:
        """The sides of `!=`, and what `DeepEqual` is given, in a condition on which a test fails."""
        code = self._code
        left, right = condition.child("left"), condition.child("right")
        if left is not None and right is not None:
            sign = code.text(left.stop)
            if sign == "||":
                yield from self._failing_sides(left)
                yield from self._failing_sides(right)
            elif sign == "!=":
                yield from (range(left.start, left.stop), range(right.start, right.stop))
        elif code.text(condition.start) == "!" and _SAME.match(
            code.text_between(condition.start + 1, condition.stop)
        ):
            call = condition.child("operand")
            yield from self._arguments(call.child("arguments") if call else None)

    def _argument_values(self, call: Node) -> Iterator[range]:
        """What an assertion compares, or what a helper of another file that is given the test is given last."""
        name = self._code.node_text(call.child("function"))
        given = list(self._arguments(call.child("arguments")))
        if _ASSERTS_SAME.fullmatch(name):
            start = 1 if given and self._code.text(given[0].start) == "t" else 0
            yield from given[start : start + 2]
        elif (
            name.isidentifier()
            and HELPER_NAME.search(name)
            and name not in self._functions
            and len(given) > 2
        ):
            asks = any(not self._is_plain(one) for one in given[1:-1])
            yield from given[-1:] if asks and self._code.text(given[0].start) == "t" else ()

    def _assertion_sides(self, macro: Node) -> Iterator[range]:
        code, name = self._code, self._code.node_text(macro.child("macro"))
        opening = macro.children[-1].start
        if name in ("assert_eq", "debug_assert_eq"):
            yield from (range(*one) for one in list(code.arguments(opening))[:2])
        elif name == "assert":
            first = next(code.arguments(opening), (0, 0))
            signs = [at for at in range(*first) if code.text(at) in ("==", "&&", "||", "=>", "|")]
            if len(signs) == 1 and code.text(signs[0]) == "==":
                yield from (range(first[0], signs[0]), range(signs[0] + 1, first[1]))

    def _arguments(self, arguments: Node | None) -> Iterator[range]:
        if arguments is not None:
            yield from (range(*one) for one in self._code.arguments(arguments.start))

    # ------------------------------------------------------------------------------------- what a value is

    def _resolve(self, given: range, function: _Function, depth: int) -> Iterator[ComparedValue]:
        """The literals of an expression that is written out, or that a name of the test stands for."""
        code = self._code
        while given and code.text(given.start) in ("&", "*"):
            given = given[1:]
        if not given or depth > _MAX_DEPTH:
            return
        if self._is_plain(given):
            yield from (ComparedValue(function.name, at) for at in self._literals(given))
        elif code.kind(given.start) == NAME:
            rest = [code.text(at) for at in given[1:]]
            names = [word for word in rest if word not in (".", "(", ")") and word not in _MAKERS]
            if (
                len(names) <= 1
                and (not rest or rest[0] == ".")
                and set(rest) <= {".", "(", ")", *names, *_MAKERS}
            ):
                yield from self._name_values(code.text(given.start), "".join(names), function, depth)

    def _is_plain(self, given: range) -> bool:
        return all(
            code_kind != NAME or self._makes_value(at) for at in given if (code_kind := self._code.kind(at))
        ) and not any(self._code.text(at) == "|" for at in given)

    def _makes_value(self, at: int) -> bool:
        code, word = self._code, self._code.text(at)
        is_constant = (
            code.text(at + 1) == "." and _TYPE.fullmatch(code.text(at + 2)) and code.text(at + 3) != "("
        )
        if word in _MAKERS or code.text(at + 1) == ":" or is_constant:
            return True
        if code.text(at - 1) == "." and _TYPE.fullmatch(word):
            return code.text(at + 1) != "("
        if _TYPE.fullmatch(word):
            return self._language == "rust" or code.text(at + 1) in ("{", "]", ",", "}", ")")
        return (word in self._constructors and code.text(at + 1) == "(") or code.text(at + 1) == "::"

    @cached_property
    def _constructors(self) -> frozenset[str]:
        """Functions of the tests' own file that make values of nothing but what they are given."""
        found: set[str] = set()
        for name, function in self._functions.items():
            body = function.node.child("body")
            own = {*function.parameters, *_MAKERS, "return"}
            if body and all(
                self._code.kind(at) != NAME
                or self._code.text(at) in own
                or _TYPE.fullmatch(self._code.text(at))
                or self._code.text(at + 1) in (":", "::")
                for at in range(body.start, body.stop)
            ):
                found.add(name)
        return frozenset(found)

    def _literals(self, given: range) -> Iterator[int]:
        code = self._code
        for at in given:
            is_text = code.kind(at) in (STRING, NUMBER) or code.text(at) in ("true", "false")
            is_place = code.text(at - 1) == "[" and code.text(at + 1) == "]" and code.kind(at - 2) == NAME
            is_key = code.text(at + 1) == ":" and code.text(at) not in ("true", "false")
            is_format = code.text(at - 1) == "(" and code.text(at - 2) in ("Sprintf", "!")
            if is_text and not is_place and not is_key and not is_format:
                yield at

    def _name_values(self, name: str, field: str, function: _Function, depth: int) -> Iterator[ComparedValue]:
        if not field and self._is_given_away(name, function.node):
            return
        for value in self._definitions(function.node)[name] if not field else ():
            yield from self._resolve(value, function, depth + 1)
        for words, table in self._loops(function.node):
            if name in words:
                for cell in self._cells(table, words.index(name), len(words), field, function):
                    if self._is_plain(cell):
                        yield from (ComparedValue(function.name, at) for at in self._literals(cell))
        if name in function.parameters and not field:
            at = function.parameters.index(name)
            for caller in self._functions.values():
                for given in self._calls(caller.node, function.name):
                    if at < len(given):
                        yield from self._resolve(given[at], caller, depth + 1)

    def _is_given_away(self, name: str, function: Node) -> bool:
        """True for a name that a call takes which is no assertion: what a test puts in may come out again."""
        code = self._code
        for at in range(function.start, function.stop):
            if code.text(at) != name or code.kind(at) != NAME or code.text(at - 1) == ".":
                continue
            for above, below in function.find(at).ancestors(function):
                if above.kind == "call_expression" and below.field == "arguments":
                    called = code.node_text(above.child("function"))
                elif above.kind == "token_tree" and code.kind(above.start - 1) == NAME:
                    called = code.text(above.start - 1)
                else:
                    continue
                if called.rpartition(".")[2] not in _MAKERS and not _TAKES_VALUES.search(f"{called}("):
                    return True
                break
        return False

    def _calls(self, caller: Node, name: str) -> Iterator[Sequence[range]]:
        for node in caller.walk():
            if node.kind == "call_expression" and self._code.node_text(node.child("function")) == name:
                yield tuple(self._arguments(node.child("arguments")))

    def _definitions(self, function: Node | None) -> dict[str, list[range]]:
        """The expressions that names stand for in a function, or at the top of the file."""
        found: defaultdict[str, list[range]] = defaultdict(list)
        for node in function.walk() if function else self._code.nodes_of(*_DEFINITIONS):
            if node.kind not in _DEFINITIONS:
                continue
            left, right = (node.child(field) for field in _DEFINITIONS[node.kind])
            if left is None or right is None:
                continue
            names = left.children if left.kind == "expression_list" else [left]
            values = right.children if right.kind == "expression_list" else [right]
            if len(names) == len(values):
                for one, value in zip(names, values, strict=True):
                    found[self._code.node_text(one)].append(range(value.start, value.stop))
        return found

    def _loops(self, function: Node) -> Iterator[tuple[list[str], range]]:
        """The names that a loop gives to the parts of each row of what it runs over."""
        for node in function.walk():
            fields = {"range_clause": ("left", "right"), "for_expression": ("pattern", "value")}.get(
                node.kind
            )
            left, table = (node.child(field) for field in fields) if fields else (None, None)
            if left is not None and table is not None:
                words = [self._code.node_text(one) for one in left.children] or [self._code.node_text(left)]
                yield words, range(table.start, table.stop)

    def _cells(self, table: range, at: int, count: int, field: str, function: _Function) -> Iterator[range]:
        """The values of a column of a table that is written out."""
        code = self._code
        first = code.text(table.start) if len(table) else ""
        signs = ("{",) if self._language == "go" else ("[",)
        is_named = code.kind(table.start) == NAME and not any(code.text(one) in signs for one in table)
        if is_named:
            known = self._definitions(function.node)[first] or self._definitions(None)[first]
            table = known[0] if known else range(0)
        bodies = [
            one for one in table if code.text(one) in signs and code.closing_place(one) == table.stop - 1
        ]
        bodies = bodies or [one for one in table if code.text(one) in signs][:1]
        fields = self._fields(table)
        for start, stop in code.arguments(bodies[0]) if bodies else ():
            row = range(start, stop)
            if self._language == "go":
                key, value = self._key_and_value(row)
                part = value if at == 1 or count == 1 else key
                yield from self._field_of(part, field, fields) if field else (part,)
            elif count > 1 and code.text(start) == "(":
                cells = [range(*one) for one in code.arguments(start)]
                yield from cells[at : at + 1] if len(cells) == count else ()
            elif field:
                opening = next((one for one in row if code.text(one) == "{"), None)
                yield from self._field_of(range(opening, stop), field, ()) if opening is not None else ()

    def _key_and_value(self, row: range) -> tuple[range, range]:
        at = row.start
        while at < row.stop and self._code.text(at) != ":":
            at = self._code.closing_place(at) + 1 if self._code.text(at) in ("(", "[", "{") else at + 1
        return (row[: at - row.start], row[at - row.start + 1 :]) if at < row.stop else (range(0), row)

    def _field_of(self, row: range, field: str, fields: Sequence[str]) -> Iterator[range]:
        code = self._code
        opening = next((at for at in row if code.text(at) == "{"), None)
        for number, one in enumerate(code.arguments(opening) if opening is not None else ()):
            key, value = self._key_and_value(range(*one))
            name = code.text(key.start) if key else (fields[number] if number < len(fields) else "")
            if name == field:
                yield value

    def _fields(self, table: range) -> tuple[str, ...]:
        """The fields of the rows' type, in order."""
        code = self._code
        named = {code.text(at) for at in table[:6] if code.kind(at) == NAME}
        for node in code.nodes_of("struct_type"):
            above = node.parent
            is_named = (
                above is not None
                and above.kind == "type_spec"
                and code.node_text(above.child("name")) in named
            )
            if node.start in table or is_named:
                return tuple(code.node_text(one) for one in node.walk() if one.kind == "field_identifier")
        return ()
