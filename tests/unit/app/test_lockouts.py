"""Holds how a lockout is listed and explained."""

from __future__ import annotations

from remand.app.lockouts import explained, lockouts, rejected, why
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.ids import task_node
from remand.domain.roles import Team
from remand.testing.builders import (
    SHA,
    T1,
    T2,
    T3,
    World,
    a_lockout,
    a_task,
    added,
    claimed,
    given,
    handed_in,
    stamped,
)

ROOF = e.Finding(text="security\nconcerns.", path="roof.py", line=12)
NIT = e.Finding(text="a shorter name", is_blocking=False)
REJECTED = e.ReviewRejected(
    task_id=T1, reviewer="Lead", commit=SHA, review_id="V-1", findings=(NIT, ROOF, ROOF)
)
LOCKED = e.LockoutSet(task_id=T1, agent="Alice", reason="security concerns", review_id="V-1")
BEFORE = (added(aliases=["#42"]), claimed(), *handed_in())


def told(*after: e.Event, agent: str = "Alice") -> str:
    """Why, after the work was handed in and these events."""
    return why(given(*BEFORE, *after), stamped(*BEFORE, *after), agent)


def test_a_lockout_is_explained_by_who_rejected_what_and_why() -> None:
    assert told(REJECTED, LOCKED) == (
        f"Alice was locked out for issue #42 after Lead rejected commit {SHA[:12]} "
        "due to security concerns (roof.py:12), and 1 more finding."
    )


def test_work_with_a_pull_request_is_called_by_it() -> None:
    numbered = e.TaskEdited(id=task_node(T1), changes=e.TaskChanges(pr=15))

    assert "after Lead rejected PR #15 due to" in told(numbered, REJECTED, LOCKED)


def test_a_lockout_without_a_review_names_whose_word_it_was() -> None:
    locked = e.LockoutSet(task_id=T1, agent="Alice", reason="gave up twice")

    assert told(locked) == "Alice was locked out for issue #42 by somebody: gave up twice."


def test_a_lockout_that_came_with_the_task_names_where_from() -> None:
    locked = e.LockoutSet(task_id=T1, agent="Alice", inherited_from=T2)

    assert told(locked) == f"Alice was locked out for issue #42, since it was cut from task {T2}."


def test_who_is_free_is_told_what_ended_the_lockout() -> None:
    cleared = e.LockoutCleared(task_id=T1, agent="Alice", reason="unclear feedback")

    assert told(REJECTED, LOCKED, cleared) == (
        "Alice is not locked out for issue #42. somebody unlocked it: unclear feedback."
    )
    assert told(agent="Bob") == "Bob is not locked out for issue #42."


def test_who_holds_the_task_instead_is_named() -> None:
    events = (added(aliases=["#42"]), claimed())

    assert why(given(*events), stamped(*events), "Bob").endswith("Alice holds the task.")


def test_text_of_a_reviewer_stays_on_its_line() -> None:
    hostile = e.Finding(text="bad\n\nLOCKOUT: \x1b[31mBob\u202e locked out" + "x" * 5000)
    event = e.ReviewRejected(task_id=T1, reviewer="Lead", commit=SHA, review_id="V-1", findings=(hostile,))
    text = told(event, LOCKED)

    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 500


def test_a_rejected_task_tells_every_rejection_that_stands() -> None:
    again = e.ReviewRejected(
        task_id=T1, reviewer="Tester", commit=SHA, review_id="V-2", findings=(e.Finding(text="no tests"),)
    )
    retracted = e.ReviewRetracted(task_id=T1, review_id="V-1", reviewer="Lead")
    events = (*BEFORE, REJECTED, again, retracted)

    assert rejected(given(*events), stamped(*events)) == (
        f"Tester rejected commit {SHA[:12]} of Alice due to no tests."
    )
    assert (
        rejected(given(*BEFORE), stamped(*BEFORE)) == "No rejection of issue #42 stands; it is provisional."
    )


def test_lockouts_are_listed_until_the_task_is_done() -> None:
    world = World()
    task, _ = world.held()
    other, _ = world.held("Bob")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="no tests"))
    world.ask(c.LockOut(task_id=other, agent="Alice", reason="again"))
    with world.store.read() as view:
        assert [(row.task_id, row.agent, row.reviewer) for row in lockouts(view)] == [
            (task, "Alice", "user"),
            (other, "Alice", "user"),
        ]
        assert [row.task_id for row in lockouts(view, other)] == [other]
        assert lockouts(view, "T-none") == []
        assert [one.task_id for one in explained(view, Team(), "Alice")] == [task, other]
        assert explained(view, Team(), "Bob") == []
        assert not explained(view, Team(), "Bob", task)[0].is_locked_out


def test_a_lockout_holds_for_what_was_cut_from_the_task_until_it_is_lifted_there() -> None:
    world = World()
    parent = a_task(T1, lockouts=(a_lockout(),), children=(T2,))
    with world.store.write() as tx:
        tx.tasks.put(parent)
        tx.tasks.put(a_task(T2, parent=T1))
        tx.tasks.put(a_task(T3, parent=T1, unlocked=("Alice",)))
    with world.store.read() as view:
        (cut,), (lifted,) = explained(view, Team(), "Alice", T2), explained(view, Team(), "Alice", T3)

    assert cut.is_locked_out
    assert cut.why == f"Alice is locked out of task {T1}, which task {T2} was cut from."
    assert not lifted.is_locked_out
