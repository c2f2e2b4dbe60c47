"""Runs real scripts as the user's director and adviser are run: bounded, and without an agent's environment."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from remand.adapters.system.executor import MAX_OUTPUT, UserCommands
from remand.app.ports import CommandOutcome
from tests.integration.processes import LONGER, is_gone

Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Makes a small shell script; returns its path."""

    def make(text: str) -> str:
        path = tmp_path / f"script-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_a_command_reads_what_it_is_given_and_answers(tmp_path: Path, script: Script) -> None:
    answer = UserCommands(str(tmp_path), is_users_own=True).run(
        [script("cat; pwd; exit 3"), "one"], b'{"a": 1}\n', 30
    )

    assert answer is not None
    assert answer.exit_status == 3
    assert answer.output == f'{{"a": 1}}\n{tmp_path}\n'


def test_a_command_that_is_not_there_or_may_not_run_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")

    commands = UserCommands(str(tmp_path), is_users_own=True)

    assert commands.run(["/nonexistent/judge"], b"", 30) is None
    assert commands.run([str(tmp_path / "plain")], b"", 30) is None


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path, script: Script) -> None:
    mark = tmp_path / "pid"
    commands, slow = (
        UserCommands(str(tmp_path), is_users_own=True),
        script(f"sleep 1000 & echo $! > {mark}; wait"),
    )

    answers = [commands.run([slow], b"", seconds) for seconds in LONGER if not mark.exists()]

    assert set(answers) == {None}
    assert is_gone(int(mark.read_text()))


def test_a_command_does_not_inherit_what_marks_an_agents_place(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMAND_TASK", "T-1")
    monkeypatch.setenv("REMAND_ACTOR", "Alice")

    answer = UserCommands(str(tmp_path), is_users_own=True).run([script("env")], b"", 30)

    assert answer is not None
    assert "REMAND_" not in answer.output
    assert os.environ["REMAND_TASK"] == "T-1"


def test_where_an_agent_started_us_its_environment_does_not_choose_what_is_run(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Path(script("echo mine"))
    judge.rename(tmp_path / "judge-of-an-agent")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://evil.example")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    as_agent, as_user = (UserCommands(str(tmp_path), is_users_own=own) for own in (False, True))

    assert as_agent.run(["judge-of-an-agent"], b"", 30) is None
    assert as_user.run(["judge-of-an-agent"], b"", 30) == CommandOutcome(0, "mine\n")
    seen = [commands.run([script("env")], b"", 30) for commands in (as_agent, as_user)]
    assert ["evil" in answer.output for answer in seen if answer] == [False, True]


def test_a_command_that_prints_without_end_is_no_answer(tmp_path: Path, script: Script) -> None:
    assert UserCommands(str(tmp_path), is_users_own=True).run([script("yes")], b"", 60) is None
    much = UserCommands(str(tmp_path), is_users_own=True).run(
        [script(f"head -c {MAX_OUTPUT} /dev/zero")], b"", 60
    )
    assert much is not None
    assert len(much.output) == MAX_OUTPUT


def test_what_is_no_text_is_read_all_the_same(tmp_path: Path, script: Script) -> None:
    answer = UserCommands(str(tmp_path), is_users_own=True).run([script("printf '\\377\\376ok'")], b"", 30)

    assert answer is not None
    assert answer.output.endswith("ok")


def test_a_command_that_does_not_read_is_no_problem(tmp_path: Path, script: Script) -> None:
    answer = UserCommands(str(tmp_path), is_users_own=True).run([script("echo fine")], b"x" * 5_000_000, 30)

    assert answer is not None
    assert answer.output == "fine\n"
