"""Holds that the table of `remand.startup` alone says which modules are loaded late, and what a start may load."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from remand.domain.events.catalogue import NATIVE
from remand.domain.task import Task
from remand.startup import LAZY_MODULES, PLAIN_PACKAGES, lazy_pattern

SOURCE = Path(__file__).parents[2] / "src" / "remand"
REGISTRIES = {"__init__.py", "integrity/readers/source.py", "interfaces/cli/main.py"}
"""The public names, the grammars and the commands: loaded by the name that is asked for."""


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Keeps what was read of the modules until the last test here."""
    yield
    trees.cache_clear()


@cache
def trees() -> dict[str, ast.Module]:
    """Every module, by its path."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def loaded_modules(code: str) -> set[str]:
    """The modules that are loaded after some code has run in a Python of its own."""
    show = (
        "import sys; from remand.startup import LazyModule; "
        "print(*(name for name, module in sys.modules.items() if type(module) is not LazyModule))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}; {show}"], capture_output=True, check=True, text=True
    )
    return set(done.stdout.split())


def test_every_module_of_the_table_exists_and_someone_imports_it_whole() -> None:
    imported = {
        f"{node.module}.{alias.name}"
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert not [name for name in sorted(LAZY_MODULES) if find_spec(name) is None]
    assert not sorted(LAZY_MODULES - imported)


def test_the_packages_that_are_made_without_reading_them_are_those_of_a_docstring_alone() -> None:
    packages = {
        path.removesuffix("/__init__.py"): tree for path, tree in trees().items() if "/__init__.py" in path
    }
    plain = {
        f"remand.{path.replace('/', '.')}"
        for path, tree in packages.items()
        if len(tree.body) == (ast.get_docstring(tree) is not None)
    }

    assert plain == PLAIN_PACKAGES
    assert not {f"{path}.py" for path in packages} & trees().keys(), "a module has the name of a package"


def test_only_registries_import_by_a_string() -> None:
    found = {
        path
        for path, tree in trees().items()
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


def test_the_hook_starts_without_records_patterns_or_processes() -> None:
    loaded = loaded_modules("import remand.interfaces.hook.entry as e; e.run")

    assert not loaded & {"apsw", "enum", "json", "msgspec", "re", "subprocess", "threading", "typing"}
    assert not (loaded - loaded_modules("pass")) & {"collections", "contextlib", "functools"}
    assert {name for name in loaded if name.startswith("remand.domain.")} <= {"remand.domain.hosts"}


def test_a_stop_that_measures_nothing_loads_neither_runner_nor_integrity_gate() -> None:
    found = loaded_modules("from remand.interfaces.hook.answers import make_gates")

    assert {"remand.wiring.gates", "remand.app.gates.gates"} <= found
    assert not {name for name in found if name.startswith("remand.integrity.")}
    assert not found & {f"remand.app.gates.{name}" for name in ("runner", "preparation", "measurement")}


def test_what_every_call_reads_from_json_has_annotations_that_nobody_compiles() -> None:
    """When it makes a reader, msgspec compiles each annotation that is a text."""
    found: set[type[msgspec.Struct]] = set()
    for kind in (Task, *NATIVE):
        add_records(kind, found)
    texts = {
        f"{base.__module__}.{base.__name__}"
        for record in found
        for base in record.__mro__
        for annotation in get_annotations(base).values()
        if isinstance(annotation, str)
    }

    assert not texts, "their modules import `annotations` of `__future__`"


def add_records(kind: Any, found: set[type[msgspec.Struct]]) -> None:
    """Adds the records that a type is made of."""
    for part in get_args(kind):
        add_records(part, found)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.add(kind)
        for hint in get_type_hints(kind).values():
            add_records(hint, found)


def test_a_lazy_pattern_is_compiled_by_its_first_use_and_fails_as_one_that_was() -> None:
    pattern, wrong = lazy_pattern(r"(a)\d+"), lazy_pattern("(")

    assert "fullmatch" not in vars(pattern)
    assert pattern.fullmatch("a12") is not None
    assert pattern.fullmatch("b") is None
    assert "fullmatch" in vars(pattern)
    with pytest.raises(re.error):
        wrong.search("x")


def test_the_command_line_starts_without_what_only_some_commands_need() -> None:
    loaded = loaded_modules("import remand.interfaces.cli.main as m; m.run")

    assert not loaded & {"asyncio", "cryptography", "mcp", "pydantic", "rich", "ssl", "urllib.request"}
    assert not any(name.startswith(("remand.integrity", "remand.adapters.sandbox")) for name in loaded)


def test_a_claim_that_no_terminal_shows_loads_nothing_for_terminals_or_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)
    run = f"import os; os.chdir({str(repository)!r}); from remand.interfaces.cli.entry import run; "

    loaded_modules(run + "run(['init']); run(['task', 'add', 'x'])")
    loaded = loaded_modules(run + "code = run(['task', 'claim', '--agent', 'Alice']); assert code == 0")

    assert "remand.domain.decide" in loaded, "it was carried out here"
    assert not loaded & {"msgspec.inspect", "random", "subprocess", "tempfile"}
    assert not {name for name in loaded if name.split(".")[0] == "rich"}


def test_no_python_that_we_start_loads_modules_of_the_folder_it_is_started_in() -> None:
    """`python -m` has its working directory, often somebody's repository, first on the path unless `-P` keeps it off."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.List | ast.Tuple)
        for before, word in zip([None, *node.elts], node.elts, strict=False)
        if isinstance(word, ast.Constant)
        and word.value == "-m"
        and (before is None or "sys.executable" in ast.unparse(before))
        and is_own_start(node)
    ]

    assert not found


def is_own_start(words: ast.List | ast.Tuple) -> bool:
    """True for a command that starts this Python, and for the words after it."""
    return any(
        "sys.executable" in ast.unparse(word)
        or (isinstance(word, ast.Constant) and str(word.value).startswith("remand."))
        for word in words.elts
    )
