"""Comparisons that are always true."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.python_tree import (
    Function,
    called,
    is_true,
    last_name,
    shown,
    without_docstring,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_METHODS = frozenset(
    (
        *("__eq__", "__le__", "__ge__", "__lt__", "__gt__", "__contains__"),
        *("__instancecheck__", "__subclasscheck__"),
    )
)
_TURNED = frozenset(("__ne__",))
_SCALARS = frozenset(("int", "float", "str", "list", "dict", "tuple", "set", "bytes", "Decimal"))
_NAMES = frozenset(
    ("eq", "equals", "Equals", "Equal", "isEqual", "asymmetricMatch", "partial_cmp", "compareTo", "is_eq")
)


def forced(scene: Scene) -> Iterator[Suspicion]:
    """Comparison methods that answer without comparing, where the base has none."""
    for view in scene.views:
        if view.after is None or not view.after.is_code:
            continue
        had = {text for _, text in _found(view.before)} if view.before else set()
        for line, text in _found(view.after):
            if text not in had:
                yield suspicion("equality_forced", view.path, line, text)
        if view.before is not None:
            yield from _leaves_out(view.path, view.before, view.after)


def _leaves_out(path: str, before: Source, after: Source) -> Iterator[Suspicion]:
    """A comparison by some fields, where a data class compared all of them by itself."""
    compared = {node.name for node in before.every(ast.ClassDef) if _compares_all(node)}
    for owner in after.every(ast.ClassDef):
        method = next(
            (item for item in owner.body if isinstance(item, Function) and item.name == "__eq__"), None
        )
        if owner.name not in compared or method is None:
            continue
        asked = {part.attr for part in ast.walk(method) if isinstance(part, ast.Attribute)}
        missed = sorted(set(_fields(owner)) - asked)
        if missed and not asked & {"__dict__", "_asdict", "astuple", "asdict"}:
            told = f"`{owner.name}.__eq__` leaves {listed(missed)} out"
            yield suspicion("equality_forced", path, method.lineno, told)


def _compares_all(node: ast.ClassDef) -> bool:
    decorators = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    is_data = any(last_name(item) in ("dataclass", "define", "frozen", "attrs") for item in decorators)
    has_own = any(isinstance(item, Function) and item.name == "__eq__" for item in node.body)
    return (is_data or any(last_name(base) == "NamedTuple" for base in node.bases)) and not has_own


def _fields(node: ast.ClassDef) -> list[str]:
    return [last_name(item.target) for item in node.body if isinstance(item, ast.AnnAssign)]


def _found(source: Source) -> Iterator[tuple[int, str]]:
    if source.tree is None:
        yield from _braced(source.code)
        return
    for owner in source.every(ast.ClassDef):
        yield from _of_class(owner)
    for node in source.every(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr in _METHODS | _TURNED:
            yield node.lineno, f"`{shown(target)}` is replaced"
    for call in source.every(ast.Call):
        if called(call) == "setattr" and _sets_method(call):
            yield call.lineno, f"`{shown(call)}` replaces a comparison"


def _sets_method(node: ast.Call) -> bool:
    return (
        len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in _METHODS | _TURNED
    )


def _of_class(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    is_scalar = any(last_name(base) in _SCALARS for base in node.bases)
    for item in node.body:
        if isinstance(item, Function) and item.name in _METHODS | _TURNED:
            if _is_constant(item, node):
                yield item.lineno, f"`{node.name}.{item.name}` answers without comparing"
            elif is_scalar and item.name == "__eq__" and not _asks_super(item):
                yield item.lineno, f"`{node.name}.__eq__` takes the place of the comparison of values"
        elif _is_constant_lambda(item):
            yield item.lineno, f"`{shown(item)}` answers without comparing"


def _is_constant_lambda(item: ast.stmt) -> bool:
    if not isinstance(item, ast.Assign) or last_name(item.targets[0]) not in _METHODS | _TURNED:
        return False
    return isinstance(item.value, ast.Lambda) and _is_answer(item.value.body, is_turned=False)


def _asks_super(node: Function) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "super" for part in ast.walk(node))


def _is_constant(node: Function, owner: ast.ClassDef) -> bool:
    """True when every way through a method gives the same answer, whatever the other value is."""
    is_turned = node.name in _TURNED
    returned = [
        part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None
    ]
    answers = [value for value in returned if last_name(value) != "NotImplemented"]
    if not answers or not all(
        _is_answer(value, is_turned=is_turned) or _asks_own_type(value, node, owner) for value in answers
    ):
        return False
    return len(without_docstring(node.body)) <= 4


def _is_answer(value: ast.expr, *, is_turned: bool) -> bool:
    if is_turned:
        return isinstance(value, ast.Constant) and value.value is False
    return is_true(value)


def _asks_own_type(value: ast.expr, node: Function, owner: ast.ClassDef) -> bool:
    """`isinstance(other, Money)` in `Money` says that any two are equal."""
    if (
        node.name != "__eq__"
        or not isinstance(value, ast.Call)
        or called(value) != "isinstance"
        or len(value.args) < 2
    ):
        return False
    asked = last_name(value.args[1]) in (owner.name, "object") or "self" in shown(value.args[1])
    return asked and _has_state(owner)


def _has_state(owner: ast.ClassDef) -> bool:
    """True for a class whose values can differ."""
    if any(isinstance(item, ast.AnnAssign) for item in owner.body):
        return True
    written = (
        part
        for part in ast.walk(owner)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    )
    return any(last_name(part.value) == "self" for part in written)


def _braced(code: Code) -> Iterator[tuple[int, str]]:
    for place, token in enumerate(code.tokens):
        if token.text not in _NAMES or code.text(place + 1) != "(":
            continue
        block = code.close(place + 1) + 1
        while (
            block < len(code.tokens) and code.text(block) not in ("{", ";", "}", "=>") and block < place + 60
        ):
            block += 1
        if code.text(block) == "{" and code.shown(block + 1, code.close(block)) in (
            "return true;",
            "return true",
            "true",
            "return 0;",
        ):
            yield token.line, f"`{token.text}` answers without comparing"
