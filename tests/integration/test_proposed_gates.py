"""The gates that are proposed for a project run there, and are read."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from remand.adapters.gates.tools import SystemTools
from remand.adapters.parsers.registry import find_parser
from remand.adapters.projects.detection import propose_gates
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Gate, Measurement

PYTHON = {
    "pyproject.toml": '[project]\nname = "sums"\nversion = "1"\n\n[tool.pytest]\naddopts = ["-p", "no:cacheprovider"]\n\n[tool.ruff]\n\n[tool.mypy]\nfiles = ["src"]\n',
    "src/sums/__init__.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
    "tests/test_sums.py": "from sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
NODE = {
    "package.json": '{"type": "module", "scripts": {"test": "node --test test/*.test.js"}}\n',
    "sums.js": "export const add = (a, b) => a + b;\n",
    "test/sums.test.js": (
        'import assert from "node:assert";\nimport { test } from "node:test";\nimport { add } from "../sums.js";\n\n'
        'test("adds", () => assert.equal(add(1, 2), 3));\n'
    ),
}
RUST = {
    "Cargo.toml": '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n\n[lints.clippy]\nneedless_return = "warn"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "sums"\nversion = "0.1.0"\n',
    "src/lib.rs": (
        "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n"
        "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n"
    ),
}


class Workplace:
    """A folder with a project in it, in which its proposed gates are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._report = root.parent / "report"

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def figures(self, files: Mapping[str, str]) -> dict[str, dict[str, float]]:
        """What the proposed gates measure, by name, once these files are there."""
        self.write(files)
        found = propose_gates(str(self.root), sorted(files))
        path = [str(self.root / folder) for folder in found.path]
        return {one.name: self._run(one.gate, path).figures for one in found.gates}

    def _run(self, gate: Gate, path: list[str]) -> Measurement:
        self._report.unlink(missing_ok=True)
        done = subprocess.run(
            [word.replace("{report}", str(self._report)) for word in gate.command],
            cwd=self.root,
            env={
                **os.environ,
                "PATH": os.pathsep.join([*path, *SystemTools().standard_path(), os.environ["PATH"]]),
            },
            capture_output=True,
            check=False,
        )
        ran = ToolOutput(
            status=done.returncode,
            output=done.stdout,
            errors=done.stderr,
            report=self._report.read_bytes() if self._report.exists() else None,
            root=str(self.root),
        )
        parser = find_parser(gate.parser)
        assert parser is not None
        return parser.parse(ran)


@pytest.fixture
def worktree(tmp_path: Path) -> Workplace:
    root = tmp_path / "project"
    root.mkdir()
    return Workplace(root)


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def test_a_python_projects_gates_run_and_are_read(worktree: Workplace) -> None:
    (worktree.root / ".venv").symlink_to(sys.prefix)

    assert worktree.figures(PYTHON) == {
        "tests": {"tests": 1, "failures": 0, "skipped": 0},
        "lint": {"errors": 0, "warnings": 0},
        "types": {"errors": 0, "notes": 0},
    }
    broken = "import os\n\n\ndef add(a: int, b: int) -> str:\n    return a - b\n"
    assert worktree.figures({**PYTHON, "src/sums/__init__.py": broken}) == {
        "tests": {"tests": 1, "failures": 1, "skipped": 0},
        "lint": {"errors": 1, "warnings": 0},
        "types": {"errors": 1, "notes": 0},
    }


def test_tests_import_the_code_beside_them_and_not_what_is_installed(
    worktree: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worktree.root / ".venv").symlink_to(sys.prefix)
    elsewhere = worktree.root.parent / "elsewhere"
    (elsewhere / "sums").mkdir(parents=True)
    (elsewhere / "sums" / "__init__.py").write_text("def add(a, b):\n    return 0\n")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))

    files = {**PYTHON, "pyproject.toml": "[tool.pytest]\n"}
    assert worktree.figures(files)["tests"]["failures"] == 0


@needs("node")
def test_a_node_projects_gates_run_and_are_read(worktree: Workplace) -> None:
    assert worktree.figures(NODE) == {"tests": {"tests": 1, "failures": 0, "skipped": 0}}
    broken = {**NODE, "sums.js": "export const add = (a, b) => a - b;\n"}
    assert worktree.figures(broken) == {"tests": {"tests": 1, "failures": 1, "skipped": 0}}


@needs("cargo")
@needs("cargo-clippy")
def test_a_rust_projects_gates_run_and_are_read(worktree: Workplace) -> None:
    assert worktree.figures(RUST) == {
        "build": {"errors": 0, "warnings": 0},
        "lint": {"errors": 0, "warnings": 0},
        "tests": {"tests": 1, "failures": 0, "skipped": 0, "errors": 0},
    }
    returning = RUST["src/lib.rs"].replace("a + b", "return a - b;")
    assert worktree.figures({**RUST, "src/lib.rs": returning}) == {
        "build": {"errors": 0, "warnings": 0},
        "lint": {"errors": 0, "warnings": 1},
        "tests": {"tests": 1, "failures": 1, "skipped": 0, "errors": 0},
    }
