"""What an agent may say at its socket, before anything of it is carried out."""

from __future__ import annotations

import msgspec
import pytest

from remand.app.errors import UsageError
from remand.app.scheduler.ports import AgentCall, AgentCaller, TaskWorktree
from remand.domain.access.agent_calls import (
    MAX_ARGUMENTS,
    MAX_CHARACTERS,
    PERMITTED_COMMANDS,
    require_own_branch,
    require_tip,
)
from remand.domain.refusals import Refused
from remand.interfaces.cli.agent_socket import server
from remand.interfaces.cli.agent_socket.server import call_settings
from remand.interfaces.cli.registry import COMMANDS, parse_call

WORKTREE = TaskWorktree(task_id="T-1", folder="/work/t-1", branch="task/1", common_dir="/repo/.git")
CALLER = AgentCaller("R-1", "Alice", "T-1", WORKTREE)
TIP = "0123456789abcdef0123456789abcdef01234567"


def asked(*arguments: str, folder: str = "/work/t-1") -> AgentCall:
    return AgentCall(CALLER, 0.0, folder, [], list(arguments))


def admitted(*arguments: str, folder: str = "/work/t-1") -> server.PermittedCall:
    return server.require_permitted(asked(*arguments, folder=folder), parse_call(list(arguments)))


def refused(*arguments: str) -> str:
    with pytest.raises(Refused) as refusal:
        admitted(*arguments)
    return refusal.value.code


def worded(*arguments: str, **settled: str) -> list[str]:
    return server.build_arguments(
        CALLER, parse_call(list(arguments)), {f"--{name}": value for name, value in settled.items()}
    )


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - set(PERMITTED_COMMANDS)))
def test_a_command_that_is_not_an_agents_is_refused(command: str) -> None:
    assert refused(*command.split(" ")) == "user_only"


def test_what_an_agent_may_call_is_there() -> None:
    assert set(PERMITTED_COMMANDS) <= set(COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--as", "Bob", "task", "list"),
        ("task", "list", "--as=user"),
        ("task", "heartbeat", "T-1", "--agent", "Bob"),
        ("task", "heartbeat", "T-1", "--agent=user"),
        ("task", "heartbeat", "--agent=Alice", "--agent=Bob", "T-1"),
        ("review", "approve", "T-1", "--commit", TIP, "--reviewer", "Lead"),
        ("handoff", "reject", "H-1", "--agent", "alice"),
        ("escalate", "T-1", "--reason", "x", "--agent", "Bob"),
    ],
)
def test_nobody_acts_under_another_name(arguments: tuple[str, ...]) -> None:
    assert refused(*arguments) == "not_yours"


def test_whom_a_reading_command_asks_about_is_free() -> None:
    assert admitted("why", "Bob").options.agent == "Bob"
    assert admitted("review", "list", "--for", "Lead").options.reviewer == "Lead"
    assert admitted("review", "request", "T-1", "--from", "Lead").options.reviewer == "Lead"


@pytest.mark.parametrize("folder", ["/", "..", "/work/t-10", "/work/t-1/../t-2", "../t-2"])
def test_another_folder_is_refused(folder: str) -> None:
    assert refused("-C", folder, "task", "list") == "not_yours"


@pytest.mark.parametrize("folder", [".", "src", "/work/t-1", "/work/t-1/src", "src/../."])
def test_a_folder_in_the_worktree_is_as_good_as_none(folder: str) -> None:
    assert admitted("-C", folder, "task", "list").subject == ""


def test_a_claim_of_whatever_comes_next_is_refused() -> None:
    assert refused("task", "claim") == "not_yours"
    assert admitted("task", "claim", "T-1").subject == "T-1"


def test_what_a_call_names_is_found_wherever_it_stands() -> None:
    assert admitted("task", "submit", "--commit", "HEAD", "--", "T-2").subject == "T-2"
    assert admitted("handoff", "complete", "--commit=HEAD", "H-2").subject == "H-2"
    assert admitted("gate", "wait").subject == ""


def test_a_log_is_not_followed() -> None:
    with pytest.raises(UsageError):
        admitted("log", "tail", "-f")


