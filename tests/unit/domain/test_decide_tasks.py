"""Holds how tasks are written down, edited, linked, put to sleep, woken and closed."""

import functools
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, THE_DIRECTOR, Actor
from remand.domain.events.tasks import (
    EdgeDeleted,
    TaskCancelled,
    TaskChanges,
    TaskDeferred,
    TaskEdited,
    TaskReopened,
    TaskWoken,
)
from remand.domain.folds.tasks import create_task
from remand.domain.ids import task_node_id
from remand.domain.task import TERMINAL, TRANSITIONS, Status
from remand.testing.builders import ALICE, T1, T2, T3, a_task, task_added
from tests.support.builders import LEAD, THE_USER, decide_events, dependency_created, refusal_code

ADD = c.AddTask(title="Mend the roof")


def test_a_task_is_written_down_as_it_was_said() -> None:
    ask = c.AddTask(
        title="Mend the roof",
        scope="The north side",
        priority="high",
        category="house",
        skills=("weld", "paint", "weld"),
        branch="roof",
        aliases=("#42", "a/b#7"),
    )

    assert decide_events(None, ask, task_id=T1) == (
        task_added(
            T1,
            "Mend the roof",
            description="The north side",
            priority="high",
            category="house",
            skills=("paint", "weld"),
            branch="roof",
            aliases=("#42", "a/b#7"),
        ),
    )


def test_the_tests_a_task_must_pass_are_written_down_and_a_task_without_any_says_nothing_of_them() -> None:
    ask = c.AddTask(title="Mend the roof", must_pass=("tests/test_x.py::test_y", "tests/test_x.py::test_y"))
    (added,) = decide_events(None, ask, task_id=T1)

    assert added == task_added(T1, "Mend the roof", must_pass=("tests/test_x.py::test_y",))
    assert create_task(added).details.must_pass == ("tests/test_x.py::test_y",)
    assert b"must_pass" not in msgspec.json.encode(decide_events(None, ADD, task_id=T1)[0])
    for wrong in ((" ",), ("a",) * 51, ("a" * 600,)):
        assert refusal_code(None, c.AddTask(title="Mend the roof", must_pass=wrong)) == "bad_value"


def test_each_dependency_is_an_event_of_its_own() -> None:
    ask = c.AddTask(title="Mend the roof", depends_on=(T2, T3, T2))

    assert decide_events(None, ask, task_id=T1)[1:] == (
        dependency_created(T1, T2),
        dependency_created(T1, T3),
    )


@pytest.mark.parametrize(
    ("ask", "facts", "code"),
    [
        (c.AddTask(title=""), {}, "bad_value"),
        (c.AddTask(title="  \n"), {}, "bad_value"),
        (c.AddTask(title="x" * 501), {}, "bad_value"),
        (c.AddTask(title="a\x00b"), {}, "bad_value"),
        (c.AddTask(title="\ud800"), {}, "bad_value"),
        (c.AddTask(title="a", scope="x" * 70_000), {}, "bad_value"),
        (c.AddTask(title="a", category="\udfff"), {}, "bad_value"),
        (c.AddTask(title="a", branch="\x00"), {}, "bad_value"),
        (c.AddTask(title="a", priority="urgent"), {}, "bad_value"),
        (c.AddTask(title="a", skills=("",)), {}, "bad_value"),
        (c.AddTask(title="a", skills=("a\x1eb",)), {}, "bad_value"),
        (c.AddTask(title="a", aliases=("42",)), {}, "bad_value"),
        (c.AddTask(title="a", aliases=("#42",)), {"taken_aliases": ("#42",)}, "taken"),
        (c.AddTask(title="a", depends_on=("T-x",)), {"unknown_tasks": ("T-x",)}, "unknown_task"),
    ],
)
def test_a_task_with_a_wrong_value_is_not_written_down(
    ask: c.AddTask, facts: dict[str, object], code: str
) -> None:
    assert refusal_code(None, ask, **facts) == code


def test_an_id_is_one_tasks_own() -> None:
    assert refusal_code(a_task(), ADD) == "taken"


