"""What a function of JavaScript, TypeScript, Go or Rust answers, by how it comes to it, and its general answers broken.

A special answer stands in the code or is looked up in a table; a general one is worked out of what the function is given.
What guards return (nothing, an error, `0`, an empty text) is neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from remand.domain.text.words import word_set
from remand.integrity.readers.tokens import NUMBER, STRING, BracketedCode, Node

_FUNCTIONS = word_set("""
arrow_function function_expression function_declaration generator_function generator_function_declaration
method_definition class_declaration func_literal closure_expression function_item impl_item
""")
NAME_KINDS = word_set("identifier shorthand_property_identifier_pattern shorthand_field_identifier self this")
_WRAPPERS = word_set("""
parenthesized_expression as_expression satisfies_expression non_null_expression await_expression unsafe_block
expression_statement else_clause reference_expression try_expression
""")
_BLOCKS = ("block", "statement_block")
_WAYS = dict.fromkeys(("ternary_expression", "if_expression"), ("consequence", "alternative"))
_LOOKUPS = word_set("""
get has at nth find findLast findIndex indexOf includes get_key_value contains contains_key position binary_search
binary_search_by binary_search_by_key
""")
"""What tables are asked by: the answer is in the table, whatever the question."""
_FILLS = frozenset(("set", "insert"))
_OR_ELSE = frozenset(("unwrap_or", "unwrap_or_else", "or", "or_else"))
_MAP_OR = frozenset(("map_or", "map_or_else"))
_OR_FAIL = frozenset(("ok_or", "ok_or_else", "copied", "cloned"))
_ABSENT = word_set("nil null undefined None true false")
SIGNS = re.compile(r"[-+]?(?:0|1|0\.0|1\.0|''|\"\"|``)")
CHANGES = frozenset(("update_expression", "inc_statement", "dec_statement"))
ADDING = frozenset(("augmented_assignment_expression", "compound_assignment_expr"))
_TEXT_CALLS = frozenset(("String", "toString", "to_string", "to_owned", "into", "clone", "string", "from"))
_IN_BACKQUOTES = re.compile(r"\$\{([^}]*)\}")
_IN_FORMAT = re.compile(r"\{(\w+)")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_MAX_LEAVES = 40
_WRONG = {
    re.compile(r"int(?:32|64)?$"): "-98765431",
    re.compile(r"float(?:32|64)$"): "-98765431.5",
    re.compile(r"uint(?:32|64)?$"): "98765431",
    re.compile(r"string$"): '"broken on purpose"',
}
"""Values of Go's types that no test expects."""


Value = TypeVar("Value")


def spread_dependence(
    dependent: set[str], assigned: Mapping[str, Iterable[Value]], depends: Callable[[Value], bool]
) -> None:
    """Adds the names whose values depend on what a function is given, until there are no more."""
    while more := {
        name for name, values in assigned.items() if name not in dependent and any(map(depends, values))
    }:
        dependent |= more


class Answer(NamedTuple):
    """One answer of a function."""

    node: Node
    name: str = ""
    """The name that it is given first; empty for one that is returned."""
    is_eager: bool = False
    """It is worked out before it is known whether it is needed."""
    is_attempt: bool = False
    """It is an `Option` or `Result` of Rust, in whose place another answer may stand."""


