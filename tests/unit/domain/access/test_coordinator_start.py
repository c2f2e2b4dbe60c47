"""When a coordinator is started behind a command: only by the user, and only where it can stay."""

from __future__ import annotations

import pytest

from remand.domain.access.coordinator_start import NEVER_STARTING, StartFacts, start_obstacle
from remand.interfaces.cli.registry import COMMANDS

WHO = {
    "agent": ({"agent": "REMAND_TASK"}, "REMAND_TASK shows that an agent is calling"),
    "actor": ({"actor": "Alice"}, "Alice acts"),
    "variable": ({"variable": "off"}, "REMAND_COORDINATOR is off"),
    "mistyped": ({"variable": "0ff"}, "REMAND_COORDINATOR is 0ff"),
    "setting": ({"setting": "off"}, "`[run] coordinator` in remand.toml is off"),
    "namespace": ({"namespace": "mount"}, "a mount namespace"),
    "owner": ({"owner": "/home/alice"}, "/home/alice belongs to another user"),
    "limit": ({"limit": "memory"}, "so much memory"),
    "channels": ({"has_own_channels": True}, "REMAND_NOTIFY"),
}
SURROUNDINGS = {
    "ci": ({"ci": "CI"}, "CI shows that this is continuous integration"),
    "init": ({"init": "sh"}, "process 1 is `sh`"),
    "file_system": ({"file_system": "nfs4"}, "a network file system (nfs4)"),
}


def test_a_command_of_the_user_starts_one_on_an_ordinary_machine() -> None:
    assert not start_obstacle(StartFacts())


@pytest.mark.parametrize("case", [*WHO, *SURROUNDINGS])
def test_each_fact_alone_keeps_it_from_being_started_and_is_named(case: str) -> None:
    facts, text = (WHO | SURROUNDINGS)[case]

    assert text in start_obstacle(StartFacts(**facts))


@pytest.mark.parametrize("case", SURROUNDINGS)
def test_the_variable_permits_one_where_only_the_surroundings_are_unusual(case: str) -> None:
    facts, _ = SURROUNDINGS[case]

    assert not start_obstacle(StartFacts(**facts, variable="on"))


@pytest.mark.parametrize("case", [case for case in WHO if case not in ("variable", "mistyped")])
def test_the_variable_permits_nothing_that_an_agent_or_an_unfit_process_asks_for(case: str) -> None:
    facts, text = WHO[case]

    assert text in start_obstacle(StartFacts(**facts, variable="on"))


def test_the_commands_that_never_start_one_exist() -> None:
    assert set(COMMANDS) >= NEVER_STARTING
