"""A call of a server acts as its caller may: in which name, with which roles, and how that is known."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from remand.domain.access.team import Role
from remand.domain.access.tokens import Caller, TokenRole
from remand.domain.events.event import KnownBy
from remand.domain.refusals import Refused
from remand.interfaces.cli.context import CallOrigin, Context
from remand.interfaces.cli.registry import CommandCall
from remand.testing.builders import actor

AGENT = Caller(member="Fenster", role=TokenRole.AGENT, token_id="TK-1")
USER = Caller(member="user", role=TokenRole.USER, token_id="TK-2")
HOST = Caller(member="box", role=TokenRole.HOST, starts=("Fenster", "Lead"), token_id="TK-3")


def context(
    caller: Caller, named: str = "", environment: dict[str, str] | None = None, **values: Any
) -> Context:
    call = CommandCall("task claim", [], actor=named)
    origin = CallOrigin("/", environment or {}, io.StringIO(), io.StringIO(), caller=caller)
    return Context(call, SimpleNamespace(**values), origin)


def test_a_caller_acts_in_its_own_name_whatever_the_defaults_are() -> None:
    assert context(AGENT).actor() == "Fenster"
    assert context(AGENT, agent="").actor(option="agent") == "Fenster"
    assert context(AGENT, environment={"REMAND_ACTOR": "fenster"}).actor() == "Fenster"


@pytest.mark.parametrize(
    "made",
    [
        context(AGENT, "Lead"),
        context(AGENT, agent="Lead"),
        context(AGENT, environment={"REMAND_ACTOR": "user"}),
        context(HOST, "Tester"),
        context(HOST, "user"),
    ],
    ids=["--as", "--agent", "environment", "host", "host as the user"],
)
def test_no_word_of_a_call_makes_it_anothers(made: Context) -> None:
    with pytest.raises(Refused, match="cannot be used to act as anyone else"):
        made.actor(option="agent")


def test_a_host_speaks_for_its_members_and_so_they_are_confined() -> None:
    made = context(HOST, "Lead")

    assert made.actor() == "Lead"
    assert made.is_confined
    assert made.known_by("Lead") is KnownBy.TOKEN
    assert made.limit(actor("Lead", Role.LEAD, Role.USER)).roles == {Role.LEAD}


def test_the_users_word_for_another_is_recorded_as_that() -> None:
    made = context(USER, "Fenster")

    assert (made.actor(), made.known_by("Fenster"), made.known_by("user")) == (
        "Fenster",
        KnownBy.WORD,
        KnownBy.TOKEN,
    )
    assert not made.is_confined


def test_a_token_of_an_agent_gives_no_rights_of_the_user() -> None:
    made = context(AGENT)

    assert made.is_confined
    assert made.limit(actor("Fenster", Role.AGENT, Role.USER)).roles == {Role.AGENT}