class BracedAnswers:
    """What a function answers; `constants` are the values of the file's own names, `tables` functions that only look up."""

    def __init__(
        self,
        code: BracketedCode,
        function: Node,
        language: str,
        constants: Mapping[str, Node],
        tables: frozenset[str] = frozenset(),
    ) -> None:
        self._code, self._language = code, language
        self._constants, self._tables = constants, tables
        self._function = function
        self._body = function.child("body") or function
        nodes = list(self._body.walk())
        self._assigned: dict[str, list[Node]] = {}
        self._bound: set[str] = set()
        self._dependent = {"this", "self", *self._parameters()}
        for node in nodes:
            self._take(node)
        spread_dependence(self._dependent, self._assigned, self._depends)
        leaves = [leaf for one in self._find_returned() for leaf in self._split(one, frozenset())]
        self._leaves = leaves if len(leaves) <= _MAX_LEAVES else []
        answers = [one for one in self._leaves if not self._is_guard(one.node)]
        self.general = [one for one in answers if self._depends(one.node)]
        self._special = [one for one in answers if not self._depends(one.node)]
        found = [set(self._literals(one.node, frozenset())) for one in self._special]
        self.special_values = set().union(*found)
        self.is_readable = all(found)
        """False when it has an answer that is neither worked out of what it is given, nor stands in the code."""

    @property
    def works_out(self) -> bool:
        """True when a general answer is more than what was given, as it is or as a text."""
        return any(not self._is_plain(one.node) for one in self.general)

    def break_general(self) -> list[tuple[int, int, bytes]]:
        """What to put in place of parts of the file, so that general answers raise or are worthless; empty if that is unknown."""
        return self._break_all(self.general)

    def break_special(self) -> list[tuple[int, int, bytes]]:
        """The same for the special answers."""
        return self._break_all(self._special)

    def _break_all(self, answers: list[Answer]) -> list[tuple[int, int, bytes]]:
        edits = [self._break(one) for one in answers]
        return [] if None in edits else [one for one in edits if one is not None]

    def _parameters(self) -> Iterator[str]:
        for field in ("parameters", "parameter", "receiver"):
            part = self._function.child(field)
            for node in part.walk() if part else ():
                if node.kind in NAME_KINDS and node.field != "type":
                    yield self._code.node_text(node)

    def _take(self, node: Node) -> None:
        """Notes what a part of the function gives to names."""
        if node.kind in CHANGES:
            self._dependent |= self._names_in(node)
            return
        target, value = _read_binding(node)
        if target is not None and value is not None and not self._is_row_of_table(target):
            is_adding = node.kind in ADDING or (
                node.kind == "assignment_statement" and self._code.text(target.stop) not in ("=", ":=")
            )
            is_name = len(names := self._names_in(target)) == 1 and target.stop - target.start == 1
            for name in names:
                self._assigned.setdefault(name, []).append(value)
            if is_adding:
                self._dependent |= names
            elif not is_name and node.kind != "var_spec":
                self._bound |= names
        elif node.kind == "call_expression" and not self._is_lookup(node):
            called = node.child("function")
            owner = called.children[0] if called is not None and called.children else None
            arguments = node.child("arguments")
            is_memory = (
                self._code.text(called.stop - 1) in _FILLS and self._is_filled(owner) if called else False
            )
            if owner is not None and owner.kind == "identifier" and arguments is not None and not is_memory:
                self._assigned.setdefault(self._code.node_text(owner), []).append(arguments)
                self._bound.add(self._code.node_text(owner))

    def _is_row_of_table(self, target: Node) -> bool:
        """True for a row that is put into a table of the file which has others already, as a memory of answers does."""
        row = target.children[0] if target.kind == "expression_list" and target.children else target
        if row.kind not in ("index_expression", "subscript_expression"):
            return False
        return self._is_filled(row.children[0])

    def _is_filled(self, table: Node | None) -> bool:
        """True for a table of the file that has rows from the beginning."""
        value = self._constants.get(self._code.node_text(table)) if table is not None else None
        return value is not None and any(self._own_literals(value))

    def _names_in(self, node: Node) -> set[str]:
        return {
            self._code.node_text(one) for one in node.walk() if one.kind in NAME_KINDS and one.field != "type"
        }

    def _depends(self, node: Node) -> bool:
        """True for what depends on what the function is given, otherwise than by what is looked up."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.kind in NAME_KINDS:
                if self._code.node_text(one) in self._dependent:
                    return True
            elif one.kind in ("subscript_expression", "index_expression") or self._is_lookup(one):
                waiting += one.children[:1]
            elif not one.children:
                if self._words_in_text(one) & self._dependent:
                    return True
            else:
                waiting += one.children
        return False

    def _words_in_text(self, node: Node) -> set[str]:
        """The names that a text takes values of."""
        text = self._code.text(node.start)
        if self._code.kind(node.start) != STRING:
            return set()
        pattern = _IN_BACKQUOTES if text[:1] == "`" and self._language == "script" else _IN_FORMAT
        if pattern is _IN_FORMAT and self._language != "rust":
            return set()
        return {word for found in pattern.findall(text) for word in _WORD.findall(found)}

    def _is_lookup(self, node: Node) -> bool:
        """True for a call that finds something in a table."""
        called = node.child("function") if node.kind == "call_expression" else None
        if called is None:
            return False
        name = self._code.text(called.stop - 1)
        return name in (self._tables if called.kind == "identifier" else _LOOKUPS)

    def _find_returned(self) -> Iterator[Answer]:
        """What the function hands back, each way by itself."""
        if self._body.kind not in _BLOCKS:
            yield Answer(self._body)
        named = self._function.child("result")
        waiting = [] if any(node.kind == "yield_expression" for node in self._body.walk()) else [self._body]
        while waiting:
            node = waiting.pop()
            if node.kind in _FUNCTIONS:
                continue
            waiting += node.children
            if node.kind in ("return_statement", "return_expression") and node.children:
                values = node.children[0]
                is_list = values.kind == "expression_list"
                value = values.children[0] if is_list else values
                inner = value.child("body") if value.kind == "func_literal" else None
                if inner is not None:
                    waiting.append(inner)  # what it hands back is what that function will
                elif not (is_list and self._is_failure(values)):
                    yield Answer(value)
            elif node.kind == "return_statement" and named is not None and named.children:
                name = named.children[0].child("name")
                yield from [Answer(name)] if name is not None else []
        if self._language == "rust":
            yield Answer(self._body)

    def _is_failure(self, values: Node) -> bool:
        """True for results of Go whose last one is an error."""
        result = self._function.child("result")
        is_fallible = result is not None and self._code.text(result.stop - 2) == "error"
        return is_fallible and len(values.children) > 1 and self._code.node_text(values.children[-1]) != "nil"

    def _split(self, answer: Answer, seen: frozenset[str]) -> Iterator[Answer]:
        """The answers that one expression stands for, one for each way."""
        node = answer.node
        if (
            node.kind == "identifier"
            and (name := self._code.node_text(node)) not in seen
            and self._is_plain_name(name)
        ):
            for value in self._assigned[name]:
                part = value.children[0] if value.kind == "expression_list" and value.children else value
                yield from self._split(Answer(part, name, is_eager=True), seen | {name})
            return
        parts = self._ways(node)
        if parts is None:
            yield answer
        is_call = node.kind == "call_expression"
        for part, is_eager in parts or ():
            part_answer = answer._replace(
                node=part,
                is_eager=answer.is_eager or is_eager,
                is_attempt=answer.is_attempt or (is_call and is_eager and part.field == "value"),
            )
            yield from self._split(part_answer, seen)

    def _ways(self, node: Node) -> list[tuple[Node, bool]] | None:
        """The parts of which one is the value of an expression, each with whether it is worked out in any case.

        None for an expression that is a value by itself.
        """
        fields = _WAYS.get(node.kind)
        if fields is not None:
            return [(part, False) for field in fields if (part := node.child(field)) is not None]
        if node.kind in _BLOCKS:
            last = node.children[-1] if node.children else None
            ends = last is not None and last.stop == node.stop - 1 and last.kind != "statement_list"
            return (
                [(last, False)] if last is not None and ends and self._code.text(last.stop - 1) != ";" else []
            )
        if node.kind in _WRAPPERS and node.children:
            return [(node.children[0 if node.kind == "as_expression" else -1], False)]
        if node.kind == "match_expression":
            arms = (one for part in node.children for one in part.children if one.kind == "match_arm")
            return [(part, False) for arm in arms if (part := arm.child("value")) is not None]
        if node.kind == "binary_expression" and self._code.text(node.children[0].stop) in ("??", "||"):
            return [(part, False) for part in node.children[:2]]
        if node.kind == "macro_invocation" and self._code.text(node.start) not in ("format", "vec"):
            return []
        if node.kind == "return_expression":
            return []
        return (list(self._split_call(node)) or None) if node.kind == "call_expression" else None

    def _split_call(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """The ways that a call of Rust's own stands for, and whether each is worked out in any case."""
        called, arguments = node.child("function"), node.child("arguments")
        if self._language != "rust" or called is None or arguments is None:
            return
        name = self._code.text(called.stop - 1)
        is_method = called.kind == "field_expression"
        if is_method and name in _OR_FAIL and len(arguments.children) <= 1:
            yield called.children[0], True
            return
        if is_method and name in _MAP_OR and len(arguments.children) == 2:
            default = arguments.children[0]
            yield called.children[0], True
            yield (default.child("body") or default), False
            return
        if len(arguments.children) != 1:
            return
        argument = arguments.children[0]
        # `Ok(match … {})`, and what else has a value made of one of several.
        is_choice = self._ways(argument) is not None or argument.kind == "identifier"
        if name in ("Ok", "Some") or (name[:1].isupper() and is_choice and called.kind != "field_expression"):
            yield argument, False
        elif called.kind == "field_expression" and name in _OR_ELSE:
            body = argument.child("body") if argument.kind == "closure_expression" else None
            yield called.children[0], True
            yield (body, False) if body is not None else (argument, True)

    def _is_plain_name(self, name: str) -> bool:
        """True for a name that is given values and nothing else."""
        return name in self._assigned and name not in self._bound and name not in self._changed_names

    @cached_property
    def _changed_names(self) -> set[str]:
        """The names whose values are changed step by step."""
        return {
            name
            for node in self._body.walk()
            if node.kind in CHANGES
            or node.kind in ADDING
            or (
                node.kind == "assignment_statement"
                and (left := node.child("left")) is not None
                and self._code.text(left.stop) != "="
            )
            for name in self._names_in(node.child("left") or node.children[0])
        }

    def _is_guard(self, node: Node) -> bool:
        """True for what guards return: nothing, an error, a value without content."""
        text = self._code.node_text(node)
        if text in _ABSENT or SIGNS.fullmatch(text) or node.kind in ("unit_expression", "throw_statement"):
            return True
        called = node.child("function") if node.kind == "call_expression" else None
        name = self._code.text(called.stop - 1) if called is not None else ""
        is_empty = not any(one.kind in NAME_KINDS for one in node.walk()) and not any(
            self._own_literals(node)
        )
        return name == "Err" or (is_empty and node.kind != "identifier") or text in ("[]", "{}")

    def _is_plain(self, node: Node) -> bool:
        """True for a value as it was given, or as a text."""
        if node.kind in NAME_KINDS or not node.children:
            return self._code.node_text(node) not in self._assigned
        called = node.child("function") if node.kind == "call_expression" else None
        name = self._code.text(called.stop - 1) if called is not None else ""
        is_text = name in _TEXT_CALLS or (
            node.kind == "macro_invocation" and self._code.text(node.start) == "format"
        )
        is_member = not any(one.kind == "call_expression" for one in node.walk())
        return is_text or (node.kind == "member_expression" and is_member)

    def _own_literals(self, node: Node) -> Iterator[str]:
        for place in range(node.start, node.stop):
            text = self._code.text(place)
            if self._code.kind(place) in (STRING, NUMBER) and not SIGNS.fullmatch(text):
                yield text.strip("'\"`")

    def _literals(self, node: Node, seen: frozenset[str]) -> Iterator[str]:
        """The values that stand in the code for an answer, also in the tables that it is looked up in."""
        yield from self._own_literals(node)
        for name in {self._code.node_text(one) for one in node.walk() if one.kind in NAME_KINDS} - seen:
            values = [*self._assigned.get(name, ()), *filter(None, [self._constants.get(name)])]
            for value in values:
                yield from self._literals(value, seen | {name})

    def _break(self, answer: Answer) -> tuple[int, int, bytes] | None:
        start, stop = self._code.byte_range(answer.node)
        is_eager = answer.is_eager and not self._is_in_branch(answer.node)
        if self._language == "script":
            # A table without the row is asked by all that have no row there, too.
            is_row = answer.node.kind == "subscript_expression" or self._is_lookup(answer.node)
            text = (
                "undefined" if is_eager or is_row else '(() => { throw new Error("broken on purpose"); })()'
            )
            return start, stop, text.encode()
        if self._language == "rust" and answer.is_attempt:
            return start, stop, b'(\0).map(|it| if true { panic!("broken on purpose") } else { it })'
        if self._language == "rust":
            # The value stays where its type has to be inferred.
            before, after = (
                ("{ let _ = ", "; Default::default() }")
                if is_eager
                else ('{ if true { panic!("broken on purpose") } ', " }")
            )
            return start, stop, before.encode() + b"\0" + after.encode()
        return self._break_go(answer, is_eager=is_eager)

    def _break_go(self, answer: Answer, *, is_eager: bool) -> tuple[int, int, bytes] | None:
        """In Go statements alone can be added without a change of types."""
        node = answer.node
        for above, below in node.ancestors(self._body):
            if above.kind in ("statement_list", "block"):
                start, stop = self._code.byte_range(below)
                result = self._function.child("result")
                if not is_eager:
                    return start, start, f"if true {{ {self._wrong_return(below)} }}; ".encode()
                if result is None or not answer.name:
                    return None
                first = result.children[0] if result.kind == "parameter_list" and result.children else result
                shown = self._code.node_text(first.child("type") or first)
                return stop, stop, f"; {answer.name} = *new({shown})".encode()
        return None

    def _wrong_return(self, statement: Node) -> str:
        """What leaves a function of Go with a value that no test expects: a panic would end the tests of the whole package."""
        result = self._function.child("result")
        parts = [] if result is None else [result] if result.kind != "parameter_list" else result.children
        types = [self._code.node_text(part.child("type") or part) for part in parts]
        wrong = next((value for name, value in _WRONG.items() if types and name.match(types[0])), "")
        is_inner = any(above.kind == "func_literal" for above, _ in statement.ancestors(self._body))
        if is_inner or not wrong or any(part.child("name") for part in parts):
            return 'panic("broken on purpose")'
        return f"return {', '.join((wrong, *(f'*new({name})' for name in types[1:])))}"

    def _is_in_branch(self, node: Node) -> bool:
        """True for what is done in one way through the function alone."""
        kinds = (
            "if_statement",
            "switch_case",
            "switch_default",
            "expression_case",
            "default_case",
            "match_arm",
        )
        return any(
            above.kind in kinds or (above.kind == "if_expression" and below.field != "condition")
            for above, below in node.ancestors(self._body)
        )