@pytest.mark.parametrize("by", [THE_USER, THE_DIRECTOR])
def test_the_user_and_directors_may_choose_the_id_of_a_task(by: Actor) -> None:
    (event,) = decide_events(None, c.AddTask(title="Mend the roof", own_id="task:T-roof-1"), by)

    assert event == task_added("T-roof-1")


@pytest.mark.parametrize("by", [ALICE, LEAD, replace(THE_USER, confined=True)])
def test_nobody_else_chooses_the_id_of_a_task(by: Actor) -> None:
    assert refusal_code(None, c.AddTask(title="Mend the roof", own_id="T-roof-1"), by) == "not_authorised"
    assert decide_events(None, c.AddTask(title="Mend the roof"), by)


@pytest.mark.parametrize("name", ["roof", "T-", "H-1", "T-a b", "task:", "T-" + "a" * 64, "T-ü"])
def test_an_id_that_is_none_is_not_given_to_a_task(name: str) -> None:
    assert refusal_code(None, c.AddTask(title="Mend the roof", own_id=name)) == "bad_value"


def test_an_edit_says_only_what_changes() -> None:
    ask = c.EditTask(task_id=T1, title="New", skills=("b", "a"), pr=3)

    assert decide_events(a_task(), ask) == (
        TaskEdited(id=task_node_id(T1), changes=TaskChanges(title="New", skills=("a", "b"), pr=3)),
    )


def test_an_edit_can_empty_a_field() -> None:
    (event,) = decide_events(a_task(scope="much"), c.EditTask(task_id=T1, scope="", skills=(), aliases=()))

    assert event.changes == TaskChanges(description="", skills=(), aliases=())


def test_an_edit_that_changes_nothing_is_no_event() -> None:
    assert decide_events(a_task(), c.EditTask(task_id=T1)) == ()


def test_dependencies_come_and_go_by_events_of_their_own() -> None:
    task = a_task(depends_on=(T2,))
    ask = c.EditTask(task_id=T1, depends_on=(T3, T2), drop_depends_on=(T2, "T-never"))

    assert decide_events(task, ask) == (
        dependency_created(T1, T3),
        EdgeDeleted(src=task_node_id(T1), tgt=task_node_id(T2), type="DEPENDS_ON"),
    )


@pytest.mark.parametrize(
    ("ask", "facts", "code"),
    [
        (c.EditTask(task_id=T1, title=" "), {}, "bad_value"),
        (c.EditTask(task_id=T1, scope="\x00"), {}, "bad_value"),
        (c.EditTask(task_id=T1, category="\x00"), {}, "bad_value"),
        (c.EditTask(task_id=T1, branch="a..b"), {}, "bad_value"),
        (c.EditTask(task_id=T1, branch="\x00"), {}, "bad_value"),
        (c.EditTask(task_id=T1, priority="urgent"), {}, "bad_value"),
        (c.EditTask(task_id=T1, aliases=("x",)), {}, "bad_value"),
        (c.EditTask(task_id=T1, skills=("",)), {}, "bad_value"),
        (c.EditTask(task_id=T1, skills=("\ud800",)), {}, "bad_value"),
        (c.EditTask(task_id=T1, pr=-1), {}, "bad_value"),
        (c.EditTask(task_id=T1, aliases=("#1",)), {"taken_aliases": ("#1",)}, "taken"),
        (c.EditTask(task_id=T1, depends_on=("T-x",)), {"unknown_tasks": ("T-x",)}, "unknown_task"),
        (c.EditTask(task_id=T1, depends_on=(T2,)), {"cycle": (T1, T2, T1)}, "closes_cycle"),
    ],
)
def test_an_edit_with_a_wrong_value_changes_nothing(
    ask: c.EditTask, facts: dict[str, object], code: str
) -> None:
    assert refusal_code(a_task(), ask, **facts) == code


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_task_that_has_ended_is_not_edited(status: Status) -> None:
    assert refusal_code(a_task(status=status), c.EditTask(task_id=T1, title="New")) == "bad_transition"


