"""Holds that a rejection which waits for a person stands among the user's questions, and can be answered there."""

import pytest

from remand.app.board import BoardContext, read_board
from remand.app.history.rejections import RejectionView
from remand.app.inbox import decisions
from remand.app.inbox.decisions import (
    DecisionQuestion,
    command_for_answer,
    open_questions,
    rejection_grounds,
    waiting_entries,
)
from remand.app.inbox.questions import Question
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import FakeLedger, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

PEOPLE = (member("Alice"), member("Bob"), member("owner", Role.USER))
AGENT_DIRECTOR = Member(name="Dora", roles=(Role.DIRECTOR,), command=("direct",))


def a_world(*more: Member, director: tuple[str, ...] = ("human",)) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=Team((*PEOPLE, *more)), policy=Policy(director=director)))


def rejected(world: FakeLedger, reason: str = "BLOCKER") -> str:
    task, handoff = world.add_and_claim(title=TITLE, scope=SCOPE)
    world.reject(handoff, a_rejection(reason))
    assert world.task(task).status == Status.BLOCKED
    return task


def questions(world: FakeLedger) -> list[Question]:
    with world.store.read() as view:
        return open_questions(view, world.rules)


def asked(world: FakeLedger) -> DecisionQuestion:
    (found,) = questions(world)
    assert isinstance(found, DecisionQuestion)
    return found


def test_it_is_asked_with_what_was_rejected_why_and_how_to_answer() -> None:
    world = a_world()
    task = rejected(world)
    filed = world.task(task).rejections.last_rejection
    assert filed is not None

    found = asked(world)

    assert (found.task_id, found.escalation_id, found.kind) == (task, filed.rejection_id, "decision")
    assert "Alice rejected it (BLOCKER): The relay refuses the account svc-report" in found.question
    assert [option.key for option in found.options] == [
        "ACCEPT_AND_DEFER",
        "ACCEPT",
        "OVERRIDE",
        "reassign:Bob",
    ]
    assert found.answer == f"remand handoff rejection-response {filed.handoff_id} --decision DECISION"
    assert found.tried


@pytest.mark.parametrize(
    ("key", "status", "decision"),
    [
        ("ACCEPT_AND_DEFER", Status.DEFERRED, "ACCEPT_AND_DEFER"),
        ("ACCEPT", Status.BLOCKED, "ACCEPT"),
        ("OVERRIDE", Status.CLAIMED, "OVERRIDE"),
        ("reassign:Bob", Status.INCOMING, "OVERRIDE"),
    ],
)
def test_every_option_is_an_answer_after_which_nothing_waits(key: str, status: Status, decision: str) -> None:
    world = a_world()
    task = rejected(world)

    world.ask(command_for_answer(asked(world), key, "The key is in the vault"), "owner")

    after = world.task(task)
    assert after.rejections.last_rejection is not None
    assert (after.status, after.rejections.last_rejection.decision) == (status, decision)
    assert [offer.target for offer in after.claims.offers] == (["Bob"] if key == "reassign:Bob" else [])
    assert questions(world) == []


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE", "UNCLEAR_REQUIREMENTS"])
def test_what_the_automatic_director_would_decide_is_offered_first_and_can_be_had(reason: str) -> None:
    world = a_world()
    rejected(world, reason)
    found = asked(world)

    assert found.options[0].key.startswith("ACCEPT_AND_")
    world.ask(command_for_answer(found, found.options[0].key, ""), "owner")
    assert questions(world) == []


def test_an_option_that_is_none_is_refused_with_those_that_are() -> None:
    world = a_world()
    rejected(world)

    with pytest.raises(Refused, match="choose one of ACCEPT_AND_DEFER, ACCEPT, OVERRIDE, reassign:Bob"):
        command_for_answer(asked(world), "wontfix", "")


def test_what_an_agent_will_decide_is_no_question_to_the_user() -> None:
    world = a_world(AGENT_DIRECTOR)
    rejected(world)

    assert questions(world) == []


