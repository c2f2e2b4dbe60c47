"""A Python test module as a runner sees it: which functions it finds, and what stands around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.integrity.reading.python_tree import (
    Function,
    imports,
    is_false,
    is_main_guard,
    is_true,
    last_name,
    number,
)

MANY = 1000
Lists = dict[str, int]
"""How many items the lists and tuples have that are written out, by name."""


class Module(NamedTuple):
    """What a module's functions share."""

    names: dict[str, str]
    """What each imported name stands for."""
    aliases: dict[str, ast.expr]
    """The values of names of its own: a marker may go by one."""
    lists: Lists
    heirs: dict[str, int]
    """How many collected classes inherit from each class."""
    gone: frozenset[str]
    """The tests it deletes again, or gives another value."""


class Scope(NamedTuple):
    """Where a function stands."""

    module: Module
    prefix: str = ""
    is_collected: bool = True
    decorators: tuple[ast.expr, ...] = ()
    times: int = 1
    """How many classes a runner finds it in."""
    conditions: tuple[ast.expr, ...] = ()
    """What must hold for it to be defined."""


def functions_of(tree: ast.Module) -> Iterator[tuple[Scope, Function]]:
    """Every function that the module defines when it is imported, with where it stands."""
    module = Module(
        names=imports(tree.body),
        aliases=_aliases(tree.body),
        lists=lists_in(tree.body),
        heirs=_heirs(tree.body),
        gone=_unbound(tree),
    )
    return _functions(tree.body, Scope(module))


def _functions(body: list[ast.stmt], scope: Scope) -> Iterator[tuple[Scope, Function]]:
    for node in body:
        if isinstance(node, Function):
            yield scope, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, _inside(node, scope))
        elif isinstance(node, ast.If):
            if not is_false(node.test) and not is_main_guard(node):
                inner = (
                    scope if is_true(node.test) else scope._replace(conditions=(*scope.conditions, node.test))
                )
                yield from _functions(node.body, inner)
            yield from _functions(node.orelse, scope)
        elif isinstance(node, ast.Try | ast.With):
            yield from _functions(node.body, scope)


def _inside(node: ast.ClassDef, scope: Scope) -> Scope:
    heirs = scope.module.heirs.get(node.name, 0)
    is_off = any(_assigned(item, "__test__") is False for item in node.body)
    return Scope(
        scope.module,
        f"{scope.prefix}{node.name} › ",
        scope.is_collected and (_is_found(node) or heirs > 0) and not is_off,
        (*scope.decorators, *node.decorator_list, *_marks(node.body)),
        max(1, heirs + _is_found(node)),
        scope.conditions,
    )


def _is_found(node: ast.ClassDef) -> bool:
    """True for a class that pytest or unittest collects."""
    has_init = any(isinstance(item, Function) and item.name == "__init__" for item in node.body)
    is_unittest = any("TestCase" in last_name(base) for base in node.bases)
    return is_unittest or (node.name.startswith("Test") and not has_init) or _inherits(node)


def _inherits(node: ast.ClassDef) -> bool:
    return any(
        last_name(base).startswith("Test") or last_name(base).endswith(("Test", "Tests"))
        for base in node.bases
    )


def _heirs(body: list[ast.stmt]) -> dict[str, int]:
    """How many collected classes have each class among their ancestors in the module."""
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    found: dict[str, int] = {}
    for node in classes.values():
        if not _is_found(node):
            continue
        waiting, seen = [node], {node.name}
        while waiting:
            for name in map(last_name, waiting.pop().bases):
                if name in classes and name not in seen:
                    seen.add(name)
                    found[name] = found.get(name, 0) + 1
                    waiting.append(classes[name])
    return found


def _marks(body: list[ast.stmt]) -> list[ast.expr]:
    return [
        node.value
        for node in body
        if isinstance(node, ast.Assign) and any(last_name(target) == "pytestmark" for target in node.targets)
    ]


def _assigned(node: ast.stmt, name: str) -> object:
    if isinstance(node, ast.Assign) and any(last_name(target) == name for target in node.targets):
        return node.value.value if isinstance(node.value, ast.Constant) else None
    return None


def _aliases(body: list[ast.stmt]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id != "pytestmark"
    }


def _unbound(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Delete | ast.Assign) else []
        names = (target.id for target in targets if isinstance(target, ast.Name))
        found |= {name for name in names if name.startswith("test")}
        if _assigned(node, "__test__") is False:
            found |= {item.name for item in tree.body if isinstance(item, Function)}
    return frozenset(found)


def lists_in(body: list[ast.stmt]) -> Lists:
    """The lists and tuples that a body writes out under a name."""
    found: Lists = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple | ast.Dict | ast.Set):
            length = length_of(node.value, {})
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found |= dict.fromkeys(names, length) if length is not None else {}
    return found


def length_of(node: ast.expr, lists: Lists) -> int | None:
    """How many items something written out has; None when it is not written out."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else min(len(node.elts), MANY)
    if isinstance(node, ast.Dict):
        return min(len(node.keys), MANY)
    if isinstance(node, ast.Call) and last_name(node.func) == "range" and len(node.args) == 1:
        bound = number(node.args[0])
        return None if bound is None else int(min(max(bound, 0), MANY))
    if isinstance(node, ast.Call) and last_name(node.func) in ("items", "enumerate", "zip", "sorted", "list"):
        inner = node.args[0] if node.args else getattr(node.func, "value", None)
        return length_of(inner, lists) if inner is not None else None
    return lists.get(last_name(node))
