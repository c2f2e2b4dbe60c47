"""Holds whom the scheduler asks for a review or a decision, and whom never."""

from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.tasks.queue import Load, able_reviewers, choose_director, choose_reviewer
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.events.work import Purpose
from remand.domain.run import Run
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import NOW, a_claim, a_lockout, a_submission, a_task
from tests.support.builders import a_filed_rejection, decide_events, member, refusal_code

COMMAND = ("agent",)
LEA = member("Lea", Role.LEAD, command=COMMAND, aliases=("l",), accounts=("github:lea",))
RITA = member("Rita", Role.LEAD, command=COMMAND)
TESS = member("Tess", Role.TESTER, command=COMMAND)
HUMAN = member("Hugo", Role.LEAD)
DORA = member("Dora", Role.DIRECTOR, command=COMMAND, aliases=("d",))
WORK = a_task(
    status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",), holders=("Alice",)
)
REVIEW = Run(id="RUN-1", agent="Lea", purpose=Purpose.REVIEW, started_at=NOW)
IDLE = Load({})


def chosen(
    task: Task,
    *members: Member,
    changed: Collection[str] | None = ("roof.py",),
    load: Load = IDLE,
    **options: Any,
) -> str:
    found = choose_reviewer(task, Team(members), lambda: changed, load, **options)
    return found.name if found else ""


def test_a_reviewer_that_can_be_started_is_asked() -> None:
    assert chosen(WORK, member("Alice"), member("Bob", command=COMMAND), HUMAN, LEA) == "Lea"


@pytest.mark.parametrize(
    "other",
    [
        member("Bob", command=COMMAND),
        HUMAN,
        member("owner", Role.USER, command=COMMAND),
        DORA,
        member("Lea", Role.LEAD, command=COMMAND, capacity=0),
    ],
)
def test_who_is_no_reviewer_or_cannot_be_started_is_not(other: Member) -> None:
    assert chosen(WORK, other) == ""


@pytest.mark.parametrize("name", ["Lea", "l", "github:lea"])
def test_who_had_a_part_is_never_asked_under_any_name(name: str) -> None:
    own = (
        update_task(WORK, authors=("Alice", name)),
        update_task(WORK, holders=("Alice", name)),
        update_task(WORK, lockouts=(a_lockout(name),)),
    )
    for task in own:
        assert chosen(task, LEA) == ""
        assert chosen(task, LEA, RITA) == "Rita"
    assert chosen(WORK, LEA, kept_away=(name,)) == ""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(("tests/test_a.py",), "Tess"), (("tests/test_a.py", "roof.py"), ""), (None, ""), ((), "Tess")],
)
def test_a_reviewer_s_word_has_to_reach_every_file(changed: Collection[str] | None, expected: str) -> None:
    assert chosen(WORK, TESS, changed=changed) == expected


def test_what_was_changed_is_looked_up_only_where_it_matters() -> None:
    def never() -> None:
        raise AssertionError("nobody's scope is limited")

    assert able_reviewers(WORK, Team((LEA,)), never) == [LEA]


def test_who_was_asked_for_by_name_is_the_one() -> None:
    assert chosen(update_task(WORK, requested=("Rita",)), LEA, RITA) == "Rita"
    assert chosen(update_task(WORK, requested=("l",)), RITA, LEA) == "Lea"


def test_when_a_person_was_asked_for_no_agent_is() -> None:
    assert chosen(update_task(WORK, requested=("Hugo",)), LEA, RITA, HUMAN) == ""


def test_the_one_with_least_to_do_is_asked_in_turn() -> None:
    lea, rita = replace(LEA, capacity=3), replace(RITA, capacity=3)

    assert chosen(WORK, lea, rita, load=Load({"Lea": 1})) == "Rita"
    assert chosen(WORK, lea, rita, after="Lea") == "Rita"
    assert chosen(WORK, lea, rita, after="Rita") == "Lea"
    assert chosen(WORK, lea, rita, load=Load({"Lea": 3, "Rita": 3})) == ""


@pytest.mark.parametrize(
    "task",
    [
        a_task(),
        a_task(status=Status.DONE, submission=a_submission()),
        replace(WORK, submission=None),
        replace(WORK, runs=(REVIEW,)),
    ],
)
def test_nobody_is_asked_when_nothing_waits_or_somebody_looks_already(task: Task) -> None:
    assert chosen(task, LEA) == ""


@pytest.mark.parametrize("changed", [("roof.py",), ("tests/test_a.py",), None])
def test_whoever_is_asked_may_approve(changed: tuple[str, ...] | None) -> None:
    team = Team((LEA, RITA, TESS, DORA, HUMAN))
    task = update_task(WORK, lockouts=(a_lockout("Rita"),))
    commit = task.submission.commit if task.submission else ""
    approve = c.ApproveReview(task_id=task.id, commit=commit)
    facts: dict[str, Any] = {"commit": commit, "changed": changed}

    able = {one.name for one in able_reviewers(task, team, lambda: changed)}

    assert able
    for one in (LEA, RITA, TESS, DORA):
        who = team.actor(one.name)
        if one.name in able:
            assert decide_events(task, approve, who, **facts)
        else:
            assert refusal_code(task, approve, who, **facts)


# Directors.


WAITING = a_task(status=Status.BLOCKED, last_rejection=a_filed_rejection())


def directing(task: Task, *members: Member, load: Load = IDLE) -> str:
    found = choose_director(task, Team(members), load)
    return found.name if found else ""


def test_a_director_that_can_be_started_is_asked_about_what_waits() -> None:
    assert directing(WAITING, LEA, member("Dirk", Role.DIRECTOR), DORA) == "Dora"
    assert directing(WAITING, DORA, load=Load({"Dora": 1})) == ""


@pytest.mark.parametrize(
    "task",
    [
        a_task(),
        a_task(status=Status.BLOCKED),
        a_task(status=Status.BLOCKED, last_rejection=a_filed_rejection("ACCEPT")),
        a_task(status=Status.CLAIMED, claim=a_claim(), last_rejection=a_filed_rejection()),
        replace(WAITING, runs=(replace(REVIEW, purpose=Purpose.DIRECT),)),
    ],
)
def test_no_director_is_asked_when_nothing_waits(task: Task) -> None:
    assert directing(task, DORA) == ""


@pytest.mark.parametrize("name", ["Dora", "d"])
def test_a_director_is_not_asked_about_its_own_rejection(name: str) -> None:
    assert directing(update_task(WAITING, last_rejection=a_filed_rejection(agent=name)), DORA) == ""
    assert directing(update_task(WAITING, lockouts=(a_lockout(name),)), DORA) == ""


def test_the_user_is_no_agent_to_be_started() -> None:
    assert directing(WAITING, member("owner", Role.USER, command=COMMAND)) == ""
