"""Holds that a verdict is bound to the tools it was measured with: their files, and what is installed beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.adapters.gates.tools import SystemTools


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for name in ("bin", "lib/python3.11/site-packages", "lib/python3/site-packages", "lib/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "bin" / "tool").chmod(0o755)
    return tmp_path


def digest(prefix: Path) -> str:
    return SystemTools().digest([("env", "A=1", "tool", "x")], [str(prefix / "bin")])


def test_the_same_tools_are_the_same(prefix: Path) -> None:
    (prefix / "lib" / "other" / "x").write_text("1", encoding="utf-8")
    assert digest(prefix) == digest(prefix) != digest(prefix / "elsewhere")


@pytest.mark.parametrize(
    "changed",
    [
        "bin/tool",
        "lib/python3.11/site-packages/plugin",
        "lib/python3/site-packages/plugin",
        "lib/python3.13/site-packages/plugin",
    ],
)
def test_other_tools_or_packages_are_told_apart(prefix: Path, changed: str) -> None:
    before = digest(prefix)

    (prefix / changed).parent.mkdir(parents=True, exist_ok=True)
    (prefix / changed).write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")

    assert digest(prefix) != before
