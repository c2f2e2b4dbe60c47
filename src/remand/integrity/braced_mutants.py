"""Functions of JavaScript, TypeScript, Go and Rust broken on purpose, found by the syntax tree of their file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import BracketedCode, Node, test_module_range

_KINDS = {
    "script": (
        "function_declaration",
        "generator_function_declaration",
        "method_definition",
        "variable_declarator",
    ),
    "go": ("function_declaration", "method_declaration"),
    "rust": ("function_item",),
}
_CRASH = {
    "script": 'throw new Error("broken on purpose");',
    "go": 'panic("broken on purpose")',
    "rust": 'panic!("broken on purpose");',
}
_BLOCKS = ("statement_block", "block")
_LEFT = frozenset(("constructor", "main", "init"))
"""What everything calls, or nothing that a test could look at."""


class BracedFunction(NamedTuple):
    """One function that does something, with its body on lines of its own."""

    name: str
    text: str
    """All of it, laid out one way."""
    line: int
    """The line that opens its body."""
    crash: str
    hollow: str


def find_braced_functions(source: SourceFile) -> Iterator[BracedFunction]:
    """The functions and methods of a file's product code; what is inside a function goes with it."""
    language = source.language
    if language not in _KINDS:
        return
    code, done = source.code, 0
    tests = test_module_range(code) if language == "rust" else range(0)
    for node in code.nodes_of(*_KINDS[language]):
        function = node.child("value") if node.kind == "variable_declarator" else node
        block, name = function.child("body") if function else None, code.node_text(node.child("name"))
        if function is None or block is None or block.kind not in _BLOCKS or node.start < done:
            continue
        done = node.stop
        hollow = _hollow_statement(code, function, language)
        if hollow and name not in _LEFT and node.start not in tests and _has_own_lines(code, block):
            line = code.line(block.start)
            yield BracedFunction(name, code.node_text(node), line, _CRASH[language], hollow)


def _has_own_lines(code: BracketedCode, block: Node) -> bool:
    is_empty = block.stop - block.start <= 2
    return (
        not is_empty and code.text(block.start) == "{" and code.line(block.start) < code.line(block.start + 1)
    )


def _hollow_statement(code: BracketedCode, function: Node, language: str) -> str:
    """What has it return nothing, or a zero value; empty where that is what it returns when all is well."""
    if language == "script":
        return "return;"
    if language == "go":
        return _zero_values(code, function.child("result"))
    returned = code.node_text(function.child("return_type"))
    if returned.startswith("Result<"):
        return "" if returned.startswith("Result<()") else "return Ok(Default::default());"
    return "return Default::default();"


def _zero_values(code: BracketedCode, result: Node | None) -> str:
    if result is None:
        return "return"
    if result.kind != "parameter_list":
        shown = code.node_text(result)
        return "" if shown == "error" else f"return *new({shown})"
    if any(part.child("name") for part in result.children):
        return "return"
    types = [code.node_text(part.child("type") or part) for part in result.children]
    return f"return {', '.join(f'*new({shown})' for shown in types)}"


def insert_statements(text: str, statements: dict[int, str]) -> bytes:
    """A file's text with a statement after each of some lines."""
    lines = text.split("\n")
    for line in sorted(statements, reverse=True):
        lines.insert(line, statements[line])
    return "\n".join(lines).encode()
