"""The page on the architecture names packages, modules, functions and tests that are there."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "remand"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
TREE = PAGE.partition("## The tree")[2].split("```")[1]
WAYS = re.findall(r"^## (A [^\n]+'s way)$(.+?)^(?=## )", PAGE, re.MULTILINE | re.DOTALL)
NAMED = re.findall(r"`([a-z_/]+\.py): (\w+(?:\.\w+)?)`", PAGE)
PATHS = re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)(?:: [\w.]+)?`", PAGE)
LEFT_OUT = {"", "adapters", "interfaces"}
"""Packages that hold only packages, or the demo's scripted agents and data."""
MOST_STOPS = 12


@cache
def names_in(path: str) -> frozenset[str]:
    """The functions, classes, methods and constants of a module, a method as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse((SOURCE / path).read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found.add(name)
                found |= {f"{name}.{one.name}" for one in body if isinstance(one, ast.FunctionDef)}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return frozenset(found)


def tree_rows() -> dict[str, list[str]]:
    """The packages of the tree with the modules named of each."""
    rows = (line.split(maxsplit=1) for line in TREE.strip().splitlines())
    return {
        package.rstrip("/"): [re.match(r"\w+", item)[0] for item in text.split(" · ")]  # type: ignore[index] # fails if none
        for package, text in rows
    }


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)), ids=str)
def test_a_named_function_is_there(path: str, name: str) -> None:
    assert (SOURCE / path).is_file()
    assert name in names_in(path)


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_a_named_path_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (SOURCE / path).exists()


def test_the_tree_has_every_package() -> None:
    packages = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")}

    assert set(tree_rows()) == {"" if name == "." else name for name in packages} - LEFT_OUT


def test_the_tree_names_modules_that_are_there() -> None:
    missing = [
        f"{package}/{module}"
        for package, modules in tree_rows().items()
        for module in modules
        if not (SOURCE / package / f"{module}.py").is_file()
    ]

    assert missing == []


@pytest.mark.parametrize(("title", "text"), WAYS, ids=[title for title, _ in WAYS])
def test_a_way_has_at_most_twelve_stops_that_name_their_function(title: str, text: str) -> None:
    stops = re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)

    assert 1 < len(stops) <= MOST_STOPS, title
    assert [stop for stop in stops if not re.search(r"`[a-z_/]+\.py: \w", stop)] == []


def test_the_four_ways_are_described() -> None:
    assert [title for title, _ in WAYS] == [
        "A claim's way",
        "A done claim's way",
        "A review's way",
        "A run's way",
    ]


def test_the_page_lists_exactly_the_libraries_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(name for extra in extras.keys() - {"bench", "docs", "test"} for name in extras[extra]),
    ]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}  # type: ignore[index] # a requirement has a name
    rows = PAGE.partition("## Libraries")[2].partition("\n## ")[0]
    listed = {
        name
        for row in re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", row)
    }

    assert listed - {"argparse"} == {name for name in names if not name.startswith("tree-sitter-")}
