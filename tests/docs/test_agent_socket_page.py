"""The page about the agent socket lists what an agent may call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from remand.domain.access.agent_calls import PERMITTED_COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "agent-socket.md").read_text(encoding="utf-8")
LISTED = PAGE.partition("An agent may call:")[2].partition("\n\n")[0]


def listed() -> set[str]:
    """The commands of the list, in which those of one group follow its first."""
    found: set[str] = set()
    for group in LISTED.split(";"):
        family = ""
        for words in re.findall(r"`([a-z -]+)`", group):
            head, _, rest = words.partition(" ")
            if rest:
                family = head
            is_of_family = not rest and f"{family} {words}" in PERMITTED_COMMANDS
            found.add(f"{family} {words}" if is_of_family else words)
    return found


@pytest.mark.parametrize("command", PERMITTED_COMMANDS)
def test_what_an_agent_may_call_is_listed(command: str) -> None:
    assert command in listed()


def test_nothing_else_is_listed() -> None:
    assert listed() - set(PERMITTED_COMMANDS) <= {"--version", "mcp"}
