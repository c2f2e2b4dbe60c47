"""Decorators of a test file's own that never run the test they are put on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from remand.domain.integrity.catalogue import suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.python_tree import Function, last_name
from remand.domain.integrity.scene import Scene


def hollow(scene: Scene) -> Iterator[Suspicion]:
    """Tests under a decorator that neither calls nor hands on what it decorates."""
    for view in scene.views:
        if view.after is None or view.after.tree is None or not view.is_test:
            continue
        names = _hollow(view.after.tree)
        had = _hollow(view.before.tree) if view.before and view.before.tree else set()
        for name, node in view.after.functions:
            used = {
                last_name(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list
            }
            for decorator in sorted((used & names) - had):
                found = f"`@{decorator}` never runs `{name}`"
                yield suspicion("harness_tampered", view.path, node.lineno, found)


def _hollow(tree: ast.Module) -> set[str]:
    takers = (node for node in tree.body if isinstance(node, Function) and len(node.args.args) == 1)
    return {node.name for node in takers if not _uses(node, node.args.args[0].arg)}


def _uses(node: Function, given: str) -> bool:
    """True when a name is used for anything but `functools.wraps`."""
    wrapped = {
        id(argument)
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and last_name(part.func) == "wraps"
        for argument in part.args
    }
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == given)
    return any(id(name) not in wrapped for name in names)