def test_too_much_is_refused() -> None:
    assert refused("task", "list", *["x"] * MAX_ARGUMENTS) == "bad_value"
    assert refused("task", "wait", "T-1", "--for", "x" * (MAX_CHARACTERS + 1)) == "bad_value"


@pytest.mark.parametrize(
    "name", ["HEAD", "@", "", "task/1", "refs/heads/task/1", TIP, TIP[:7], TIP[:12].upper()]
)
def test_the_tip_may_be_called_by_any_of_its_names(name: str) -> None:
    assert require_tip(name, TIP, WORKTREE.branch) == TIP


@pytest.mark.parametrize(
    "name", ["main", "HEAD~1", "HEAD^", ":/fix", "--all", "0" * 40, TIP[:6], f"{TIP}0", "HEAD\n"]
)
def test_nothing_but_the_tip_is_handed_in(name: str) -> None:
    with pytest.raises(Refused, match="tip of task/1"):
        require_tip(name, TIP, WORKTREE.branch)


def test_a_worktree_without_a_commit_hands_nothing_in() -> None:
    with pytest.raises(Refused, match="Commit the work"):
        require_tip("HEAD", "", WORKTREE.branch)


def test_another_branch_is_not_handed_in() -> None:
    found = admitted("task", "submit", "T-1", "--commit", "HEAD", "--branch", "main")
    with pytest.raises(Refused, match="task/1"):
        require_own_branch(WORKTREE.branch, found.options.branch)


@pytest.mark.parametrize(
    "given",
    [
        ("--commit", "HEAD", "T-1"),
        ("--commit=HEAD", "T-1"),
        ("T-1", "--commit=a", "--commit", "b", "--commit=c"),
    ],
)
def test_a_settled_option_counts_whatever_was_given_for_it(given: tuple[str, ...]) -> None:
    words = worded("--json", "task", "submit", *given, commit=TIP)
    assert words == ["--json", "task", "submit", f"--commit={TIP}", "T-1"]


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    words = worded("reject-task", "--", "T-1", "--commit", commit=TIP)
    assert words == ["reject-task", f"--commit={TIP}", "--", "T-1", "--commit"]


def test_who_and_where_are_not_passed_on() -> None:
    assert worded("-C", "/work/t-1", "--as", "Alice", "task", "list") == ["task", "list"]


def test_a_key_counts_for_its_run_alone() -> None:
    call = parse_call(["--key", "k", "task", "list"])
    other = AgentCaller("R-2", "Alice", "T-1", WORKTREE)
    own, same, others = (server.build_arguments(one, call, {})[1] for one in (CALLER, CALLER, other))
    assert own == same != others
    assert "k" not in (own, others)


def test_the_sockets_own_agent_and_task_are_forced() -> None:
    said = asked()._replace(settings=["Bob", "T-2", "H-1", "", "80", "1", "120"])
    assert call_settings(said) == ["Alice", "T-1", "H-1", "", "80", "1", "120", "socket"]
    assert call_settings(said._replace(settings=[])) == ["Alice", "T-1", "", "", "", "", "", "socket"]
    assert call_settings(said._replace(settings=["", "", "", "", "", "", "-1e9", "token"]))[-2:] == [
        "",
        "socket",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("review", "approve", "T-1", "--commit", TIP, "--checked", "a.py:1: it is tested well enough"),
        ("review", "reject", "T-1", "--commit", TIP, "--finding", "a.py:1: it leaks"),
        ("reject-task", "T-1", "it leaks"),
        ("handoff", "rejection-response", "H-1", "--decision", "OVERRIDE"),
        ("task", "heartbeat", "T-1"),
    ],
)
def test_nothing_is_decided_at_the_socket_of_one_who_judges(arguments: tuple[str, ...]) -> None:
    """What it looks at is another's code, which can speak there as well."""
    place = msgspec.structs.replace(WORKTREE, task_id="T-1-review")
    judge = CALLER._replace(agent="Rita", worktree=place)

    with pytest.raises(Refused, match="final message"):
        server.require_permitted(asked(*arguments)._replace(caller=judge), parse_call(list(arguments)))
    reading = asked("task", "show", "T-1")._replace(caller=judge)
    assert server.require_permitted(reading, parse_call(["task", "show", "T-1"]))
