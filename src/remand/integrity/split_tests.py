"""Tests that assert several times, with a test of its own for each assertion, and for each row of a loop.

A test ends at its first failure, so one test that a change mended says little; its assertions, one by one, say as much
as several tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from remand.integrity.general_paths import line_starts, python_range
from remand.integrity.mutants import Edit, replace_parts
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import STRING, Node
from remand.integrity.rules.missing_tests import id_words, without_parameters

MAX_ROWS = 6
"""So many rows of a loop get tests of their own."""
_RUNNER_CALL = re.compile(r"(?:it|test)(?:\.\w+)*\(")
_ASSERTS = re.compile(r"(?:await )?expect\(")
_ROWS = re.compile(r"for ?\([^;()]*\bof\b")
_ASSERTION_CALL = re.compile(r"(?:self\.)?assert\w*\(")


class _Part(NamedTuple):
    """A statement that asserts: an assertion, or a loop with one."""

    start: int
    stop: int
    rows: tuple[int, int] | None = None
    """Where what a loop goes through begins and ends."""


class _Test(NamedTuple):
    start: int
    stop: int
    name_end: int
    """Where a copy puts what makes its name differ."""
    parts: Sequence[_Part]


def split_tests(path: str, text: str, test_ids: Sequence[str]) -> bytes:
    """A file with some of its tests split: a copy for each assertion and each row that does nothing else."""
    source = SourceFile(path, text)
    is_python = source.tree is not None
    ends = [id_words(without_parameters(one)) for one in test_ids]

    def is_asked(name: str) -> bool:
        words = id_words(name)
        return bool(words) and any(end[-len(words) :] == words for end in ends)

    tests = _python_tests(source, is_asked) if is_python else _script_tests(source, is_asked)
    content = text.encode()
    return replace_parts(
        text, [(one.start, one.stop, b"\n".join(_copies(content, one, is_python))) for one in tests]
    )


def _copies(content: bytes, test: _Test, is_python: bool) -> Iterator[bytes]:
    nothing, mark = (b"pass", "_part_{}") if is_python else (b";", " part {}")
    chosen = [(part, row) for part in test.parts for row in range(MAX_ROWS if part.rows else 1)]
    if len(chosen) < 2:
        yield content[test.start : test.stop]
        return
    for number, (part, row) in enumerate(chosen):
        edits: list[Edit] = [(one.start, one.stop, nothing) for one in test.parts if one is not part]
        edits.append((test.name_end, test.name_end, mark.format(number).encode()))
        if part.rows:
            rows = content[slice(*part.rows)].decode()
            one_row = (
                f"list(({rows}))[{row}:{row + 1}]" if is_python else f"[...({rows})].slice({row}, {row + 1})"
            )
            edits.append((*part.rows, one_row.encode()))
        moved = [(start - test.start, stop - test.start, new) for start, stop, new in edits]
        yield replace_parts(content[test.start : test.stop].decode(), moved)


def _python_tests(source: SourceFile, is_asked: Callable[[str], bool]) -> Iterator[_Test]:
    data, starts = source.text.encode(), line_starts(source.text)
    for name, node in source.functions:
        if not node.name.startswith("test") or not is_asked(name):
            continue
        first = starts[min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1]
        last = starts[node.end_lineno or node.lineno]
        at = data.find(node.name.encode(), starts[node.lineno - 1]) + len(node.name.encode())
        yield _Test(first, last, at, [part for one in node.body for part in _python_parts(starts, one)])


def _python_parts(starts: Sequence[int], statement: ast.stmt) -> Iterator[_Part]:
    place = python_range(starts, statement)
    if isinstance(statement, ast.For) and any(map(_is_assertion, ast.walk(statement))):
        yield _Part(*place, python_range(starts, statement.iter))
    elif _is_assertion(statement):
        yield _Part(*place)


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return bool(_ASSERTION_CALL.match(ast.unparse(node)))
    return isinstance(node, ast.Assert)


def _script_tests(source: SourceFile, is_asked: Callable[[str], bool]) -> Iterator[_Test]:
    code = source.code
    for node in code.nodes_of("expression_statement"):
        if not _RUNNER_CALL.match(code.node_text(node)):
            continue
        call = node.children[0]
        given = call.child("arguments")
        values = [one for one in given.children if one.kind != "comment"] if given else []
        body = values[-1].child("body") if len(values) > 1 else None
        title = code.text(values[0].start) if values else ""
        if body is None or code.kind(values[0].start) != STRING or not is_asked(title[1:-1]):
            continue
        parts = [part for one in body.children for part in _script_parts(source, one)]
        start, stop = code.byte_range(node)
        yield _Test(start, stop, code.byte_range(values[0])[1] - 1, parts)


def _script_parts(source: SourceFile, statement: Node) -> Iterator[_Part]:
    code = source.code
    text = code.node_text(statement)
    rows = statement.child("right")
    if statement.kind == "for_in_statement" and rows is not None and _ROWS.match(text) and "expect(" in text:
        yield _Part(*code.byte_range(statement), code.byte_range(rows))
    elif statement.kind == "expression_statement" and _ASSERTS.match(text):
        yield _Part(*code.byte_range(statement))
