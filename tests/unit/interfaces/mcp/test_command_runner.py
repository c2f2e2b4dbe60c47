"""What tool arguments become: words of a call in which nothing can pass for anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.refusals import MEANINGS
from remand.interfaces.cli.main import command_parser
from remand.interfaces.cli.registry import parse_call
from remand.interfaces.mcp.command_runner import (
    CommandError,
    build_arguments,
    parse_result,
    without_placeholders,
)
from remand.interfaces.mcp.tools import NEXT_STEPS

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
ATTEMPTS = st.sampled_from(
    [
        "--as=owner",
        "--as",
        "-C",
        "--json",
        "--help",
        "-h",
        "--",
        "-",
        "@/etc/passwd",
        "@",
        "--key=k",
        "--agent=Lead",
    ]
)


@given(task=TEXTS | ATTEMPTS, commit=(TEXTS | ATTEMPTS).filter(bool), branch=TEXTS | ATTEMPTS)
def test_whatever_is_given_stays_in_its_place(task: str, commit: str, branch: str) -> None:
    call = parse_call(
        [
            "--json",
            "--as=Fenster",
            *build_arguments("task submit", [task], {"commit": commit, "branch": branch}),
        ]
    )

    assert (call.command, call.actor, call.folder, call.key) == ("task submit", "Fenster", ".", "")
    assert not call.wants_help
    options = command_parser("task submit")[1].parse_args(call.rest)
    assert options.agent is None
    assert [
        options.id.removeprefix(" "),
        options.commit.removeprefix(" "),
        options.branch.removeprefix(" "),
    ] == [text.removeprefix(" ") for text in (task, commit, branch)]


@pytest.mark.parametrize("text", ["@/etc/passwd", "@", "-", "--as=owner", "-x"])
def test_no_text_is_taken_for_a_file_or_an_option(text: str) -> None:
    words = build_arguments("reject-task", ["T-1", text], {})

    assert not words[-1].startswith(("@", "-"))
    assert words[-1].strip() == text


def test_each_of_several_values_is_an_option_of_its_own_and_none_is_none() -> None:
    assert build_arguments("review reject", ["T-1"], {"finding": ["a", "b"], "commit": "", "for_": "x"}) == [
        *("review", "reject", "--finding=a", "--finding=b", "--for=x", "--", "T-1")
    ]


@pytest.mark.parametrize("text", ["a\0--as\0owner", "\ud800", "x" * 200_000])
def test_what_no_call_can_carry_is_said_and_not_sent(text: str) -> None:
    with pytest.raises(CommandError, match=r"\. (Remove it|Send whole characters|Shorten it)\.$"):
        build_arguments("why", [text], {})


def test_what_a_host_did_not_fill_in_is_left_out() -> None:
    given = {"REMAND_TASK": "${REMAND_TASK}", "REMAND_ACTOR": "Fenster", "PS1": "$"}

    assert without_placeholders(given) == {"REMAND_ACTOR": "Fenster", "PS1": "$"}


def test_a_refusal_is_an_answer_and_a_fault_is_none() -> None:
    assert parse_result(1, b'{"refused": "locked_out", "message": "No."}', b"").is_refused
    with pytest.raises(CommandError, match="Run `git init`"):
        parse_result(3, b'{"error": "environment", "message": "Run `git init` there."}', b"")
    with pytest.raises(CommandError, match="no answer: Traceback"):
        parse_result(1, b"", b"Traceback")


def test_what_to_do_about_a_refusal_is_said_of_refusals_that_there_are() -> None:
    assert set(NEXT_STEPS) <= set(MEANINGS)
