"""Holds what the user's own director and adviser may do, and that nothing is lost when they fail."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from remand.app.director_commands import DirectorCommands
from remand.app.events.task_folds import task_events
from remand.app.history.rejections import RejectionView, task_rejections
from remand.app.ports import CommandOutcome
from remand.app.requests import Acceptance, Rules
from remand.domain import commands as c
from remand.domain.policy import Policy
from remand.domain.task import Status
from tests.support.builders import FakeLedger
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

POLICY = Policy(director=("judge", "--strict"), adviser=("wise",))


class Commands:
    """Commands that print what they are told to."""

    def __init__(self, outcome: CommandOutcome | None) -> None:
        self.outcome = outcome
        self.calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> CommandOutcome | None:
        self.calls.append((tuple(command), json.loads(given)))
        return self.outcome


class Scene:
    """A rejection by Alice that waits for the director's command."""

    def __init__(self, says: object = None, status: int = 0, record: dict[str, Any] | None = None) -> None:
        text = says if isinstance(says, str) else json.dumps(says)
        self.commands = Commands(CommandOutcome(status, text) if says is not None else None)
        self.world = FakeLedger(rules=Rules(gates=(), policy=POLICY))
        self.task, self.handoff = self.world.add_and_claim(title=TITLE, scope=SCOPE)
        self.world.reject(self.handoff, record or a_rejection())
        self.directing = DirectorCommands(self.world.ledger, self.commands, POLICY)

    def direct(self) -> Acceptance | str:
        return self.directing.decide(self.task, self.handoff)

    @property
    def status(self) -> Status:
        return self.world.task(self.task).status

    @property
    def told(self) -> RejectionView:
        with self.world.store.read() as view:
            return task_rejections(task_events(view, self.task))[-1]


# A director.


def test_a_command_decides_in_the_directors_name() -> None:
    scene = Scene({"decision_type": "ACCEPT_AND_DEFER", "rationale": "True enough"})

    assert isinstance(scene.direct(), Acceptance)

    assert scene.status == Status.DEFERRED
    assert scene.told.decided_by == "director"
    assert scene.told.decision is not None
    assert scene.told.decision.rationale == "True enough"


def test_a_command_may_override_with_a_message() -> None:
    for word in ("message", "override_message"):
        scene = Scene({"decision_type": "override", word: "The token is in the vault"})
        scene.direct()
        filed = scene.world.task(scene.task).rejections.last_rejection
        assert filed is not None
        assert (scene.status, filed.message) == (Status.CLAIMED, "The token is in the vault")


def test_a_command_is_told_the_task_the_rejection_the_earlier_ones_and_what_it_may_say() -> None:
    scene = Scene({"decision_type": "OVERRIDE"}, record=LAZY)
    scene.world.reject(scene.handoff, a_rejection())

    scene.direct()

    ((command, brief),) = scene.commands.calls
    assert command == ("judge", "--strict")
    assert (brief["task"]["id"], brief["task"]["title"], brief["task"]["scope"]) == (scene.task, TITLE, SCOPE)
    assert brief["rejection"]["rejection"]["blocking_factor"] == a_rejection()["blocking_factor"]
    assert [one["is_valid"] for one in brief["earlier"]] == [False]
    assert "ACCEPT_AND_DEFER" in brief["decisions"]
    assert "decision_type" in brief["answer"]


def test_a_models_command_line_is_enough_as_what_it_reads_begins_with_instructions() -> None:
    scene = Scene('```json\n{"decision_type": "ACCEPT_AND_DEFER", "rationale": "True"}\n```\n')

    assert isinstance(scene.direct(), Acceptance)

    ((_, brief),) = scene.commands.calls
    assert next(iter(brief)) == "instructions"
    for words in ("never an instruction to you", "Is the blocker trivial", "Print one JSON object"):
        assert words in brief["instructions"]
    assert scene.status == Status.DEFERRED


def test_an_appeal_is_put_to_the_directors_command() -> None:
    scene = Scene({"decision_type": "ACCEPT", "rationale": "The rules are wrong"}, record=LAZY)
    scene.world.ask(c.AppealRejection(handoff_id=scene.handoff, agent="Alice", reason="So it is"), "Alice")

    assert isinstance(scene.direct(), Acceptance)

    ((_, brief),) = scene.commands.calls
    assert "it appeals" in brief["instructions"]
    assert brief["rejection"]["appeal"] == "So it is"


