"""Names and values that stand for nothing are refused with the code and the words that callers rely on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from remand import startup
from remand.domain import refusals
from remand.domain.access import agent_calls
from remand.domain.refusals import Refused

Call = Callable[[], object]


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (lambda: refusals.require_task(None, "T-9"), "unknown_task", "There is no task T-9."),
        (lambda: refusals.require_handoff(None, "H-9"), "unknown_handoff", "There is no handoff H-9."),
        (lambda: refusals.require_commit(None, "x"), "unknown_commit", "The repository has no commit 'x'."),
        (lambda: refusals.require_question(None, "E-9"), "nothing_to_answer", "There is no question E-9."),
        (
            lambda: refusals.require_decision(None, "H-9"),
            "unknown_rejection",
            "The ledger has no decision on the rejection of H-9.",
        ),
        (
            lambda: refusals.require_option("c", ("a", "b"), ", or say more: d"),
            "bad_value",
            "There is no option 'c'; choose one of a, b, or say more: d.",
        ),
        (
            lambda: refusals.option_at(("a", "b"), 3),
            "bad_value",
            "There is no option 3; choose one from 1 to 2.",
        ),
        (
            lambda: refusals.require_text("agent", ""),
            "bad_value",
            "Give the agent as a non-empty text.",
        ),
        (
            lambda: agent_calls.require_outside_agent("run", is_confined=True),
            "user_only",
            "Agents cannot be started from inside an agent's environment.",
        ),
        (
            lambda: agent_calls.require_environment_name("Alice", "Bob"),
            "not_yours",
            "This is Alice's environment; nobody can act as Bob from here.",
        ),
    ],
)
def test_what_stands_for_nothing_is_refused(call: Call, code: str, message: str) -> None:
    with pytest.raises(Refused) as refusal:
        call()

    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_each_command_that_is_kept_from_agents_says_why() -> None:
    sources = [path.read_text() for path in Path(startup.__file__).parent.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'require_outside_agent\(\s*"([^"]+)"', text)}

    assert {"run", "serve", "coordinator stop"} <= named
    for name in named:
        with pytest.raises(Refused):
            agent_calls.require_outside_agent(name, is_confined=True)


@pytest.mark.parametrize("number", [0, -1, 3])
def test_options_are_counted_from_one(number: int) -> None:
    assert refusals.option_at(("a", "b"), 1) == "a"
    assert refusals.option_at(("a", "b"), 2) == "b"
    with pytest.raises(Refused):
        refusals.option_at(("a", "b"), number)


def test_only_numbers_that_there_are_can_be_chosen() -> None:
    assert refusals.option_at({1: "a", 3: "b"}, 3) == "b"
    with pytest.raises(Refused, match="There is no option 2; choose one of 1, 3"):
        refusals.option_at({1: "a", 3: "b"}, 2)


def test_what_is_there_is_passed_on() -> None:
    assert refusals.require_task("task", "T-1") == "task"
    assert refusals.require_text("agent", "Alice") == "Alice"
    agent_calls.require_environment_name("Alice", " ALICE ")
    agent_calls.require_outside_agent("run", is_confined=False)


@pytest.mark.parametrize(
    ("rejection", "size", "key"), [("text", 1, ""), ({}, refusals.MAX_REQUEST + 1, ""), ({}, 1, "a key")]
)
def test_a_command_that_cannot_be_kept_is_refused(rejection: object, size: int, key: str) -> None:
    refusals.require_request_form({}, refusals.MAX_REQUEST, "a-key")
    with pytest.raises(Refused) as refusal:
        refusals.require_request_form(rejection, size, key)

    assert refusal.value.code == "bad_value"
