"""Holds that the inbox lists what waits for the user's decision beside the questions, and takes the answer."""

import json
from pathlib import Path

import pytest

from tests.integration.machine import Machine, Repository
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = (
    '[gates]\n[team]\nmembers = [{name = "Alice", role = "agent"}, {name = "Bob", role = "agent"},'
    ' {name = "owner", role = "user"}]\n[policy]\ndirector = "human"\n'
)


@pytest.fixture
def team(near_machine: Machine) -> Repository:
    return near_machine.repository(config=TEAM)


@pytest.fixture
def rejected(team: Repository, tmp_path: Path) -> str:
    """A task that its agent has rejected with cause."""
    task = team.add(TITLE, "--scope", SCOPE)
    handoff = team.ok("task", "claim", task, "--agent", "Alice")["handoff_id"]
    record = tmp_path / "rejection.json"
    record.write_text(json.dumps(a_rejection()))
    assert (
        team.ok("handoff", "reject", handoff, "--agent", "Alice", "--from", str(record))["decision"] is None
    )
    return task


def test_a_rejection_that_waits_for_a_person_is_listed_with_what_every_question_has(
    team: Repository, rejected: str
) -> None:
    (found,) = team.ok("inbox")

    assert {"escalation_id", "task_id", "question", "options", "deadline", "default", "tried"} <= found.keys()
    assert (found["task_id"], found["kind"], found["default"]) == (rejected, "decision", "wait")
    shown = team.people("inbox").out
    assert f"Answer: remand inbox answer {found['escalation_id']} OPTION" in shown
    assert found["answer"] in shown
    assert "stays blocked" in shown


@pytest.mark.parametrize("name", ["rejection", "task"])
@pytest.mark.parametrize("option", ["4", "reassign:Bob"])
def test_it_is_answered_by_the_id_that_is_shown_or_its_task_s(
    team: Repository, rejected: str, name: str, option: str
) -> None:
    (found,) = team.ok("inbox")
    named = found["escalation_id"] if name == "rejection" else rejected

    done = team.ok("inbox", "answer", named, option, "--guidance", "The key is in the vault")

    assert (done["task_id"], done["status"]) == (rejected, "incoming")
    assert (done["escalation_id"], done["option"]) == (found["escalation_id"], "reassign:Bob")
    assert done["reassigned_to"] == "Bob"
    assert team.ok("inbox") == []
    decision = team.ok("handoff", "status", found["handoff_id"])["decision"]
    assert decision["override_message"] == "The key is in the vault"


def test_a_question_s_shape_is_as_it_was(team: Repository) -> None:
    task = team.add("Mend the roof")
    team.ok("escalate", task, "--reason", "Which colour?")

    (found,) = team.ok("inbox")

    assert list(found) == [
        *("escalation_id", "task_id", "title", "kind", "question", "options", "deadline", "default", "tried"),
        *("since", "repeats", "is_delivered", "acknowledged_by"),
    ]


def test_an_answer_that_is_none_is_refused(team: Repository, rejected: str) -> None:
    (found,) = team.ok("inbox")

    assert team.refused("inbox", "answer", found["escalation_id"], "wontfix") == "bad_value"
    assert team.refused("inbox", "answer", "R-20000101-000000-00000000", "1") == "nothing_to_answer"
    assert len(team.ok("inbox")) == 1
