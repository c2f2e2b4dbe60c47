"""Only a fresh comment in its author's own words may command."""

from __future__ import annotations

from typing import Any

import pytest

from remand.domain.feedback.comments import may_command
from remand.domain.forge import ForgeComment, PullRequest
from remand.domain.instant import add_seconds
from remand.testing.builders import NOW, SHA
from tests.support.forge_fakes import an_account

LEAD = an_account("octocat")
SAID = "@remand unlock Alice for #42"


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({}, True),
        ({"updated_at": add_seconds(NOW, -23 * 3600)}, True),
        ({"is_edited": True}, False),
        ({"updated_at": add_seconds(NOW, -25 * 3600)}, False),
        ({"updated_at": ""}, False),
        ({"text": f"Left here by remand.\n\n{SAID}"}, False),
        ({"author": an_account("alice")}, False),
    ],
    ids=["fresh", "of today", "edited", "old", "undated", "left by us", "who opened it"],
)
def test_what_may_not_be_a_members_own_word_of_now_does_not_command(
    fields: dict[str, Any], may: bool
) -> None:
    remark = ForgeComment(**{"id": "9", "text": SAID, "author": LEAD, "updated_at": NOW, **fields})

    assert may_command(remark, PullRequest(number=12, head=SHA, author=an_account("alice")), NOW) == may
