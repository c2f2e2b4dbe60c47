"""Holds what a director makes of each reason: which tasks, by which titles, linked how."""

from typing import Any

import pytest

from remand.domain.decisions.director import (
    AUTOMATIC,
    MAX_SUBTASKS,
    MAX_TITLE,
    DecisionPlan,
    override_message,
    plan_decision,
)
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import NamedTask, ValidationFacts, issue
from remand.testing.builders import T1, T2, T3
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TASK = {"id": T1, "title": TITLE, "scope": SCOPE, "priority": "medium", "category": "reports"}
OPEN = NamedTask(name=T2, task_id=T2, title="PDF export", status="incoming", is_open=True)


def drawn(
    reason: str, facts: ValidationFacts | None = None, task: dict[str, Any] | None = None, **fields: Any
) -> DecisionPlan:
    """The automatic director's plan for a rejection."""
    record = TaskRejection.from_dict({**a_rejection(reason, **fields), "task_id": T1})
    return plan_decision(AUTOMATIC[RejectionReason[reason]], record, {**TASK, **(task or {})}, facts)


@pytest.mark.parametrize(
    ("reason", "decision"),
    [
        ("BLOCKER", DecisionType.ACCEPT_AND_DEFER),
        ("SCOPE_CREEP", DecisionType.ACCEPT_AND_DECOMPOSE),
        ("MISSING_DEPENDENCY", DecisionType.ACCEPT_AND_DEFER),
        ("INFEASIBLE", DecisionType.ACCEPT_AND_REFORMULATE),
        ("UNCLEAR_REQUIREMENTS", DecisionType.ACCEPT_AND_DEFER),
        ("OBSOLETE", DecisionType.ACCEPT),
    ],
)
def test_each_reason_has_its_decision(reason: str, decision: DecisionType) -> None:
    assert drawn(reason).decision is decision


def test_a_blocker_becomes_an_urgent_task_that_blocks() -> None:
    made = drawn("BLOCKER")

    (sketch,) = made.sketches
    assert made.link == "BLOCKS"
    assert sketch.title.startswith("Resolve blocker: The password of svc-report")
    assert (sketch.category, sketch.priority) == ("blocker", "high")
    assert "535 5.7.8" in sketch.scope
    assert "REPORT_SMTP" in sketch.scope


def test_what_blocks_a_critical_task_is_critical() -> None:
    assert drawn("BLOCKER", task={"priority": "critical"}).sketches[0].priority == "critical"


def test_unclear_requirements_become_a_clarification_that_names_the_task_whole() -> None:
    made = drawn("UNCLEAR_REQUIREMENTS", task={"id": "T-20251220-153045-a1b2c3d4"})

    (sketch,) = made.sketches
    assert made.link == "BLOCKS"
    assert sketch.category == "clarification"
    assert sketch.title.startswith("Clarify requirements for T-20251220-153045-a1b2c3d4")
    assert made.rationale((T3,)) == f"Valid unclear requirements. Created clarification task: {T3}."


def test_a_dependency_that_is_open_is_waited_for_and_nothing_is_created() -> None:
    made = drawn("MISSING_DEPENDENCY", ValidationFacts(named=(OPEN,)))

    assert (made.waits_for, made.sketches, made.link) == ((T2,), (), "DEPENDS_ON")
    assert made.rationale(()) == f"Valid dependency. Task depends on {T2}."


def test_a_dependency_nobody_has_written_down_becomes_a_task() -> None:
    made = drawn(
        "MISSING_DEPENDENCY", blocking_factor="NET-2207 of the network team is open: no route to the relay"
    )

    (sketch,) = made.sketches
    assert made.link == "DEPENDS_ON"
    assert sketch.category == "dependency"
    assert "NET-2207" in sketch.title
    assert made.rationale((T3,)) == f"Valid dependency. Task depends on {T3}."


@pytest.mark.parametrize(
    "odd", [{"is_open": False}, {"is_self": True}, {"is_descendant": True}, {"task_id": ""}], ids=str
)
def test_nothing_waits_for_what_it_may_not_wait_for(odd: dict[str, Any]) -> None:
    named = NamedTask(**{"name": T2, "task_id": T2, "is_open": True, **odd})

    assert drawn("MISSING_DEPENDENCY", ValidationFacts(named=(named,))).waits_for == ()


