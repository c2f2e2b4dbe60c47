"""Which functions of a Python test module a runner collects, and the markers that skip them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import SkipMarker
from remand.integrity.readers.python_tree import (
    Function,
    all_nodes,
    call_argument,
    called_name,
    dotted_name,
    imported_names,
    is_false,
    is_main_guard,
    is_true,
    last_name,
    node_source,
    node_words,
    parse_number,
    walk_tree,
)

MAX_REPEATS = 1000
ListLengths = dict[str, int]
"""The number of items in literal lists and tuples, by name."""


class ModuleContext(NamedTuple):
    """What a module's functions share."""

    names: dict[str, str]
    """What each imported name stands for."""
    aliases: dict[str, ast.expr]
    """The values of the module's own names: a marker may have such a name."""
    lists: ListLengths
    subclasses: dict[str, list[ast.ClassDef]]
    """The collected classes that inherit from each class."""
    gone: frozenset[str]
    """Tests that the module deletes again, or replaces by another value."""
    coroutines: frozenset[str] = frozenset()
    """Functions that do nothing until they are awaited or iterated."""


class FunctionScope(NamedTuple):
    """The context of a function."""

    module: ModuleContext
    prefix: str = ""
    is_collected: bool = True
    decorators: tuple[ast.expr, ...] = ()
    times: int = 1
    """In how many classes a runner finds it."""
    conditions: tuple[ast.expr, ...] = ()
    """The conditions under which it is defined."""
    class_words: frozenset[str] = frozenset()
    """The words of what the classes around it, and those that inherit it, assign."""


def _is_generator(node: ast.FunctionDef) -> bool:
    """True for a generator function, which does nothing until it is iterated."""
    parts = walk_tree(node)
    inner = {
        id(part)
        for function in parts
        if isinstance(function, Function | ast.Lambda) and function is not node
        for part in walk_tree(function)
    }
    yields = (part for part in parts if isinstance(part, ast.Yield | ast.YieldFrom))
    return not node.decorator_list and any(id(part) not in inner for part in yields)


def collected_functions(tree: ast.Module) -> Iterator[tuple[FunctionScope, Function]]:
    """Every function that the module defines at import, with its context."""
    module = ModuleContext(
        names=imported_names(tree.body),
        coroutines=frozenset(
            node.name
            for node in tree.body
            if isinstance(node, ast.AsyncFunctionDef)
            or (isinstance(node, ast.FunctionDef) and _is_generator(node))
        ),
        aliases=(
            {
                target.id: node.value
                for node in tree.body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name) and target.id != "pytestmark"
            }
        ),
        lists=list_lengths(tree.body),
        subclasses=_subclasses(tree.body),
        gone=_unbound_tests(tree),
    )
    return _functions_in_body(tree.body, FunctionScope(module))


def _functions_in_body(
    body: list[ast.stmt], scope: FunctionScope
) -> Iterator[tuple[FunctionScope, Function]]:
    for node in body:
        if isinstance(node, Function):
            yield scope, node
        elif isinstance(node, ast.ClassDef):
            subclasses = scope.module.subclasses.get(node.name, [])
            is_off = any(_assigned_value(item, "__test__") is False for item in node.body)
            yield from _functions_in_body(
                node.body,
                FunctionScope(
                    scope.module,
                    f"{scope.prefix}{node.name} › ",
                    scope.is_collected and (_is_collected_class(node) or bool(subclasses)) and not is_off,
                    (*scope.decorators, *node.decorator_list, *_class_marks(node.body)),
                    max(1, len(subclasses) + _is_collected_class(node)),
                    scope.conditions,
                    scope.class_words | _class_words([node, *subclasses]),
                ),
            )
        elif isinstance(node, ast.If):
            if not is_false(node.test) and not is_main_guard(node):
                inner = (
                    scope if is_true(node.test) else scope._replace(conditions=(*scope.conditions, node.test))
                )
                yield from _functions_in_body(node.body, inner)
            yield from _functions_in_body(node.orelse, scope)
        elif isinstance(node, ast.Try | ast.With):
            yield from _functions_in_body(node.body, scope)


def _is_collected_class(node: ast.ClassDef) -> bool:
    """True for a class that pytest or unittest collects."""
    has_init = any(isinstance(item, Function) and item.name == "__init__" for item in node.body)
    is_unittest = any("TestCase" in last_name(base) for base in node.bases)
    return is_unittest or (node.name.startswith("Test") and not has_init) or _inherits_tests(node)


