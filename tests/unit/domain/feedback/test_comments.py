"""What a review on a forge finds: its own comments by how they begin, and its body when none of them blocks."""

from __future__ import annotations

import pytest

from remand.domain.feedback.comments import findings_from_review, is_rejecting_review
from remand.domain.forge import ForgeComment, ReviewState
from remand.testing.builders import SHA
from tests.support.forge_fakes import a_review, an_account

LEAD, STRANGER = an_account("octocat"), an_account("stranger")


def test_comments_are_findings_with_their_place_and_weight() -> None:
    comments = (
        ForgeComment(id="1", text="Fork start uses raw svgPos", author=LEAD, path="a.tsx", line=1709),
        ForgeComment(id="2", text="suggestion: compute once", author=LEAD, path="a.tsx", line=1826),
        ForgeComment(id="3", text="I disagree", author=STRANGER, path="a.tsx", line=1709, reply_to="1"),
        ForgeComment(id="4", text="Leaks", author=LEAD, path="b.tsx", line=1),
    )
    found = findings_from_review(a_review(LEAD, SHA, text="", comments=comments))

    assert [(one.path, one.line, one.is_blocking) for one in found] == [
        ("a.tsx", 1709, True),
        ("a.tsx", 1826, False),
        ("b.tsx", 1, True),
    ]


@pytest.mark.parametrize(("count", "last"), [(300, "Finding 299"), (400, "101 more comments")])
def test_as_many_comments_as_a_rejection_takes_are_findings_and_the_rest_is_told(
    count: int, last: str
) -> None:
    comments = tuple(
        ForgeComment(id=str(n), text=f"Finding {n}", author=LEAD, path="a.py", line=n + 1)
        for n in range(count)
    )
    found = findings_from_review(a_review(LEAD, SHA, text="", comments=comments))

    assert (len(found), last in found[-1].text) == (300, True)


@pytest.mark.parametrize(
    ("state", "text", "is_own", "is_no"),
    [
        (ReviewState.CHANGES_REQUESTED, "", False, True),
        (ReviewState.COMMENTED, "BLOCKING: a race", True, True),
        (ReviewState.COMMENTED, "BLOCKING: a race", False, False),
        (ReviewState.COMMENTED, "A race?", True, False),
        (ReviewState.APPROVED, "BLOCKING: a race", True, False),
    ],
)
def test_a_comment_says_no_only_where_nobody_could_request_changes(
    state: ReviewState, text: str, is_own: bool, is_no: bool
) -> None:
    assert is_rejecting_review(a_review(LEAD, SHA, state, text=text), is_own=is_own) == is_no
