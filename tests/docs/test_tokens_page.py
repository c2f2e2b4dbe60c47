"""Holds that every command says which tokens may call it on a server, and that the page says who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.domain.access.tokens import CALLS, TokenRole
from remand.interfaces.cli.registry import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")
SERVER_ALONE = {"commit upload", "commit fetch", "run members"}
"""Calls of a server that are no commands."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_which_tokens_may_call_it(command: str) -> None:
    assert command in CALLS, f"Say who may call {command} on a server: domain/access/tokens.py: _BY_ROLES."


def test_the_table_has_no_command_that_is_none() -> None:
    assert set(CALLS) - set(COMMANDS) == SERVER_ALONE


@pytest.mark.parametrize("role", TokenRole)
def test_every_role_is_explained(role: TokenRole) -> None:
    assert f"| `{role}` | " in PAGE
