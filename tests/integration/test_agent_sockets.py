"""Agents speak through their sockets to a real ledger: as themselves, about their own task, and never further."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.coordinator import protocol
from remand.wiring.startup import CoordinatorUnavailable
from tests.integration.agent_sockets import Agent, Yard, put_in_the_way
from tests.integration.machine import PATIENCE, Machine, Said, wait_for


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    """One repository for all: what one agent does is none of another's business, which is the point."""
    machine = Machine(is_near=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in machine.environment.items():
            patch.setenv(name, value)
        made = Yard(machine)
        yield made
        made.close()
    machine.close()


@pytest.fixture
def alice(yard: Yard) -> Agent:
    return yard.agent("Alice")


def hook(agent: Agent, event: str = "stop", *, host: str = "claude", **fields: Any) -> Said:
    """One call of a host's hook, through the client."""
    payload = {"session_id": "s1", "cwd": "/", "prompt_id": os.urandom(4).hex()} | fields
    return agent.remand("hook", "--host", host, event, stdin=json.dumps(payload))


def blocked(said: Said) -> str:
    """The text a stop was blocked with; empty when it was let go."""
    assert said.code == 0, said
    return str(json.loads(said.out).get("reason", "")) if said.out else ""


def test_an_agents_whole_day_goes_through_its_socket(alice: Agent) -> None:
    assert alice.remand("whoami", "--json").data["name"] == "Alice"
    assert alice.task in alice.remand("task", "prompt", alice.task).out
    assert alice.remand("task", "heartbeat", alice.task, "--json").data["status"] == "claimed"
    alice.commit("bad")
    said = alice.remand("task", "submit", alice.task, "--commit", "HEAD", "--json")
    assert said.data["refused"] == "gate_rejected"
    tip = alice.commit("good")
    said = alice.remand("task", "submit", alice.task, "--commit", tip[:10], "--json")
    assert said.data["status"] == "provisional"
    assert alice.story["submission"]["commit"] == tip
    assert alice.story["submission"]["agent"] == "Alice"


def test_a_handoff_is_completed_by_its_id(alice: Agent) -> None:
    alice.commit("good")
    handoff = alice.handoff
    assert alice.remand("handoff", "status", handoff, "--json").data["handoff_id"] == handoff
    assert alice.says("--json", "handoff", "complete", "--commit=HEAD", "--", handoff).code == 0
    assert alice.story["status"] == "provisional"


NAMES = [
    ("--as", "Bob", "task", "heartbeat", "{task}"),
    ("--as=owner", "why", "Bob"),
    ("task", "heartbeat", "{task}", "--agent", "Bob"),
    ("task", "fail", "{task}", "--agent=owner"),
    ("review", "approve", "{task}", "--commit", "HEAD", "--reviewer", "Lead"),
    ("handoff", "reject", "{handoff}", "--agent", "Bob", "--reason", "BLOCKER"),
    ("escalate", "{task}", "--reason", "x", "--agent", "user"),
    ("-C", "/", "task", "list"),
    ("-C", "{root}", "task", "list"),
    ("-C", "..", "task", "list"),
    ("task", "claim"),
    ("task", "submit", "{task}", "--commit", "HEAD", "--branch", "main"),
]
USERS = [
    *(("init",), ("keys",), ("keys", "trust", "x"), ("pause", "--reason", "x"), ("resume",), ("doctor",)),
    *(("serve", "--no-http"), ("sync",), ("demo",), ("simulate",), ("notify",), ("journal", "{task}")),
    *(("log", "import", "/"), ("log", "rebuild"), ("log", "publish"), ("log", "verify")),
    *(("--as=owner", "unlock", "Bob", "--task", "{task}", "--reason", "x"), ("run",)),
    *(("unlock", "Alice", "--task", "{task}", "--reason", "x"), ("inbox", "answer", "E", "1")),
    *(("gate", "override", "{task}", "--gate", "words", "--reason", "x"), ("gate", "run")),
    *(("gate", "accept", "{task}", "x"), ("task", "add", "x"), ("task", "edit", "{task}", "--title", "x")),
    *(("task", "cancel", "{task}"), ("task", "reopen", "{task}"), ("reassign", "{task}", "--to", "Bob")),
    *(("handoff", "initiate", "{task}", "--to", "Bob"), ("handoff", "consult", "{handoff}")),
    *(("hook", "relay", "{{}}"), ("say", "unlock Alice"), ("graph", "export"), ("completion", "bash")),
]


def test_nothing_but_its_own_is_an_agents_to_do(yard: Yard, alice: Agent) -> None:
    alice.commit("good")
    named = {"task": alice.task, "handoff": alice.handoff, "root": str(yard.repository.path)}
    before = yard.repository.digest()
    for calls, code in ((NAMES, "not_yours"), (USERS, "user_only")):
        for call in calls:
            words = [word.format(**named) for word in call]
            assert alice.refused(*words) == code, words
    assert yard.repository.digest() == before


def test_what_the_environment_says_makes_nobody_another(yard: Yard, alice: Agent) -> None:
    bob = yard.agent("Bob")
    env = {"REMAND_ACTOR": "Bob", "REMAND_TASK": bob.task}
    assert alice.remand("whoami", "--json", env=env).data["name"] == "Alice"
    assert alice.says("--json", "whoami", settings=("owner", "")).data["task"] == alice.task
    assert alice.remand("task", "heartbeat", bob.task, "--json", env=env).data["refused"] == "not_yours"


def test_another_task_of_the_same_agent_is_another_sockets(yard: Yard, alice: Agent) -> None:
    other = yard.agent("Alice")
    other.commit("good")
    alias, handoff = other.story["aliases"][0], other.handoff
    before = yard.repository.digest()
    for name in (other.task, alias, "T-none"):
        for command in ("heartbeat", "release", "fail", "continue"):
            assert alice.refused("task", command, name) in ("not_yours", "unknown_task")
        assert alice.refused("task", "submit", name, "--commit", "HEAD") in ("not_yours", "unknown_task")
    for command in ("complete", "reject", "accept"):
        options = ("--commit", "HEAD") if command == "complete" else ()
        assert alice.refused("handoff", command, handoff, *options) == "not_yours"
    assert yard.repository.digest() == before
    assert other.refused("task", "submit", alias, "--commit", "HEAD", "--agent", "Bob") == "not_yours"
    assert other.says("--json", "task", "submit", alias, "--commit", "HEAD").data["status"] == "provisional"


def test_only_the_tip_of_its_own_branch_is_handed_in(yard: Yard, alice: Agent) -> None:
    bob = yard.agent("Bob")
    theirs = bob.commit("good")
    assert bob.says("--json", "task", "submit", bob.task, "--commit", "HEAD").code == 0
    alice.commit("bad")
    for name in (theirs, bob.story["branch"], "main", "HEAD~1", f"{theirs}^{{commit}}", "--all"):
        assert alice.refused("task", "submit", alice.task, f"--commit={name}") == "unknown_commit"
    assert alice.story["gate_rejection_count"] == 0


def test_files_are_read_by_the_agent_and_by_nobody_else(yard: Yard, alice: Agent) -> None:
    secret = yard.machine.home / "secret"
    secret.write_text(json.dumps({"reason_type": "BLOCKER", "reason_summary": "the crown jewels"}))
    (alice.folder / "reason.txt").write_text("@mentions come first, then the rest")
    said = alice.remand("task", "wait", alice.task, "--for", "@reason.txt", "--json")
    assert said.code == 0, said
    assert alice.story["waiting_for"] == "@mentions come first, then the rest"
    other = yard.agent("Bob")
    for command in ("--for", "--for="):
        value = f"@{secret}"
        words = (command, value) if command == "--for" else (f"{command}{value}",)
        assert other.says("--json", "task", "wait", other.task, *words).code in (0, 1)
    for source in (str(secret), f"@{secret}", "/etc/passwd", "-"):
        said = other.says("--json", "handoff", "reject", other.handoff, "--from", source)
        assert said.data["error"] == "usage", said
    missing = other.remand("task", "fail", other.task, "--reason", "@nowhere", "--json")
    assert (missing.code, missing.data["error"]) == (2, "usage")
    log = b"\n".join(yard.repository.lines())
    assert b"crown jewels" not in log
    assert b"@~/secret" in log, "what is no file any more is text, and names no folder of the machine"


@pytest.mark.parametrize("way", ["file", "option", "input"])
def test_a_whole_record_comes_along_however_large(yard: Yard, way: str) -> None:
    alice = yard.agent("Alice")
    record = {
        "reason_type": "BLOCKER",
        "reason_summary": "The key is missing",
        "reason_detail": "There is no key. " * 20_000,
    }
    (alice.folder / "record.json").write_text(json.dumps(record))
    source = {"file": ("--from", "record.json"), "option": ("--from=@record.json",), "input": ("--from", "-")}
    said = alice.remand(
        *("handoff", "reject", alice.handoff, "--json", *source[way]), stdin=json.dumps(record)
    )
    assert said.data["refused"] == "invalid_rejection", said
    assert alice.story["rejections"], "it was filed"


def test_nobody_uses_up_the_key_of_another(yard: Yard, alice: Agent) -> None:
    bob = yard.agent("Bob")
    for agent in (alice, bob):
        assert agent.says("--json", "--key", "run-1", "task", "wait", agent.task, "--for", "rain").code == 0
    yard.repository.ok("--key", "run-1", "task", "add", "The user's own")
    said = alice.says("--json", "--key", "run-1", "task", "release", alice.task)
    assert said.data["refused"] == "key_reused", "within a run a key is a key"


def test_a_stop_is_judged_by_what_is_found_in_the_worktree(alice: Agent) -> None:
    told = blocked(hook(alice))
    assert "it has no commit yet" in told
    assert "the MCP tool `reject_task`" in told
    alice.commit("bad")
    assert blocked(hook(alice)).startswith("REJECTED: Quality gates failed")
    (alice.folder / "work.txt").write_text("good")
    assert "- work.txt" in blocked(hook(alice))
    alice.commit("good")
    assert blocked(hook(alice)) == ""
    assert alice.story["status"] == "provisional"


def test_a_hook_is_about_the_sockets_task_whatever_it_says(yard: Yard, alice: Agent) -> None:
    bob = yard.agent("Bob")
    bob.commit("good")
    env = {"REMAND_TASK": bob.task, "REMAND_ACTOR": "Bob"}
    payload = json.dumps({"session_id": "s1", "cwd": str(bob.folder), "prompt_id": "p"})
    said = alice.remand("hook", "--host", "claude", "-C", str(bob.folder), "stop", stdin=payload, env=env)
    assert alice.task in blocked(said)
    assert bob.story["status"] == "claimed"
    ran = {"tool_name": "Bash", "tool_input": {"command": "remand task claim"}, "tool_response": {}}
    assert hook(alice, "post_tool", **ran, transcript_path="/etc/passwd").out == ""
    (run,) = yard.repository.ok("journal", alice.task)["runs"]
    assert (run["agent"], run["transcript"]) == ("Alice", "")
    assert yard.repository.ok("journal", bob.task)["runs"] == []


def test_before_a_tool_files_are_guarded_in_the_worktree(alice: Agent) -> None:
    def edit(path: str) -> str:
        return hook(alice, "pre_tool", tool_name="Edit", tool_input={"file_path": path}).out

    assert "deny" in edit(str(alice.folder / "remand.toml"))
    assert "deny" in edit("remand.toml")
    assert edit(str(alice.folder / "work.txt")) == ""
    command = f"remand review reject {alice.task} --commit x"
    allowed = hook(alice, "pre_tool", tool_name="Bash", tool_input={"command": command})
    assert allowed.out == "", "what an agent may call is for its socket to say"


def test_commits_that_cannot_be_taken_over_are_said_to_be(yard: Yard, alice: Agent) -> None:
    alice.commit("good")
    yard.fault = "An object is broken."
    try:
        assert "An object is broken." in blocked(hook(alice))
        said = alice.says("--json", "task", "submit", alice.task, "--commit", "HEAD")
    finally:
        yard.fault = ""
    assert (said.code, said.data["error"]) == (3, "environment")
    assert alice.story["status"] == "claimed"


def test_a_reviewer_has_a_say_through_its_own_socket(yard: Yard, alice: Agent) -> None:
    alice.commit("good")
    assert alice.says("--json", "task", "submit", alice.task, "--commit", "HEAD").code == 0
    lead = yard.agent("Lead", alice.task)
    commit = lead.says("--json", "review", "diff", alice.task).data["commit"]
    rejecting = ("review", "reject", alice.task, "--commit", commit, "--finding", "work.txt:1: no")
    assert alice.refused(*rejecting) == "not_authorised"
    assert lead.refused(*rejecting, "--reviewer", "owner") == "not_yours"
    assert lead.refused("review", "approve", alice.task, "--commit", "main") == "unknown_commit"
    assert lead.says("--json", *rejecting).data["locked_out"] == ["Alice"]
    edit = hook(alice, "pre_tool", tool_name="Edit", tool_input={"file_path": "work.txt"})
    assert "longer work on task" in edit.out


def test_nothing_that_an_agent_puts_in_the_way_is_run_or_read(yard: Yard, tmp_path: Path) -> None:
    alice = yard.agent("Alice")
    canary = tmp_path / "canary"
    tip = alice.commit("good")
    yard.repository.git("fetch", "-q", str(alice.folder / ".git"), f"HEAD:refs/heads/{alice.story['branch']}")
    put_in_the_way(alice.folder, canary)
    before = yard.repository.written().keys()
    alice.yard.sockets._answering._import_commits = lambda _: tip  # type: ignore[attr-defined]
    try:
        for words in (
            ("log", "tail"),
            ("task", "show", alice.task),
            ("gate", "history", alice.task),
            ("task", "submit", alice.task, "--commit", "HEAD"),
        ):
            said = alice.says("--json", *words, folder=str(alice.folder))
            assert said.code == 0, (words, said)
        assert alice.says("hook", "--host", "claude", "session_start", given=b"{}").code == 0
        shutil.rmtree(alice.folder)
        assert alice.says("--json", "task", "show", alice.task).code == 0
    finally:
        alice.yard.sockets._answering._import_commits = yard._import_commits  # type: ignore[attr-defined]
    assert not canary.exists(), canary.read_text()
    assert alice.story["status"] == "provisional"
    new = [event["meta"]["actor"] for name, event in yard.repository.written().items() if name not in before]
    assert set(new) <= {"Alice", "coordinator"}
    assert new


def test_a_call_under_way_when_the_run_ends_is_finished(yard: Yard, alice: Agent) -> None:
    alice.commit("slow and good")
    bob = yard.agent("Bob")
    heard: list[Said] = []
    words = ("task", "submit", alice.task, "--commit", "HEAD", "--json")
    thread = threading.Thread(target=lambda: heard.append(alice.remand(*words)))
    thread.start()
    wait_for(lambda: outside_processes(alice), "the call")
    yard.sockets.close(alice.run_id)
    assert bob.says("--json", "task", "heartbeat", bob.task).code == 0
    with pytest.raises(CoordinatorUnavailable):
        alice.says("task", "list")
    thread.join()
    assert heard[0].data["status"] == "provisional"


def outside_processes(agent: Agent) -> set[Any]:
    """What runs for an agent outside."""
    found: set[Any] = agent.yard.sockets._answering._outside._children._processes.get(agent.run_id, set())  # type: ignore[attr-defined]
    return found


def test_a_closed_socket_is_said_to_be_closed(yard: Yard, alice: Agent) -> None:
    yard.sockets.close(alice.run_id)
    said = alice.remand("task", "list", "--json")
    assert (said.code, said.data["error"]) == (3, "environment")
    assert "closed" in said.data["message"]
    assert "closed" in alice.remand("task", "list").err
    assert "closed" in blocked(hook(alice))
    assert hook(alice, "post_tool", tool_name="Bash", tool_input={"command": "ls"}).code == 0


def test_help_needs_no_socket(yard: Yard, alice: Agent) -> None:
    yard.sockets.close(alice.run_id)
    assert "--commit" in alice.remand("task", "submit", "--help").out
    assert alice.remand("--version").code == 0


@pytest.mark.parametrize(
    "answer", [b"", b"\xff\xff\xff\xff", protocol.pack(protocol.ANSWER, b""), b"HTTP/1.1 200"]
)
def test_a_socket_of_another_kind_gains_nothing(yard: Yard, tmp_path: Path, answer: bytes) -> None:
    path = str(yard.machine.folder / f"s{os.urandom(3).hex()}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def speak() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        said = yard.machine.remand(yard.repository.path, "task", "list", env={"REMAND_SOCKET": path})
        thread.join()
    assert said.code == 3
    assert "Traceback" not in said.err


def test_an_agents_side_loads_next_to_nothing(alice: Agent) -> None:
    script = (
        "import sys; from remand.interfaces.cli import entry; code = entry.run(sys.argv[1:]);"
        "print(code, sorted({'msgspec', 'argparse', 'json', 'apsw', 'subprocess', 'socket'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "task", "heartbeat", alice.task],
        env=alice.yard.machine.environment | {"REMAND_SOCKET": alice.agent_socket},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []", done


class TestWithoutACoordinator:
    """What a coordinator would do is done by processes of our own, and ended with the sockets."""

    @pytest.fixture
    def yard(self, near_machine: Machine) -> Iterator[Yard]:
        made = Yard(near_machine, has_coordinator=False)
        yield made
        made.close()

    def test_it_is_the_same_but_slower(self, yard: Yard) -> None:
        alice = yard.agent("Alice")
        assert alice.refused("task", "heartbeat", alice.task, "--agent", "Bob") == "not_yours"
        assert alice.says("--json", "task", "heartbeat", "#1001").data["task_id"] == alice.task
        alice.commit("bad")
        assert blocked(hook(alice)).startswith("REJECTED")

    def test_a_failure_of_our_own_is_a_no_a_few_times(self, yard: Yard) -> None:
        alice = yard.agent("Alice")
        alice.commit("good")
        yard.repository.commit("remand.toml", "foo = [")
        told = [blocked(hook(alice)) for _ in range(4)]
        assert all("could not decide" in text and "remand.toml" in text for text in told[:3])
        assert told[3] == ""

    def test_in_the_end_nothing_goes_on(self, yard: Yard) -> None:
        alice = yard.agent("Alice")
        alice.commit("endless and good")
        words = ("--json", "task", "submit", alice.task, "--commit", "HEAD")
        heard: list[object] = []

        def submit() -> None:
            try:
                heard.append(alice.says(*words))
            except CoordinatorUnavailable as lost:
                heard.append(lost)

        thread = threading.Thread(target=submit)
        thread.start()
        process = next(iter(wait_for(lambda: outside_processes(alice), "the call")))
        yard.sockets.end(0.2)
        thread.join()
        assert isinstance(heard[0], CoordinatorUnavailable)
        assert process.wait(PATIENCE) == -signal.SIGKILL
        assert alice.story["status"] == "claimed"