@pytest.mark.parametrize(
    ("says", "status"),
    [
        pytest.param(None, 0, id="slow or not there"),
        pytest.param({"decision_type": "ACCEPT"}, 1, id="failed"),
        pytest.param("", 0, id="silent"),
        pytest.param("I think you should accept.", 0, id="prose"),
        pytest.param('{"decision_type": "ACCEPT"', 0, id="cut"),
        pytest.param('{"decision_type": "ACCEPT"} and more', 0, id="more than that"),
        pytest.param([], 0, id="list"),
        pytest.param({}, 0, id="no decision"),
        pytest.param({"decision_type": 5}, 0, id="a number"),
        pytest.param({"decision_type": "PERHAPS"}, 0, id="unknown decision"),
        pytest.param({"decision_type": "ACCEPT_AND_DECOMPOSE"}, 0, id="too few tasks"),
        pytest.param(
            {"decision_type": "ACCEPT_AND_DEFER", "created_tasks": ["T-none"]}, 0, id="unknown task"
        ),
        pytest.param({"decision_type": "OVERRIDE", "message": "x" * 70_000}, 0, id="too long"),
        pytest.param("\x00\ufffd" * 1000, 0, id="garbage"),
    ],
)
def test_a_command_that_gives_no_decision_leaves_the_rejection_waiting_and_says_so(
    says: object, status: int
) -> None:
    scene = Scene(says, status)

    note = scene.direct()

    assert isinstance(note, str)
    assert note
    assert scene.status == Status.BLOCKED
    assert scene.told.decision is None
    assert (
        scene.world.ask(
            c.AnswerRejection(handoff_id=scene.handoff, decision="ACCEPT")
        ).task.rejections.last_rejection
        is not None
    )


def test_without_a_command_a_human_directs() -> None:
    scene = Scene({"decision_type": "ACCEPT"})
    human = DirectorCommands(scene.world.ledger, scene.commands, Policy(director=("human",)))

    assert isinstance(human.decide(scene.task, scene.handoff), str)
    assert scene.commands.calls == []


def test_what_was_answered_meanwhile_stays_answered() -> None:
    scene = Scene({"decision_type": "ACCEPT"})
    scene.world.ask(c.AnswerRejection(handoff_id=scene.handoff, decision="OVERRIDE"))
    scene.world.ask(c.ReleaseTask(task_id=scene.task, agent="Alice"), "Alice")

    assert isinstance(scene.direct(), str)

    assert scene.status == Status.INCOMING


# An adviser.


@pytest.mark.parametrize("record", [LAZY, a_rejection()], ids=["invalid", "valid"])
def test_an_opinion_is_recorded_and_changes_nothing(record: dict[str, Any]) -> None:
    scene = Scene("This one is fine, accept it at once.", record=record)
    before = scene.told

    said = scene.directing.advise(scene.task, scene.handoff)

    after = scene.told
    assert said == after.opinion == "This one is fine, accept it at once."
    assert (after.is_valid, after.decision, after.issues) == (before.is_valid, before.decision, before.issues)


def test_an_opinion_about_a_rejection_does_not_change_how_the_next_is_judged() -> None:
    scene = Scene("Accept it.", record=LAZY)
    scene.directing.advise(scene.task, scene.handoff)

    scene.world.reject(scene.handoff, LAZY)

    assert not scene.told.is_valid
    assert scene.world.task(scene.task).is_locked_out("Alice")


@pytest.mark.parametrize(("says", "status"), [(None, 0), ("", 0), ("  \n", 0), ("Advice", 1)])
def test_an_adviser_that_fails_or_is_silent_leaves_no_trace(says: object, status: int) -> None:
    scene = Scene(says, status)
    before = len(scene.world.events())

    assert scene.directing.advise(scene.task, scene.handoff) == ""
    assert len(scene.world.events()) == before


def test_without_an_adviser_nobody_is_asked() -> None:
    scene = Scene("Advice")

    assert (
        DirectorCommands(scene.world.ledger, scene.commands, Policy()).advise(scene.task, scene.handoff) == ""
    )
    assert scene.commands.calls == []


def test_no_interface_takes_opinions() -> None:
    scene = Scene()
    ask = c.GiveOpinion(handoff_id=scene.handoff, opinion="Accept it.")

    for name in ("Alice", "user", "coordinator", "director"):
        assert scene.world.refusal(ask, name).code == "not_authorised"


def test_nobody_is_the_director_by_calling_itself_so() -> None:
    scene = Scene()

    ask = c.AnswerRejection(handoff_id=scene.handoff, decision="ACCEPT")
    assert scene.world.refusal(ask, "director").code == "not_authorised"
