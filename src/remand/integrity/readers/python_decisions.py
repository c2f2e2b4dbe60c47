"""Where Python code makes decisions, and which names carry the values that it decides by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.python_tree import Function, called_name, child_nodes, walk_tree
from remand.integrity.readers.source import SourceFile

MAX_ROUNDS = 4
"""How many assignments from name to name are followed."""
_CONTAINERS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr, ast.Lambda)
_TEXT_QUERIES = word_set("startswith endswith match search fullmatch find index count __contains__")
_TRANSPARENT_CALLS = word_set("""
str bool int len list tuple set any all reversed enumerate next iter Path basename dirname abspath realpath
normpath getpwuid fspath splitext
""")
"""Calls whose result reveals their argument."""
NodePredicate = Callable[[ast.AST], bool]


class DecisionScope(NamedTuple):
    """A function, or the top level of a module, which has no name."""

    name: str
    nodes: list[ast.AST]


def decision_scopes(source: SourceFile) -> Iterator[DecisionScope]:
    """The module's top level first, then each function."""
    yield DecisionScope("", list(_module_nodes(source.tree)))
    for name, function in source.functions:
        yield DecisionScope(name, list(walk_tree(function)))


def _module_nodes(tree: ast.Module | None) -> Iterator[ast.AST]:
    stack: list[ast.AST] = [tree] if tree else []
    while stack:
        node = stack.pop()
        if not isinstance(node, Function):
            yield node
            stack.extend(child_nodes(node))


def derived_names(
    nodes: list[ast.AST], is_source: NodePredicate, known: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The names to which values derived from a source are assigned."""
    given = [pair for node in nodes for pair in _assignments(node)]
    names = known
    for _ in range(MAX_ROUNDS):
        more = names | {
            name
            for target, value in given
            if is_from_source(value, is_source, names)
            for name in _target_names(target)
        }
        if more == names:
            break
        names = more
    return names


def _assignments(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Assignment targets with their values."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield node.target, node.iter


def _target_names(target: ast.AST) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _target_names(part)


def origin_parts(node: ast.AST) -> Iterator[ast.AST]:
    """A value and what it is derived from; of calls, only the arguments of `len`, `str` and the like."""
    stack: list[ast.AST] = [node]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, ast.Call) and called_name(part).rpartition(".")[2] not in _TRANSPARENT_CALLS:
            stack.append(part.func)
        else:
            stack.extend(child_nodes(part))


def contains_source(node: ast.AST, is_source: NodePredicate, names: frozenset[str] = frozenset()) -> bool:
    """True if an expression uses a source or one of the names."""
    return any(
        is_source(part) or (isinstance(part, ast.Name) and part.id in names) for part in walk_tree(node)
    )


def is_from_source(node: ast.AST, is_source: NodePredicate, names: frozenset[str] = frozenset()) -> bool:
    """True if a value is derived from a source or one of the names."""
    return any(
        is_source(part) or (isinstance(part, ast.Name) and part.id in names) for part in origin_parts(node)
    )


def is_question(node: ast.AST) -> bool:
    """True for a comparison, and for a call that searches a text."""
    if isinstance(node, ast.Compare):
        return not any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
    return isinstance(node, ast.Call) and called_name(node).rpartition(".")[2] in _TEXT_QUERIES


def branch_conditions(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """The conditions of branches."""
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Match):
            yield node.subject
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            yield node
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield node.slice


def returned_expressions(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """The expressions that functions return, except parts of a larger record."""
    stack: list[ast.AST] = [node.value for node in nodes if isinstance(node, ast.Return) and node.value]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr) and not isinstance(node, _CONTAINERS):
            yield node
            stack.extend(child_nodes(node))
