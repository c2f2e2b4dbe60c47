"""Holds what the user is asked about a task that cannot go on: the words, the ways to decide it, and what was tried."""

import pytest

from remand.app.events.task_folds import task_events
from remand.app.inbox.questions import (
    MAX_TRIED,
    Question,
    answer_options,
    attempt_lines,
    open_escalations,
    question_text,
)
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.decisions.escalations import escalation_options, number_options
from remand.domain.events.reviews import Finding
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, TaskFailed
from remand.domain.events.work import GateRejected
from remand.domain.task import Status
from remand.domain.text.words import MAX_LINE
from remand.testing.builders import BOB, H1, H2, T1, a_lockout, a_task
from tests.support.builders import (
    NIT,
    V1,
    V2,
    FakeLedger,
    a_result,
    a_round,
    a_verdict,
    an_escalation,
    member,
    review_rejected,
    review_retracted,
    send_back,
    stamp_events,
)

TEAM = Team((member("Alice"), member("Bob"), member("Lea", Role.LEAD), member("Boss", Role.USER)))


def asked(world: FakeLedger) -> list[Question]:
    with world.store.read() as view:
        return open_escalations(view, world.rules.team, lambda name: task_events(view, name))


def with_team() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM))


def test_a_member_that_cannot_start_is_not_offered_and_the_numbers_of_the_others_stay() -> None:
    world = FakeLedger(rules=Rules(gates=(), team=Team((*TEAM.members, member("Carl")))))
    task = world.add()
    world.ask(c.EscalateTask(task_id=task, reason="It is stuck"), "Boss")
    every, escalated = asked(world)[0], world.task(task)
    with world.store.read() as view:
        (found,) = open_escalations(
            view, world.rules.team, lambda _: (), {"Bob": "its program `bob` was not found"}
        )
        chosen = answer_options(view, world.rules.team, escalated)

    assert [option.key for option in every.options if option.key not in {o.key for o in found.options}] == [
        "reassign:Bob"
    ]
    assert "Reassign to Bob" not in found.question
    assert "Bob cannot be started: its program `bob` was not found." in found.question
    assert all(chosen[number - 1].key == option.key for number, option in number_options(found.options))
    assert f"{[o.key for o in chosen].index('reassign:Carl') + 1}) Reassign to Carl" in found.question


# The question.


def test_a_deadlock_is_asked_in_the_words_of_the_requirement() -> None:
    task = a_task(
        status=Status.ESCALATED,
        aliases=("#42",),
        escalation=an_escalation("deadlock"),
        lockouts=(a_lockout("Alice"),),
        rounds=(a_round(V1),),
    )

    assert question_text(task, escalation_options(task, [])) == (
        "All agents locked out for issue #42. Options: 1) Manual fix, 2) Unlock Alice and provide guidance, "
        "3) Close as won't-fix."
    )


@pytest.mark.parametrize(("times", "words"), [(1, "once"), (2, "twice"), (3, "3 times")])
def test_repeated_rejections_are_counted_in_words(times: int, words: str) -> None:
    rounds = tuple(a_round(f"V-{number}") for number in range(times))
    task = a_task(
        status=Status.ESCALATED, aliases=("#42",), escalation=an_escalation("reviews"), rounds=rounds
    )

    assert question_text(task, escalation_options(task, [])).startswith(
        f"Issue #42 rejected {words}. Need guidance or manual fix. Options: 1) Manual fix,"
    )


def test_a_deadlock_without_a_lockout_does_not_speak_of_one() -> None:
    task = a_task(status=Status.ESCALATED, escalation=an_escalation("deadlock"))

    assert question_text(task, escalation_options(task, [])).startswith(
        f"No agent is left for task {T1}. Options: 1) Manual fix,"
    )


@pytest.mark.parametrize("kind", ["asked", "gates", "bypassed", ""])
def test_any_other_question_gives_its_reason_on_one_line(kind: str) -> None:
    reason = "Which\ncolour?\u202e" + "x" * 500
    task = a_task(status=Status.ESCALATED, escalation=an_escalation(kind, reason=reason))

    first, _, rest = question_text(task, escalation_options(task, [BOB])).partition(" Options: ")

    assert first.startswith(f"Task {T1} needs a decision: Which colour?x")
    assert len(first) < 2 * MAX_LINE
    assert "Reassign to Bob" in rest


# What is open.


def test_the_oldest_question_comes_first_and_an_answered_one_is_gone() -> None:
    world = with_team()
    first, second, third = (world.add(title) for title in ("One", "Two", "Three"))
    for task in (second, first, third):
        world.ask(c.EscalateTask(task_id=task, reason="Why?"))
    world.ask(c.AnswerEscalation(task_id=third, option="wontfix"))

    assert [found.task_id for found in asked(world)] == [second, first]


