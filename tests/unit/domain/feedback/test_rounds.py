"""Rounds are told from a task's events: what stands, what comes again, what is reversed, and what the user said."""

from typing import Any

from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, LockoutCleared, ReviewRejected, ReviewRetracted
from remand.domain.evolve import replay
from remand.domain.feedback.rounds import MAX_SHOWN, TaskFeedback, read_feedback
from remand.testing.builders import H1, H2, H3, T1, task_added, task_claimed
from tests.support.builders import gate_passed_and_submitted, stamp_events

A, B, C = "a" * 40, "b" * 40, "c" * 40


def a_round(agent: str, handoff: str, commit: str, attempt: int, *reviews: ReviewRejected) -> list[Event]:
    tree = f"tree-{commit[:8]}"
    taken = task_claimed(agent, handoff, attempt=attempt, epoch=attempt)
    return [taken, *gate_passed_and_submitted(agent, handoff, commit=commit, tree=tree), *reviews]


def rejected(commit: str, *texts: str, review_id: str = "", **fields: Any) -> ReviewRejected:
    findings = tuple(Finding(text=text, path="src/a.py", line=9) for text in texts)
    standard = {
        "reviewer": "Lead",
        "findings": findings,
        "review_id": review_id,
        "tree": f"tree-{commit[:8]}",
    }
    return ReviewRejected(task_id=T1, commit=commit, **{**standard, **fields})


def told(*events: Event) -> TaskFeedback:
    story = stamp_events(task_added(), *events)
    task = replay(story)
    assert task is not None
    assert len(task.standing_rounds) == task.reviews.rejection_count
    return read_feedback(task, story)


def texts(feedback: TaskFeedback) -> list[list[str]]:
    return [
        [remark.finding.text for review in one.reviews for remark in review.remarks]
        for one in feedback.rounds
    ]


def test_several_reviews_of_one_submission_are_one_round() -> None:
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, "one", review_id="R1"), rejected(A, "two", review_id="R2")),
        *a_round("Bob", H2, B, 2, rejected(B, "three", review_id="R3")),
    )

    assert texts(feedback) == [["one", "two"], ["three"]]
    assert [(one.number, one.commit, one.agent) for one in feedback.rounds] == [
        (1, A, "Alice"),
        (2, B, "Bob"),
    ]
    assert [(one.commit, one.agent) for one in feedback.submissions] == [(A, "Alice"), (B, "Bob")]


def test_what_was_retracted_is_not_told_and_a_round_of_nothing_else_does_not_count() -> None:
    retract = ReviewRetracted(task_id=T1, review_id="R1", reviewer="Lead")
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, "one", review_id="R1")),
        *a_round("Bob", H2, B, 2, rejected(B, "two", review_id="R2"), rejected(B, "three", review_id="R3")),
        retract,
        ReviewRetracted(task_id=T1, review_id="R3", reviewer="Lead"),
    )

    assert texts(feedback) == [["two"]]
    assert feedback.rounds[0].number == 1


def test_a_review_without_an_id_is_called_by_its_event() -> None:
    story = stamp_events(task_added(), *a_round("Alice", H1, A, 1, rejected(A, "one"), rejected(A, "two")))
    retract = ReviewRetracted(task_id=T1, review_id=story[-1].meta.id, reviewer="Lead")
    events = [*story, *stamp_events(retract)]
    task = replay(events)
    assert task is not None

    assert texts(read_feedback(task, events)) == [["one"]]


def test_a_finding_that_comes_again_names_the_rounds_it_was_in() -> None:
    leak = "The file handle leaks when parsing fails."
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, leak)),
        *a_round("Bob", H2, B, 2, rejected(B, f"Still: {leak}", "Rename this.")),
        *a_round(
            "Carol", H3, C, 3, rejected(C, "file handle still leaks when parsing fails", "Something new.")
        ),
    )

    assert [remark.again for remark in feedback.rounds[-1].reviews[0].remarks] == [(1, 2), ()]


def test_a_finding_that_reverses_an_earlier_one_names_it() -> None:
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, "Add a null check for user.")),
        *a_round("Bob", H2, B, 2, rejected(B, "Remove the null check for user.")),
    )

    remark = feedback.rounds[-1].reviews[0].remarks[0]
    assert (remark.against, remark.reversed_text, remark.again) == (1, "Add a null check for user.", ())


def test_text_is_cleaned_as_its_source_was_seen() -> None:
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, "a <b>x</b>", source="github:PRR_1@a", review_id="R1")),
        *a_round("Bob", H2, B, 2, rejected(B, "a <b>x</b>", source="reject-task", review_id="R2")),
    )

    assert texts(feedback) == [["a x"], ["a <b>x</b>"]]
    assert [one.reviews[0].forge for one in feedback.rounds] == ["GitHub PR review", ""]


def test_what_the_user_said_is_told_once() -> None:
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, "one")),
        LockoutCleared(task_id=T1, agent="Alice", reason="x", guidance="Look at the cache."),
        LockoutCleared(task_id=T1, agent="Bob", reason="x", guidance="Look at the cache."),
        LockoutCleared(task_id=T1, agent="Carol", reason="x"),
    )

    assert [(said.by, said.text) for said in feedback.guidance] == [("somebody", "Look at the cache.")]


def test_of_an_earlier_round_the_first_that_block_are_told_and_all_are_compared() -> None:
    many = [f"Finding number {number} about something else" for number in range(MAX_SHOWN + 5)]
    feedback = told(
        *a_round("Alice", H1, A, 1, rejected(A, *many, "The cache is never emptied.")),
        *a_round("Bob", H2, B, 2, rejected(B, "The cache still is never emptied")),
    )

    assert [len(one) for one in texts(feedback)] == [MAX_SHOWN, 1]
    assert feedback.rounds[0].left_out == 6
    assert feedback.rounds[-1].reviews[0].remarks[0].again == (1,)
