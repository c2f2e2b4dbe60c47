"""Solo use: sessions without a task, in real hook processes with the JSON of the hosts, on real repositories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import Machine, Repository, Said, wait_for
from tests.integration.test_snapshots import fingerprint

CHECK = (
    'n=0; for f in src/*.txt; do n=$((n+1)); if grep -q bad "$f"; then echo "not ok $n - $f"; '
    'else echo "ok $n - $f"; fi; done; echo "1..$n"'
)
"""A quick test suite: each file is a test, and one with the word `bad` in it fails."""
GATES = f"""
[policy]
sessions = "all"

[gates.tests]
command = ["sh", "-c", '''{CHECK}''']
parser = "tap"
paths = ["src/**"]
"""


class Solo:
    """A repository in which every session is measured, and one host's session in it."""

    def __init__(self, repository: Repository, session: str = "s1", host: str = "claude") -> None:
        self.repository = repository
        self.path = repository.path
        self.session = session
        self.host = host

    def other(self, session: str) -> Solo:
        return Solo(self.repository, session, self.host)

    def hook(self, event: str, env: dict[str, str] | None = None, **fields: Any) -> Said:
        given = {"session_id": self.session, "cwd": str(self.path), "hook_event_name": event} | fields
        return self.repository.machine.remand(
            self.path, "hook", "--host", self.host, event, stdin=json.dumps(given), env=env
        )

    def answer(self, event: str, env: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        said = self.hook(event, env, **fields)
        assert said.code == 0, said
        found: dict[str, Any] = json.loads(said.out) if said.out else {}
        return found

    def begin(self, prompt: str = "Please add a feature") -> None:
        assert self.answer("SessionStart", source="startup") == {}
        assert self.answer("UserPromptSubmit", prompt=prompt) == {}

    def edit(self, name: str, text: str) -> None:
        """Writes a file as the session's own tool does."""
        path = self.path / name
        tool = {"tool_name": "Write", "tool_input": {"file_path": str(path), "content": text}}
        self.answer("PreToolUse", tool_use_id="u", **tool)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.answer("PostToolUse", tool_use_id="u", tool_response={"success": True}, **tool)

    def run(self, *command: str) -> None:
        """Runs a command as the session's own shell does."""
        tool = {"tool_name": "Bash", "tool_input": {"command": " ".join(command)}}
        self.answer("PreToolUse", tool_use_id="b", **tool)
        self.repository.git(*command[1:]) if command[0] == "git" else None
        self.answer("PostToolUse", tool_use_id="b", tool_response={"stdout": ""}, **tool)

    def shell(self, script: str) -> None:
        """Runs a script as the session's own shell does."""
        tool = {"tool_name": "Bash", "tool_input": {"command": script}}
        self.answer("PreToolUse", tool_use_id="b", **tool)
        environment = self.repository.machine.environment
        subprocess.run(["sh", "-c", script], cwd=self.path, env=environment, check=True, timeout=600)
        self.answer("PostToolUse", tool_use_id="b", tool_response={"stdout": ""}, **tool)

    def ask_for(self, script: str) -> None:
        """A command that the user denies: the host asks, and never tells of an end."""
        tool = {"tool_name": "Bash", "tool_input": {"command": script}}
        self.answer("PreToolUse", tool_use_id="denied", **tool)

    def stop(self, **fields: Any) -> dict[str, Any]:
        return self.answer("Stop", **({"last_assistant_message": "Done."} | fields))


@pytest.fixture
def solo(machine: Machine) -> Solo:
    repository = machine.repository(config=GATES)
    (repository.path / "src").mkdir()
    repository.commit("src/a.txt", "good\n")
    repository.commit("src/b.txt", "good\n")
    repository.ok("task", "list")  # the ledger is there, as after `init`
    return Solo(repository)


def test_the_prompt_of_a_session_is_kept_though_its_host_calls_two_hooks_at_the_same_time(solo: Solo) -> None:
    """As Copilot does."""
    calls = (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Please add a feature"}),
    )
    sessions = [solo.other(f"s{number}") for number in range(4)]
    with ThreadPoolExecutor(2) as pool:
        for one in sessions:
            begun = [pool.submit(one.answer, event, **fields) for event, fields in calls]
            assert [call.result() for call in begun] == [{}, {}]
    records = [
        json.loads(path.read_bytes()) for path in solo.repository.machine.state.rglob("sessions/*.json")
    ]
    assert [record["title"] for record in records] == ["Please add a feature"] * len(sessions)


def test_a_session_that_breaks_something_is_sent_back_and_the_fix_lets_it_stop(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    said = solo.stop()
    assert said["decision"] == "block"
    assert "- Tests: 1 failure (requires 100% pass)" in said["reason"]
    assert "remand solo off" in said["systemMessage"], "the first message says how to be left alone"
    solo.edit("src/a.txt", "good again\n")
    assert solo.stop() == {}, "passing, it stops without a word"
    assert solo.stop() == {}


PREPARED = """
[policy]
sessions = "all"

[gates.tests]
command = ["sh", "{cache}/tool.sh"]
parser = "tap"
prepare = {command = ["sh", "-c", "cp tool.sh {cache}/tool.sh"], key = ["deps.txt"]}
"""
STRICT_TOOL = "echo 1..1; grep -q bad src/a.txt && echo not ok 1 - a || echo ok 1 - a\n"


def test_what_a_session_left_uncommitted_has_no_part_in_the_environment_of_others(machine: Machine) -> None:
    repository = machine.repository(config=PREPARED)
    (repository.path / "src").mkdir()
    for name, text in (("src/a.txt", "good\n"), ("tool.sh", STRICT_TOOL), ("deps.txt", "1\n")):
        repository.commit(name, text)
    repository.ok("task", "list")
    first = Solo(repository)
    first.begin()
    first.edit("deps.txt", "2\n")
    first.edit("tool.sh", "echo 1..1; echo ok 1 - a\n")
    first.stop(last_assistant_message="Ok?")
    second = first.other("s2")
    second.begin()
    second.edit("src/a.txt", "bad\n")
    assert second.stop()["decision"] == "block", "the tool is the base's"

    repository.git("checkout", "tool.sh")
    repository.git("commit", "-qam", "only the dependencies, and what is bad")
    assert repository.call("gate", "run").code == 1


TELLING = """
[policy]
sessions = "all"

[gates.tests]
command = ["sh", "-c", "echo 1..1; echo ok 1 - a"]
parser = "tap"
prepare = {command = ["sh", "-c", "test -z $NPM_TOKEN"], key = ["deps.txt"]}
"""
"""Its prepare step fails where it is given a token."""


@pytest.mark.parametrize(("measured", "is_given"), [("session", False), ("any base", False), ("base", True)])
def test_only_rules_and_files_of_the_base_branch_are_given_passwords_for_registries(
    machine: Machine, measured: str, *, is_given: bool
) -> None:
    repository = machine.repository(config=TELLING)
    repository.commit("deps.txt", "1\n")
    repository.ok("init", env={"NPM_TOKEN": "secret"})
    if measured == "session":
        session = Solo(repository)
        session.begin()
        session.edit("a.txt", "1\n")
        session.stop()
        (found,) = repository.ok("gate", "history", "--sessions")
        assert found["status"] == "passed"
        return
    repository.git("checkout", "-qb", "work")
    own = repository.commit("a.txt", "1\n")
    repository.commit("b.txt", "1\n")
    base = ["--base", own] if measured == "any base" else []
    assert repository.call("gate", "run", *base).code == (3 if is_given else 0)


def test_an_unchanged_tree_and_files_that_no_gate_is_about_are_not_measured(solo: Solo) -> None:
    solo.begin()
    assert solo.stop() == {}
    solo.edit("notes.md", "bad\n")
    assert solo.stop() == {}
    assert solo.repository.ok("gate", "history", "--sessions") == []


def test_a_tree_that_was_measured_is_not_measured_again(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop()["decision"] == "block"
    said = solo.stop()
    assert "decision" not in said, "it is sent back once for each tree"
    assert "- Tests: 1 failure" in said["systemMessage"], "and its user sees what it leaves behind"
    assert solo.stop() == {}
    assert len(solo.repository.ok("gate", "history", "--sessions")) == 1


def test_what_failed_before_the_session_is_not_blamed_on_it(solo: Solo) -> None:
    (solo.path / "src" / "b.txt").write_text("bad, by the user, not committed\n")
    (solo.path / "src" / "new.txt").write_text("bad, by the user, untracked\n")
    solo.begin()
    solo.edit("src/a.txt", "still good\n")
    assert solo.stop() == {}
    solo.edit("src/a.txt", "bad\n")
    said = solo.stop()
    assert said["decision"] == "block"
    assert "src/a.txt" in said["reason"]


def test_rules_come_from_the_start_whatever_is_committed_later(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    solo.edit("remand.toml", GATES.replace("grep -q bad", "grep -q never"))
    solo.run("git", "add", "-A")
    solo.run("git", "commit", "-q", "-m", "nothing to see")
    assert solo.stop()["decision"] == "block"


def test_a_session_does_not_end_its_own_measurement_by_editing_the_configuration(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    solo.edit("remand.toml", GATES.replace('"all"', '"tasks"'))
    assert solo.stop()["decision"] == "block"


@pytest.mark.parametrize(
    "fields",
    [
        {"permission_mode": "plan"},
        {"agent_id": "sub-1"},
        {"background_tasks": [{"id": "1", "status": "running"}]},
    ],
    ids=["plan", "subagent", "background"],
)
def test_a_turn_that_is_not_over_is_never_blocked(solo: Solo, fields: dict[str, Any]) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop(**fields) == {}
    assert solo.stop()["decision"] == "block", "the next stop is"


def test_a_question_is_measured_and_shown_to_the_user_and_never_blocked(solo: Solo) -> None:
    question = {"last_assistant_message": "Shall I go on with the other file?"}
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    said = solo.stop(**question)
    assert "decision" not in said
    assert "- Tests: 1 failure" in said["systemMessage"]
    assert solo.stop(**question) == {}, "it is shown once"
    assert solo.stop()["decision"] == "block", "the agent has not been told yet"
    assert solo.stop() == {}, "its user has seen it"


def test_a_subagents_own_stop_is_never_blocked(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.answer("SubagentStop", agent_id="sub-1") == {}


def test_after_so_many_blocks_the_user_sees_the_figures_and_a_new_prompt_counts_anew(solo: Solo) -> None:
    solo.begin()
    for number in range(3):
        solo.edit("src/a.txt", f"bad {number}\n")
        assert solo.stop()["decision"] == "block"
    solo.edit("src/a.txt", "bad as ever\n")
    said = solo.stop()
    assert "decision" not in said
    assert "- Tests: 1 failure" in said["systemMessage"]
    solo.answer("UserPromptSubmit", prompt="Try again")
    solo.edit("src/a.txt", "bad once more\n")
    assert solo.stop()["decision"] == "block"


def test_the_users_own_changes_in_an_editor_are_not_the_sessions(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "good, by the session\n")
    (solo.path / "src" / "b.txt").write_text("bad, half finished by the user\n")
    said = solo.stop()
    assert "decision" not in said
    assert "not by what this session changed" in said["systemMessage"]
    assert "src/b.txt" in said["systemMessage"]


def test_of_two_sessions_in_one_checkout_the_one_is_sent_back_that_broke_it_and_both_are_told(
    solo: Solo,
) -> None:
    second = solo.other("s2")
    solo.begin("the first")
    second.begin("the second")
    solo.edit("src/a.txt", "good, by the first\n")
    second.edit("src/b.txt", "bad, by the second\n")
    assert "not by what this session changed" in solo.stop()["systemMessage"]
    said = second.stop()
    assert said["decision"] == "block"
    assert "src/b.txt" in said["reason"]
    assert "another session" in said["systemMessage"]


def test_after_a_pull_that_the_session_did_not_make_comparison_begins_anew(
    solo: Solo, machine: Machine
) -> None:
    other = machine.clone(solo.repository, "elsewhere")
    other.git("config", "user.email", "o@example.org")
    other.git("config", "user.name", "O")
    (other.path / "src" / "b.txt").write_text("bad, from upstream\n")
    other.git("commit", "-q", "-am", "upstream breaks it")
    solo.begin()
    solo.edit("src/a.txt", "good\nmore\n")
    solo.repository.git("pull", "-q", str(other.path), "main")
    assert solo.answer("UserPromptSubmit", prompt="go on") == {}
    solo.edit("src/a.txt", "good\nand more\n")
    assert solo.stop() == {}
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop()["decision"] == "block"


def test_a_checkout_that_the_session_made_keeps_its_start(solo: Solo) -> None:
    solo.begin()
    solo.run("git", "checkout", "-q", "-b", "feature")
    solo.edit("src/a.txt", "bad\n")
    solo.run("git", "commit", "-q", "-am", "work")
    assert solo.stop()["decision"] == "block"


@pytest.mark.parametrize(
    "script",
    [
        "GIT_COMMITTER_DATE=2020-01-01T00:00:00 git checkout -q -B topic",
        "(sleep 2; git checkout -q -B topic) >/dev/null 2>&1 &",
    ],
    ids=["dated long ago", "in the background"],
)
def test_a_session_does_not_choose_its_start_anew_by_a_checkout(solo: Solo, script: str) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    solo.shell(script)
    wait_for(lambda: solo.repository.git("branch", "--list", "topic"), "the branch")
    solo.edit("notes.md", "more\n")
    assert solo.stop()["decision"] == "block"


def test_after_a_command_that_was_denied_the_users_changes_stay_the_users(solo: Solo) -> None:
    solo.begin()
    solo.ask_for("make")
    assert solo.stop() == {}
    (solo.path / "src" / "b.txt").write_text("bad, by the user\n")
    solo.answer("UserPromptSubmit", prompt="now write the other one")
    solo.edit("src/a.txt", "good, by the session\n")
    assert "not by what this session changed" in solo.stop()["systemMessage"]


def test_after_a_command_that_was_denied_a_pull_of_the_user_begins_comparison_anew(solo: Solo) -> None:
    solo.begin()
    solo.ask_for("make")
    assert solo.stop() == {}
    solo.repository.git("checkout", "-q", "-b", "upstream")
    solo.repository.commit("src/b.txt", "bad, from upstream\n")
    solo.answer("UserPromptSubmit", prompt="now write the other one")
    solo.edit("src/a.txt", "good, by the session\n")
    assert solo.stop() == {}


def test_a_file_that_a_command_deleted_is_the_sessions_whatever_is_written_beside_it(
    machine: Machine,
) -> None:
    check = "if test -e src/b.txt; then echo ok 1 - b; else echo not ok 1 - b; fi; echo 1..1"
    repository = machine.repository(config=GATES.replace(CHECK, check))
    (repository.path / "src").mkdir()
    repository.commit("src/b.txt", "good\n")
    repository.ok("task", "list")
    solo = Solo(repository)
    solo.begin()
    solo.shell("rm src/b.txt")
    assert "decision" not in solo.stop(last_assistant_message="Shall I go on?")
    solo.answer("UserPromptSubmit", prompt="yes")
    solo.edit("src/new.txt", "good\n")
    assert solo.stop()["decision"] == "block"


def test_what_a_command_left_in_the_background_writes_is_the_sessions(solo: Solo) -> None:
    solo.begin()
    solo.shell("(sleep 0.5; echo bad >src/a.txt) >/dev/null 2>&1 &")
    wait_for(lambda: "bad" in (solo.path / "src" / "a.txt").read_text(), "the write")
    assert solo.stop()["decision"] == "block"


def test_a_resumed_session_keeps_its_start(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.answer("SessionStart", source="resume") == {}
    assert solo.stop()["decision"] == "block"


def test_a_session_whose_host_tells_of_no_tools_has_changed_what_changed_in_its_turn(solo: Solo) -> None:
    solo.begin()
    (solo.path / "src" / "a.txt").write_text("bad\n")
    assert solo.stop()["decision"] == "block"


def test_gates_that_outlast_the_hook_go_on_and_the_next_prompt_has_the_result(machine: Machine) -> None:
    repository = machine.repository(config=GATES.replace("n=0;", "sleep 4; n=0;"))
    (repository.path / "src").mkdir()
    repository.commit("src/a.txt", "good\n")
    repository.ok("task", "list")
    solo = Solo(repository)
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    said = solo.answer("Stop", {"REMAND_HOOK_DEADLINE": "1"}, last_assistant_message="Done.")
    assert said == {}, "nobody waits for it"
    wait_for(lambda: repository.ok("gate", "history", "--sessions"), "the result")
    wait_for(lambda: not runs_of(solo), "the run's end")
    said = solo.answer("UserPromptSubmit", prompt="and now?")
    assert "1 failure" in said["hookSpecificOutput"]["additionalContext"]
    assert "1 failure" in said["systemMessage"]
    assert solo.answer("UserPromptSubmit", prompt="again") == {}, "told once"


def test_a_repository_without_gates_gets_one_hint_once(machine: Machine) -> None:
    repository = machine.repository(config='[gates]\n\n[policy]\nsessions = "all"\n')
    repository.ok("task", "list")
    solo = Solo(repository)
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert "no gates" in solo.stop()["systemMessage"]
    solo.edit("src/a.txt", "bad bad\n")
    assert solo.stop() == {}
    later = solo.other("s2")
    later.begin()
    later.edit("src/b.txt", "bad\n")
    assert later.stop() == {}


def test_a_repository_without_commits_is_measured(machine: Machine) -> None:
    path = machine.folder / "fresh"
    path.mkdir()
    machine.git(path, "init", "-q")
    (path / "remand.toml").write_text(GATES)
    repository = Repository(machine, path)
    repository.ok("task", "list")
    solo = Solo(repository)
    solo.begin()
    solo.edit("src/a.txt", "good\n")
    assert solo.stop() == {}
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop()["decision"] == "block"


@pytest.mark.parametrize("module", ["msgspec.py", "queue.py"])
def test_no_module_of_the_project_is_loaded_by_the_run(solo: Solo, module: str) -> None:
    mark = solo.repository.machine.folder / "executed"
    (solo.path / module).write_text(f"open({str(mark)!r}, 'w').close()\nraise SystemExit(1)\n")
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop()["decision"] == "block"
    assert not mark.exists()


class TestFaults:
    """What keeps a session from being measured is told to its user, once."""

    def test_a_machine_without_git_is_told_of_once(self, solo: Solo) -> None:
        env = {"PATH": str(solo.repository.machine.folder / "nothing")}
        solo.answer("UserPromptSubmit", env, prompt="go")
        (solo.path / "src" / "a.txt").write_text("bad\n")
        assert solo.answer("Stop", env, agent_id="sub-1") == {}
        said = solo.answer("Stop", env, last_assistant_message="Done.")
        assert "could not measure this session" in said["systemMessage"]
        assert "git" in said["systemMessage"]
        assert solo.answer("Stop", env, last_assistant_message="Done.") == {}

    def test_a_place_that_is_not_measured_hears_nothing_of_it(self, machine: Machine) -> None:
        repository = machine.repository(config=GATES.replace('sessions = "all"', 'lockout = "strict"'))
        repository.ok("task", "list")
        env = {"PATH": str(machine.folder / "nothing")}
        assert Solo(repository).answer("Stop", env, last_assistant_message="Done.") == {}

    @pytest.mark.parametrize("name", ["git", "ledger"])
    def test_a_file_where_a_folder_of_ours_belongs_is_told_of_once(self, solo: Solo, name: str) -> None:
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        (folder,) = solo.repository.machine.state.rglob("solo")
        if (folder / name).exists():
            (folder / name).rename(folder / "away")
        (folder / name).write_text("")
        said = solo.stop()
        assert "decision" not in said
        assert "could not measure this session" in said["systemMessage"]
        assert solo.stop() == {}, "neither told nor tried again"

    def test_a_run_that_was_killed_after_the_hook_is_told_of_with_the_next_prompt(
        self, machine: Machine
    ) -> None:
        repository = machine.repository(config=GATES.replace("n=0;", "sleep 60; n=0;"))
        (repository.path / "src").mkdir()
        repository.commit("src/a.txt", "good\n")
        repository.ok("task", "list")
        solo = Solo(repository)
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        assert solo.answer("Stop", {"REMAND_HOOK_DEADLINE": "1"}, last_assistant_message="Done.") == {}
        for pid in wait_for(lambda: runs_of(solo), "the run"):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not runs_of(solo), "the run's end")
        said = solo.answer("UserPromptSubmit", prompt="and now?")
        assert "could not measure this session" in said["systemMessage"]
        assert solo.stop() == {}, "it is not started again for the same tree"
        assert runs_of(solo) == []

    def test_more_files_of_others_than_a_command_line_holds(self, solo: Solo) -> None:
        solo.begin()
        folder = solo.path / "src" / ("d" * 200)
        folder.mkdir()
        for number in range(11_000):
            (folder / f"{number:0200d}").touch()
        solo.edit("src/a.txt", "bad\n")
        assert solo.stop()["decision"] == "block"


def runs_of(solo: Solo) -> list[int]:
    """The processes that measure a session of this worktree."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"remand.interfaces.hook.solo_run" in words and str(solo.path).encode() in words:
                found.append(int(folder.name))
    return found


def test_in_a_merge_conflict_nothing_of_git_is_touched(solo: Solo) -> None:
    repository = solo.repository
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("src/a.txt", "side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("src/a.txt", "main\n")
    repository.git("merge", "-q", "side", check=False)
    before = fingerprint(solo.path / ".git")
    solo.begin()
    solo.edit("src/b.txt", "bad\n")
    assert solo.stop()["decision"] == "block"
    solo.edit("src/a.txt", "resolved\n")
    solo.edit("src/b.txt", "good\n")
    assert solo.stop() == {}
    assert fingerprint(solo.path / ".git") == before
    assert "both modified" in repository.git("status")


def test_index_branch_and_stash_are_untouched_byte_for_byte(solo: Solo) -> None:
    (solo.path / "src" / "b.txt").write_text("stashed\n")
    solo.repository.git("stash", "-q")
    (solo.path / "src" / "b.txt").write_text("staged\n")
    solo.repository.git("add", "-A")
    before = fingerprint(solo.path / ".git")
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    assert solo.stop()["decision"] == "block"
    solo.edit("src/a.txt", "fine\n")
    assert solo.stop() == {}
    assert fingerprint(solo.path / ".git") == before
    assert not (solo.path / ".got" / "events").exists() or not any((solo.path / ".got" / "events").iterdir())


def test_a_large_untracked_folder_stays_out_and_the_verdict_says_partly_measured(solo: Solo) -> None:
    data = solo.path / "data"
    data.mkdir()
    for number in range(4):  # 2 GiB that take no room on the disk
        with (data / f"{number}.bin").open("wb") as file:
            file.truncate(512 << 20)
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    said = solo.stop()
    assert said["decision"] == "block"
    assert "Partly measured: without data/0.bin (512 MiB, over 64 MiB)" in said["reason"]
    rows = solo.repository.ok("gate", "history", "--sessions")
    assert len(rows[0]["left_out"]) == 4


def test_a_finding_of_the_integrity_gate_is_shown_to_the_user_and_blocks_nobody(machine: Machine) -> None:
    config = (
        '[policy]\nsessions = "all"\n[gates.tests]\nparser = "junit"\n'
        'command = ["python3", "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "no:cacheprovider", "--junitxml={report}"]\n'
    )
    repository = machine.repository(config=config)
    two = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 2 + 2 == 4\n"
    repository.commit("test_sums.py", two)
    repository.ok("task", "list")
    solo = Solo(repository)
    solo.begin()
    solo.edit("test_sums.py", two.partition("\n\n\n")[0] + "\n")
    said = solo.stop()
    assert "decision" not in said
    assert "look at this" in said["systemMessage"]
    assert "test_two" in said["systemMessage"]
    assert solo.stop() == {}, "it is shown once"


def test_lists_of_sessions_leave_no_file_open_in_a_server(solo: Solo) -> None:
    solo.begin()
    solo.edit("src/a.txt", "bad\n")
    solo.stop()
    lists = [("gate", "history", "--sessions"), ("task", "list", "--sessions")]
    for one in lists:
        solo.repository.ok(*one)  # what is loaded at first stays open
    open_files = len(os.listdir("/dev/fd"))
    for one in lists:
        assert solo.repository.ok(*one)
    assert len(os.listdir("/dev/fd")) <= open_files


def test_verdicts_are_recorded_under_the_session_and_in_no_other_list(solo: Solo) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    solo.begin(f"Use the token {token} and mend the roof, then paint the door and the fence and all the rest")
    solo.edit("src/a.txt", "bad\n")
    solo.stop()
    solo.edit("src/a.txt", "fine\n")
    solo.stop()
    rows = solo.repository.ok("gate", "history", "--sessions")
    assert [row["status"] for row in rows] == ["failed", "passed"]
    assert rows[0]["title"].startswith("Use the token")
    assert len(rows[0]["title"]) <= 80
    assert token not in json.dumps(rows)
    (session,) = solo.repository.ok("task", "list", "--sessions")
    assert session["status"] == "passed"
    assert solo.repository.ok("task", "list") == []
    assert solo.repository.ok("gate", "history") == []
    assert solo.repository.ok("log", "tail") == []


def end_switch(machine: Machine) -> None:
    """Has the time be over for which it was switched off."""
    (switch,) = machine.state.rglob("solo/switch")
    word, _, before = switch.read_text().split()
    switch.write_text(f"{word} 1.000 {before}")


class TestSwitch:
    def test_off_and_on(self, solo: Solo) -> None:
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        assert solo.repository.ok("solo", "off")["sessions"] == "off"
        assert solo.stop() == {}
        assert solo.repository.ok("solo", "status")["sessions"] == "off"
        assert solo.repository.ok("solo", "on")["sessions"] == "on"
        assert solo.stop()["decision"] == "block"

    def test_off_for_a_while(self, solo: Solo) -> None:
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        said = solo.repository.ok("solo", "off", "--for", "1h")
        assert said["until"]
        assert solo.stop() == {}
        end_switch(solo.repository.machine)
        assert solo.stop()["decision"] == "block"

    def test_what_was_off_before_is_off_after_a_while(self, machine: Machine) -> None:
        repository = machine.repository(config=GATES.replace('sessions = "all"', 'lockout = "strict"'))
        repository.ok("solo", "off", "--for", "1h")
        repository.ok("solo", "off", "--for", "1h")
        end_switch(machine)
        assert repository.ok("solo", "status")["sessions"] == "off"
        repository.ok("solo", "on")
        repository.ok("solo", "off", "--for", "1h")
        repository.ok("solo", "off", "--for", "1h")
        end_switch(machine)
        assert repository.ok("solo", "status")["sessions"] == "on"

    def test_off_for_good_stays_so_after_a_while(self, solo: Solo) -> None:
        solo.repository.ok("solo", "off")
        solo.repository.ok("solo", "off", "--for", "1h")
        end_switch(solo.repository.machine)
        assert solo.repository.ok("solo", "status")["sessions"] == "off"

    def test_an_agent_cannot_remove_the_hooks(self, solo: Solo) -> None:
        solo.repository.ok("init", "--solo", "--hosts", "claude")
        said = solo.repository.call("init", "--remove", env={"CLAUDECODE": "1"})
        assert said.data["refused"] == "user_only"

    def test_an_agent_cannot_switch_it_off(self, solo: Solo) -> None:
        said = solo.repository.call("solo", "off", env={"CLAUDECODE": "1"})
        assert said.data["refused"] == "user_only"

    def test_a_project_that_does_not_ask_for_it_is_left_alone(self, machine: Machine) -> None:
        repository = machine.repository(config=GATES.replace('sessions = "all"', 'lockout = "strict"'))
        repository.ok("task", "list")
        solo = Solo(repository)
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        assert solo.hook("Stop") == Said(0, "", "")
        assert not list(machine.state.rglob("solo"))


def test_a_session_that_holds_a_task_is_not_solo(solo: Solo) -> None:
    task = solo.repository.add()
    solo.repository.ok("task", "claim", task, "--agent", "Alice")
    said = solo.answer("Stop", {"REMAND_TASK": task, "REMAND_ACTOR": "Alice"})
    assert "no commit yet" in said["reason"]


def test_it_works_in_a_linked_worktree(solo: Solo) -> None:
    folder = Path(solo.repository.machine.folder / "linked")
    solo.repository.git("worktree", "add", "-q", str(folder), "-b", "side")
    linked = Solo(Repository(solo.repository.machine, folder))
    linked.begin()
    linked.edit("src/a.txt", "bad\n")
    linked.edit("remand.toml", GATES.replace('"all"', '"tasks"'))
    (solo.path / "remand.toml").write_text(GATES.replace('"all"', '"tasks"'))
    assert linked.stop()["decision"] == "block", (
        "no session ends its measurement by editing the configuration"
    )


def test_sessions_that_are_never_measured_are_forgotten_after_a_week(solo: Solo) -> None:
    solo.begin()
    (folder,) = solo.repository.machine.state.rglob("solo")
    long_ago = time.time() - 8 * 86_400
    old = list((folder / "sessions").iterdir())
    for path in [*old, *folder.rglob("pruned")]:
        os.utime(path, (long_ago, long_ago))
    solo.other("s2").begin()
    assert not [path for path in old if path.exists()]
    assert len(list((folder / "git" / "refs" / "sessions").iterdir())) == 1


class TestInit:
    def test_nothing_has_to_be_committed(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        repository.commit("src.py", "x = 1\n")
        head, before = repository.head(), repository.git("status", "--porcelain")
        said = repository.ok("init", "--solo", "--hosts", "claude,codex,gemini")
        assert said["sessions"] == "on"
        assert len(said["hooks"]) == 3
        assert (repository.git("status", "--porcelain"), repository.head()) == (before, head)
        assert 'sessions = "all"' in (repository.path / "remand.toml").read_text()
        assert not (repository.path / ".mcp.json").exists(), "nobody needs tools for tasks here"
        assert repository.ok("init", "--solo", "--hosts", "claude")["sessions"] == "on", "safe to repeat"

    def test_a_file_that_the_project_tracks_is_left_alone_and_the_users_own_is_used(
        self, machine: Machine
    ) -> None:
        repository = machine.repository(config=None)
        repository.commit(".gitignore", "*.log\n")
        (repository.path / ".gemini").mkdir()
        repository.commit(".gemini/settings.json", '{"theme": "dark"}\n')
        said = repository.ok("init", "--solo", "--hosts", "gemini")
        assert said["hooks"] == [str(machine.home / ".gemini" / "settings.json")]
        assert "remand" in (machine.home / ".gemini" / "settings.json").read_text()
        assert repository.git("status", "--porcelain") == ""

    def test_it_can_be_undone(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        (repository.path / ".gemini").mkdir()
        repository.commit(".gemini/settings.json", '{"theme": "dark"}\n')
        user = machine.home / ".gemini" / "settings.json"
        user.parent.mkdir(exist_ok=True)
        user.write_text('{"theme": "light"}\n')
        exclude = repository.path / ".git" / "info" / "exclude"
        before = exclude.read_text()
        repository.ok("init", "--solo", "--hosts", "gemini")
        said = repository.ok("init", "--remove")
        assert str(user) in said["hooks"]
        assert "remand" not in user.read_text()
        assert "light" in user.read_text()
        assert exclude.read_text() == before
        (repository.path / "remand.toml").unlink()
        assert repository.ok("solo", "status")["sessions"] == "off", "the switch is cleared"

    def test_a_plain_init_after_it_has_files_that_can_be_committed(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        repository.commit("src.py", "x = 1\n")
        repository.ok("init", "--solo", "--hosts", "claude")
        repository.ok("init")
        repository.git("add", "remand.toml", ".got")
        assert "remand.toml" in repository.git("diff", "--cached", "--name-only")

    def test_a_projects_own_rules_are_kept_and_sessions_measured_by_them(self, machine: Machine) -> None:
        config = GATES.replace('sessions = "all"', 'lockout = "strict"')
        repository = machine.repository(config=config)
        (repository.path / "src").mkdir()
        repository.commit("src/a.txt", "good\n")
        repository.ok("init", "--solo", "--hosts", "claude")
        assert (repository.path / "remand.toml").read_text() == config
        solo = Solo(repository)
        solo.begin()
        solo.edit("src/a.txt", "bad\n")
        assert solo.stop()["decision"] == "block"

    def test_without_a_host_it_says_what_to_name(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        said = repository.people("init", "--solo", env={"PATH": "/usr/bin:/bin"})
        assert "--hosts claude" in said.out


WORDS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "claude": {
        "prompt": ("UserPromptSubmit", {"prompt": "Mend the roof"}),
        "pre": ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "work"}}),
        "post": (
            "PostToolUse",
            {"tool_name": "Bash", "tool_input": {"command": "work"}, "tool_response": {"stdout": ""}},
        ),
        "stop": ("Stop", {"stop_hook_active": False, "last_assistant_message": "Done."}),
    },
    "codex": {
        "prompt": ("UserPromptSubmit", {"turn_id": "t", "prompt": "Mend the roof"}),
        "pre": ("PreToolUse", {"turn_id": "t", "tool_name": "Bash", "tool_input": {"command": "work"}}),
        "post": (
            "PostToolUse",
            {
                "turn_id": "t",
                "tool_name": "Bash",
                "tool_input": {"command": "work"},
                "tool_response": "Exit code: 0",
            },
        ),
        "stop": (
            "Stop",
            {"turn_id": "t", "permission_mode": "default", "last_assistant_message": "Done.", "model": "m"},
        ),
    },
    "gemini": {
        "prompt": ("BeforeAgent", {"prompt": "Mend the roof"}),
        "pre": ("BeforeTool", {"tool_name": "run_shell_command", "tool_input": {"command": "work"}}),
        "post": (
            "AfterTool",
            {
                "tool_name": "run_shell_command",
                "tool_input": {"command": "work"},
                "tool_response": {"llmContent": "Output: (empty)"},
            },
        ),
        "stop": ("AfterAgent", {"prompt": "Mend the roof", "prompt_response": "Done."}),
    },
    "qwen": {
        "prompt": ("UserPromptSubmit", {"prompt": "Mend the roof"}),
        "pre": ("PreToolUse", {"tool_name": "run_shell_command", "tool_input": {"command": "work"}}),
        "post": (
            "PostToolUse",
            {
                "tool_name": "run_shell_command",
                "tool_input": {"command": "work"},
                "tool_response": {"llmContent": "Output: (empty)"},
            },
        ),
        "stop": ("Stop", {"last_assistant_message": "Done."}),
    },
    "copilot": {
        "prompt": ("userPromptSubmitted", {"prompt": "Mend the roof"}),
        "pre": ("preToolUse", {"toolName": "bash", "toolArgs": '{"command": "work"}'}),
        "post": (
            "postToolUse",
            {
                "toolName": "bash",
                "toolArgs": '{"command": "work"}',
                "toolResult": {"resultType": "success", "textResultForLlm": "<exited with exit code 0>"},
            },
        ),
        "stop": ("agentStop", {"stopReason": "end_turn"}),
    },
    "cursor": {
        "prompt": ("beforeSubmitPrompt", {"generation_id": "g", "prompt": "Mend the roof"}),
        "pre": (
            "preToolUse",
            {"generation_id": "g", "tool_name": "Shell", "tool_input": {"command": "work"}},
        ),
        "post": (
            "postToolUse",
            {
                "generation_id": "g",
                "tool_name": "Shell",
                "tool_input": {"command": "work"},
                "tool_output": "{}",
            },
        ),
        "stop": ("stop", {"generation_id": "g", "status": "completed", "loop_count": 0}),
    },
    "openhands": {
        "prompt": ("UserPromptSubmit", {"message": "Mend the roof"}),
        "pre": ("PreToolUse", {"tool_name": "terminal", "tool_input": {"command": "work"}}),
        "post": (
            "PostToolUse",
            {
                "tool_name": "terminal",
                "tool_input": {"command": "work"},
                "tool_response": {"exit_code": 0},
            },
        ),
        "stop": ("Stop", {"message": "Done."}),
    },
}
"""The documented words of each host for one turn."""
BLOCKS = {"gemini": "reason", "cursor": "followup_message", "openhands": "reason"}


@pytest.mark.parametrize("host", WORDS)
def test_every_host_is_sent_back_in_its_own_words(solo: Solo, host: str) -> None:
    solo.host = host
    ids = {"sessionId": "s1", "conversation_id": "s1", "working_dir": str(solo.path)}
    ids |= {"workspace_roots": [str(solo.path)]}

    def call(step: str) -> dict[str, Any]:
        name, fields = WORDS[host][step]
        return solo.answer(name, **ids, **fields)

    assert call("prompt") == {}
    assert call("pre") == {}
    (solo.path / "src" / "a.txt").write_text("bad\n")
    assert call("post") == {}
    said = call("stop")
    assert "- Tests: 1 failure (requires 100% pass)" in said[BLOCKS.get(host, "reason")]
    (row,) = solo.repository.ok("gate", "history", "--sessions")
    assert (row["host"], row["title"]) == (host, "Mend the roof")


@pytest.mark.parametrize("host", ["copilot", "openhands"])
def test_what_a_host_does_not_show_its_user_the_agent_is_asked_to_pass_on(solo: Solo, host: str) -> None:
    solo.host = host
    ids = {"sessionId": "s1", "conversation_id": "s1", "working_dir": str(solo.path)}

    def call(step: str) -> dict[str, Any]:
        name, fields = WORDS[host][step]
        return solo.answer(name, **ids, **fields)

    call("prompt")
    (solo.path / "src" / "b.txt").write_text("bad, by the user\n")
    time.sleep(0.1)  # the clock of the file system lags
    call("pre")
    (solo.path / "src" / "a.txt").write_text("good, by the session\n")
    call("post")
    assert "reason" not in call("stop")
    said = [call("prompt"), call("pre"), call("post")]
    told = [text for text in map(json.dumps, said) if "not by what this session changed" in text]
    assert len(told) == 1