def test_a_task_sleeps_until_others_are_done() -> None:
    ask = c.DeferTask(task_id=T1, waits_for=(T2, T3, T2), reason="No ladder")

    assert decide_events(a_task(), ask, open_blockers=(T2,)) == (
        TaskDeferred(task_id=T1, waits_for=(T2, T3), reason="No ladder"),
    )


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"open_blockers": ()}, "bad_value"),
        ({"open_blockers": (T2,), "unknown_tasks": (T2,)}, "unknown_task"),
        ({"open_blockers": (T2,), "cycle": (T1, T2, T1)}, "closes_cycle"),
    ],
)
def test_a_task_does_not_sleep_for_nothing(facts: dict[str, object], code: str) -> None:
    assert refusal_code(a_task(), c.DeferTask(task_id=T1, waits_for=(T2,)), **facts) == code


def test_a_sleeping_task_wakes_when_nothing_it_waits_for_is_open() -> None:
    task = a_task(status=Status.DEFERRED, waits_for=(T2,))

    assert decide_events(task, c.WakeTask(task_id=T1), THE_COORDINATOR) == (
        TaskWoken(task_id=T1, because=(T2,)),
    )
    assert decide_events(task, c.WakeTask(task_id=T1), THE_COORDINATOR, open_blockers=(T2,)) == ()
    assert decide_events(a_task(), c.WakeTask(task_id=T1), THE_COORDINATOR) == ()


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        (("done", "cancelled"), [Status.DONE]),
        (("cancelled", "infeasible"), [Status.CANCELLED]),
        (("done", "claimed"), []),
        (("done", ""), []),
    ],
)
def test_a_decomposed_task_ends_as_its_sub_tasks_do(children: tuple[str, ...], expected: list[str]) -> None:
    task = a_task(status=Status.DECOMPOSED, children=(T2, T3))

    settled = decide_events(task, c.SettleTask(task_id=T1), THE_COORDINATOR, child_statuses=children)

    assert [event.status for event in settled] == expected


@pytest.mark.parametrize(
    ("ask", "row", "kind"),
    [
        (c.CancelTask(task_id=T1, reason="Sold"), "task.cancel", TaskCancelled),
        (c.ReopenTask(task_id=T1, reason="Sold"), "task.reopen", TaskReopened),
    ],
    ids=["cancel", "reopen"],
)
@pytest.mark.parametrize("status", sorted(Status))
def test_a_task_is_cancelled_and_reopened_where_the_table_allows_it(
    ask: c.Command, row: str, kind: type[TaskCancelled], status: Status
) -> None:
    if status in TRANSITIONS[row].sources:
        assert decide_events(a_task(status=status), ask) == (kind(task_id=T1, reason="Sold"),)
    else:
        assert refusal_code(a_task(status=status), ask) == "bad_transition"


@pytest.mark.parametrize("reason", ["a\x00b", "x" * 70_000], ids=["NUL", "too long"])
@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (c.CancelTask, Status.INCOMING),
        (c.ReopenTask, Status.FAILED),
        (functools.partial(c.DeferTask, waits_for=(T2,)), Status.INCOMING),
    ],
    ids=["cancel", "reopen", "defer"],
)
def test_a_reason_is_text_of_some_length(ask: Callable[..., c.Command], status: Status, reason: str) -> None:
    assert (
        refusal_code(a_task(status=status), ask(task_id=T1, reason=reason), open_blockers=(T2,))
        == "bad_value"
    )


@pytest.mark.parametrize("status", sorted(Status))
def test_a_task_is_deferred_where_the_table_allows_it(status: Status) -> None:
    ask = c.DeferTask(task_id=T1, waits_for=(T2,))
    if status in TRANSITIONS["task.defer"].sources:
        assert decide_events(a_task(status=status), ask, open_blockers=(T2,))
    else:
        assert refusal_code(a_task(status=status), ask, open_blockers=(T2,)) == "bad_transition"


@pytest.mark.parametrize(
    "ask", [c.EditTask(task_id=T1), c.CancelTask(task_id=T1), c.ReopenTask(task_id=T1)], ids=str
)
def test_nothing_is_done_to_a_task_nobody_knows(ask: c.Command) -> None:
    assert refusal_code(None, ask) == "unknown_task"