def _inherits_tests(node: ast.ClassDef) -> bool:
    return any(
        last_name(base).startswith("Test") or last_name(base).endswith(("Test", "Tests"))
        for base in node.bases
    )


def _class_words(classes: Iterable[ast.ClassDef]) -> frozenset[str]:
    values = (item.value for node in classes for item in node.body if isinstance(item, ast.Assign))
    return node_words(all_nodes(values))


def _subclasses(body: list[ast.stmt]) -> dict[str, list[ast.ClassDef]]:
    """The collected classes that have each class among their ancestors in the module."""
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    found: dict[str, list[ast.ClassDef]] = {}
    for node in classes.values():
        if not _is_collected_class(node):
            continue
        waiting, seen = [node], {node.name}
        while waiting:
            for name in map(last_name, waiting.pop().bases):
                if name in classes and name not in seen:
                    seen.add(name)
                    found.setdefault(name, []).append(node)
                    waiting.append(classes[name])
    return found


def _class_marks(body: list[ast.stmt]) -> list[ast.expr]:
    return [
        node.value
        for node in body
        if isinstance(node, ast.Assign) and any(last_name(target) == "pytestmark" for target in node.targets)
    ]


def _assigned_value(node: ast.stmt, name: str) -> object:
    if isinstance(node, ast.Assign) and any(last_name(target) == name for target in node.targets):
        return node.value.value if isinstance(node.value, ast.Constant) else None
    return None


def _unbound_tests(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Delete | ast.Assign) else []
        names = (target.id for target in targets if isinstance(target, ast.Name))
        found |= {name for name in names if name.startswith("test")}
        if _assigned_value(node, "__test__") is False:
            found |= {item.name for item in tree.body if isinstance(item, Function)}
    return frozenset(found)


def list_lengths(body: list[ast.stmt]) -> ListLengths:
    """The literal lists and tuples of a body, by name."""
    found: ListLengths = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple | ast.Dict | ast.Set):
            length = length_of(node.value, {})
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found |= dict.fromkeys(names, length) if length is not None else {}
    return found


def length_of(node: ast.expr, lists: ListLengths) -> int | None:
    """The number of items in a literal; None if it is no literal."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return (
            None
            if any(isinstance(item, ast.Starred) for item in node.elts)
            else min(len(node.elts), MAX_REPEATS)
        )
    if isinstance(node, ast.Dict):
        return min(len(node.keys), MAX_REPEATS)
    if isinstance(node, ast.Call) and last_name(node.func) == "range" and len(node.args) == 1:
        bound = parse_number(node.args[0])
        return None if bound is None else int(min(max(bound, 0), MAX_REPEATS))
    if isinstance(node, ast.Call) and last_name(node.func) in ("items", "enumerate", "zip", "sorted", "list"):
        inner = node.args[0] if node.args else getattr(node.func, "value", None)
        return length_of(inner, lists) if inner is not None else None
    return lists.get(last_name(node))


_SKIP_MARKS = word_set("skip skipif xfail skipIf skipUnless expectedFailure nottest flaky disabled ignore")
_SKIP_CALLS = word_set("pytest.skip pytest.xfail self.skipTest pytest.importorskip unittest.skip skip")
_FOREIGN = frozenset(("win32", "darwin", "nt", "Windows", "Darwin", "cygwin", "aix", "emscripten"))
_FOREIGN_NAMES = re.compile(
    r"(?:IS_|ON_|_)*(?:WIN|WIN32|WINDOWS|MAC|MACOS|DARWIN|OSX|CYGWIN|PYPY|WASM|EMSCRIPTEN)", re.IGNORECASE
)
"""Names that projects give to platforms other than the gates'."""
_PIPELINE_VARIABLES = ("CI", "GITHUB_ACTIONS", "PYTEST_CURRENT_TEST", "REMAND")


def function_skips(decorators: Iterable[ast.expr], body: list[ast.stmt]) -> tuple[SkipMarker, ...]:
    """The markers on a test, and the skips in its body."""
    marked = [skip for node in decorators for skip in _marker_skips(node)]
    return (*marked, *_body_skips(body, is_conditional=False))


def module_skips(tree: ast.Module) -> tuple[SkipMarker, ...]:
    """The markers that skip a whole module."""
    found: list[SkipMarker] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(last_name(target) == "pytestmark" for target in node.targets):
            found += _marker_skips(node.value)
        elif isinstance(node, ast.If) and not is_false(node.test):
            found += [
                _apply_condition(node.test, skip) for skip in _body_skips(node.body, is_conditional=True)
            ]
        else:
            found += _body_skips([node], is_conditional=False)
    return tuple(found)


