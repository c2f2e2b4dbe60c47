"""What an agent is told to call is named both ways: the command, and the tool of our MCP server that does the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from remand.domain.refusals import MEANINGS
from remand.interfaces.mcp.tools import NEXT_STEPS

SOURCE = Path(__file__).parents[4] / "src" / "remand"
PACKAGES = ("domain", "app", "interfaces/hook")
TOOLS = {
    "task claim": "next_task",
    "task prompt": "feedback",
    "task submit": "submit",
    "gate wait": "submit",
    "handoff reject": "reject_task",
    "task wait": "waiting",
    "task release": "release",
    "task continue": "continue_later",
    "task heartbeat": "heartbeat",
}
_COMMAND = re.compile(rf"(?:`|    )remand ({'|'.join(TOOLS)})")


def texts(path: Path) -> Iterator[str]:
    """The texts in a module that are not docstrings, each f-string as one, without its values."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | bare:
            yield node.value


def test_a_text_that_names_a_command_names_its_tool() -> None:
    paths = [path for name in PACKAGES for path in (SOURCE / name).rglob("*.py")]
    found = [
        (text, TOOLS[called])
        for path in paths
        if path.name != "refusals.py"
        for text in texts(path)
        for called in _COMMAND.findall(text)
    ]

    assert len(found) >= 6
    for text, tool in found:
        assert f"`{tool}`" in text, text


@pytest.mark.parametrize("code", [code for code, (_, todo) in MEANINGS.items() if _COMMAND.search(todo)])
def test_a_refusal_whose_remedy_is_a_command_has_one_for_tools(code: str) -> None:
    assert code in NEXT_STEPS


def test_a_task_is_rejected_without_naming_its_handoff() -> None:
    assert "remand" not in NEXT_STEPS["unknown_handoff"]
