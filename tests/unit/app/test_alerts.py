"""Holds that an alert about a claim reaches the agent, the inbox, the channels and the log, and overrides the channels."""

from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.board import BoardContext, read_board
from remand.app.events.orchestration_log import log_lines
from remand.app.events.task_folds import task_events
from remand.app.gates.done_claims import DoneClaims
from remand.app.gates.known_results import VerdictResult
from remand.app.inbox.decisions import command_for_answer, open_questions
from remand.app.inbox.questions import AlertQuestion, Question
from remand.app.notices import MAX_SINGLE, DeliveryReport, deliver_notices
from remand.app.prompts import RejectionContext, render_prompt
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.gate.message import CONTINUE, REJECTED
from remand.domain.gate.verdict import Verdict
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import FakeLedger, a_result, a_verdict, member
from tests.support.fakes import MemoryChannel

TEAM = Team((member("Alice"), member("Bob"), member("Lea", Role.LEAD), member("owner", Role.USER)))
POLICY = Policy(alert_after_gates=2, escalate_after_gates=4)
SENTENCE = "This is the second rejection; at 4, or after two without progress, a human takes over."


def a_world(policy: Policy = POLICY) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=("tests",), team=TEAM, policy=policy))


def failing(excess: float) -> Verdict:
    line = f"- Tests: {excess:.0f} failures (requires 100% pass)"
    return a_verdict(a_result("tests", excess=excess, line=line), policy="p1")


def reject(world: FakeLedger, task: str, *amounts: float, by: str = "Alice") -> None:
    for amount in amounts:
        ask = c.RecordVerdict(task_id=task, agent=by, verdict=failing(amount))
        assert not isinstance(world.ledger.ask_as(THE_COORDINATOR, ask), Refused)


def alerted(world: FakeLedger, title: str = "Mend the roof") -> str:
    task, _ = world.add_and_claim(title=title)
    reject(world, task, 9, 8)
    return task


def questions(world: FakeLedger) -> list[Question]:
    with world.store.read() as view:
        return open_questions(view, world.rules)


def claim(world: FakeLedger, task: str, excess: float) -> str:
    """What the agent reads of a done claim that misses by so much."""

    def terms(*_: object) -> Any:
        return SimpleNamespace(claimed_under="")

    claims = DoneClaims(world.ledger, terms, lambda _: VerdictResult(failing(excess)))
    world.repository.add("work")
    ask = c.SubmitTask(task_id=task, agent="Alice", commit="work")
    claimed = claims.claim(Request(command=ask, actor="Alice"), world.ledger.ask)
    assert claimed is not None
    assert isinstance(claimed.answer, Refused)
    assert claimed.answer.code == "gate_rejected"
    assert claimed.message == claimed.answer.message
    return claimed.message


# What the agent reads.


def test_the_agent_reads_of_the_alert_once_with_the_policys_numbers() -> None:
    world = a_world()
    task, _ = world.add_and_claim()

    first, second, third = (claim(world, task, excess) for excess in (9, 8, 7))

    assert SENTENCE in second
    assert "a human takes over" not in first + third
    assert all(text.endswith(CONTINUE) for text in (first, second, third))


@pytest.mark.parametrize(
    ("amounts", "why"),
    [
        ((9, 8, 7, 6), "This was the fourth rejection."),
        ((9, 9, 9, 9), "This was the fourth rejection, and the last two showed no progress."),
    ],
    ids=["too many", "without progress"],
)
def test_an_answer_that_escalates_ends_with_the_human_and_not_with_an_order_to_go_on(
    amounts: tuple[int, ...], why: str
) -> None:
    world = a_world()
    task, _ = world.add_and_claim()

    *before, last = [claim(world, task, excess) for excess in amounts]

    assert all(text.endswith(CONTINUE) for text in before)
    assert world.task(task).status == Status.ESCALATED
    assert last.startswith(f"{REJECTED}\n\n- Tests: {amounts[-1]} failures (requires 100% pass)")
    assert last.endswith(f"{why} A human takes over now; this session may stop.")
    for words in ("Continue working", "You must fix", "claim done again"):
        assert words not in last


def test_an_agent_that_is_started_again_reads_of_the_alert() -> None:
    world = a_world()
    task = alerted(world)
    with world.store.read() as view:
        events = task_events(view, task)

    assert f"> {SENTENCE}" in render_prompt(world.task(task), events, RejectionContext())


# The inbox.


def test_an_alert_is_in_the_inbox_with_ways_to_act_and_forces_none() -> None:
    world = a_world()
    task = alerted(world)

    (found,) = questions(world)

    assert isinstance(found, AlertQuestion)
    assert (found.kind, found.task_id, found.agent, found.number) == ("alert", task, "Alice", 2)
    assert (found.deadline, found.default) == ("", "continue")
    assert "The gates rejected Alice's work twice" in found.question
    assert "at 4, or after two without progress" in found.question
    assert [one.key for one in found.options] == ["ack", "fix", "reassign:Bob"]
    assert any("8 failures" in text for text in found.tried)


@pytest.mark.parametrize("key", ["ack", "fix", "reassign:Bob"])
def test_an_answered_alert_leaves_the_inbox(key: str) -> None:
    world = a_world()
    alerted(world)
    (found,) = questions(world)

    world.ask(command_for_answer(found, key, ""), "owner")

    assert questions(world) == []


