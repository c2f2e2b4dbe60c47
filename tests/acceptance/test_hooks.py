"""The stop hook as hosts call it: ours are held to their task, and everyone else is let go in silence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest

from remand.domain.hosts import HOSTS
from tests.acceptance.test_done_claims import CONFIG, Workspace
from tests.integration.machine import Machine, Said


class Session(Workspace):
    """A host's session that works on the task."""

    turn = 0

    def hook(self, event: str = "stop", *, host: str = "claude", ours: bool = True, **fields: Any) -> Said:
        """One call of the hook, each in a turn of its own unless told otherwise."""
        Session.turn += 1
        given = {"session_id": "s1", "cwd": str(self.repository.path), "prompt_id": f"p{self.turn}"} | fields
        environment = {"REMAND_TASK": self.task, "REMAND_ACTOR": "Alice"} if ours else {}
        return self.repository.machine.remand(
            self.repository.path, "hook", "--host", host, event, stdin=json.dumps(given), env=environment
        )

    def blocked(self, event: str = "stop", **fields: Any) -> str:
        """The text a call was blocked with; empty when it was let through in silence."""
        said = self.hook(event, **fields)
        assert said.code == 0, said
        answer = json.loads(said.out) if said.out else {}
        found: str = answer.get("reason", "")
        assert (answer.get("decision") == "block") == bool(found)
        return found


@pytest.fixture
def session(machine: Machine) -> Session:
    return Session(machine)


def test_a_stop_with_failing_work_is_blocked_with_the_figures_and_the_fix_lets_it_go(
    session: Session,
) -> None:
    session.commit("bad")
    assert session.blocked().startswith("REJECTED: Quality gates failed")
    session.commit("good")
    assert session.blocked() == ""
    assert session.status == "provisional"


def test_a_session_that_is_not_ours_is_let_go_in_silence(session: Session) -> None:
    session.commit("bad")
    assert session.hook(ours=False) == Said(0, "", "")
    assert session.hook(ours=False, session_id="") == Said(0, "", "")
    assert session.status == "claimed"


def test_uncommitted_changes_are_asked_for_and_not_judged(session: Session) -> None:
    session.commit("good")
    (session.repository.path / "more.txt").write_text("more", encoding="utf-8")
    told = session.blocked()
    assert "more.txt" in told
    assert "ommit" in told
    assert session.repository.ok("gate", "history", session.task) == []


def test_a_session_without_a_commit_is_sent_on_and_goes_to_a_human_when_it_never_commits(
    session: Session,
) -> None:
    told = [session.blocked() for _ in range(4)]
    assert all(told[:3])
    assert told[3] == ""
    assert session.status == "escalated"


def test_one_stop_that_fires_two_hooks_counts_once(session: Session) -> None:
    session.commit("bad")
    first = session.blocked(prompt_id="same")
    (mark,) = session.repository.machine.folder.rglob("firing*")
    later = time.time() + 600  # however long the machine takes, the second call comes at once
    os.utime(mark, (later, later))
    assert session.blocked(prompt_id="same") == first
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 1


@pytest.mark.parametrize("host", HOSTS)
def test_who_stops_on_the_same_unchanged_commit_goes_to_a_human_in_every_host(
    session: Session, host: str
) -> None:
    """Not every host tells something by which two stops differ; that they are seconds apart is made so here."""
    session.commit("bad")
    stops = 0
    while session.status == "claimed" and stops < 6:
        session.hook(host=host, prompt_id="same", sessionId="s1", conversation_id="s1")
        before = time.time() - 5
        for mark in session.repository.machine.folder.rglob("firing*"):
            lines = (f"{line.rpartition(' ')[0]} {before}\n" for line in mark.read_text().splitlines())
            mark.write_text("".join(lines))
            os.utime(mark, (before, before))
        stops += 1
    assert (session.status, stops) == ("escalated", 4)


def test_a_host_that_stops_blocking_does_not_make_the_task_done(session: Session) -> None:
    session.commit("bad")
    for _ in range(4):
        session.blocked(stop_hook_active=True)
    assert session.status == "escalated"
    assert session.blocked() == ""
    assert session.status == "escalated"


def test_work_of_the_sessions_own_in_the_background_is_not_nagged(session: Session) -> None:
    session.commit("bad")
    running = [{"id": "1", "type": "shell", "status": "running", "description": "tests"}]
    assert session.blocked(background_tasks=running) == ""
    assert session.status == "claimed"


