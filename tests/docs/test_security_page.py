"""Holds that what SECURITY.md claims is shown by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"`(tests/[a-z_/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("path", "name"), SHOWN)
def test_each_line_names_a_test_that_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    assert name in found, f"SECURITY.md names {path}::{name}, which is gone: name the test that shows it now"


def test_every_line_of_a_tier_that_is_reached_names_a_test() -> None:
    sections = re.findall(r"^### Tier \d.*?(?=^#)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [row for section in sections for row in re.findall(r"^\| .* \|$", section, re.MULTILINE)]
    claims = [row for row in rows if not row.startswith("| guarantee")]

    assert len(sections) == 2
    assert len(claims) > 10
    assert [row for row in claims if "`tests/" not in row.rpartition(" | ")[2]] == []
    assert all("Remaining risks at tier" in section for section in sections)
