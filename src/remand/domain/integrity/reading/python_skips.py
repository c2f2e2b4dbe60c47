"""The markers by which a Python test is not run, or may fail unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from remand.domain.integrity.reading.cases import Skip
from remand.domain.integrity.reading.python_tree import (
    argument,
    called,
    dotted,
    is_false,
    is_true,
    last_name,
    shown,
)

_MARKS = frozenset(
    (
        *("skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure", "nottest", "flaky"),
        *("disabled", "ignore"),
    )
)
_CALLS = frozenset(
    ("pytest.skip", "pytest.xfail", "self.skipTest", "pytest.importorskip", "unittest.skip", "skip")
)
_FOREIGN = frozenset(("win32", "darwin", "nt", "Windows", "Darwin", "cygwin", "aix", "emscripten"))
_WATCHED = ("CI", "GITHUB_ACTIONS", "PYTEST_CURRENT_TEST", "REMAND")


def skips_of(decorators: Iterable[ast.expr], body: list[ast.stmt]) -> tuple[Skip, ...]:
    """The markers on a test, and the skips in its body."""
    marked = [skip for node in decorators for skip in _marked(node)]
    return (*marked, *_in_body(body, is_conditional=False))


def skips_of_module(tree: ast.Module) -> tuple[Skip, ...]:
    """What keeps a whole module from running."""
    found: list[Skip] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(last_name(target) == "pytestmark" for target in node.targets):
            found += _marked(node.value)
        elif isinstance(node, ast.If) and not is_false(node.test):
            found += [_under(node.test, skip) for skip in _in_body(node.body, is_conditional=True)]
        else:
            found += _in_body([node], is_conditional=False)
    return tuple(found)


def skip_under(condition: ast.expr) -> Skip:
    """What keeps a test from being defined: `if sys.platform != "win32":` around it."""
    turned = ast.UnaryOp(op=ast.Not(), operand=condition)
    found = _under(turned, Skip("if", condition.lineno, f"if {shown(condition)}"))
    return found._replace(is_conditional=True)


def _marked(node: ast.expr) -> list[Skip]:
    if isinstance(node, ast.List | ast.Tuple):
        return [skip for item in node.elts for skip in _marked(item)]
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    if name == "parametrize" and isinstance(node, ast.Call):
        return _marked_parameters(node)
    if name not in _MARKS or "fixture" in dotted(node):
        return []
    if not isinstance(node, ast.Call) or name not in ("skipif", "skipIf", "skipUnless", "xfail"):
        return [Skip(name, node.lineno, shown(node))]
    condition = argument(node, "condition", 0)
    if condition is None or (isinstance(condition, ast.Constant) and name == "xfail"):
        return [Skip(name, node.lineno, shown(node))]
    if name == "skipUnless":
        condition = ast.UnaryOp(op=ast.Not(), operand=condition)
    return [_under(condition, Skip(name, node.lineno, shown(node)))]


def _marked_parameters(call: ast.Call) -> list[Skip]:
    marks = (
        keyword.value
        for part in ast.walk(call)
        if isinstance(part, ast.Call) and last_name(part.func) == "param"
        for keyword in part.keywords
        if keyword.arg == "marks"
    )
    return [skip._replace(is_conditional=True) for mark in marks for skip in _marked(mark)]


def _under(test: ast.expr, skip: Skip) -> Skip:
    """A skip that holds under a condition, and whether that leaves the test running here."""
    parts = list(ast.walk(test))
    told = {part.value for part in parts if isinstance(part, ast.Constant)}
    is_turned = any(isinstance(part, ast.Not | ast.NotEq | ast.NotIn) for part in parts)
    is_sure = not any(isinstance(part, ast.And) for part in parts)
    if (
        is_true(test)
        or any(name in told for name in _WATCHED)
        or ("linux" in told and is_sure and not is_turned)
    ):
        return skip._replace(is_conditional=False, is_foreign=False)
    is_asked = any(isinstance(part, ast.Eq | ast.In) or last_name(part) == "startswith" for part in parts)
    is_elsewhere = is_asked and not is_turned and any(name in told for name in _FOREIGN)
    is_here = "linux" in told and is_turned and is_sure and not is_asked
    return skip._replace(is_conditional=True, is_foreign=is_elsewhere or is_here)


def _in_body(body: list[ast.stmt], *, is_conditional: bool) -> list[Skip]:
    found: list[Skip] = []
    for node in body:
        if isinstance(node, ast.If) and not is_false(node.test):
            inside = _in_body(node.body, is_conditional=True)
            found += [_under(node.test, skip) for skip in inside]
            found += _in_body(node.orelse, is_conditional=True)
        elif isinstance(node, ast.With | ast.Try):
            found += _in_body(node.body, is_conditional=is_conditional)
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    found += [
                        skip._replace(is_conditional=True)
                        for skip in _in_body(handler.body, is_conditional=True)
                    ]
        else:
            found += _stated(node, is_conditional=is_conditional)
    return found


def _stated(node: ast.stmt, *, is_conditional: bool) -> list[Skip]:
    if isinstance(node, ast.Expr | ast.Assign) and called(node.value) in _CALLS:
        name = called(node.value)
        return [Skip(name, node.lineno, shown(node), is_conditional or name.endswith("importorskip"))]
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if last_name(raised) in ("SkipTest", "Skipped"):
            return [Skip("SkipTest", node.lineno, shown(node), is_conditional)]
    return []