def test_a_question_names_its_options_and_waits_by_default() -> None:
    world = with_team()
    task = world.add("One")
    send_back(world, task, "Alice", "one", reviewer="Lea")
    send_back(world, task, "Bob", "two", reviewer="Lea", text="Still leaks")

    (found,) = asked(world)

    assert (found.kind, found.default, found.title) == ("deadlock", "wait", "One")
    assert [option.key for option in found.options] == [
        "fix",
        "unlock:Alice",
        "unlock:Bob",
        "wontfix",
    ]
    assert found.tried == ("Lea rejected Alice's work: It leaks", "Lea rejected Bob's work: Still leaks")
    assert (found.repeats, found.is_delivered, found.acknowledged_by) == (0, False, "")


def test_who_may_take_the_task_over_is_offered_and_no_other() -> None:
    world = with_team()
    task = world.add("One")
    send_back(world, task, "Alice", "one", reviewer="Lea")
    world.ask(c.EscalateTask(task_id=task, reason="Stuck"))

    (found,) = asked(world)

    assert [option.key for option in found.options] == [
        "fix", "unlock:Alice", "reassign:Bob", "reopen", "wontfix",
    ]  # fmt: skip


def test_who_is_locked_out_of_a_task_above_may_be_unlocked_for_this_one() -> None:
    world = with_team()
    above = world.add("Above")
    send_back(world, above, "Alice", "one", reviewer="Lea")
    below = a_task("T-2", status=Status.ESCALATED, escalation=an_escalation(), parent=above)

    with world.store.read() as view:
        keys = [option.key for option in answer_options(view, TEAM, below)]

    assert keys == ["fix", "unlock:Alice", "reassign:Bob", "reopen", "wontfix"]


def test_a_question_that_was_told_and_seen_says_so() -> None:
    world = with_team()
    task = world.ask(c.EscalateTask(task_id=world.add(), reason="Why?")).task
    world.ask(c.AcknowledgeEscalation(task_id=task.id), "Boss")

    (found,) = asked(world)

    assert found.acknowledged_by == "Boss"


# What was tried.


def test_a_review_is_told_with_its_place_and_a_retracted_one_is_not() -> None:
    task = a_task(rounds=(a_round(V1, agent="Alice"), a_round(V2, agent="Bob", handoff_id=H2)))
    events = stamp_events(
        review_rejected(V1), review_rejected(V2, "Lea", findings=(NIT, Finding(text="No", path="a.py")))
    )

    assert attempt_lines(task, events) == (
        "Lead rejected Alice's work: roof.py:7: It leaks",
        "Lea rejected Bob's work: a.py: No",
    )
    taken_back = a_round(V1)
    reviews = tuple(
        type(one)(id=one.id, reviewer=one.reviewer, is_retracted=True) for one in taken_back.reviews
    )
    task = a_task(rounds=(a_round(reviews=reviews),))
    assert attempt_lines(task, [*events[:1], *stamp_events(review_retracted(V1))]) == ()


def test_of_the_gates_rejections_of_one_claim_the_last_is_told() -> None:
    def rejected_by_gates(number: int, handoff_id: str = H1) -> GateRejected:
        verdict = a_verdict(
            a_result(line=f"- Tests: {9 - number} failures (requires 100% pass)"), a_result("x")
        )
        return GateRejected(task_id=T1, handoff_id=handoff_id, agent="Alice", verdict=verdict, number=number)

    events = stamp_events(rejected_by_gates(1), rejected_by_gates(2), rejected_by_gates(1, H2))

    assert attempt_lines(a_task(), events) == (
        "the gates rejected Alice's work twice: Tests: 7 failures (requires 100% pass); x: failed",
        "the gates rejected Alice's work once: Tests: 8 failures (requires 100% pass); x: failed",
    )


def test_rejections_by_agents_and_giving_up_are_told() -> None:
    record = {"reason_summary": "The API\nis gone"}
    told = {"task_id": T1, "handoff_id": H1, "agent": "Alice"}
    events = stamp_events(
        HandoffRejected(**told, rejection=record),
        HandoffRejectionInvalid(**told, rejection={"reason_summary": ["no", "text"]}),
        TaskFailed(**told),
    )

    assert attempt_lines(a_task(), events) == (
        "Alice rejected the task: The API is gone",
        "Alice rejected it without cause: ['no', 'text']",
        "Alice gave up: without a reason",
    )


def test_of_very_much_the_latest_is_told_and_how_much_was_left_out() -> None:
    told = {"task_id": T1, "handoff_id": H1, "agent": "Alice"}
    events = stamp_events(*(TaskFailed(**told, reason=f"try {number}") for number in range(MAX_TRIED + 5)))

    found = attempt_lines(a_task(), events)

    assert found[0] == "and 5 earlier"
    assert found[-1] == f"Alice gave up: try {MAX_TRIED + 4}"
    assert len(found) == MAX_TRIED + 1


def test_text_of_others_hides_nothing_and_stays_short() -> None:
    finding = Finding(text="a\u202eb\x1b[31m\nc" + "x" * 5000)
    task = a_task(rounds=(a_round(V1),), escalation=an_escalation(), status=Status.ESCALATED)

    (line,) = attempt_lines(task, stamp_events(review_rejected(V1, findings=(finding,))))

    assert line.startswith("Lead rejected Alice's work: ab[31m cxxx")
    assert len(line) == MAX_LINE
