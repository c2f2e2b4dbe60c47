"""Tests that replace the very thing they test, or a module of the project as a whole."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path
from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.configuration import settings_of, tool_of
from remand.domain.integrity.reading.python_tree import (
    Function,
    argument,
    called,
    calls_in,
    constants,
    last_name,
    shown,
    walked,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.reading.tokens import NAME, unquoted
from remand.domain.integrity.scene import Scene

_PATCHERS = re.compile(r"(.*\.)?(patch|patch\.object|setattr)")
_HINT = re.compile(r"\bpatch|setattr|Mock\(|lambda|create_autospec")
_MAPPED = re.compile(r"(?:modulenamemapper|alias)\.(.+)$")
_STAND_IN = re.compile(r"mock|stub|fake|dummy|(^|/)(tests?|__tests__|spec)/", re.IGNORECASE)
_FAKES = frozenset(("Mock", "MagicMock", "AsyncMock", "create_autospec", "Fake"))
_SPIES = frozenset(("mockReturnValue", "mockResolvedValue", "mockImplementation", "returns", "resolves"))


def mocked(scene: Scene) -> Iterator[Suspicion]:
    """Replaced subjects in test files, where the base did not replace them."""
    for view in scene.views:
        if view.after is None or not view.is_test:
            continue
        had = {name for name, _ in _replaced(view.before, scene)} if view.before else set()
        for name, line in _replaced(view.after, scene):
            if name not in had:
                yield suspicion(
                    "test_mocks_its_subject", view.path, line, f"`{short(name)}` is replaced and then tested"
                )
        yield from _stubs(scene, view.path, view.before, view.after)


def mapped(scene: Scene) -> Iterator[Suspicion]:
    """Modules of the project in whose place a runner is told to load a stand-in."""
    own = {
        path.rpartition("/")[2].partition(".")[0].lower()
        for path in scene.comparison.paths
        if is_product_path(path)
    }
    for view in scene.views:
        if view.after is None or not tool_of(view.path):
            continue
        had = settings_of(view.before) if view.before else {}
        for key, value in settings_of(view.after).items():
            match = _MAPPED.search(key)
            name = re.split(r"[^\w-]+", match[1].strip("^$()"))[-1] if match else ""
            if name in own and key not in had and isinstance(value, str) and _STAND_IN.search(value):
                told = f"`{short(match[1] if match else key)}` is loaded from `{short(value)}`"
                yield suspicion("test_mocks_its_subject", view.path, 0, told)


def _replaced(source: Source, scene: Scene) -> Iterator[tuple[str, int]]:
    if source.tree is not None:
        if _HINT.search(source.text):
            for _, node in source.functions:
                if node.name.startswith("test"):
                    yield from _in_python(node)
            yield from _around_tests(source, scene.own_packages)
    elif source.language == "script":
        yield from _in_script(source.code)
        yield from _own_module(source)


def _in_python(node: Function) -> Iterator[tuple[str, int]]:
    """Patched names that the test itself then calls and compares."""
    used = _expected_calls(node)
    for part in (*node.decorator_list, *ast.walk(node)):
        for name, line in _patched(part):
            if name.rpartition(".")[2] in used and name.partition(".")[0] not in sys.stdlib_module_names:
                yield name, line


def _around_tests(source: Source, own: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Parts of the project that are replaced for several tests at once, and that those tests expect answers of."""
    tests = [node for _, node in source.functions if node.name.startswith("test")]
    used = {name for node in tests for name in _expected_calls(node)}
    around: list[ast.AST] = [part for owner in source.every(ast.ClassDef) for part in owner.decorator_list]
    around += [part for _, node in source.functions if _sets_up(node) for part in ast.walk(node)]
    around += [node for node in source.tree.body if isinstance(node, ast.Assign)] if source.tree else []
    for part in around:
        for name, line in _patched(part):
            first = source.imports.get(name.partition(".")[0], name).partition(".")[0]
            if first in own and name.rpartition(".")[2] in used:
                yield name, line


def _expected_calls(node: Function) -> set[str]:
    asserted = [part for part in ast.walk(node) if isinstance(part, ast.Assert)]
    compared = [
        arg
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and last_name(part.func).startswith("assert")
        for arg in part.args
    ]
    return set(calls_in(walked([*asserted, *compared]))) | _assigned_calls(node)


def _sets_up(node: Function) -> bool:
    decorators = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return node.name in ("setUp", "setUpClass", "setup_method", "setup_class", "setup_module") or any(
        last_name(item) == "fixture" for item in decorators
    )


