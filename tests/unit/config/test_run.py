"""Holds what `[run]` and `[policy]` say of agents at work, and what is wrong in them."""

import pytest

from remand.config import ConfigError, RunSettings, parse
from remand.domain.run import Budget


def test_what_is_not_said_has_a_default() -> None:
    assert parse("").run == RunSettings()
    assert parse("").policy.budget == Budget()


def test_everything_can_be_said() -> None:
    settings = parse(
        """
        [run]
        network = false
        read = ["/opt/tools"]
        write = ["/var/cache/agents"]
        environment = ["ANTHROPIC_API_KEY"]
        time = "10m"
        worktrees = "../worktrees"
        sandbox = "required"
        interval = "5s"

        [policy]
        budget = {runs = 3, turns = 40, time = "2h", cost = 1.5}
        max_faults = 2
        max_waiting_reviews = 7
        """
    )

    assert settings.run == RunSettings(
        has_network=False,
        read=("/opt/tools",),
        write=("/var/cache/agents",),
        environment=("ANTHROPIC_API_KEY",),
        seconds=600.0,
        worktrees="../worktrees",
        sandbox="required",
        interval_seconds=5.0,
    )
    assert settings.policy.budget == Budget(runs=3, turns=40, seconds=7200.0, cost=1.5)
    assert (settings.policy.max_faults, settings.policy.max_waiting_reviews) == (2, 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('run.network = "no"', "true or false"),
        ('run.sandbox = "some"', "use one of best, required, off"),
        ('run.read = ["tools"]', "whole paths"),
        ('run.write = ["/"]', "the whole disk"),
        ('run.write = ["//../"]', "the whole disk"),
        ('run.environment = ["REMAND_ACTOR"]', "cannot pass on"),
        ('run.environment = ["A B"]', "cannot pass on"),
        ("run.tick = 1", "no key `run.tick`"),
        ("policy.budget = 3", "must be a table"),
        ("policy.budget = {cost = -1}", "a number of US dollars"),
        ("policy.budget = {cost = true}", "a number of US dollars"),
        ("policy.budget = {money = 1}", "no key `policy.budget.money`"),
        ("policy.max_faults = 0", "at least 1"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(text)


@pytest.mark.parametrize("program", ["tools/review.sh", "./agent", "../agent", ""])
def test_a_command_is_no_file_of_the_working_tree(program: str) -> None:
    with pytest.raises(ConfigError, match="in the working tree"):
        parse(f'team.members = [{{name = "A", command = ["{program}"]}}]')


def test_a_command_may_be_in_the_user_s_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")

    (member,) = parse('team.members = [{name = "A", command = ["~/bin/agent", "-p"]}]').team

    assert member.command == ("/home/somebody/bin/agent", "-p")
