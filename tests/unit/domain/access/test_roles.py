"""Holds who is behind a name."""

import pytest

from remand.domain.access.team import Actor, Member, Role, Team

TEAM = Team(
    (
        Member(name="Fenster", skills=("paint",), aliases=("fen",), accounts=("github:fen",)),
        Member(name="Verbal", roles=(Role.LEAD, Role.AGENT)),
        Member(name="owner", roles=(Role.USER,)),
    )
)


@pytest.mark.parametrize("name", ["Fenster", "fen", "github:fen"])
def test_a_member_is_the_same_actor_under_each_of_its_names(name: str) -> None:
    expected = Actor(name="Fenster", roles=frozenset({Role.AGENT}), skills=frozenset({"paint"}))

    assert TEAM.actor(name) == expected


def test_a_members_own_name_is_never_anothers_alias() -> None:
    team = Team((Member(name="One", aliases=("Two",)), Member(name="Two")))

    assert team.actor("Two").name == "Two"


def test_a_member_may_have_several_roles() -> None:
    verbal = TEAM.actor("Verbal")

    assert verbal.has(Role.LEAD)
    assert verbal.has(Role.TESTER, Role.AGENT)
    assert not verbal.has(Role.TESTER, Role.USER)


def test_without_a_team_any_name_is_an_agent_and_user_the_user() -> None:
    assert Team().actor("anyone").roles == {Role.AGENT}
    assert Team().actor("user").roles == {Role.USER}
    assert not Team().has_members


def test_with_a_team_a_stranger_has_no_role() -> None:
    assert TEAM.actor("stranger").roles == frozenset()
    assert TEAM.has_members


def test_with_a_team_user_is_still_the_user() -> None:
    assert TEAM.actor("user").roles == {Role.USER}


@pytest.mark.parametrize("name", ["Fenster", "user", "stranger"])
def test_whoever_speaks_from_an_agents_place_is_confined(name: str) -> None:
    assert TEAM.actor(name, confined=True).confined
    assert not TEAM.actor(name).confined


@pytest.mark.parametrize("team", [TEAM, Team()], ids=["team", "no team"])
def test_nobody_becomes_the_coordinator_by_name(team: Team) -> None:
    assert Role.COORDINATOR not in team.actor("coordinator").roles
