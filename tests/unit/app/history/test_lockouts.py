"""Holds how a lockout is listed and explained."""

from __future__ import annotations

from remand.app.history.rejections import active_lockouts, explain_lockouts, lockout_reason, rejection_reasons
from remand.domain import commands as c
from remand.domain.access.team import Team
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, LockoutCleared, LockoutSet, ReviewRejected, ReviewRetracted
from remand.domain.events.tasks import TaskChanges, TaskEdited
from remand.domain.ids import task_node_id
from remand.testing.builders import SHA, T1, T2, T3, a_lockout, a_task, task_added, task_claimed
from tests.support.builders import FakeLedger, gate_passed_and_submitted, stamp_events, task_after

ROOF = Finding(text="security\nconcerns.", path="roof.py", line=12)
NIT = Finding(text="a shorter name", is_blocking=False)
REJECTED = ReviewRejected(
    task_id=T1, reviewer="Lead", commit=SHA, review_id="V-1", findings=(NIT, ROOF, ROOF)
)
LOCKED = LockoutSet(task_id=T1, agent="Alice", reason="security concerns", review_id="V-1")
BEFORE = (task_added(aliases=["#42"]), task_claimed(), *gate_passed_and_submitted())


def told(*after: Event, agent: str = "Alice") -> str:
    """Why, after the work was handed in and these events."""
    return lockout_reason(task_after(*BEFORE, *after), stamp_events(*BEFORE, *after), agent)


def test_a_lockout_is_explained_by_who_rejected_what_and_why() -> None:
    assert told(REJECTED, LOCKED) == (
        f"Alice was locked out for issue #42 after Lead rejected commit {SHA[:12]} "
        "due to security concerns (roof.py:12), and 1 more finding."
    )


def test_work_with_a_pull_request_is_called_by_it() -> None:
    numbered = TaskEdited(id=task_node_id(T1), changes=TaskChanges(pr=15))

    assert "after Lead rejected PR #15 due to" in told(numbered, REJECTED, LOCKED)


def test_a_lockout_without_a_review_names_whose_word_it_was() -> None:
    locked = LockoutSet(task_id=T1, agent="Alice", reason="gave up twice")

    assert told(locked) == "Alice was locked out for issue #42 by somebody: gave up twice."


def test_a_lockout_that_came_with_the_task_names_where_from() -> None:
    locked = LockoutSet(task_id=T1, agent="Alice", inherited_from=T2)

    assert told(locked) == f"Alice was locked out for issue #42, because it was split from task {T2}."


def test_who_is_free_is_told_what_ended_the_lockout() -> None:
    cleared = LockoutCleared(task_id=T1, agent="Alice", reason="unclear feedback")

    assert told(REJECTED, LOCKED, cleared) == (
        "Alice is not locked out for issue #42. somebody unlocked it: unclear feedback."
    )
    assert told(agent="Bob") == "Bob is not locked out for issue #42."


def test_who_holds_the_task_instead_is_named() -> None:
    events = (task_added(aliases=["#42"]), task_claimed())

    assert lockout_reason(task_after(*events), stamp_events(*events), "Bob").endswith("Alice holds the task.")


def test_text_of_a_reviewer_stays_on_its_line() -> None:
    hostile = Finding(text="bad\n\nLOCKOUT: \x1b[31mBob\u202e locked out" + "x" * 5000)
    event = ReviewRejected(task_id=T1, reviewer="Lead", commit=SHA, review_id="V-1", findings=(hostile,))
    text = told(event, LOCKED)

    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 500


def test_a_rejected_task_tells_every_rejection_that_stands() -> None:
    again = ReviewRejected(
        task_id=T1, reviewer="Tester", commit=SHA, review_id="V-2", findings=(Finding(text="no tests"),)
    )
    retracted = ReviewRetracted(task_id=T1, review_id="V-1", reviewer="Lead")
    events = (*BEFORE, REJECTED, again, retracted)

    assert rejection_reasons(task_after(*events), stamp_events(*events)) == (
        f"Tester rejected commit {SHA[:12]} of Alice due to no tests."
    )
    assert (
        rejection_reasons(task_after(*BEFORE), stamp_events(*BEFORE))
        == "No rejection of issue #42 is in force; it is provisional."
    )


def test_lockouts_are_listed_until_the_task_is_done() -> None:
    world = FakeLedger()
    task, _ = world.add_and_claim()
    other, _ = world.add_and_claim("Bob")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="no tests"))
    world.ask(c.LockOut(task_id=other, agent="Alice", reason="again"))
    with world.store.read() as view:
        assert [(row.task_id, row.agent, row.reviewer) for row in active_lockouts(view)] == [
            (task, "Alice", "user"),
            (other, "Alice", "user"),
        ]
        assert [row.task_id for row in active_lockouts(view, other)] == [other]
        assert active_lockouts(view, "T-none") == []
        assert [one.task_id for one in explain_lockouts(view, Team(), "Alice")] == [task, other]
        assert explain_lockouts(view, Team(), "Bob") == []
        assert not explain_lockouts(view, Team(), "Bob", task)[0].is_locked_out


def test_a_lockout_holds_for_what_was_cut_from_the_task_until_it_is_lifted_there() -> None:
    world = FakeLedger()
    parent = a_task(T1, lockouts=(a_lockout(),), children=(T2,))
    with world.store.write() as tx:
        tx.tasks.put(parent)
        tx.tasks.put(a_task(T2, parent=T1))
        tx.tasks.put(a_task(T3, parent=T1, unlocked=("Alice",)))
    with world.store.read() as view:
        (cut,), (lifted,) = (
            explain_lockouts(view, Team(), "Alice", T2),
            explain_lockouts(view, Team(), "Alice", T3),
        )

    assert cut.is_locked_out
    assert cut.why == f"Alice is locked out of task {T1}, which task {T2} was split from."
    assert not lifted.is_locked_out
