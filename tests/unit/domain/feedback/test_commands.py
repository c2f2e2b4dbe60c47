"""Commands are whole lines that somebody wrote as such, and never what was quoted."""

import pytest

from remand.domain.feedback.comments import MAX_COMMANDS, parse_comment_commands


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@remand unlock Fenster for #42", ("unlock Fenster for #42",)),
        ("Thanks.\n@remand unlock A\n@remand why B\nBye", ("unlock A", "why B")),
        ("> quoted\n\n@remand unlock A", ("unlock A",)),
        ("```\ncode\n```\n@remand unlock A", ("unlock A",)),
        ("<!-- template -->\n@remand unlock A", ("unlock A",)),
    ],
)
def test_a_whole_line_is_a_command(text: str, found: tuple[str, ...]) -> None:
    assert parse_comment_commands(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "please @remand unlock A",
        "@remandunlock A",
        "@remand",
        "> @remand unlock A",
        "> quoted\n@remand unlock A",
        "- item\n@remand unlock A",
        "    @remand unlock A",
        "```\n@remand unlock A\n```",
        "```\n@remand unlock A",
        "~~~\n@remand unlock A\n~~~",
        "`\n@remand unlock A\n`",
        "<!--\n@remand unlock A\n-->",
        "<!--\n\n@remand unlock A",
        "![\n@remand unlock A\n](x)",
        "<pre>\n@remand unlock A\n</pre>",
        "<blockquote>\n\n@remand unlock A\n\n</blockquote>",
        "[r]: x '\n@remand unlock A\n'",
        "@rеmand unlock A",
        "\\@remand unlock A",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert parse_comment_commands(text) == ()


def test_no_comment_has_endless_commands() -> None:
    assert len(parse_comment_commands("@remand why A\n" * 500)) == MAX_COMMANDS
