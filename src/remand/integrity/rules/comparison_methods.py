"""Comparison methods of languages with braces that are true of different values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from remand.domain.text.words import word_set
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import BracketedCode, Node
from remand.integrity.suspicions import quote_names

_MEMBERS = ("selector_expression", "member_expression", "field_expression")
_METHOD_KINDS = ("method_declaration", "method_definition", "function_item")
_NOTHING = frozenset(("nil", "null", "undefined", "None"))
_ANY_TYPE = frozenset(("error", "any", "interface{}"))
_RAISED = frozenset(("throw", "panic", "unimplemented", "todo", "super"))
COMPARISON_NAMES = word_set("eq equals Equals Equal isEqual asymmetricMatch partial_cmp compareTo is_eq")


def looser_comparisons(base: SourceFile, head: SourceFile) -> Iterator[tuple[int, str]]:
    """Comparison methods that leave a field out which was compared on the base, or are also true where the whole values differ."""
    if head.language in ("go", "script"):
        yield from _looser_methods(base.code, head.code)
    elif head.language == "rust":
        yield from _underived_comparisons(base.code, head.code)


def hiding_shows(base: SourceFile, head: SourceFile, tests: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Methods that show a value without some of its fields, where tests compare how two of its type are shown."""
    if head.language not in ("go", "rust"):
        return
    before, after = base.code, head.code
    tests = tuple(tests)
    shown_twice = _SHOWN_TWICE[head.language]
    for owner, node in _shows(after, head.language):
        fields = _fields_of(before, owner)
        is_new = not any(name == owner for name, _ in _shows(before, head.language))
        words = after.words(node.start, node.stop)
        missed = sorted(fields if "finish_non_exhaustive" in words else fields - words)
        if missed and is_new and any(_is_compared(owner, text, shown_twice) for text in tests):
            name = after.node_text(node.child("trait") or node.child("name"))
            yield after.line(node.start), f"`{name}` of `{owner}` leaves {quote_names(missed)} out"
    known = {(owner, field): mark for owner, field, _, mark in _marked_fields(before)}
    for owner, field, line, mark in _marked_fields(after):
        is_hidden = known.get((owner, field), mark) != mark and _HIDES.search(mark) is not None
        if is_hidden and any(_WRITTEN_TWICE.search(text) and owner in text for text in tests):
            yield line, f"`{field}` of `{owner}` is no longer written: `{mark.strip('`')}`"


_HIDES = re.compile(r'\w:"-"|\bskip(?:_serializing|_serializing_if)?\b|"ignore"')
"""The mark by which a field is left out of what is written of a value."""
_WRITTEN_TWICE = re.compile(
    r"\.Marshal\w*\([\s\S]{1,200}?\.Marshal\w*\(|\bto_(?:string|vec|value)\w*\(&?\w+\)[\s\S]{1,200}?\bto_(?:string|vec|value)\w*\(&?\w+\)"
)


def _marked_fields(code: BracketedCode) -> Iterator[tuple[str, str, int, str]]:
    """The fields of each struct: its name, theirs, the line, and the tag or attribute that says how they are written."""
    for node in code.nodes_of("field_declaration"):
        name = next((part for part in node.walk() if part.kind == "field_identifier"), None)
        owner = next((one for one, _ in node.ancestors() if one.kind in ("type_spec", "struct_item")), None)
        if name is None or owner is None:
            continue
        tag = code.text(node.stop - 1) if code.text(node.stop - 1)[:1] in ("`", '"') else ""
        above = node.parent.children if node.parent is not None else []
        at = above.index(node) if node in above else 0
        has_attribute = at > 0 and above[at - 1].kind == "attribute_item"
        mark = code.node_text(above[at - 1]) if has_attribute else tag
        yield code.node_text(owner.child("name")), code.node_text(name), code.line(node.start), mark


_SHOWN_TWICE = {
    "go": re.compile(r"fmt\.Sprint\w*\([^;]{0,200}?fmt\.Sprint\w*\([^;]{0,200}"),
    "rust": re.compile(r"assert_eq!\([^;]{0,200}?:#?\?\}[^;]{0,200}?:#?\?\}[^;]{0,200}"),
}


def _is_compared(owner: str, text: str, shown_twice: re.Pattern[str]) -> bool:
    return any(re.search(rf"\b{owner}\s*\{{", found[0]) for found in shown_twice.finditer(text))


def _shows(code: BracketedCode, language: str) -> Iterator[tuple[str, Node]]:
    """What shows values of a type: `String` of Go, `impl Debug` of Rust."""
    for node in code.nodes_of("method_declaration" if language == "go" else "impl_item"):
        if language == "go":
            receiver = node.child("receiver")
            kinds = [one for one in (receiver.walk() if receiver else ()) if one.kind == "type_identifier"]
            if kinds and code.node_text(node.child("name")) in ("String", "GoString", "Format"):
                yield code.node_text(kinds[0]), node
        elif code.node_text(node.child("trait")).rpartition("::")[2] in ("Debug", "Display"):
            yield code.node_text(node.child("type")), node


def _fields_of(code: BracketedCode, name: str) -> set[str]:
    return {
        code.text(part.start)
        for item in code.nodes_of("struct_item", "type_spec")
        if code.node_text(item.child("name")) == name
        for part in item.walk()
        if part.kind == "field_identifier"
    }


