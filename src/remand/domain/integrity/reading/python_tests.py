"""The tests a Python file holds, by its syntax tree."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter

from remand.domain.integrity.reading import python_asserts as asserts
from remand.domain.integrity.reading.cases import NOTHING, Assertion, Case, names_smoke
from remand.domain.integrity.reading.python_module import (
    MANY,
    Lists,
    Scope,
    functions_of,
    length_of,
    lists_in,
)
from remand.domain.integrity.reading.python_skips import skip_under, skips_of, skips_of_module
from remand.domain.integrity.reading.python_tree import (
    Function,
    argument,
    called,
    calls_in,
    constants,
    fingerprint,
    is_false,
    is_true,
    last_name,
    number,
    shown,
    walked,
    without_docstring,
    words,
)

_PROPERTY = 20
"""How many examples a property stands for."""
_ASIDE = re.compile(r"^\.|test|conftest|helper|support|assert|check|verify|expect|approv|snapshot")
_SET_UP = frozenset(("setUp", "setUpClass", "setup_method", "setup_class", "setup_module", "asyncSetUp"))
_CATCH_ALL = frozenset(("AssertionError", "Exception", "BaseException"))


def cases_of(tree: ast.Module) -> tuple[Case, ...]:
    """Every test and every other function; of two of one name the last, which is the one that runs."""
    outer = skips_of_module(tree)
    found: dict[str, Case] = {}
    for scope, node in functions_of(tree):
        case = _case(node, scope)
        is_gone = case.name in scope.module.gone
        found[case.name] = case._replace(
            is_collected=case.is_collected and not is_gone, skips=(*case.skips, *outer)
        )
    return tuple(found.values())


def shadowed_of(tree: ast.Module) -> dict[str, int]:
    """The tests that another of the same name beside them takes the place of, with the line of the other."""
    found: dict[str, int] = {}
    for prefix, body in (("", tree.body), *_classes(tree)):
        seen: set[str] = set()
        for node in body:
            if isinstance(node, Function) and node.name.startswith("test"):
                if node.name in seen:
                    found[f"{prefix}{node.name}"] = node.lineno
                seen.add(node.name)
    return found


def _classes(tree: ast.Module) -> list[tuple[str, list[ast.stmt]]]:
    return [(f"{node.name} › ", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]


def _case(node: Function, scope: Scope) -> Case:
    body = without_docstring(node.body)
    parts = walked(body)
    reader = _Reader(node, parts, scope.module.lists)
    times = _parameters(node, scope)
    found = tuple(_multiplied(item, times) for item in reader.assertions)
    act = [part for part in body if asserts.of_statement(part, {}) is None]
    is_test = node.name.startswith("test") and scope.is_collected
    return Case(
        name=f"{scope.prefix}{node.name}",
        line=node.lineno,
        is_collected=is_test and not _is_fixture(node) and not reader.yields,
        assertions=found,
        skips=(*skips_of(_decorators(node, scope), body), *map(skip_under, scope.conditions)),
        words=words(parts),
        body=fingerprint(parts),
        act=words(walked(act)),
        calls=calls_in(parts),
        literals=constants([*parts, *walked(map(_told, node.decorator_list))]),
        traps=tuple(reader.traps),
        examples=_examples(node),
        is_smoke=names_smoke(node.name) or _leans_on_fixture(node),
        is_plain=_is_plain(node, parts, scope.module.names),
        is_empty=all(isinstance(part, ast.Pass) or _is_bare(part) for part in body),
        sets_up=_is_fixture(node) or node.name in _SET_UP,
    )


def _decorators(node: Function, scope: Scope) -> list[ast.expr]:
    """What is put on a function and on the classes around it, by what it stands for."""
    given = (*scope.decorators, *node.decorator_list)
    return [scope.module.aliases.get(item.id, item) if isinstance(item, ast.Name) else item for item in given]


def _told(decorator: ast.expr) -> ast.expr:
    """A decorator, or the values alone where it gives a test parameters."""
    if isinstance(decorator, ast.Call) and last_name(decorator.func) == "parametrize":
        return argument(decorator, "argvalues", 1) or decorator
    return decorator


def _multiplied(found: Assertion, times: int | None) -> Assertion:
    if times is None:
        return found._replace(is_counted=False)
    return found._replace(times=min(found.times * times, MANY))


def _is_plain(node: Function, parts: list[ast.AST], names: dict[str, str]) -> bool:
    """True when a test calls only what was imported from the product, and methods of what that returned."""
    given = {argument.arg for argument in node.args.args}
    for part in parts:
        if not isinstance(part, ast.Call):
            continue
        root = part.func
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        name = root.id if isinstance(root, ast.Name) else ""
        is_unknown = name in given or (
            isinstance(part.func, ast.Name) and name not in names and not hasattr(builtins, name)
        )
        if is_unknown or _ASIDE.search(names.get(name, "")):
            return False
    return True


def _is_bare(node: ast.stmt) -> bool:
    is_return = isinstance(node, ast.Return) and (node.value is None or isinstance(node.value, ast.Constant))
    return is_return or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_fixture(node: Function) -> bool:
    decorators = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return any(last_name(item) == "fixture" for item in decorators)


def _leans_on_fixture(node: Function) -> bool:
    """True when a fixture asserts for the test: benchmarks, snapshots, recorded figures."""
    names = {argument.arg for argument in node.args.args}
    return any(name.endswith(("benchmark", "snapshot", "regression", "image_compare")) for name in names)


def _parameters(node: Function, scope: Scope) -> int | None:
    """How many cases a test has by its parameters; None when they are not written out."""
    times = scope.times
    if any(isinstance(item, ast.Call) and last_name(item.func) == "given" for item in node.decorator_list):
        return _PROPERTY
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not called(decorator).endswith(("parametrize", "expand")):
            continue
        given = argument(decorator, "argvalues", 1 if called(decorator).endswith("parametrize") else 0)
        length = length_of(given, scope.module.lists) if given is not None else None
        if length is None:
            return None
        times *= length
    return min(times, MANY)


def _examples(node: Function) -> float:
    calls = (
        item
        for item in node.decorator_list
        if isinstance(item, ast.Call) and last_name(item.func) == "settings"
    )
    return next(
        (found for call in calls if (found := number(argument(call, "max_examples"))) is not None), 0.0
    )


class _Reader:
    """Reads a test's body: the assertions that are reached, and what keeps them from failing."""

    def __init__(self, function: Function, parts: list[ast.AST], lists: Lists) -> None:
        self.assertions: list[Assertion] = []
        self.traps: list[tuple[str, int, str]] = []
        self.yields = False
        self._lists = lists | lists_in(function.body)
        self._known = _assignments(parts)
        self._used = words(parts)
        self._read(function.body, 1, is_conditional=False)

    def _read(self, body: list[ast.stmt], times: int, *, is_conditional: bool) -> None:
        for node in body:
            self._statement(node, times, is_conditional=is_conditional)
            if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
                return
            is_conditional = is_conditional or _may_leave(node)

    def _statement(self, node: ast.stmt, times: int, *, is_conditional: bool) -> None:
        found = asserts.of_statement(node, self._known)
        if found is not None:
            self._keep(found, times, is_conditional=is_conditional)
        elif isinstance(node, ast.If):
            self._branch(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._loop(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.While):
            self._read(node.body, 0 if is_false(node.test) else times, is_conditional=is_conditional)
        elif isinstance(node, ast.With | ast.AsyncWith):
            self._with(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.Try | ast.TryStar):
            self._try(node, times, is_conditional=is_conditional)
        elif isinstance(node, Function) and self._is_used(node.name):
            self._read(node.body, times, is_conditional=is_conditional)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            self.yields = True

    def _is_used(self, name: str) -> bool:
        return name in self._used

    def _keep(self, found: Assertion, times: int, *, is_conditional: bool) -> None:
        if times > 0:
            self.assertions.append(found._replace(times=times, is_conditional=is_conditional))

    def _loop(self, node: ast.For | ast.AsyncFor, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        length = length_of(node.iter, self._lists)
        self._read(node.body, times if length is None else times * length, is_conditional=is_conditional)
        if length is None:
            self.assertions[start:] = [item._replace(is_counted=False) for item in self.assertions[start:]]

    def _branch(self, node: ast.If, times: int, *, is_conditional: bool) -> None:
        failing = asserts.of_failing_branch(node)
        if failing is not None:
            self._keep(failing, times, is_conditional=is_conditional)
            return
        is_certain = is_true(node.test)
        if not is_false(node.test):
            self._read(node.body, times, is_conditional=is_conditional or not is_certain)
        if not is_certain:
            self._read(node.orelse, times, is_conditional=is_conditional or not is_false(node.test))

    def _with(self, node: ast.With | ast.AsyncWith, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        for item in node.items:
            found = asserts.of_with(item)
            if found is not None:
                self._keep(found, times, is_conditional=is_conditional)
        self._read(node.body, times, is_conditional=is_conditional)
        for item in node.items:
            if _suppresses(item) and len(self.assertions) > start:
                self._spoil(start, node.lineno, f"with {shown(item)}")

    def _try(self, node: ast.Try | ast.TryStar, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        self._read(node.body, times, is_conditional=is_conditional)
        swallowing = [handler for handler in node.handlers if _swallows(handler)]
        if swallowing and len(self.assertions) > start:
            self._spoil(start, swallowing[0].lineno, _handler(swallowing[0]))
        if any(isinstance(part, ast.Return) for part in node.finalbody) and len(self.assertions) > start:
            self._spoil(start, node.finalbody[0].lineno, "finally: return")
        must_raise = any(map(asserts.fails, (*node.body[-1:], *node.orelse)))
        for handler in node.handlers:
            self._read(handler.body, times, is_conditional=not must_raise)
        self._read(node.orelse, times, is_conditional=is_conditional)
        self._read(node.finalbody, times, is_conditional=is_conditional)

    def _spoil(self, start: int, line: int, text: str) -> None:
        self.traps.append(("assertion_swallowed", line, text))
        self.assertions[start:] = [item._replace(strength=NOTHING) for item in self.assertions[start:]]


def _may_leave(node: ast.stmt) -> bool:
    """True for a branch that ends the test: what follows is only reached without it."""
    return isinstance(node, ast.If) and any(isinstance(part, ast.Return) for part in node.body)


def _handler(node: ast.ExceptHandler) -> str:
    return f"except {shown(node.type)}" if node.type is not None else "except"


def _assignments(parts: list[ast.AST]) -> asserts.Known:
    """What names stand for; not a list and its like that others may have filled by then."""
    found: asserts.Known = {}
    used = Counter(node.id for node in parts if isinstance(node, ast.Name))
    for node in parts:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if used[name] <= 2 or not isinstance(node.value, ast.List | ast.Dict | ast.Set):
                found[name] = shown(node.value)
    return found


def _swallows(handler: ast.ExceptHandler) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    is_broad = any(one is None or last_name(one) in _CATCH_ALL for one in types)
    return is_broad and not asserts.may_fail(handler.body)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call) or last_name(call.func) != "suppress":
        return False
    return any(last_name(arg) in _CATCH_ALL for arg in call.args)