def _read_binding(node: Node) -> tuple[Node | None, Node | None]:
    """What is given a value, and the value."""
    fields = {
        "variable_declarator": ("name", "value"),
        "var_spec": ("name", "value"),
        "const_spec": ("name", "value"),
        "let_declaration": ("pattern", "value"),
        "let_condition": ("pattern", "value"),
        "for_expression": ("pattern", "value"),
        "assignment_expression": ("left", "right"),
        "augmented_assignment_expression": ("left", "right"),
        "compound_assignment_expr": ("left", "right"),
        "assignment_statement": ("left", "right"),
        "short_var_declaration": ("left", "right"),
        "range_clause": ("left", "right"),
        "for_in_statement": ("left", "right"),
    }.get(node.kind)
    if node.kind == "match_arm" and node.parent is not None and node.parent.parent is not None:
        return node.child("pattern"), node.parent.parent.child("value")
    return (node.child(fields[0]), node.child(fields[1])) if fields else (None, None)


def file_constants(code: BracketedCode) -> Mapping[str, Node]:
    """What the names at the top of a file stand for; a table of Go that is filled row by row, for the body that fills it."""
    kinds = ("variable_declarator", "var_spec", "const_spec", "const_item", "static_item")
    found: dict[str, Node] = {}
    declared: set[str] = set()
    for node in code.nodes_of(*kinds):
        name, value = node.child("name"), node.child("value")
        depth = sum(above.kind in _FUNCTIONS for above, _ in node.ancestors())
        if name is not None and value is not None and not depth:
            found[code.node_text(name)] = value
        elif name is not None and node.kind == "var_spec" and not depth:
            declared.add(code.node_text(name))
    for node in code.nodes_of("assignment_statement") if declared else ():
        row = node.child("left")
        filled = next((one for one in row.walk() if one.kind == "index_expression"), None) if row else None
        name = filled.children[0] if filled is not None else None
        function = next(
            (above for above, _ in node.ancestors() if above.kind == "function_declaration"), None
        )
        if name is not None and function is not None and code.node_text(name) in declared:
            found[code.node_text(name)] = function.child("body") or function
    return found
