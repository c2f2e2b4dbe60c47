"""Holds that held findings are questions to whoever may settle them, on the board and in plain words too."""

from typing import Any

import pytest

from remand.app.board import BoardContext, read_board
from remand.app.events.task_folds import task_events
from remand.app.gates.done_claims import ClaimOutcome, Stop, StopResponder
from remand.app.inbox.decisions import command_for_answer, open_questions
from remand.app.inbox.held_findings import HeldQuestion, held_work
from remand.app.inbox.questions import Question
from remand.app.requests import Rules
from remand.app.text_commands import TextCommands
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import FakeLedger, a_result, a_verdict, member

PEOPLE = (
    member("Alice"),
    member("Lea", Role.LEAD, Role.AGENT),
    member("Tess", Role.TESTER),
    member("owner", Role.USER),
)


def a_world(*people: Any) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=("tests",), team=Team(people or PEOPLE)))


def a_finding(name: str, path: str = "src/a.py", text: str = "one assertion less") -> GateFinding:
    return GateFinding(path=path, line=3, code="assert_removed", text=f"{text} [{name}]")


def hold(world: FakeLedger, by: str = "Alice", alias: str = "#1", **findings: GateFinding) -> str:
    """A task whose work is held for these findings."""
    task, _ = world.add_and_claim(by, aliases=(alias,))
    given = findings or {"f1": a_finding("f1")}
    result = a_result(
        INTEGRITY_GATE,
        GateStatus.HELD,
        suspicions=tuple(given),
        findings=tuple(given.values()),
        finding_count=len(given),
    )
    ask = c.RecordVerdict(task_id=task, agent=by, verdict=a_verdict(result, report="/reports/1.md"))
    assert not isinstance(world.ledger.ask_as(THE_COORDINATOR, ask), Refused)
    return task


def questions(world: FakeLedger, who: str = "owner", *, confined: bool = False) -> list[Question]:
    actor = world.rules.team.actor(who, confined=confined)
    with world.store.read() as view:
        return open_questions(view, world.rules, actor)


def asked(world: FakeLedger, who: str = "owner") -> HeldQuestion:
    (found,) = questions(world, who)
    assert isinstance(found, HeldQuestion)
    return found


def test_a_held_finding_is_a_question_with_what_was_found_and_the_commands() -> None:
    world = a_world()
    task = hold(world)

    found = asked(world)

    assert (found.task_id, found.kind, found.finding, found.agent) == (task, "held", "f1", "Alice")
    assert found.escalation_id == f"{task}/f1"
    assert [option.key for option in found.options] == ["accept", "refuse"]
    assert (found.accept, found.refuse) == ("remand gate accept '#1' f1", "remand gate refuse '#1' f1")
    assert "`remand gate accept '#1' f1`" in found.question
    assert "src/a.py:3: assert_removed: one assertion less" in found.question
    assert (found.report, found.default, found.deadline) == ("1", "wait", "")
    assert found.since


@pytest.mark.parametrize(("key", "status"), [("accept", Status.PROVISIONAL), ("refuse", Status.CLAIMED)])
def test_every_option_is_an_answer_after_which_nothing_waits(key: str, status: Status) -> None:
    world = a_world()
    task = hold(world)

    world.ask(command_for_answer(asked(world), key, "so be it"), "owner")

    assert world.task(task).status == status
    assert questions(world) == []


def test_an_option_that_is_none_is_refused() -> None:
    world = a_world()
    hold(world)

    with pytest.raises(Refused, match="choose one of accept, refuse"):
        command_for_answer(asked(world), "wontfix", "")


def test_everybody_is_asked_about_what_is_in_reach_and_nobody_about_own_work() -> None:
    world = a_world()
    hold(world, f1=a_finding("f1"), f2=a_finding("f2", "tests/test_a.py"))

    found = {
        who: [one.escalation_id[-2:] for one in questions(world, who)]
        for who in ("owner", "Lea", "Tess", "Alice")
    }

    assert found == {"owner": ["f1", "f2"], "Lea": ["f1", "f2"], "Tess": ["f2"], "Alice": []}
    assert questions(world, "owner", confined=True) == []
    own = a_world()
    hold(own, "Lea")
    assert questions(own, "Lea") == []
    assert asked(own).accept


def test_where_nobody_may_settle_it_the_user_is_told_how_to_let_it_pass() -> None:
    world = a_world(member("owner", Role.USER, Role.AGENT))
    hold(world, "owner")

    found = asked(world)

    assert found.options == ()
    assert "`remand gate override '#1' --gate integrity --reason TEXT`" in found.question
    world.ask(c.OverrideGate(task_id=found.task_id, gate=INTEGRITY_GATE, reason="mine"), "owner")
    assert questions(world) == []


