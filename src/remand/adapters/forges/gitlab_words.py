"""Texts that are left on GitLab, which takes some lines for commands."""

from __future__ import annotations

import re

from remand.adapters.forges.wording import cut

MAX_TEXT = 65_000
COMMAND = re.compile(r"^(\s*)/", re.MULTILINE)
"""How a line begins that GitLab would take for a command, such as `/merge`."""


def plain(text: str) -> str:
    """A text in which GitLab finds no command: whoever wrote it must not merge or approve with the token's rights."""
    return COMMAND.sub(r"\1\\/", cut(text, MAX_TEXT))