def _looser_methods(before: BracketedCode, after: BracketedCode) -> Iterator[tuple[int, str]]:
    known = dict(_comparison_methods(before))
    for (owner, name), node in _comparison_methods(after):
        old = known.get((owner, name))
        body = node.child("body")
        if old is None or body is None or after.node_text(node) == before.node_text(old):
            continue
        own = {part for one in node.children[:2] for part in after.words(one.start, one.stop)}
        whole = [one for one in body.walk() if _is_whole_comparison(after, one, own)]
        missed = sorted(_compared_members(before, old) - _compared_members(after, node))
        calls = any(one.kind == "call_expression" for one in body.walk())
        if missed and not whole and not calls and all(after.mentions[field] for field in missed):
            yield after.line(node.start), f"`{owner}.{name}` leaves {quote_names(missed)} out"
        had = before.node_text(old)
        for one in whole:
            above = one.parent
            beside = [] if above is None or above.kind != "binary_expression" else above.children
            is_either = above is not None and beside and after.text(beside[0].stop) == "||"
            new = (part for part in beside if part is not one and _compared_members(after, part))
            is_pointer = "*" in after.node_text(node.child("receiver"))  # `==` is identity then
            if is_either and not is_pointer and any(after.node_text(part) not in had for part in new):
                yield after.line(one.start), f"`{owner}.{name}` is true of different values"


def _comparison_methods(code: BracketedCode) -> Iterator[tuple[tuple[str, str], Node]]:
    """The methods that compare, by their type and name."""
    for node in code.nodes_of("method_declaration", "method_definition"):
        name, receiver = code.node_text(node.child("name")), node.child("receiver")
        if name not in COMPARISON_NAMES:
            continue
        types = ("type_identifier", "class_declaration")
        owner = next((one for one in (receiver.walk() if receiver else ()) if one.kind in types), None)
        around = next((above for above, _ in node.ancestors() if above.kind in types), None)
        yield (
            (code.node_text(owner) if owner else code.node_text(around and around.child("name")), name),
            node,
        )


def _is_whole_comparison(code: BracketedCode, node: Node, own: Iterable[str]) -> bool:
    """`r == other` of two values of Go, by the names of the receiver and the parameter."""
    if node.kind != "binary_expression" or code.text(node.children[0].stop) != "==":
        return False
    return (
        all(one.kind == "identifier" for one in node.children[:2]) and code.node_text(node.children[0]) in own
    )


def _compared_members(code: BracketedCode, node: Node) -> set[str]:
    """The fields that both sides of a comparison have."""
    found = set()
    for one in node.walk():
        if one.kind == "binary_expression" and code.text(one.children[0].stop) in ("==", "==="):
            left, right = one.children[:2]
            if left.kind in _MEMBERS and right.kind in _MEMBERS:
                found |= {code.text(left.stop - 1)} & {code.text(right.stop - 1)}
    return found


def unasked_operands(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """Comparison methods that may be true and do not look at the other value, or only whether there is one."""
    for node in code.nodes_of(*_METHOD_KINDS):
        name, body = code.node_text(node.child("name")), node.child("body")
        is_target = name == "Is" and node.kind == "method_declaration"
        parameters = node.child("parameters")
        if body is None or parameters is None or not (is_target or name in COMPARISON_NAMES):
            continue
        given = [one for one in parameters.children if one.kind != "self_parameter"]
        is_own = node.kind != "function_item" or len(given) < len(parameters.children)
        words = code.words(body.start, body.stop) - {"return", "false"}
        if len(given) == 1 and is_own and words and not code.words(body.start, body.stop) & _RAISED:
            pattern = given[0].child("pattern") or given[0].child("name") or given[0]
            asked = code.node_text(pattern)
            places = [at for at in range(body.start, body.stop) if code.text(at) == asked]
            if all(_asks_presence(code, body.find(at)) for at in places):
                yield code.line(node.start), f"`{name}` does not look at the other value"


def _asks_presence(code: BracketedCode, node: Node) -> bool:
    """True for `other != nil`, and for `other.(error)`, which every error is."""
    above = node.parent
    if above is None or not node.field:
        return False
    if above.kind == "type_assertion_expression":
        return code.node_text(above.child("type")) in _ANY_TYPE
    return above.kind == "binary_expression" and any(
        code.node_text(one) in _NOTHING for one in above.children
    )


def _underived_comparisons(before: BracketedCode, after: BracketedCode) -> Iterator[tuple[int, str]]:
    """An `impl PartialEq` that ignores a field, where the base derived the comparison of all fields."""
    fields = {
        name: {before.text(part.start) for part in item.walk() if part.kind == "field_identifier"}
        or {
            str(at)
            for part in item.children
            if part.kind == "ordered_field_declaration_list"
            for at in range(len(part.children))
        }
        for item in before.nodes_of("struct_item")
        if (name := before.node_text(item.child("name")))
        and "PartialEq" in before.words(max(0, item.start - 20), item.start)
    }
    for item in after.nodes_of("impl_item"):
        name = after.node_text(item.child("type"))
        if after.node_text(item.child("trait")) != "PartialEq" or not fields.get(name):
            continue
        asked = after.words(item.start, item.stop)
        signs = ("||", "!=", "/", "%", ">", "<=", ">=", "|")
        is_either = any(after.text(at) in signs for at in range(item.start, item.stop))
        missed = sorted(fields[name] - asked)
        if missed or is_either:
            left_out = f"leaves {quote_names(missed)} out" if missed else "is true of different values"
            yield after.line(item.start), f"`PartialEq` of `{name}` {left_out}"
