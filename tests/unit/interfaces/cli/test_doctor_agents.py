"""Holds what the doctor says of the programs that members are started with."""

import sys

from remand.app.gates.ports import AttackResult, SandboxReport
from remand.domain.access.team import Member
from remand.interfaces.cli.doctor import agent_checks, command_checks


def test_a_program_that_is_not_there_is_named_with_whose_it_is() -> None:
    team = [
        Member(name="Alice", command=(sys.executable, "-V")),
        Member(name="Bob", command=("no-such-program",)),
        Member(name="Carol"),
    ]

    (check,) = command_checks(team)

    assert not check.ok
    assert check.detail == "1 of 2 members with a command can be started"
    assert check.fix == "Install no-such-program (Bob), or fix the command in remand.toml."


def test_all_is_well_when_all_are_there_or_nobody_is_started() -> None:
    assert [check.ok for check in command_checks([Member(name="Alice", command=(sys.executable,))])] == [True]
    assert list(command_checks([Member(name="Carol")])) == []


def test_a_sandbox_that_is_switched_off_holds_nobody() -> None:
    tested = SandboxReport("bubblewrap", "", ())

    (check,) = agent_checks(tested, is_off=True)

    assert "nothing" in check.detail
    assert "run.sandbox" in check.fix
    assert "bubblewrap" in next(agent_checks(tested)).detail


def test_attacks_are_named_on_request_alone_and_those_that_were_not_blocked_always() -> None:
    held, lost = AttackResult("read a key", True, ""), AttackResult("leave the sandbox", False, "it did")
    tested = SandboxReport("bubblewrap", "", (held, lost))

    (_, short), (_, whole) = agent_checks(tested, is_verbose=False), agent_checks(tested, is_verbose=True)

    assert short.detail == "1 of 2 attacks by an agent were blocked"
    assert whole.detail == f"{short.detail}: read a key"
    assert "leave the sandbox (it did)" in short.fix
