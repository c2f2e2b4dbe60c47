"""Modules of the table: imported at once, loaded when they are used."""

import os
import py_compile
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from remand import loader
from remand.loader import OwnFinder, OwnLoader

FRESH = "import sys; from remand.app import prompts; from remand.startup import LazyModule; "


def output_of(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", FRESH + code], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def test_a_module_of_the_table_is_loaded_with_the_first_of_its_names() -> None:
    assert (
        output_of(
            "print(type(prompts) is LazyModule); prompts.render_prompt; print(type(prompts) is type(sys))"
        )
        == "True\nTrue"
    )


def test_a_name_imported_from_it_loads_it_at_once() -> None:
    assert (
        output_of(
            "from remand.app.prompts import render_prompt; print(type(prompts) is type(sys), render_prompt is prompts.render_prompt)"
        )
        == "True True"
    )


def test_it_is_the_same_module_however_it_is_imported() -> None:
    assert (
        output_of(
            "import remand.app.prompts as again; print(again is prompts is sys.modules['remand.app.prompts'])"
        )
        == "True"
    )


def test_a_name_that_was_replaced_stays_replaced() -> None:
    assert (
        output_of("prompts.render_prompt = 7; prompts.RejectionContext; print(prompts.render_prompt)") == "7"
    )


def test_a_name_it_does_not_have_is_an_attribute_error() -> None:
    code = "print(getattr(prompts, 'nothing_of_the_kind', 'missing'))"

    assert output_of(code) == "missing"


def test_threads_that_use_it_at_once_all_find_it_whole() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor; "
        "found = list(ThreadPoolExecutor(16).map(lambda _: prompts.render_prompt.__name__, range(64))); "
        "print(set(found))"
    )

    assert output_of(code) == "{'render_prompt'}"


def test_msgspec_is_loaded_without_modules_that_everyone_else_gets_whole() -> None:
    code = (
        "from remand.startup import load_msgspec; load_msgspec(); "
        "print(*({'uuid', 'decimal', 'typing_extensions'} & {*sys.modules})); "
        "import decimal, uuid; print(uuid.UUID(int=1).int + decimal.Decimal(1))"
    )

    assert output_of(code) == "2"


def test_a_compiled_file_is_taken_where_it_is_that_of_the_source_and_else_compiled_anew(
    tmp_path: Path,
) -> None:
    source = tmp_path / "one.py"
    source.write_text("VALUE = 1\n")
    py_compile.compile(str(source))
    was = source.stat().st_mtime
    source.write_text("VALUE = 2\n")
    os.utime(source, (was, was))
    assert value_of(source) == 1, "the same time and size: the compiled file is believed, as Python does"
    os.utime(source, (was + 2, was + 2))
    assert value_of(source) == 2
    for broken in (b"", b"not compiled"):
        next(tmp_path.glob("__pycache__/*")).write_bytes(broken)
        assert value_of(source) == 2


def value_of(source: Path) -> object:
    """What the module of a source has as its value."""
    names: dict[str, object] = {}
    code = OwnLoader("one", str(source), source.stat()).get_code("one")
    assert code is not None
    exec(code, names)
    return names["VALUE"]


def test_a_module_knows_its_file_and_its_source() -> None:
    code = "import inspect, remand.app as p; prompts.render_prompt; print(p.__file__, p.__path__, prompts.__file__, p.__cached__, 'def render_prompt' in inspect.getsource(prompts))"
    package, path, file, cached, has_source = output_of(code).split()
    assert package.endswith("remand/app/__init__.py")
    assert path.endswith("remand/app']")
    assert file.endswith("remand/app/prompts.py")
    assert cached.endswith(".pyc")
    assert has_source == "True"


def test_who_rewrites_modules_on_import_still_sees_ours_though_it_came_before() -> None:
    """Pytest explains the asserts of `remand.testing` so, and what measures coverage sees its lines."""
    code = (
        "import sys\n"
        "class Rewriter:\n"
        "    seen = []\n"
        "    def find_spec(name, path=None, target=None): Rewriter.seen.append(name)\n"
        "sys.meta_path.insert(0, Rewriter)\n"
        "import remand.domain.refusals as ours\n"
        "print('remand.domain.refusals' in Rewriter.seen, type(ours.__loader__).__name__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["True", "OwnLoader"]


def test_a_module_is_found_where_python_itself_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "FOLDER", str(tmp_path))
    monkeypatch.setattr(loader, "PLAIN_PACKAGES", {"remand.plain"})
    for name in ("coded", "plain", "empty"):
        (tmp_path / name).mkdir()
    for file in ("plain/__init__.py", "coded/__init__.py", "plain/one.py", "Module.py"):
        (tmp_path / file).touch()
    for name, own in (
        ("plain", True),
        ("plain.one", True),
        ("plain.two", False),
        ("Module", True),
        ("module", False),
        ("coded", False),
        ("empty", False),
    ):
        parent, _, last = name.rpartition(".")
        usual = PathFinder.find_spec(last, [str(tmp_path / parent)])
        found = OwnFinder.find_spec(f"remand.{name}")
        assert (found is not None) == own, name
        assert found is None or (usual is not None and found.origin == usual.origin), name
        assert (
            found is None
            or usual is None
            or found.submodule_search_locations == usual.submodule_search_locations
        )


def test_code_knows_its_file_though_it_was_compiled_elsewhere(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("def inner(): pass\n")
    py_compile.compile(str(source), dfile="/elsewhere/one.py")
    code = OwnLoader("one", str(source), source.stat()).get_code("one")
    assert code is not None
    inner = next(one for one in code.co_consts if hasattr(one, "co_filename"))
    assert (code.co_filename, inner.co_filename) == (str(source), str(source))
