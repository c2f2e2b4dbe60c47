"""`remand whoami`: who acts from here, and with which roles."""

from __future__ import annotations

import pytest

from tests.integration.machine import Machine, Repository, near_call

TEAM = """
[gates]
[team]
members = [
  {name = "Fenster", role = "agent", aliases = ["fen"]},
  {name = "owner", role = "user"},
]
"""


@pytest.fixture
def team(machine: Machine) -> Repository:
    return machine.repository(config=TEAM)


@pytest.mark.parametrize(
    ("words", "name", "roles"),
    [
        ((), "owner", ["user"]),
        (("--as", "fen"), "Fenster", ["agent"]),
        (("--as", "stranger"), "stranger", []),
    ],
)
def test_a_name_is_the_members_own_with_its_roles(
    team: Repository, words: tuple[str, ...], name: str, roles: list[str]
) -> None:
    told = {"name": name, "roles": roles, "has_team": True, "confined": False, "task": None}

    assert team.ok("whoami", *words) == told


def test_an_agents_environment_is_told_with_its_task(team: Repository) -> None:
    said = near_call(team.path, ("whoami", "--json"), {"REMAND_TASK": "T-1", "REMAND_ACTOR": "Fenster"})

    assert said is not None
    assert said.data["confined"] is True
    assert (said.data["name"], said.data["task"]) == ("Fenster", "T-1")


def test_people_read_it_in_one_line(team: Repository) -> None:
    assert team.people("whoami", "--as", "fen").out == "Fenster (agent)\n"
    assert team.people("whoami", "--as", "stranger").out == "stranger (not on the team)\n"