@pytest.mark.parametrize("name", ["T-20251220-153045-a1b2", "task:T-20251220-153045-a1b2c3d4", "#42"])
def test_a_dependency_is_known_by_its_whole_name(name: str) -> None:
    cut = NamedTask(name="T-20251220", task_id=T3, is_open=True)
    whole = NamedTask(name=name, task_id=T2, is_open=True)

    made = drawn(
        "MISSING_DEPENDENCY",
        ValidationFacts(named=(cut, whole)),
        blocking_factor=f"{name} is open, GET gives 501",
    )

    assert made.waits_for == (T2,)


def test_scope_creep_is_cut_into_its_sub_tasks_with_their_order() -> None:
    made = drawn("SCOPE_CREEP")

    layout, renderer, mail = made.sketches
    assert made.link == "REFINES"
    assert (layout.siblings, renderer.siblings, mail.siblings) == ((), (0,), (1,))
    assert (layout.scope, layout.estimate) == ("31 pages, 11 charts drawn on the server", "16 hours")
    assert {sketch.category for sketch in made.sketches} == {"reports"}
    assert made.rationale(("a", "b", "c")) == "Valid scope creep. Decomposed into 3 sub-tasks."


def test_a_sub_task_may_wait_for_a_task_that_exists() -> None:
    rows = [{"title": "Layout", "dependencies": f"task:{T2}"}, {"title": "Mail", "dependencies": "T-9 and 1"}]
    facts = ValidationFacts(
        named=(NamedTask(name=f"task:{T2}", task_id=T2, is_open=True), NamedTask(name="T-9"))
    )

    layout, mail = drawn("SCOPE_CREEP", facts, alternative_tasks=rows).sketches

    assert (layout.tasks, layout.siblings) == ((T2,), ())
    assert (mail.tasks, mail.siblings) == ((), (0,))


def test_what_a_sub_task_waits_for_and_nobody_knows_is_said() -> None:
    rows = [{"title": "Layout", "dependencies": "full moon"}, {"title": "Mail"}]

    made = drawn("SCOPE_CREEP", alternative_tasks=rows)

    assert made.rationale(("a", "b")).endswith("Not resolved to a task: full moon.")


@pytest.mark.parametrize(
    "rows",
    [
        "text",
        None,
        7,
        [None, "text", 3, []],
        [{}, {}],
        [{"title": ""}, {"title": "  "}, {"title": None}, {"title": []}],
        [{"scope": "without a title"}],
    ],
    ids=repr,
)
def test_what_is_no_sub_task_is_left_out(rows: object) -> None:
    assert drawn("SCOPE_CREEP", alternative_tasks=rows).sketches == ()


def test_there_is_a_limit_to_sub_tasks() -> None:
    rows = [{"title": f"Part {n}"} for n in range(MAX_SUBTASKS + 5)]

    assert len(drawn("SCOPE_CREEP", alternative_tasks=rows).sketches) == MAX_SUBTASKS


def test_the_infeasible_becomes_one_task_that_can_be_done() -> None:
    made = drawn("INFEASIBLE")

    (sketch,) = made.sketches
    assert made.link == "REFINES"
    assert sketch.title == f"Reformulated: {TITLE}"
    assert sketch.scope.startswith("Mail a link instead")
    assert made.rationale((T3,)) == f"Valid infeasibility. Created reformulated task: {T3}."


def test_reformulating_again_does_not_stack_the_prefix() -> None:
    once = drawn("INFEASIBLE").sketches[0].title

    assert drawn("INFEASIBLE", task={"title": once}).sketches[0].title == once
    stacked = f"REFORMULATED: reformulated: {TITLE}"
    assert drawn("INFEASIBLE", task={"title": stacked}).sketches[0].title == once


@pytest.mark.parametrize(
    ("factor", "superseded_by"),
    [
        (f"{T2} does it already", T2),
        ("done in commit 0a1b2c3d4e5f", "0a1b2c3d4e5f"),
        (f"{T1}, or rather {T2}", T2),
    ],
)
def test_the_obsolete_names_what_superseded_it(factor: str, superseded_by: str) -> None:
    made = drawn("OBSOLETE", ValidationFacts(named=(OPEN,)), blocking_factor=factor)

    assert made.superseded_by == superseded_by
    assert superseded_by in made.rationale(())


# Titles.