def test_a_session_that_waits_may_stop_once(session: Session) -> None:
    session.commit("bad")
    session.repository.ok("task", "wait", session.task, "--agent", "Alice", "--for", "the key from the owner")
    assert session.blocked(prompt_id="waits") == ""
    assert session.blocked(prompt_id="waits") == ""
    assert session.status == "claimed"
    assert session.blocked().startswith("REJECTED")


def test_a_pause_of_the_users_lets_sessions_stop_and_makes_nothing_done(session: Session) -> None:
    session.commit("bad")
    inside = session.repository.call("pause", "--reason", "lunch", env={"REMAND_TASK": session.task})
    assert inside.data["refused"] == "user_only"
    session.repository.ok("pause", "--reason", "the disk is full", "--for", "10m")
    assert session.blocked() == ""
    assert session.status == "claimed"
    session.repository.ok("resume")
    assert session.blocked().startswith("REJECTED")


def test_a_linked_worktree_on_the_tasks_branch_belongs_to_it(session: Session) -> None:
    session.commit("bad")
    session.repository.git("checkout", "-q", "main")
    folder = session.repository.path.parent / "linked"
    session.repository.git("worktree", "add", "-q", str(folder), "work")
    assert session.blocked(ours=False, cwd=str(folder)).startswith("REJECTED")
    assert session.hook(ours=False) == Said(0, "", "")


def test_a_session_that_claims_a_task_itself_is_held_to_it(machine: Machine) -> None:
    session = Session(machine)
    other = session.repository.add("Paint the door")
    session.repository.ok("task", "claim", other, "--agent", "Bob")
    ran = {
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": f"remand task claim {other} --agent Bob"},
        "tool_response": {"stdout": json.dumps({"task_id": other}), "stderr": "", "interrupted": False},
    }
    session.hook("post_tool", ours=False, session_id="s9", **ran)
    session.repository.git("switch", "-qc", "door")
    session.commit("bad")
    assert session.blocked(ours=False, session_id="s9").startswith("REJECTED")
    assert session.hook(ours=False, session_id="s8") == Said(0, "", "")


@pytest.mark.parametrize("is_text", [True, False])
def test_a_session_that_claims_a_task_over_mcp_is_held_to_it(machine: Machine, is_text: bool) -> None:
    session = Session(machine)
    other, named = session.repository.add("Paint the door"), session.task
    session.repository.ok("task", "claim", other, "--agent", "Bob")
    told = json.dumps({"task_id": other, "prompt": f"## Task\n\nIt goes on after {named}."}, indent=2)
    ran = {
        "tool_name": "mcp__remand__next_task",
        "tool_use_id": "t1",
        "tool_input": {},
        "tool_response": told if is_text else [{"type": "text", "text": told}],
    }
    session.hook("post_tool", ours=False, session_id="s9", **ran)
    session.repository.git("switch", "-qc", "door")
    session.commit("bad")
    assert session.blocked(ours=False, session_id="s9").startswith("REJECTED")
    assert session.repository.ok("task", "show", other)["gate_rejection_count"] == 1, "not the one it names"
    session.hook("post_tool", ours=False, session_id="s8", **ran | {"tool_name": "mcp__other__next_task"})
    assert session.hook(ours=False, session_id="s8") == Said(0, "", "")


@pytest.mark.parametrize(
    "path", ["remand.toml", ".got/events/x.jsonl", ".claude/settings.json", ".git/config"]
)
def test_what_steers_the_judgement_is_not_an_agents_to_change(session: Session, path: str) -> None:
    edit = {
        "tool_name": "Edit",
        "tool_use_id": "t",
        "tool_input": {"file_path": str(session.repository.path / path)},
    }
    said = json.loads(session.hook("pre_tool", **edit).out)
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
    shell = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": f"rm -f {path}"}}
    assert "deny" in session.hook("pre_tool", **shell).out
    other = {
        "tool_name": "Edit",
        "tool_use_id": "t",
        "tool_input": {"file_path": str(session.repository.path / "a")},
    }
    assert session.hook("pre_tool", **other).out == ""


def test_a_locked_out_agents_tools_are_refused(session: Session) -> None:
    session.commit("good")
    assert session.blocked() == ""
    session.repository.ok(
        *(
            "review",
            "reject",
            session.task,
            "--reviewer",
            "Lead",
            "--commit",
            "HEAD",
            "--finding",
            "work.txt:1: no",
        )
    )
    edit = {"tool_name": "Edit", "tool_use_id": "t", "tool_input": {"file_path": "work.txt"}}
    said = session.hook("pre_tool", **edit)
    assert "longer work on task" in said.out