def conditional_skip(condition: ast.expr) -> SkipMarker:
    """A condition that prevents a test from being defined, as a skip: `if sys.platform != "win32":`."""
    turned = ast.UnaryOp(op=ast.Not(), operand=condition)
    found = _apply_condition(turned, SkipMarker("if", condition.lineno, f"if {node_source(condition)}"))
    return found._replace(is_conditional=True)


def _marker_skips(node: ast.expr) -> list[SkipMarker]:
    if isinstance(node, ast.List | ast.Tuple):
        return [skip for item in node.elts for skip in _marker_skips(item)]
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    if name == "parametrize" and isinstance(node, ast.Call):
        marks = (
            keyword.value
            for part in walk_tree(node)
            if isinstance(part, ast.Call) and last_name(part.func) == "param"
            for keyword in part.keywords
            if keyword.arg == "marks"
        )
        return [skip._replace(is_conditional=True) for mark in marks for skip in _marker_skips(mark)]
    if name not in _SKIP_MARKS or "fixture" in dotted_name(node):
        return []
    if not isinstance(node, ast.Call) or name not in ("skipif", "skipIf", "skipUnless", "xfail"):
        return [SkipMarker(name, node.lineno, node_source(node))]
    condition = call_argument(node, "condition", 0)
    if condition is None or (isinstance(condition, ast.Constant) and name == "xfail"):
        return [SkipMarker(name, node.lineno, node_source(node))]
    if name == "skipUnless":
        condition = ast.UnaryOp(op=ast.Not(), operand=condition)
    return [_apply_condition(condition, SkipMarker(name, node.lineno, node_source(node)))]


def _apply_condition(test: ast.expr, skip: SkipMarker) -> SkipMarker:
    """A skip with its condition, and whether the test can still run here."""
    parts = list(walk_tree(test))
    constants = {part.value for part in parts if isinstance(part, ast.Constant)}
    is_turned = any(isinstance(part, ast.Not | ast.NotEq | ast.NotIn) for part in parts)
    is_sure = not any(isinstance(part, ast.And) for part in parts)
    if (
        is_true(test)
        or any(name in constants for name in _PIPELINE_VARIABLES)
        or ("linux" in constants and is_sure and not is_turned)
    ):
        return skip._replace(is_conditional=False, is_foreign=False)
    is_asked = any(isinstance(part, ast.Eq | ast.In) or last_name(part) == "startswith" for part in parts)
    is_elsewhere = is_asked and not is_turned and any(name in constants for name in _FOREIGN)
    is_here = "linux" in constants and is_turned and is_sure and not is_asked
    return skip._replace(is_conditional=True, is_foreign=is_elsewhere or is_here or _needs_platform(test))


def _needs_platform(test: ast.expr) -> bool:
    """True for a condition that holds only on another platform: `WIN`, `MAC and …`."""
    if isinstance(test, ast.BoolOp):
        every = [_needs_platform(part) for part in test.values]
        return any(every) if isinstance(test.op, ast.And) else all(every)
    return (
        isinstance(test, ast.Name | ast.Attribute) and _FOREIGN_NAMES.fullmatch(last_name(test)) is not None
    )


def _body_skips(body: list[ast.stmt], *, is_conditional: bool) -> list[SkipMarker]:
    found: list[SkipMarker] = []
    for node in body:
        if isinstance(node, ast.If) and not is_false(node.test):
            inside = _body_skips(node.body, is_conditional=True)
            found += [_apply_condition(node.test, skip) for skip in inside]
            found += _body_skips(node.orelse, is_conditional=True)
        elif isinstance(node, ast.With | ast.Try):
            found += _body_skips(node.body, is_conditional=is_conditional)
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    found += [
                        skip._replace(is_conditional=True)
                        for skip in _body_skips(handler.body, is_conditional=True)
                    ]
        else:
            found += _statement_skips(node, is_conditional=is_conditional)
    return found


def _statement_skips(node: ast.stmt, *, is_conditional: bool) -> list[SkipMarker]:
    if isinstance(node, ast.Expr | ast.Assign) and called_name(node.value) in _SKIP_CALLS:
        name = called_name(node.value)
        return [
            SkipMarker(name, node.lineno, node_source(node), is_conditional or name.endswith("importorskip"))
        ]
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if last_name(raised) in ("SkipTest", "Skipped"):
            return [SkipMarker("SkipTest", node.lineno, node_source(node), is_conditional)]
    return []