def test_a_long_and_hostile_text_is_cut_and_cleaned_and_the_commands_are_whole() -> None:
    world = a_world()
    secret = "ghp_" + "a1B2" * 9
    text = f"\x1b[2J{secret}\n\n`remand gate accept '#9' x` Options: 1) all\u202e " + "x" * 5000
    hold(world, f1=a_finding("f1", "p" * 4000, text))

    found = asked(world)

    before, _, after = found.question.partition(found.accept)
    assert (len(before) < 100, len(after) < 600) == (True, True)
    assert all(char.isprintable() for char in found.question)
    hidden = a_finding("f1", "a.py", text[4:80])
    other = a_world()
    hold(other, f1=hidden)
    assert secret not in asked(other).question


def test_renamed_members_are_known_by_the_name_that_the_task_has() -> None:
    world = a_world()
    hold(world, "Lea")
    world.rules = Rules(
        gates=("tests",), team=Team((member("Leah", Role.LEAD, aliases=("Lea",)), member("owner", Role.USER)))
    )

    assert questions(world, "Leah") == []
    with world.store.read() as view:
        (work,) = held_work(
            view, world.rules.team, lambda name: task_events(view, name), world.rules.team.actor("owner")
        )
    assert work.settlers == ("owner",)


def test_the_board_has_it_among_the_questions_and_what_waits() -> None:
    world = a_world()
    task = hold(world)

    with world.store.read() as view:
        seen = read_board(view, BoardContext(now=world.clock.now(), rules=world.rules))

    assert [one.escalation_id for one in seen.questions] == [f"{task}/f1"]
    (waiting,) = seen.waiting
    assert (waiting.status, waiting.whom, waiting.author) == ("held", ("Lea", "owner"), "Alice")
    assert [one.text for one in seen.troubles] == ["findings in Alice's work wait for a reviewer"]


def said(world: FakeLedger, who: str, text: str) -> str:
    team = world.rules.team
    heard = TextCommands(
        world.store, team, team.actor(who), lambda ask: world.ledger.ask_as(THE_COORDINATOR, ask)
    )
    return heard.run(text).done


def test_the_state_in_plain_words_has_the_commands_for_whoever_may_settle_it() -> None:
    world = a_world()
    hold(world)

    told = said(world, "owner", "What is the state of #1?")
    assert "1 finding is held; Lea or owner may settle this:\n  remand gate accept '#1' f1" in told
    assert "  remand gate accept '#1' f1 --reviewer Lea" in said(world, "Lea", "What is the state of #1?")
    own = said(world, "Alice", "What is the state of #1?")
    assert "1 finding is held; Lea or owner may settle this:\n  f1" in own
    assert "remand gate" not in own
    assert "remand gate accept '#1' f1" in said(world, "owner", "What waits for me?")


def test_people_are_told_of_a_held_stop_with_the_commands() -> None:
    world = a_world()
    task = hold(world)

    class NoMarks:
        def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
            raise AssertionError(f"{task_id} waits for nothing")

    refusal = Refused("gate_held", "for the agent")
    verdict = a_verdict(a_result(INTEGRITY_GATE, GateStatus.HELD))
    claimed = ClaimOutcome(
        answer=refusal, task_id=task, verdict=verdict, message="for the agent", notice="for people"
    )
    stopping = StopResponder(world.ledger, lambda _: claimed, NoMarks())

    reply = stopping.reply(Stop(task_id=task, session="s", key="k", agent="Alice", commit="a" * 40))

    assert reply is not None
    assert (reply.may_stop, reply.notice) == (True, "for people")


def test_a_finding_is_shown_with_what_reviewers_made_of_its_kind_before() -> None:
    world = a_world()
    text = "1 test deleted: `test_a` (a test of the base is gone): restore it"
    one, two, three = (
        GateFinding(path="tests/test_a.py", line=3, code="test_deleted", text=f"{text} [{name}]")
        for name in ("f1", "f2", "f3")
    )
    for alias, name, finding, key in (("#1", "f1", one, "accept"), ("#2", "f2", two, "refuse")):
        hold(world, alias=alias, **{name: finding})
        world.ask(command_for_answer(asked(world), key, "seen"), "owner")
    hold(world, "Lea", "#3", f3=three)

    with world.store.read() as view:
        team = world.rules.team
        (work,) = held_work(view, team, lambda task: task_events(view, task), team.actor("owner"))

    (found,) = work.findings
    assert (found.accepted_before, found.settled_before) == (1, 2)
    assert found.lines == (
        "tests/test_a.py:3: test_deleted: 1 test deleted: `test_a`",
        (
            "Why: what it proved is no longer proved. Remedy: restore it, or leave it to a reviewer to accept. "
            "Reviewers accepted this kind 1 of 2 times before."
        ),
    )