def test_feedback_is_there_when_a_session_starts_and_once_for_each_piece_of_news(session: Session) -> None:
    started = json.loads(session.hook("session_start", source="startup").out)
    assert "Mend the roof" in started["hookSpecificOutput"]["additionalContext"]
    assert session.hook("prompt", prompt="go on").out == ""
    session.commit("bad")
    session.blocked()
    assert "additionalContext" in session.hook("prompt", prompt="go on").out
    assert session.hook("prompt", prompt="go on").out == ""


@pytest.mark.parametrize("next_prompt", ["slow", "later"])
def test_gates_that_outlast_the_host_go_on_and_are_not_counted_twice(
    machine: Machine, next_prompt: str
) -> None:
    slow = CONFIG.replace(
        '["grep", "-q", "good", "work.txt"]', '["sh", "-c", "sleep 3; grep -q good work.txt"]'
    )
    session = Session(machine, slow)
    session.commit("bad")
    given = json.dumps({"session_id": "s1", "cwd": str(session.repository.path), "prompt_id": "slow"})
    ours = {"REMAND_TASK": session.task, "REMAND_ACTOR": "Alice"}
    words = ("hook", "--host", "claude", "stop")
    hasty = ours | {"REMAND_HOOK_DEADLINE": "1"}
    said = machine.remand(session.repository.path, *words, stdin=given, env=hasty)
    assert "still running" in json.loads(said.out)["reason"]
    waited = session.repository.call("gate", "wait", session.task)
    assert waited.data["status"] == "failed"
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 1
    later = given.replace('"slow"', f'"{next_prompt}"')
    again = machine.remand(session.repository.path, *words, stdin=later, env=ours)
    assert json.loads(again.out)["reason"].startswith("REJECTED")
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 1
    assert session.blocked().startswith("REJECTED")
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 2


def test_the_probe_of_the_doctor_is_blocked_without_a_ledger(session: Session) -> None:
    said = session.repository.machine.remand(
        session.repository.path, "hook", "--host", "codex", "stop", stdin="{}", env={"REMAND_HOOK_PROBE": "1"}
    )
    assert json.loads(said.out)["reason"] == "remand hook probe"


def test_a_failure_of_the_hooks_own_is_a_no(session: Session) -> None:
    session.repository.git("checkout", "-q", "main")
    session.commit("foo = [", "remand.toml")
    session.repository.git("checkout", "-q", "work")
    session.commit("bad")
    assert "could not decide" in session.blocked()


def test_a_session_that_went_elsewhere_is_still_held_to_its_task(session: Session) -> None:
    session.commit("bad")
    assert session.blocked(cwd="/tmp").startswith("REJECTED")


def test_what_a_command_prints_does_not_bind_a_session_to_another_task(session: Session) -> None:
    other = session.repository.add("Paint the door")
    session.repository.ok("task", "claim", other, "--agent", "Bob")

    def ran(command: str, output: str) -> dict[str, Any]:
        answered = {"stdout": output, "stderr": "", "interrupted": False}
        return {
            "tool_name": "Bash",
            "tool_use_id": command,
            "tool_input": {"command": command},
            "tool_response": answered,
        }

    bound: dict[str, Any] = {"ours": False, "session_id": "s7"}
    session.hook("post_tool", **bound, **ran(f"remand task claim {other} --agent Bob", other))
    session.repository.git("switch", "-qc", "door")
    session.commit("bad")
    fake = "T-20200101-000000-aaaaaaaa"
    session.hook("post_tool", **bound, **ran(f"echo remand task claim {fake} --agent Zed", fake))
    assert session.blocked(**bound).startswith("REJECTED")


def test_a_stop_on_a_commit_that_was_there_before_is_sent_on(session: Session) -> None:
    session.repository.git("checkout", "-q", "main")
    session.commit("other")
    session.repository.git("checkout", "-q", "-B", "work", "main~1")
    assert session.blocked() != ""
    assert session.status == "claimed"


def test_a_coordinator_that_knows_no_verdict_yet_does_not_let_a_session_go(session: Session) -> None:
    session.repository.start_coordinator()
    session.commit("bad")
    assert session.blocked().startswith("REJECTED")
    assert session.blocked().startswith("REJECTED")
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 2