@pytest.mark.parametrize("length", range(MAX_TITLE - 40, MAX_TITLE))
def test_a_title_never_cuts_an_id(length: int) -> None:
    filler = ("word " * 50)[: length - len("Resolve blocker: ") - 1]
    made = drawn(
        "BLOCKER", blocking_factor=f"{filler} task:{T2} and more that does not fit in any title at all"
    )

    title = made.sketches[0].title
    assert len(title) <= MAX_TITLE
    assert f"task:{T2}" in title or "T-" not in title


@pytest.mark.parametrize(
    "factor",
    ["依赖服务不可用，返回五百零一错误。" * 20, "a\nb\tc\x00d " * 40, "x" * 1000, ""],
    ids=["wide", "lines", "word", "none"],
)
def test_a_title_is_one_line_that_says_something(factor: str) -> None:
    title = drawn("BLOCKER", blocking_factor=factor).sketches[0].title

    assert title.startswith("Resolve blocker")
    assert len(title) <= MAX_TITLE
    assert title == " ".join(title.split())
    assert "\x00" not in title


def test_a_long_title_in_a_script_without_spaces_keeps_what_fits() -> None:
    title = drawn("BLOCKER", blocking_factor="依赖服务不可用" * 40).sketches[0].title

    assert len(title) > MAX_TITLE - 10


# What the agent is told.


def test_an_override_lists_every_issue_and_how_to_go_on() -> None:
    message = override_message([issue("effort_vague"), issue("evidence_missing", reason="BLOCKER")])

    assert message.startswith("Your rejection was not accepted")
    assert message.count("\n- ") == 2
    assert "at least 2 concrete attempts" in message


def test_the_last_override_says_that_another_gets_the_task() -> None:
    message = override_message([issue("effort_vague")], is_last=True)

    assert "another agent or to a human" in message
    assert "Continue the task." not in message


OTHERS = {
    "BLOCKER": ("dependency", "scope creep", "infeasib", "unclear", "obsolete"),
    "SCOPE_CREEP": ("blocker", "dependency", "infeasib", "unclear", "obsolete"),
    "MISSING_DEPENDENCY": ("blocker", "scope creep", "infeasib", "unclear", "obsolete"),
    "INFEASIBLE": ("blocker", "dependency", "scope creep", "unclear", "obsolete"),
    "UNCLEAR_REQUIREMENTS": ("blocker", "dependency", "scope creep", "infeasib", "obsolete"),
    "OBSOLETE": ("blocker", "dependency", "scope creep", "infeasib", "unclear"),
}
OWN = {
    "BLOCKER": "Valid blocker",
    "SCOPE_CREEP": "Valid scope creep",
    "MISSING_DEPENDENCY": "Valid dependency",
    "INFEASIBLE": "Valid infeasibility",
    "UNCLEAR_REQUIREMENTS": "Valid unclear requirements",
    "OBSOLETE": "the task is obsolete",
}


@pytest.mark.parametrize("decision", [one for one in DecisionType if one is not DecisionType.OVERRIDE])
@pytest.mark.parametrize("reason", sorted(OTHERS))
@pytest.mark.parametrize("is_known", [False, True], ids=["new tasks", "tasks that exist"])
def test_a_rationale_speaks_of_the_reason_that_was_given_whatever_was_decided(
    reason: str, decision: DecisionType, is_known: bool
) -> None:
    factor = "THE FACTOR"
    record = TaskRejection.from_dict({**a_rejection(reason, blocking_factor=factor), "task_id": T1})
    made = plan_decision(decision, record, TASK, ValidationFacts(named=(OPEN,)))
    if is_known:
        made = made.with_existing((T2,))

    text = made.rationale((T2,) if is_known else tuple(f"N-{n}" for n, _ in enumerate(made.sketches)))

    assert OWN[reason] in text
    assert not [word for word in OTHERS[reason] if word in text.lower()]
    assert reason != "BLOCKER" or f"Blocking factor: {factor}." in text


def test_the_rationale_of_a_blocker_begins_as_in_the_requirements_and_names_what_is_in_the_way() -> None:
    text = drawn("BLOCKER").rationale((T3,))

    assert text.startswith(
        f"Valid blocker. Created blocker resolution task: {T3}. Blocking factor: The password of"
    )


def test_a_blocking_factor_in_a_rationale_is_one_short_line_that_hides_nothing() -> None:
    made = drawn("BLOCKER", blocking_factor="no\nroute \u202e" + "x" * 3000)

    assert "\n" not in made.rationale((T3,))
    assert "\u202e" not in made.rationale((T3,))
    assert len(made.rationale((T3,))) < 400
