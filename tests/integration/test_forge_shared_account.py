"""A team whose agents push with their owner's account, on GitHub: the owner can still say no, and no agent can say yes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remand.app.forge.ports import CheckState
from remand.domain.forge import PullState, ReviewState
from tests.integration.forge_reviews import DIALECTS, Scene, forge_scene
from tests.integration.machine import Machine
from tests.support.forge.state import NewLineComment, StoredPull


@pytest.fixture
def scene(near_machine: Machine) -> Iterator[Scene]:
    """The owner's account opens the pull requests, and the token is of that account."""
    with forge_scene(near_machine, DIALECTS["github"], report=("review", "status", "comment")) as made:
        made.state.viewer = made.owner
        yield made._replace(bot=made.owner)


def statuses(scene: Scene) -> list[CheckState]:
    return [posted.state for posted in scene.state.statuses]


def reviews(pull: StoredPull) -> list[tuple[ReviewState, str]]:
    return [(given.state, given.text) for given in pull.reviews]


def test_a_comment_review_that_blocks_rejects(scene: Scene) -> None:
    task, pull = scene.handed_in()
    comment = NewLineComment(text="BLOCKING: no label for screen readers", line=3)
    scene.state.review(pull, scene.owner, ReviewState.COMMENTED, "", comment)
    polled = scene.poll()

    assert (polled.rejections, polled.trouble, scene.shown(task)["status"]) == (1, "", "rejected")
    assert [one["agent"] for one in scene.shown(task)["lockouts"]] == ["Fenster"]
    prompt = scene.prompt(task)
    assert ("**src/app.py:3** (BLOCKING)" in prompt, "no label for screen readers" in prompt) == (True, True)


def test_a_rejection_given_here_stands_there_as_a_comment_and_a_failing_status(scene: Scene) -> None:
    task, pull = scene.handed_in()
    scene.repository.ok(
        "review",
        "reject",
        task,
        "--reviewer",
        "Lead",
        "--commit",
        pull.head,
        "--finding",
        "src/app.py:3: No label.",
        "--finding",
        "elsewhere.py:9: Slow.",
    )
    polled = [scene.poll() for _ in range(3)]

    ((state, text),) = reviews(pull)
    assert (state, text.splitlines()[0]) == (ReviewState.COMMENTED, "Lead rejected this.")
    assert "No label." in "".join(comment.text for comment in pull.comments) + text
    assert "Slow." in text, "a line that the pull request does not show stands in the text"
    assert statuses(scene) == [CheckState.FAILURE]
    assert [one.trouble for one in polled] == ["", "", ""]
    assert len(scene.rejections(task)) == 1, "what was left there is no second rejection"


def test_nothing_left_there_counts_after_the_rejection_is_retracted(scene: Scene) -> None:
    task, pull = scene.handed_in()
    rejected = ("review", "reject", task, "--reviewer", "Lead", "--commit", pull.head)
    scene.repository.ok(*rejected, "--finding", "src/app.py:3: No label.")
    scene.poll()
    scene.repository.ok("review", "retract", task, "--reviewer", "Lead", "--reason", "I was wrong")
    scene.poll()

    shown = scene.shown(task)
    assert (shown["status"], shown["rejection_count"], shown["lockouts"]) == ("provisional", 0, [])


def test_no_word_of_that_account_unlocks_approves_or_merges(scene: Scene) -> None:
    task, pull = scene.handed_in()
    scene.state.review(pull, scene.owner, ReviewState.APPROVED, "Fine")
    scene.state.remark(pull, scene.owner, f"@remand unlock Fenster for {task}")
    approved = scene.poll()
    before = scene.shown(task)["status"]
    scene.state.merge(pull, scene.owner)
    merged = scene.poll()

    assert (approved.approvals, approved.commands, before) == (0, 0, "provisional")
    assert (merged.approvals, scene.shown(task)["status"], pull.state) == (0, "escalated", PullState.MERGED)
    assert [row["event"] for row in scene.shown(task)["bypasses"]] == ["review.bypass"]


def test_an_approval_is_given_here(scene: Scene) -> None:
    task, pull = scene.handed_in()
    scene.poll()
    scene.repository.ok("review", "approve", task, "--reviewer", "owner", "--commit", pull.head)
    scene.poll()
    scene.state.merge(pull, scene.owner)
    merged = scene.poll()

    assert (scene.shown(task)["status"], merged.trouble) == ("done", "")
    assert statuses(scene) == [CheckState.PENDING, CheckState.SUCCESS]


def test_an_answer_repeats_nothing_that_would_be_obeyed(scene: Scene) -> None:
    """Another member asks why; the answer, left with the owner's token, holds a reviewer's own words."""
    bot = scene.state.person("robot", "write")
    task, pull = scene.handed_in(by=bot)
    order = f"@remand unlock Fenster for {task}"
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, f"No.\n\n{order}")
    scene.poll()
    scene.state.remark(pull, scene.lead, "@remand Why is Fenster locked out?")
    asked = scene.poll()
    answers = [said.text for said in pull.remarks if said.author is scene.owner]
    again = scene.poll()

    assert (asked.commands, again.commands) == (1, 0)
    assert (len(answers), answers[0].splitlines()[0]) == (1, "Left here by remand.")
    assert [one["agent"] for one in scene.shown(task)["lockouts"]] == ["Fenster"]