def test_a_ledger_that_was_deleted_lets_no_session_go_unheard(session: Session) -> None:
    session.commit("bad")
    shutil.rmtree(session.repository.path / ".got")
    told = [session.blocked() for _ in range(4)]
    assert all("ledger" in text for text in told[:3])
    assert told[3] == ""


def test_a_pause_that_nobody_sealed_is_none(session: Session) -> None:
    session.commit("bad")
    for folder in session.repository.machine.state.glob("remand/*/gates"):
        (folder / "paused").write_text("9999-01-01T00:00:00.000000Z\nuser\nlunch\n", encoding="utf-8")
    assert session.blocked().startswith("REJECTED")


@pytest.mark.parametrize("event", ["subagent_stop", "task_completed"])
def test_only_the_sessions_own_stop_is_a_done_claim(session: Session, event: str) -> None:
    session.commit("good")
    said = session.hook(event, agent_id="sub", agent_type="Explore", task_subject="read the code")
    assert said.code == 0
    assert session.status == "claimed"
    assert session.repository.ok("gate", "history", session.task) == []


def test_an_item_of_the_hosts_own_list_is_told_what_is_known_and_counts_nothing(session: Session) -> None:
    session.commit("bad")
    session.blocked()
    said = session.hook("task_completed", task_subject="mend the roof")
    assert said.code == 2
    assert said.err.startswith("REJECTED")
    assert session.repository.ok("task", "show", session.task)["gate_rejection_count"] == 1


def test_freshly_installed_hooks_are_nobodys_unfinished_work(session: Session) -> None:
    session.repository.ok("init", "--hosts", "claude,cursor")
    session.commit("good")
    assert session.blocked() == ""
    assert session.status == "provisional"


def test_where_nothing_is_enforced_no_session_is_sent_back(machine: Machine) -> None:
    session = Session(machine, CONFIG.replace("[policy]", "[policy]\nenforce = false"))
    assert session.blocked() == ""
    session.commit("bad")
    (session.repository.path / "more.txt").write_text("more", encoding="utf-8")
    assert session.blocked() == ""
    edit = {"tool_name": "Edit", "tool_use_id": "t", "tool_input": {"file_path": "remand.toml"}}
    assert "deny" not in session.hook("pre_tool", **edit).out


def test_a_stop_at_a_tree_that_was_rejected_before_counts_again_and_asks_git_once(session: Session) -> None:
    session.commit("bad")
    assert session.blocked()
    machine = session.repository.machine
    called, programs = machine.folder / "called", machine.folder / "programs"
    programs.mkdir()
    script = f'#!/bin/sh\necho "$*" >> {called}\nexec {shutil.which("git")} "$@"\n'
    (programs / "git").write_text(script, encoding="utf-8")
    (programs / "git").chmod(0o755)
    machine.environment["PATH"] = f"{programs}{os.pathsep}{machine.environment['PATH']}"

    told = session.blocked()

    assert "Attempt 2" in told
    assert [
        line.split("core.commitGraph=false ")[1].split()[0] for line in called.read_text().splitlines()
    ] == ["status"]
    history = session.repository.ok("gate", "history", session.task)
    assert [one["event"] for one in history].count("gate.reject") == 2


def test_a_stop_loads_nothing_that_it_does_not_need(session: Session) -> None:
    session.commit("bad")
    assert session.blocked()
    heavy = "{'typing_extensions', 'inspect', 'pathlib', 'urllib.parse', 'remand.app.prompts'}"
    code = f"import sys; from remand.interfaces.cli import entry; entry.run(sys.argv[1:]); print({heavy} & {{name for name, module in sys.modules.items() if type(module) is type(sys)}})"
    machine = session.repository.machine
    given = {"session_id": "s1", "cwd": str(session.repository.path), "prompt_id": "light"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "hook", "--host", "claude", "stop"],
        env=machine.environment | {"REMAND_TASK": session.task, "REMAND_ACTOR": "Alice"},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )

    assert "REJECTED" in done.stdout
    assert done.stdout.endswith("set()\n"), done


@pytest.mark.parametrize("name", [".qwen/settings.json", ".claude/settings.local.json", "remand.toml"])
def test_no_session_is_sent_back_for_a_file_that_it_may_not_touch(session: Session, name: str) -> None:
    file = session.repository.path / name
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        session.repository.commit(name, "{}\n")
    before = file.read_text(encoding="utf-8")
    session.commit("good")
    file.write_text(f"{before}\n", encoding="utf-8")
    assert session.blocked() == ""
    assert session.status == "provisional"