def _assigned_calls(node: Function) -> set[str]:
    """The names whose results are kept in a variable."""
    values = (part.value for part in ast.walk(node) if isinstance(part, ast.Assign))
    return {last_name(value.func) for value in values if isinstance(value, ast.Call)} - _FAKES


def _patched(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Call) and _PATCHERS.fullmatch(called(node)) and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if "." in first.value and _answers(node, 1):
                yield first.value, node.lineno
        elif len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and _answers(node, 2):
            yield f"{shown(first)}.{node.args[1].value!s}", node.lineno
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and _is_fake(node.value):
        yield shown(node.targets[0]), node.lineno


def _answers(call: ast.Call, place: int) -> bool:
    """True when the replacement is told what to answer."""
    if argument(call, "return_value") is not None or argument(call, "side_effect") is not None:
        return True
    replacement = argument(call, "new", place) or argument(call, "value")
    return replacement is not None and _is_fake(replacement)


def _is_fake(node: ast.expr) -> bool:
    if isinstance(node, ast.Lambda):
        is_plain = isinstance(node.body, ast.Constant | ast.Name | ast.Attribute)
        return bool(constants(ast.walk(node.body))) or is_plain
    is_mock = isinstance(node, ast.Call) and last_name(node.func) in _FAKES
    return is_mock and isinstance(node, ast.Call) and argument(node, "return_value") is not None


def _in_script(code: Code) -> Iterator[tuple[str, int]]:
    """`jest.spyOn(cart, 'total').mockReturnValue(3)`, then `expect(cart.total()).toBe(3)`."""
    for place, token in enumerate(code.tokens):
        if token.text not in ("spyOn", "stub") or code.text(place + 1) != "(":
            continue
        arguments = list(code.arguments(place + 1))
        after = code.close(place + 1)
        if len(arguments) < 2 or code.text(after + 2) not in _SPIES:
            continue
        name = f"{code.shown(*arguments[0])}.{unquoted(code.shown(*arguments[1]))}"
        if any(_is_expected(code, at, name) for at in range(after, min(after + 400, len(code.tokens)))):
            yield name, token.line


def _is_expected(code: Code, place: int, name: str) -> bool:
    if code.text(place) != "expect" or code.text(place + 1) != "(":
        return False
    start = place + 3 if code.text(place + 2) == "await" else place + 2
    return code.shown(start, code.close(place + 1)).startswith(f"{name}(")


def _own_module(source: Source) -> Iterator[tuple[str, int]]:
    """`jest.mock('../src/cart', …)` in `cart.test.js`, nothing of the real one kept."""
    subject = source.path.rpartition("/")[2].split(".")[0]
    code = source.code
    for place, token in enumerate(code.tokens):
        if token.text not in ("mock", "doMock") or code.text(place - 2) not in ("jest", "vi"):
            continue
        stop = code.close(place + 1)
        module = unquoted(code.text(place + 2))
        has_factory = stop > place + 3
        is_real = code.words(place, stop) & {"requireActual", "importActual", "importOriginal", "spy"}
        if (
            has_factory
            and (not is_real or _is_faked(code, place, stop))
            and module.startswith(".")
            and module.rpartition("/")[2].split(".")[0] == subject
        ):
            yield module, token.line


def _is_faked(code: Code, start: int, stop: int) -> bool:
    """True when a factory that keeps the rest replaces something that tests then expect an answer of."""
    faked = {code.text(at) for at in range(start, stop) if code.text(at + 1) == ":" and code.kind(at) == NAME}
    subjects = (
        code.text(at + 2) for at, token in enumerate(code.tokens) if token.text == "expect" and at > stop
    )
    return bool(faked & set(subjects))


def _stubs(scene: Scene, path: str, before: Source | None, after: Source) -> Iterator[Suspicion]:
    """`sys.modules["shop.cart"] = …`"""
    had = set(_stubbed(before)) if before else set()
    for name, line in _stubbed(after):
        if (
            name.partition(".")[0] in scene.own_packages
            and (name, line) not in had
            and name not in {one for one, _ in had}
        ):
            yield suspicion("module_stubbed", path, line, f"`sys.modules[{name!r}]` is replaced")


def _stubbed(source: Source) -> Iterator[tuple[str, int]]:
    for node in source.every(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and shown(target.value) == "sys.modules":
            key = target.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, target.lineno
