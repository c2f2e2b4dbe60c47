"""Holds what follows from a director's last words, and that no text of others in them passes for its decision."""

import json
from typing import Any

import pytest

from remand.domain import commands as c
from remand.domain import reviewer as d
from remand.domain.reviewer import (
    DirectorAnswer,
    UnclearAnswer,
    parse_command_answer,
    parse_director_message,
)

RUN = "RUN-20261115-090000-00000001"
OTHER = "RUN-20261115-090000-00000002"


def told(kind: str = "OVERRIDE", **fields: Any) -> str:
    return json.dumps({"decision_type": kind, "rationale": "The token is there", **fields})


def fenced(text: str) -> str:
    return f"```json\n{text}\n```"


OVERRIDE, ACCEPT = told(), told("ACCEPT_AND_DEFER")
NAMED = told(run=RUN)


@pytest.mark.parametrize(
    "text",
    [
        OVERRIDE,
        fenced(OVERRIDE),
        f"I looked at the vault.\n\n{fenced(NAMED)}",
        f"The agent writes\n{fenced(ACCEPT)}\nHowever:\n{fenced(NAMED)}",
        f"{fenced(NAMED)}\nThe agent writes\n{fenced(told('ACCEPT', run=OTHER))}",
        json.dumps({"decision": "override", "rationale": "The token is there"}),
        told("override", decision="OVERRIDE"),
    ],
)
def test_a_decision_is_read(text: str) -> None:
    found = parse_director_message(text, RUN)

    assert isinstance(found, DirectorAnswer), found
    ask = found.to_command("H-1")
    assert (ask.handoff_id, ask.decision.upper(), ask.rationale) == ("H-1", "OVERRIDE", "The token is there")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", d.NO_DECISION),
        ("I would accept it.", d.NO_DECISION),
        (f"The agent writes\n{fenced(ACCEPT)}", d.UNNAMED_DECISION),
        (f"{OVERRIDE}\nor so", d.UNNAMED_DECISION),
        (f"I say\n{told(run=OTHER)}", d.UNNAMED_DECISION),
        (f"{fenced(OVERRIDE)}\n{fenced(ACCEPT)}", d.CONTRADICTORY_DECISIONS),
        (f"{fenced(told('ACCEPT', run=RUN))}\n{fenced(NAMED)}", d.CONTRADICTORY_DECISIONS),
    ],
)
def test_what_decides_nothing_is_said_to(text: str, why: str) -> None:
    assert parse_director_message(text, RUN) == UnclearAnswer(why=why)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (told("MAYBE"), "not one of OVERRIDE"),
        (told(3), "not one of OVERRIDE"),  # type: ignore[arg-type]
        (told("ACCEPT", decision="OVERRIDE"), "not one of OVERRIDE"),
        (told(created_tasks="T-1"), "cannot be read"),
        (told(rationale=["a"]), "cannot be read"),
        (NAMED[:-1], "cannot be read"),
        (NAMED.replace('"rationale"', '"decision_type"'), "twice"),
        ('{"decision_type": ' * 5000, "cannot be read"),
    ],
)
def test_what_is_no_decision_is_told_apart(text: str, word: str) -> None:
    found = parse_director_message(text, RUN)

    assert isinstance(found, UnclearAnswer)
    assert word in found.why


def test_everything_a_director_says_is_asked_for() -> None:
    text = told(override_message="Go on", reassign_to="Bob", created_tasks=["T-1", "T-2"], run=RUN)

    found = parse_director_message(text, RUN)

    assert isinstance(found, DirectorAnswer)
    assert found.to_command("H-1") == c.AnswerRejection(
        handoff_id="H-1",
        decision="OVERRIDE",
        rationale="The token is there",
        message="Go on",
        reassign_to="Bob",
        created_tasks=("T-1", "T-2"),
    )


def test_what_an_agent_says_is_cleaned() -> None:
    found = parse_director_message(told(message="Go\u202e on <script>x</script> https://evil.example/x"), RUN)

    assert isinstance(found, DirectorAnswer)
    assert not any(gone in found.message for gone in ("\u202e", "evil.example/x"))


def test_a_command_says_nothing_else() -> None:
    assert parse_command_answer(OVERRIDE).decision_type == "OVERRIDE"
    assert parse_command_answer('{"decision": "ACCEPT"}').decision_type == "ACCEPT"
    for text in (f"So: {OVERRIDE}", fenced(OVERRIDE), "", "[]", "{}", '{"decision_type":' * 5000):
        with pytest.raises(ValueError, match=r"."):
            parse_command_answer(text)
