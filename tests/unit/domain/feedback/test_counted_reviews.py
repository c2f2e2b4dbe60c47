"""Which of all the reviews of a pull request say something, and who an account is."""

from __future__ import annotations

import pytest

from remand.domain.feedback.pull_request_reviews import counted_reviews, standing_objections
from remand.domain.forge import (
    Account,
    ForgeReview,
    PullRequest,
    ReviewState,
    is_listed_account,
)
from remand.testing.builders import SHA, a_task
from tests.support.builders import OTHER_SHA, V1, a_round
from tests.support.forge_fakes import a_review, an_account

LEAD, TESS = an_account("octocat"), an_account("tess")
APPROVED, DISMISSED, COMMENTED = ReviewState.APPROVED, ReviewState.DISMISSED, ReviewState.COMMENTED


def names(*reviews: ForgeReview, author: Account | None = None) -> list[str]:
    pull = PullRequest(number=12, head=SHA, author=author, reviews=reviews)
    return [review.id for review in counted_reviews(a_task(rounds=(a_round(),)), pull)]


def test_the_last_opinion_of_an_account_is_its_opinion_and_a_no_comes_first() -> None:
    given = (
        a_review(LEAD, SHA, id="1"),
        a_review(LEAD, SHA, APPROVED, id="2"),
        a_review(TESS, SHA, id="3"),
        a_review(TESS, SHA, COMMENTED, id="4"),
    )

    assert names(*given) == ["3", "2"]


def test_what_was_dismissed_is_the_last_word_too() -> None:
    assert names(a_review(LEAD, SHA, id="1"), a_review(LEAD, SHA, DISMISSED, id="2")) == ["2"]


def test_every_blocking_comment_on_ones_own_work_is_one() -> None:
    given = [a_review(LEAD, SHA, COMMENTED, id=str(n), text="BLOCKING: no") for n in range(2)]

    assert (names(*given, author=LEAD), names(*given, author=TESS)) == (["0", "1"], [])


def test_an_account_that_is_gone_and_what_we_left_there_say_nothing() -> None:
    ours = a_review(LEAD, SHA, text=f"Lead rejected this.\n\nLeft here by remand: {V1}.")
    borrowed = a_review(LEAD, SHA, id="2", text="BLOCKING: no\n\nLeft here by remand: V-other.")

    assert names(a_review(None, SHA), ours) == []
    assert names(borrowed) == ["2"]


@pytest.mark.parametrize(
    ("reviews", "count"),
    [
        ((a_review(LEAD, SHA),), 1),
        ((a_review(LEAD, ""),), 1),
        ((a_review(LEAD, SHA), a_review(LEAD, SHA, COMMENTED)), 1),
        ((a_review(LEAD, OTHER_SHA),), 0),
        ((a_review(LEAD, SHA), a_review(LEAD, SHA, APPROVED)), 0),
        ((a_review(None, SHA),), 0),
    ],
    ids=["of the head", "of no commit", "a comment after it", "of another", "approved since", "gone"],
)
def test_an_objection_is_an_accounts_last_word_on_the_head(
    reviews: tuple[ForgeReview, ...], count: int
) -> None:
    assert len(standing_objections(PullRequest(number=12, head=SHA, reviews=reviews))) == count


@pytest.mark.parametrize(
    ("name", "first_id", "is_so"),
    [
        ("github:7", "", True),
        ("github:OctoCat", "", True),
        ("github:octocat", "github:7", True),
        ("github:octocat", "github:8", False),
        ("github:was-called-so", "github:7", True),
        ("github:somebody", "", False),
        ("gitea:octocat", "", False),
    ],
)
def test_an_account_is_listed_by_its_id_or_by_a_login_that_always_had_it(
    name: str, first_id: str, is_so: bool
) -> None:
    assert is_listed_account(name, Account(id="github:7", login="github:octocat"), first_id) == is_so


def test_a_listed_number_is_no_login() -> None:
    assert not is_listed_account("github:7", Account(id="github:8", login="github:7"), "")