def test_an_alert_that_goes_to_a_human_makes_way_for_the_question() -> None:
    world = a_world()
    task = alerted(world)
    reject(world, task, 7, 6)

    (found,) = questions(world)

    assert (found.kind, found.task_id) == ("gates", task)


def test_the_board_shows_an_alert_and_counts_no_question() -> None:
    world = a_world()
    task = alerted(world)
    with world.store.read() as view:
        found = read_board(view, BoardContext(now=world.clock.now(), rules=world.rules))

    assert [(one.kind, one.task_id) for one in found.questions] == [("alert", task)]
    assert [one.kind for one in found.troubles] == ["task"]


# The channels.


def told(world: FakeLedger, *channels: MemoryChannel) -> DeliveryReport:
    return deliver_notices(world.ledger, channels, TEAM, "house")


def test_an_alert_is_told_once_a_channel_with_what_can_be_done() -> None:
    world, chat, mail = a_world(), MemoryChannel("chat"), MemoryChannel("mail", is_down=True)
    task = alerted(world)

    told(world, chat, mail)
    reject(world, task, 7)
    mail.is_down = False
    told(world, chat, mail)

    ((title, body),) = chat.notices
    assert [told_title for told_title, _ in mail.notices] == [title]
    assert title == "house: Alice's work was rejected twice: Mend the roof"
    assert "at 4, or after two without progress" in body
    (found,) = questions(world)
    assert f"remand inbox answer {found.escalation_id} ack" in body
    assert f"remand inbox answer {found.escalation_id} fix" in body


def test_an_acknowledged_alert_is_not_told() -> None:
    world, chat = a_world(), MemoryChannel()
    task = alerted(world)
    world.ask(c.AcknowledgeEscalation(task_id=task), "owner")

    assert told(world, chat) == DeliveryReport(0, (), ())


def test_an_override_is_told_through_every_channel_and_says_how_to_look() -> None:
    world, chat, mail = a_world(), MemoryChannel("chat"), MemoryChannel("mail", is_down=True)
    task, _ = world.add_and_claim()
    reject(world, task, 9)
    world.ask(c.OverrideGate(task_id=task, gate="tests", reason="It must go out."), "owner")

    told(world, chat, mail)
    assert len(world.task(task).inbox.notices) == 1
    mail.is_down = False
    assert told(world, chat, mail).notices == 1
    assert told(world, chat, mail) == DeliveryReport(0, (), ())

    ((title, body),) = chat.notices
    assert mail.notices == chat.notices
    assert title == "house: an override in your name: Mend the roof"
    assert "owner let the gate tests pass" in body
    assert "It must go out." in body
    assert f"remand task show {task}" in body
    assert world.task(task).inbox.notices == ()


def test_an_override_is_told_when_its_task_is_done_already() -> None:
    world, chat = a_world(), MemoryChannel()
    task, _ = world.add_and_claim()
    reject(world, task, 9)
    world.ask(c.OverrideGate(task_id=task, gate="tests", reason="It must go out."), "owner")
    world.ask(c.CancelTask(task_id=task), "owner")

    assert told(world, chat).notices == 1


def test_many_alerts_and_overrides_become_one_notice_each() -> None:
    world, chat = a_world(), MemoryChannel()
    tasks = [alerted(world, f"Task {number}") for number in range(MAX_SINGLE + 1)]
    for task in tasks:
        world.ask(c.OverrideGate(task_id=task, gate="tests", reason="It must go out."), "owner")

    assert told(world, chat).notices == 2
    assert [title for title, _ in chat.notices] == [
        f"house: the work on {MAX_SINGLE + 1} tasks was rejected again and again",
        f"house: {MAX_SINGLE + 1} overrides in your name",
    ]
    assert all(task in body for task in tasks for _, body in chat.notices)
    assert told(world, chat) == DeliveryReport(0, (), ())


def test_a_notice_of_an_override_holds_no_secret() -> None:
    world, chat = a_world(), MemoryChannel()
    task, _ = world.add_and_claim()
    reject(world, task, 9)
    world.ask(
        c.OverrideGate(task_id=task, gate="tests", reason="password=hunter2!x9 ghp_" + "a1" * 20), "owner"
    )

    told(world, chat)

    assert "ghp_" not in "".join(chat.notices[0])


# The orchestration log.


def lines(world: FakeLedger, task: str) -> list[str]:
    with world.store.read() as view:
        return [line.text.partition("] ")[2] for line in log_lines(task_events(view, task))]


def test_the_log_has_a_line_for_an_alert_and_for_an_override() -> None:
    world = a_world()
    task = alerted(world)
    world.ask(c.AcknowledgeEscalation(task_id=task), "owner")
    world.ask(c.OverrideGate(task_id=task, gate="tests", reason="It must go out."), "owner")

    alert, seen, override = lines(world, task)
    assert alert.startswith(f"ALERT: Task {task}: the gates rejected Alice's work twice")
    assert seen.startswith(f"ALERT: Task {task} seen by the user")
    assert override.startswith(f"OVERRIDE: Task {task}: let the gate tests pass")
    assert "by owner: It must go out." in override
