"""Holds the figures that tell a kept codebase from one grown wild."""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "remand"

LONG_FUNCTION = 50
LONG_FUNCTIONS_SHARE = 0.03
NINETIETH_PERCENTILE = 31
OWN_IMPORTS_INSIDE_FUNCTIONS = 8
LONG_MODULE = 400
BROAD_HANDLERS = 5

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    place: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    def place(self, node: ast.stmt | ast.ExceptHandler) -> str:
        return f"{self.path.relative_to(SOURCE.parent)}:{node.lineno}"


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Keeps what was read of the modules until the last test here."""
    yield
    modules.cache_clear()


@cache
def modules() -> list[Module]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path=path, text=text, tree=ast.parse(text, filename=str(path))))
    return found


def functions_in(module: Module) -> Iterator[FunctionNode]:
    for node in ast.walk(module.tree):
        if isinstance(node, FunctionNode):
            yield node


def line_count(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def length_without_docstring(function: FunctionNode) -> int:
    docstring = line_count(function.body[0]) if ast.get_docstring(function, clean=False) is not None else 0
    return line_count(function) - docstring


def functions() -> list[Function]:
    return [
        Function(place=f"{module.place(node)} {node.name}", length=length_without_docstring(node))
        for module in modules()
        for node in functions_in(module)
    ]


def is_own_import(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(name.name.split(".")[0] == "remand" for name in names)
        case ast.ImportFrom(module=name, level=level):
            return level > 0 or (name or "").split(".")[0] == "remand"
    return False


def is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    types = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        one is None or (isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"})
        for one in types
    )


def listed(places: list[str]) -> str:
    return "".join(f"\n  {place}" for place in places)


def by_length(found: list[Function]) -> list[str]:
    ordered = sorted(found, key=lambda function: -function.length)
    return [f"{function.length} lines: {function.place}" for function in ordered]


def test_hardly_a_function_is_longer_than_fifty_lines() -> None:
    every = functions()
    long = [function for function in every if function.length > LONG_FUNCTION]

    assert len(long) <= LONG_FUNCTIONS_SHARE * len(every), (
        f"{len(long)} of {len(every)} functions are over {LONG_FUNCTION} lines, at most"
        f" {LONG_FUNCTIONS_SHARE:.0%} may be; split them:{listed(by_length(long))}"
    )


def test_nine_functions_in_ten_are_short() -> None:
    every = sorted(functions(), key=lambda function: function.length)
    assert every, f"no function found under {SOURCE}"
    percentile = every[math.ceil(0.9 * len(every)) - 1].length
    over = [function for function in every if function.length > NINETIETH_PERCENTILE]

    assert percentile <= NINETIETH_PERCENTILE, (
        f"the 90th percentile of function length is {percentile} lines, at most {NINETIETH_PERCENTILE}"
        f" is allowed; split some of these:{listed(by_length(over))}"
    )


def test_own_modules_are_imported_at_the_top() -> None:
    inside = {
        module.place(node)
        for module in modules()
        for function in functions_in(module)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and is_own_import(node)
    }

    assert len(inside) <= OWN_IMPORTS_INSIDE_FUNCTIONS, (
        f"{len(inside)} imports of own modules stand inside functions, at most"
        f" {OWN_IMPORTS_INSIDE_FUNCTIONS} may:{listed(sorted(inside))}"
    )


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    long = []
    for module in modules():
        lines = len(module.text.splitlines())
        if lines > LONG_MODULE:
            long.append(f"{lines} lines: {module.path.relative_to(SOURCE.parent)}")

    assert not long, f"modules over {LONG_MODULE} lines; split them by noun:{listed(long)}"


def test_only_outermost_loops_catch_every_exception() -> None:
    broad = [
        module.place(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]

    assert len(broad) <= BROAD_HANDLERS, (
        f"{len(broad)} handlers catch every exception, at most {BROAD_HANDLERS} may;"
        f" name what can go wrong instead:{listed(broad)}"
    )
