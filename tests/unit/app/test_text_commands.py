"""Holds that what is said is carried out as whoever said it, and nothing more."""

from __future__ import annotations

import pytest

from remand.app.requests import Acceptance, Answer, Request, Rules
from remand.app.text_commands import TextCommandResult, TextCommands
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from tests.support.builders import FakeLedger, member

TEAM = Team(
    (
        member("Fenster", aliases=("fen",)),
        member("Hockney"),
        member("Lead", Role.LEAD),
        member("Boss", Role.DIRECTOR),
        member("owner", Role.USER),
    )
)


class Room:
    """A team whose words are heard."""

    def __init__(self) -> None:
        self.world = FakeLedger(rules=Rules(team=TEAM, gates=()))
        self.task = self.world.add(aliases=("#42",))
        self.asked: list[c.Command] = []

    def locked(self) -> None:
        """Lead keeps Fenster away from the task."""
        self.world.ask(c.LockOut(task_id=self.task, agent="Fenster", reason="no tests"), "Lead")

    def say(self, text: str, by: str = "owner", *, confined: bool = False) -> TextCommandResult:
        """What comes of it when somebody says that."""

        def ask(ask: c.Command) -> Answer:
            self.asked.append(ask)
            return self.world.ledger.ask(Request(command=ask, actor=by, confined=confined))

        speaker = TEAM.actor(by, confined=confined)
        return TextCommands(self.world.store, TEAM, speaker, ask).run(text)


@pytest.fixture
def room() -> Room:
    return Room()


def test_an_unlock_is_asked_with_its_reason(room: Room) -> None:
    room.locked()
    answer = room.say("Unlock fen for issue #42 — I've given him better guidance")

    assert room.asked == [
        c.Unlock(
            task_id=room.task,
            agent="Fenster",
            reason="I've given him better guidance",
            guidance="I've given him better guidance",
        )
    ]
    assert answer.understood == "Unlock Fenster for issue #42."
    assert answer.done == "Fenster may work on issue #42 again."
    assert not room.world.task(room.task).people.lockouts


def test_without_a_reason_what_was_said_is_the_reason(room: Room) -> None:
    room.locked()
    room.say("Unlock Fenster for issue #42")

    assert room.asked == [
        c.Unlock(task_id=room.task, agent="Fenster", reason="said: Unlock Fenster for issue #42")
    ]


@pytest.mark.parametrize("by", ["Fenster", "Hockney", "Lead", "Boss", "a stranger"])
def test_only_the_user_may_unlock(room: Room, by: str) -> None:
    room.locked()
    answer = room.say("Unlock Fenster for issue #42", by)

    assert (answer.refused, answer.understood) == ("user_only", "Unlock Fenster for issue #42.")
    assert room.world.task(room.task).is_locked_out("Fenster")


def test_the_user_may_not_unlock_from_an_agents_place(room: Room) -> None:
    room.locked()

    assert room.say("Unlock Fenster for issue #42", confined=True).refused == "user_only"


@pytest.mark.parametrize(("by", "confined"), [("Fenster", True), ("owner", True), ("Lead", False)])
def test_who_may_not_unlock_is_not_shown_how(room: Room, by: str, confined: bool) -> None:
    room.locked()
    answer = room.say(
        "should Fenster be locked out? unlock Fenster for #42 or escalate #42", by, confined=confined
    )

    assert answer.refused == "unsure"
    assert not any("unlock" in choice for choice in answer.choices)
    assert any("remand escalate" in choice for choice in answer.choices)


def test_a_command_is_not_named_in_an_agents_place(room: Room) -> None:
    assert "remand gate override" in room.say("override the gate of #42").done
    assert "remand gate override" not in room.say("override the gate of #42", "Fenster", confined=True).done


@pytest.mark.parametrize(
    "text", ["Why is Fenster locked out?", "who is locked out?", "status of #42", "what is waiting for me?"]
)
def test_what_can_be_read_is_answered_and_asks_for_nothing(room: Room, text: str) -> None:
    room.locked()
    events = len(room.world.events())
    answer = room.say(text, "Hockney", confined=True)

    assert answer.done
    assert answer.understood
    assert not answer.refused
    assert not room.asked
    assert len(room.world.events()) == events


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("don't unlock Fenster for #42", "not_understood"),
        ("Unlock Fenstr for #42", "unsure"),
        ("", "not_understood"),
    ],
)
def test_what_is_not_clear_asks_for_nothing(room: Room, text: str, code: str) -> None:
    room.locked()

    assert room.say(text).refused == code
    assert not room.asked


def test_a_reassignment_and_an_escalation_are_carried_out(room: Room) -> None:
    room.locked()
    assert "Hockney takes over issue #42." in room.say("Reassign issue #42 from Fenster to Hockney").done
    answer = room.say("Escalate issue #42 to me — the team is stuck")

    assert answer.status == "escalated"
    assert "the team is stuck" in answer.done
    (waiting,) = room.say("what is waiting for me?").questions
    assert waiting.task_id == room.task
    found = room.say(f"answer {waiting.escalation_id}: wontfix")
    assert found.status == "cancelled"


def test_a_review_is_requested_of_whom_was_named(room: Room) -> None:
    room.world.claim(room.task, "Fenster")
    room.world.submit(room.task, "Fenster")
    answer = room.say("Lead, review #42")

    assert room.asked == [c.RequestReview(task_id=room.task, reviewer="Lead")]
    assert answer.done == "issue #42 awaits a review by Lead."


def test_a_task_is_found_by_what_people_call_it(room: Room) -> None:
    room.world.ask(c.EditTask(task_id=room.task, pr=15))
    other = room.world.add("Paint the door", aliases=("owner/name#7",))
    for text in (
        "status of #42",
        "status of 42",
        "status of PR 15",
        'status of "mend the roof"',
        f"status of {room.task}",
    ):
        assert room.say(text).task_id == room.task, text
    for text in ("status of #7", "status of owner/name#7"):
        assert room.say(text).task_id == other, text
    same = room.world.add("Mend the roof", aliases=("other/name#7",))
    assert len(room.say('status of "mend the roof"').choices) == 2
    assert len(room.say("status of #7").choices) == 2
    assert room.say(f"status of {same}").task_id == same


def test_without_a_team_the_names_are_those_in_the_ledger() -> None:
    world = FakeLedger()
    task, _ = world.add_and_claim("Alice", aliases=("#42",))
    answers: list[Answer] = []

    def ask(ask: c.Command) -> Answer:
        answers.append(world.ledger.ask(Request(command=ask, actor="user")))
        return answers[-1]

    saying = TextCommands(world.store, Team(), Team().actor("user"), ask)
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="no tests"))

    assert saying.run("Unlock Bob for #42").refused == "unsure"
    assert "no tests" in saying.run("why is Alice locked out?").done
    assert not saying.run("Unlock Alice for #42").refused
    assert isinstance(answers[0], Acceptance)
