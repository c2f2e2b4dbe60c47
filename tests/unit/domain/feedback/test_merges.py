"""What a merge on a forge counts for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.feedback.pull_request_reviews import is_merge_of, is_new_merge, judge_merge, merge_source
from remand.domain.forge import PullRequest, PullState
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import SHA, a_submission, a_task
from tests.support.builders import LEAD, OTHER_SHA
from tests.support.forge_fakes import an_account

ACCOUNT = an_account("octocat")
TASK = a_task(status=Status.PROVISIONAL, submission=a_submission("Alice"))
PULL = PullRequest(number=12, head=SHA, state=PullState.MERGED, merged_by=ACCOUNT, author=an_account("alice"))
SOURCE = merge_source("github", PULL)


def test_a_members_merge_of_what_was_handed_in_is_its_approval() -> None:
    assert judge_merge(TASK, PULL, LEAD, SOURCE) == c.ApproveReview(
        task_id=TASK.id, commit=SHA, source=SOURCE
    )


@pytest.mark.parametrize(
    ("task", "pull", "is_members", "why"),
    [
        (TASK, PULL, False, "nobody who may approve"),
        (TASK, replace(PULL, author=ACCOUNT), True, "account that opened"),
        (TASK, replace(PULL, head=OTHER_SHA), True, "not approved"),
        (replace(TASK, submission=None, status=Status.CLAIMED), PULL, True, "claimed, not approved"),
        (replace(TASK, status=Status.REJECTED), PULL, True, "rejected, not approved"),
    ],
)
def test_any_other_merge_went_past_the_rules(
    task: Task, pull: PullRequest, is_members: bool, why: str
) -> None:
    ask = judge_merge(task, pull, LEAD if is_members else None, SOURCE)

    assert isinstance(ask, c.NoteMerge)
    assert (why in ask.why, ask.by) == (True, LEAD.name if is_members else "github:octocat")


def test_an_account_that_is_gone_merged_it_too() -> None:
    ask = judge_merge(TASK, replace(PULL, merged_by=None), None, SOURCE)

    assert isinstance(ask, c.NoteMerge)
    assert ask.by == "an account that is gone"


def test_a_merge_is_news_once_and_of_work_that_is_not_done() -> None:
    assert is_new_merge(TASK, SOURCE)
    assert not is_new_merge(update_task(TASK, sources=(SOURCE,)), SOURCE)
    assert not is_new_merge(replace(TASK, status=Status.DONE), SOURCE)


def test_a_merge_is_known_by_its_commit() -> None:
    assert is_merge_of(SOURCE, SHA)
    assert not is_merge_of(SOURCE, OTHER_SHA)
    assert not is_merge_of(f"github:R1@{SHA}", SHA)
