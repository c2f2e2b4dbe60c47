"""The first hour: the wheel alone, a repository as others have them, `init`, a broken branch, and what its done claim says."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.wheel import ROOT, Newcomer, Registry, install_wheel, serve_registry
from tests.integration.machine import Machine

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
COMMANDS = {
    "mcp": "remand mcp < /dev/null",
    "notify": "REMAND_NOTIFY=jsons://127.0.0.1:1/ remand notify --test",
    "plot": "remand analyze rejections --plot plot.svg",
}
"""What each extra that users install is for."""


# ------------------------------------------------------------------------------------------------------ extras


@pytest.fixture
def newcomer(machine: Machine, installed: Path) -> Newcomer:
    return Newcomer(machine, installed)


@pytest.mark.parametrize("extra", [name for name in COMMANDS if EXTRAS[name]])
def test_a_plain_install_says_which_extra_a_command_needs(newcomer: Newcomer, extra: str) -> None:
    newcomer.types("remand init")

    answer = newcomer.types(COMMANDS[extra])

    assert f"pip install 'remand[{extra}]'" in answer
    assert "Traceback" not in answer


@pytest.mark.more
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_wheel_works_alone_with_each_extra(
    machine: Machine, wheel: Path, tmp_path: Path, extra: str
) -> None:
    newcomer = Newcomer(machine, install_wheel(wheel, tmp_path / "venv", extra))
    newcomer.types("remand init")

    assert "remand " in newcomer.types("remand --version")
    answer = newcomer.types(COMMANDS.get(extra, "remand task list"))
    assert "pip install" not in answer
    assert "Traceback" not in answer


# ---------------------------------------------------------------------------------------------------- projects

RIGHT = (
    "from defusedxml.ElementTree import fromstring\n\n\n"
    'def total(text: str) -> int:\n    return sum(int(row.get("n", 0)) for row in fromstring(text))\n'
)
WRONG = RIGHT.replace("return sum", "return 0 * sum").replace("\n\n\n", "\nimport os\n\n\n", 1)
TESTS = (
    "import pytest\n\nfrom {module} import total\n\n\n"
    '@pytest.mark.parametrize("count", [0, 1, 2])\ndef test_total(count: int) -> None:\n'
    "    rows = \"<row n='3'/>\" * count\n"
    '    assert total(f"<rows>{{rows}}</rows>") == 3 * count\n'
)
RUFF = '[tool.ruff.lint]\nselect = ["F"]\n'


def pinned(*names: str) -> list[str]:
    return [f"{name}=={version(name)}" for name in names]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serve_registry(tmp_path) as made:
        yield made


def check_first_hour(
    newcomer: Newcomer, files: Mapping[str, str], broken: Mapping[str, str], lines: Mapping[str, str]
) -> None:
    """`init` measures the base, a broken branch is rejected with its figures, and the mended one is handed in."""
    newcomer.writes(files)
    newcomer.types("git add -A && git commit -qm 'A project'")

    baseline = answer(newcomer, "remand init --json")["baseline"]
    figures = {row["gate"]: row["figures"] for row in baseline if row["status"] == "passed"}
    assert figures.keys() == lines.keys(), baseline
    assert (figures["tests"]["tests"], figures["tests"]["failures"]) == (3, 0), baseline
    newcomer.types("git add -A && git commit -qm 'Set up Remand'")

    newcomer.types("remand task add 'Add a total' --alias '#1'")
    newcomer.types("remand task claim '#1' --agent Ann && git checkout -qb total")
    newcomer.writes(broken)
    newcomer.types("git add -A && git commit -qm 'Break it'")
    refused = answer(newcomer, "remand task submit '#1' --agent Ann --commit HEAD --json")
    assert refused["refused"] == "gate_rejected", refused
    assert refused["message"].startswith("REJECTED: Quality gates failed")
    shown = refused["message"].splitlines()
    assert [line for line in lines.values() if line not in shown] == [], refused["message"]

    newcomer.writes({name: text for name, text in files.items() if name in broken})
    newcomer.types("git add -A && git commit -qm 'Mend it' && git commit -q --allow-empty -m 'Done'")
    done = answer(newcomer, "remand task submit '#1' --agent Ann --commit HEAD --json")
    assert done["status"] == "provisional", done


def answer(newcomer: Newcomer, call: str) -> Any:
    """The JSON document that a call printed."""
    return json.loads(newcomer.types(f"{call} 2>/dev/null"))


@pytest.mark.more
def test_a_project_with_requirements_files_is_measured(newcomer: Newcomer, registry: Registry) -> None:
    registry.add_python("defusedxml", "pytest", "ruff")
    newcomer.environment.update(registry.variables)
    files = {
        "requirements.txt": "\n".join(pinned("defusedxml")) + "\n",
        "requirements-dev.txt": "\n".join(["-r requirements.txt", *pinned("pytest", "ruff")]) + "\n",
        "ruff.toml": RUFF.replace("[tool.ruff.lint]", "[lint]"),
        "totals.py": RIGHT,
        "tests/test_totals.py": TESTS.format(module="totals"),
    }

    check_first_hour(
        newcomer,
        files,
        {"totals.py": WRONG},
        {"tests": "- Tests: 2 failures (requires 100% pass)", "lint": "- Lint: 1 error (requires 0)"},
    )


@pytest.mark.more
def test_a_uv_project_with_its_lock_file_is_measured(
    newcomer: Newcomer, registry: Registry, tmp_path: Path
) -> None:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("uv is not installed")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "uv").symlink_to(uv)
    registry.add_python("defusedxml", "hatchling", "pytest", "ruff")
    newcomer.environment.update(registry.variables)
    newcomer.environment["PATH"] = f"{tmp_path / 'programs'}:{newcomer.environment['PATH']}"
    files = {
        "pyproject.toml": (
            f'[project]\nname = "totals"\nversion = "1"\nrequires-python = ">=3.{sys.version_info.minor}"\n'
            'dependencies = ["defusedxml"]\n\n[dependency-groups]\ndev = ["pytest", "ruff"]\n\n'
            f'[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n{RUFF}'
            # What other systems and interpreters need is not offered here.
            f"\n[tool.uv]\nenvironments = [\"sys_platform == '{sys.platform}' and implementation_name == 'cpython'\"]\n"
        ),
        "src/totals/__init__.py": RIGHT,
        "tests/test_totals.py": TESTS.format(module="totals"),
        ".gitignore": ".venv/\n",
    }
    newcomer.writes(files)
    said = newcomer.types("uv lock")
    assert (newcomer.folder / "uv.lock").exists(), said

    check_first_hour(
        newcomer,
        files,
        {"src/totals/__init__.py": WRONG},
        {"tests": "- Tests: 2 failures (requires 100% pass)", "lint": "- Lint: 1 error (requires 0)"},
    )


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_an_npm_project_with_its_lock_file_is_measured(newcomer: Newcomer, registry: Registry) -> None:
    registry.add_node(
        "plain-sum", {"index.js": "module.exports = (rows) => rows.reduce((a, b) => a + b, 0);\n"}
    )
    newcomer.environment.update(registry.variables)
    total = 'const sum = require("plain-sum");\n\nmodule.exports = (rows) => {body};\n'
    files = {
        "package.json": json.dumps(
            {
                "name": "totals",
                "version": "1.0.0",
                "scripts": {"test": "node --test"},
                "dependencies": {"plain-sum": "^1.0.0"},
            }
        ),
        "total.js": total.replace("{body}", "sum(rows)"),
        "test/total.test.js": (
            'const assert = require("node:assert");\nconst { test } = require("node:test");\n'
            'const total = require("../total.js");\n\n'
            'test("none", () => assert.equal(total([]), 0));\n'
            'test("one", () => assert.equal(total([3]), 3));\n'
            'test("two", () => assert.equal(total([3, 4]), 7));\n'
        ),
        ".gitignore": "node_modules/\n",
    }
    newcomer.writes(files)
    said = newcomer.types("npm install --package-lock-only --no-audit --no-fund")
    assert (newcomer.folder / "package-lock.json").exists(), said

    check_first_hour(
        newcomer,
        files,
        {"total.js": total.replace("{body}", "sum(rows) * 0")},
        {"tests": "- Tests: 2 failures (requires 100% pass)"},
    )