def test_what_the_user_s_command_did_not_decide_is() -> None:
    world = a_world(AGENT_DIRECTOR, director=("/usr/local/bin/direct",))
    rejected(world)

    assert asked(world).agent == "Alice"


def test_escalations_and_decisions_stand_together_the_oldest_first_and_on_the_board() -> None:
    world = a_world()
    first = rejected(world)
    world.clock.advance(60.0)
    second = world.add("Mend the roof")
    world.ask(c.EscalateTask(task_id=second, reason="who pays?"))

    assert [one.task_id for one in questions(world)] == [first, second]
    with world.store.read() as view:
        seen = read_board(view, BoardContext(now=world.clock.now(), rules=world.rules))
    assert [one.task_id for one in seen.questions] == [first, second]
    assert any(one.text == "2 questions wait for the user." for one in seen.troubles)


def test_a_question_about_an_infeasible_task_holds_all_that_the_decision_rests_on() -> None:
    world = a_world(director=("auto",))
    record = a_rejection("INFEASIBLE")
    task, taken = world.add_and_claim(title=TITLE, scope=SCOPE)
    world.reject(taken, record)

    found = asked(world)

    assert world.task(task).status == Status.BLOCKED
    told = "\n".join(found.grounds)
    assert record["suggested_alternative"] in told
    assert record["reason_detail"] in told
    assert record["blocking_factor"] in told
    assert record["evidence"][0]["source"] in told
    assert found.options[0].key == "ACCEPT_AND_REFORMULATE"
    world.ask(command_for_answer(found, "ACCEPT_AND_REFORMULATE", ""), "owner")
    assert world.task(task).status == Status.INFEASIBLE
    assert world.task(world.task(task).links.superseded_by).details.scope.startswith(
        record["suggested_alternative"][:40]
    )


def test_each_attempt_and_piece_of_evidence_stands_with_its_grade_and_each_sub_task_with_its_scope() -> None:
    world = a_world()
    record = a_rejection("SCOPE_CREEP")
    _, handoff = world.add_and_claim(title=TITLE, scope=SCOPE)
    world.reject(handoff, record)

    told = asked(world).grounds

    assert [row for row in told if row.startswith("attempt (")] == [
        f"attempt (reported): {text}" for text in record["what_attempted"]
    ]
    assert sum(row.startswith("evidence (reported): ") for row in told) == len(record["evidence"])
    assert "growth: 6 times" in told
    assert (
        "sub-task: PDF renderer in the image; headless chromium, 41 font packages;"
        " depends on: Requires print layout task; 5 hours"
    ) in told
    assert told[-1] == f"in full: remand handoff status {handoff}"


def test_what_is_cut_from_a_question_is_said() -> None:
    record = a_rejection("BLOCKER")
    found = RejectionView(
        rejection_id="R-1",
        task_id="T-1",
        handoff_id="H-1",
        agent="Alice",
        at="",
        is_valid=True,
        rejection=record
        | {"reason_detail": "why \x1b[2J" * 1000, "what_attempted": [f"attempt {n}" for n in range(100)]},
    )

    told = rejection_grounds(found)

    assert next(row for row in told if row.startswith("why: ")).endswith(" more characters]")
    assert told[-2].endswith(" more parts]")
    assert not any("\x1b" in row or "\n" in row for row in told)


def test_the_states_of_tasks_alone_say_every_question_that_waits() -> None:
    world = a_world()
    for number in range(5):
        world.clock.advance(60)
        if number % 2:
            rejected(world)
        else:
            world.ask(c.EscalateTask(task_id=world.add(), reason=f"Stuck {number}"), "owner")
    whole = questions(world)
    with world.store.read() as view:
        found = list(waiting_entries(view, world.rules, world.rules.team.actor("owner")))
    kinds = [one.kind for one in found for _ in range(one.number)]
    assert (kinds.count("asked"), kinds.count(decisions.DECISION_KIND), len(kinds)) == (3, 2, len(whole))
