"""Holds that own modules are loaded by name through `remand.startup` alone, and each where the contracts see it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "remand"
REGISTRIES = {"__init__.py", "interfaces/cli/main.py", "interfaces/cli/hosts.py"}
"""The public names, the commands, and the server that needs a package of its own: loaded by the name that is asked for."""


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Keeps what was read of the modules until the last test here."""
    yield
    modules.cache_clear()


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Every module that loads others by their name."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "lazy(" in text or "__import__" in text or "import_module" in text:
            found.append((str(path.relative_to(SOURCE)), ast.parse(text)))
    return found


def is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def lazy_names(tree: ast.Module) -> dict[str, str]:
    """The modules that are loaded when they are first used, by the names that they are called by."""
    return {
        node.targets[0].id: node.value.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and is_call(node.value, "lazy")
        and isinstance(node.value.args[0], ast.Constant)
    }


def visible_names(tree: ast.Module) -> dict[str, str]:
    """What a type checker reads in place of them."""
    return {
        name.asname or name.name: f"{node.module}.{name.name}"
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def test_what_is_loaded_by_name_is_imported_in_sight_of_the_contracts() -> None:
    hidden = [
        f"{path}: {name} is {module}"
        for path, tree in modules()
        for name, module in lazy_names(tree).items()
        if visible_names(tree).get(name) != module
    ]

    assert not hidden


def test_every_lazy_module_has_a_plain_name() -> None:
    """A name made up as the program runs could not be compared with an import."""
    calls = {
        path: sum(is_call(node, "lazy") for node in ast.walk(tree))
        for path, tree in modules()
        if path != "startup.py"
    }
    named = {path: len(lazy_names(tree)) for path, tree in modules() if path != "startup.py"}

    assert sum(named.values()) > 10
    assert calls == named


def test_only_registries_import_by_a_string() -> None:
    found = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"import_module", "__import__", "map"}
        and ("import_module" in ast.unparse(node) or node.func.id == "__import__")
        and is_own(node)
    }

    assert found - {"startup.py"} == REGISTRIES


def is_own(call: ast.Call) -> bool:
    """True for an import of our own, or of what is only known as the program runs."""
    name = call.args[0]
    return not isinstance(name, ast.Constant) or str(name.value).split(".")[0] == "remand"
