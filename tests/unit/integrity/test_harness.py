"""What steers gates comes from the base; what an honest change needs stays."""

import json
import tomllib

import pytest

from remand.integrity.comparison import Comparison, build_file_diff
from remand.integrity.examination import examine
from remand.integrity.harness import (
    harness_paths,
    is_steering_path,
    merge_configuration,
    mixed_paths,
    trusted_paths,
)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "tests/unit/conftest.py",
        "pytest.ini",
        ".coveragerc",
        "mypy.ini",
        "ruff.toml",
        ".flake8",
        "jest.config.js",
        "vitest.config.ts",
        "tsconfig.json",
        "eslint.config.mjs",
        "Makefile",
        ".github/workflows/ci.yml",
        ".pre-commit-config.yaml",
        ".gitattributes",
        ".claude/settings.json",
        "remand.toml",
    ],
)
def test_a_steering_file_is_taken_from_the_base(path: str) -> None:
    assert is_steering_path(path)
    assert harness_paths([path], [path]) == (path,)
    assert harness_paths([path], []) == (path,), "one that was deleted comes back"


@pytest.mark.parametrize(
    "path", ["src/a.py", "tests/test_a.py", "README.md", "pyproject.toml", "package.json", "uv.lock"]
)
def test_other_files_are_left_as_they_are(path: str) -> None:
    assert harness_paths([path], [path]) == ()


def test_a_new_conftest_stays_and_what_is_preferred_to_the_bases_own_goes() -> None:
    new = ["tests/new/conftest.py", "pytest.ini", "sitecustomize.py", "src/x.pth", "vitest.config.ts"]

    assert harness_paths(["pyproject.toml"], ["pyproject.toml", *new]) == (
        "pytest.ini",
        "sitecustomize.py",
        "src/x.pth",
    )


def test_a_conftest_nothing_was_found_in_is_trusted() -> None:
    honest = build_file_diff(
        "M", "tests/conftest.py", b"", b"import pytest\n@pytest.fixture\ndef db():\n    return {}\n"
    )
    other = build_file_diff(
        "M", "conftest.py", b"", b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
    )
    comparison = Comparison(changes=(honest, other))
    trusted = trusted_paths(comparison, examine(comparison))

    assert trusted == {"tests/conftest.py"}
    paths = ["tests/conftest.py", "conftest.py", "Makefile"]
    assert harness_paths(paths, paths, trusted=trusted) == ("Makefile", "conftest.py")


def test_pyproject_keeps_its_project_and_gets_back_its_tools() -> None:
    before = b"""[project]
dependencies = ["a>=1"]

[tool.pytest.ini_options]
addopts = "-q"

[tool.ruff.lint]
select = ["E", "F"]
"""
    after = b"""[project]
dependencies = ["a>=2", "b"]

[tool.pytest.ini_options]
addopts = "-q --deselect x"

[tool.mypy]
ignore_errors = true

[tool.hatch.build]
packages = ["src"]
"""
    made = tomllib.loads((merge_configuration("pyproject.toml", before, after) or b"").decode())

    assert made["project"] == {"dependencies": ["a>=2", "b"]}
    assert made["tool"] == {
        "pytest": {"ini_options": {"addopts": "-q"}},
        "ruff": {"lint": {"select": ["E", "F"]}},
        "hatch": {"build": {"packages": ["src"]}},
    }


def test_setup_cfg_and_cargo_are_merged_alike() -> None:
    cfg = merge_configuration(
        "setup.cfg",
        b"[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n",
        b"[metadata]\nname = b\n[tool:pytest]\naddopts = -x\n",
    )
    cargo = merge_configuration(
        "Cargo.toml",
        b'[package]\nname = "a"\n[lints.rust]\nunsafe_code = "deny"\n',
        b'[package]\nname = "b"\n',
    )

    assert cfg == b"[metadata]\nname = b\n[tool:pytest]\naddopts = -q\n"
    assert cargo == b'[package]\nname = "b"\n[lints.rust]\nunsafe_code = "deny"\n'


def test_package_json_keeps_its_dependencies_and_gets_back_its_scripts() -> None:
    before = {"scripts": {"test": "jest"}, "dependencies": {"a": "1"}, "jest": {"bail": True}}
    after = {"scripts": {"test": "true"}, "dependencies": {"a": "2"}, "nyc": {"lines": 0}}
    made = json.loads(
        merge_configuration("package.json", json.dumps(before).encode(), json.dumps(after).encode()) or b""
    )

    assert made == {"dependencies": {"a": "2"}, "scripts": {"test": "jest"}, "jest": {"bail": True}}


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("package.json", b"{"),
        ("package.json", b"[]"),
        ("pyproject.toml", b"nothing"),
        ("package.json", b"[" * 100_000),
    ],
)
def test_what_cannot_be_merged_is_the_bases_whole_file(path: str, after: bytes) -> None:
    assert merge_configuration(path, b'{"scripts": {}}', after) is None


def test_files_to_merge_are_those_both_sides_have() -> None:
    assert mixed_paths(
        ["pyproject.toml", "web/package.json", "a.py"], ["pyproject.toml", "a.py", "setup.cfg"]
    ) == ("pyproject.toml",)
