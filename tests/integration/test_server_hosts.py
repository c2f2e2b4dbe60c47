"""A team's server and its hosts, which share no disk: the same rules, text and exit codes as with a ledger of one's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from remand.adapters.git.location import find_place
from remand.adapters.stores.sqlite import SqliteStore
from remand.interfaces.hook.session import open_session_ledger
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import REMAND, Machine, Repository, Said
from tests.integration.mcp_team import Member
from tests.integration.server_hosts import ServerHost, user_token

TEAM = """
[team]
members = [{name = "Ann", role = "agent"}, {name = "Bob", role = "agent"}, {name = "Lead", role = "lead"}]
[gates.tests]
command = ["sh", "-c", "! grep -q broken *.txt"]
parser = "exit"
[gates.integrity]
enabled = false
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Repository]:
    machine = Machine()
    yield machine.repository(config=TEAM)
    machine.close()


@pytest.fixture(scope="module")
def server(place: Repository) -> Iterator[RunningServer]:
    with run_server(place) as started:
        yield started


@pytest.fixture
def host(server: RunningServer, place: Repository) -> Iterator[ServerHost]:
    made = ServerHost(place.path, server.address["url"], user_token(place))
    yield made
    made.close()


def test_a_host_reads_and_changes_the_servers_ledger_and_has_none_itself(
    host: ServerHost, place: Repository
) -> None:
    task = host.call("task", "add", "from afar").data["task_id"]
    assert host.call("task", "show", task).data == place.ok("task", "show", task)
    plain = host.machine.remand(host.clone.path, "task", "list")
    assert plain.out == place.machine.remand(place.path, "task", "list").out
    refused = host.call("task", "claim", task, "--agent", "Nobody Known")
    assert (refused.code, "refused" in refused.data) == (1, True)
    assert not (host.clone.path / ".got").exists()


def test_a_commit_that_the_remote_does_not_take_is_uploaded_and_measured_on_the_server(
    host: ServerHost, place: Repository
) -> None:
    host.machine.git(host.clone.path, "remote", "set-url", "--push", "origin", "/nowhere")
    task = host.call("task", "add", "work").data["task_id"]
    host.call("task", "claim", task, "--agent", "Ann")
    broken = host.commit("work", "a.txt", "broken\n")
    rejected = host.call("task", "submit", task, "--agent", "Ann", "--commit", "HEAD")
    assert (rejected.code, rejected.data["refused"]) == (1, "gate_rejected"), rejected
    good = host.commit("work", "a.txt", "sound\n")
    submitted = host.call("task", "submit", task, "--agent", "Ann", "--commit", "HEAD")
    assert (submitted.code, submitted.data["status"]) == (0, "provisional"), submitted
    verdicts = place.ok("gate", "history", task)
    assert [one["commit"] for one in verdicts] == [broken, good]
    assert {one["base"] for one in verdicts} == {place.head("main")}
    assert place.ok("task", "show", task)["branch"] == "work"
    found = place.machine.git(place.path, "rev-parse", f"refs/remand/submitted/{task}")
    assert found.strip() == good
    assert "+sound" in host.machine.remand(host.clone.path, "review", "diff", task).out
    approved = host.call("review", "approve", task, "--reviewer", "Lead", "--commit", "HEAD")
    assert approved.data["status"] == "done", approved


def test_a_commit_goes_through_the_projects_remote_where_it_may(host: ServerHost, place: Repository) -> None:
    task = host.call("task", "add", "pushed").data["task_id"]
    host.call("task", "claim", task, "--agent", "Ann")
    commit = host.commit("pushed", "b.txt")
    assert host.call("task", "submit", task, "--agent", "Ann", "--commit", commit).code == 0
    # The clone's remote is the server's own repository here: the push itself has brought it.
    found = place.machine.git(place.path, "rev-parse", f"refs/remand/submitted/{task}")
    assert found.strip() == commit


def test_a_stop_on_a_host_is_measured_by_the_server(host: ServerHost, place: Repository) -> None:
    task = host.call("task", "add", "stops").data["task_id"]
    host.call("task", "claim", task, "--agent", "Bob")
    idle = host.stop(task, "Bob")
    assert json.loads(idle.out)["decision"] == "block", idle
    host.commit("stops", "c.txt", "broken\n")
    rejected = json.loads(host.stop(task, "Bob").out)
    assert "REJECTED: Quality gates failed" in rejected["reason"]
    host.commit("stops", "c.txt", "sound\n")
    passed = host.stop(task, "Bob")
    assert '"block"' not in passed.out, passed
    assert place.ok("task", "show", task)["status"] == "provisional"


def test_a_stop_is_blocked_with_the_reason_while_the_server_is_away(host: ServerHost) -> None:
    task = host.call("task", "add", "alone").data["task_id"]
    host.call("task", "claim", task, "--agent", "Ann")
    host.machine.environment |= {"REMAND_SERVER": "http://127.0.0.1:9", "REMAND_SERVER_WAIT": "0"}
    answers = [json.loads(host.stop(task, "Ann").out) for _ in range(5)]
    blocked = [one for one in answers if one.get("decision") == "block"]
    assert 1 <= len(blocked) < 5
    assert "the server cannot be reached" in blocked[0]["reason"]


def test_a_claim_by_a_tool_of_a_session_is_noted_by_the_servers_word(host: ServerHost) -> None:
    task = host.call("task", "add", "claimed in a session").data["task_id"]
    claimed = host.call("task", "claim", task, "--agent", "Ann")
    used = {
        "session_id": "s-9",
        "cwd": str(host.clone.path),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"remand task claim {task} --agent Ann"},
        "tool_response": {"stdout": claimed.out},
    }
    call = ("hook", "--host", "claude", "PostToolUse")
    noted = host.machine.remand(host.clone.path, *call, stdin=json.dumps(used))
    assert noted.code == 0, noted
    stop = {"session_id": "s-9", "cwd": str(host.clone.path), "hook_event_name": "Stop"}
    answer = host.machine.remand(host.clone.path, "hook", "--host", "claude", "Stop", stdin=json.dumps(stop))
    assert json.loads(answer.out)["decision"] == "block", answer
    assert task in answer.out or "commit" in answer.out


def test_a_claim_whose_hook_met_an_absent_server_is_noted_by_the_next_hook(host: ServerHost) -> None:
    task = host.call("task", "add", "claimed while the server went away").data["task_id"]
    claimed = host.call("task", "claim", task, "--agent", "Ann")
    session = {"session_id": "s-10", "cwd": str(host.clone.path)}
    tool = {"tool_name": "Bash", "tool_input": {"command": f"remand task claim {task} --agent Ann"}}
    used = session | tool | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": claimed.out}}
    away = {"REMAND_SERVER": "http://127.0.0.1:1", "REMAND_SERVER_WAIT": "0"}

    def hook(event: str, payload: dict[str, object], env: dict[str, str]) -> Said:
        call = ("hook", "--host", "claude", event)
        return host.machine.remand(host.clone.path, *call, stdin=json.dumps(payload), env=env)

    hook("PostToolUse", used, away)
    stop = session | {"hook_event_name": "Stop"}
    assert "the server cannot be reached" in json.loads(hook("Stop", stop, away).out)["reason"], (
        "it may have a task"
    )
    answer = hook("Stop", stop, {})
    assert json.loads(answer.out)["decision"] == "block", answer
    assert "commit" in answer.out

    other = used | {"session_id": "s-11", "tool_response": {"stdout": "refused"}}
    other["tool_input"] = {"command": "remand task claim T-20260101-000000-abcd --agent Zed"}
    hook("PostToolUse", other, away)
    assert hook("Stop", stop | {"session_id": "s-11"}, {}).out == "", "nothing was claimed"


class Relay:
    """Hook calls as a client may word them, by the token of a member or host."""

    def __init__(self, server: RunningServer, token: str) -> None:
        self.server, self.token = server, token

    def __call__(self, **words: object) -> dict[str, str]:
        usual: dict[str, object] = {"event": "stop", "host": "claude", "session": "s-1", "is_timed": True}
        arguments = ["--json", "hook", "relay", json.dumps(usual | words)]
        headers = {"authorization": f"Bearer {self.token}", "cookie": ""}
        reply = self.server.post("/api/calls", headers, arguments=arguments)
        assert reply.status == 200, reply
        found: dict[str, str] = json.loads(reply.data["output"])
        return found


@pytest.mark.parametrize("starts", [(), ("--role", "host", "--starts", "Ann")], ids=["agent", "host"])
def test_no_hook_call_is_about_a_task_that_another_holds(
    server: RunningServer, place: Repository, starts: tuple[str, ...]
) -> None:
    theirs, own = place.add("Bob's"), place.add("Ann's")
    place.ok("task", "claim", theirs, "--agent", "Bob")
    place.git("branch", "-f", "theirs")
    place.ok("task", "claim", own, "--agent", "Ann")
    created = place.ok("token", "create", "--member", "box" if starts else "Ann", *starts)
    relay, before = Relay(server, created["token"]), place.ok("task", "show", theirs)
    elsewhere = {"folder": "/x", "head": place.head("main")}
    for number, words in enumerate(
        (
            {"task_id": "T-20260101-000000-00000000", "agent": "Ann", "earlier": [f"{theirs} Bob"]},
            {"task_id": place.add("free"), "agent": "Ann", "earlier": [f"{theirs} Bob"]},
            {"task_id": theirs, "agent": "Ann", "earlier": [f"{theirs} bob"]},
            {"task_id": theirs, "agent": "Bob"},
        )
    ):
        for event in ("stop", "session_start", "prompt", "task_completed", "post_tool"):
            said = relay(event=event, firing=f"f{number}", worktree=elsewhere, **words)
            assert said.get("refused") == "not_yours", (event, words, said)
    for words in (
        {"task_id": theirs},
        {"task_id": theirs, "agent": "Ann"},
        {"branch": "theirs", "agent": "Ann"},
    ):
        for event in ("stop", "session_start", "task_completed"):
            said = relay(event=event, firing="g", worktree={**elsewhere, "fault": "idle"}, **words)
            assert (said["kind"], said["text"]) == ("allow", ""), (event, words, said)
    assert place.ok("task", "show", theirs) == before


@pytest.mark.parametrize("head", ["HEAD", "main", "--help", "abc"])
def test_a_hook_call_names_its_commit_by_its_id(server: RunningServer, place: Repository, head: str) -> None:
    task = place.add("by name")
    place.ok("task", "claim", task, "--agent", "Ann")
    relay = Relay(server, place.ok("token", "create", "--member", "Ann")["token"])
    said = relay(task_id=task, agent="Ann", firing="f", worktree={"folder": "/x", "head": head})
    assert said.get("refused") == "unknown_commit", said


def test_a_hook_call_without_a_worktree_is_not_about_the_servers(
    server: RunningServer, place: Repository
) -> None:
    task = place.add("nowhere")
    place.ok("task", "claim", task, "--agent", "Ann")
    (place.path / "secret-plan.txt").write_text("not committed")
    relay = Relay(server, place.ok("token", "create", "--member", "Ann")["token"])
    said = relay(task_id=task, agent="Ann", firing="f")
    (place.path / "secret-plan.txt").unlink()
    assert said["kind"] == "block"
    assert "secret-plan" not in said["text"]
    assert "has no commit yet" in said["text"]


@pytest.mark.parametrize(
    "setting",
    [
        {"REMAND_TOKEN": ""},
        {"REMAND_SERVER_WAIT": "abc"},
        {"REMAND_SERVER": "http://elsewhere.example"},
        {"REMAND_TOKEN": "", "REMAND_TOKEN_FILE": "/etc/hosts"},
        {"REMAND_CA": "/nowhere", "REMAND_SERVER": "https://127.0.0.1:9"},
    ],
    ids=",".join,
)
def test_a_session_that_claimed_a_task_is_blocked_with_the_reason_where_the_settings_are_unusable(
    host: ServerHost, setting: dict[str, str]
) -> None:
    task = host.call("task", "add", "claimed in a session").data["task_id"]
    claimed = host.call("task", "claim", task, "--agent", "Ann")
    use_tool(host, f"remand task claim {task} --agent Ann", claimed.out)
    host.machine.environment |= setting

    answer = stop_session(host)

    assert json.loads(answer.out)["decision"] == "block", answer
    assert "the server " in answer.out


def use_tool(host: ServerHost, command: str, output: str) -> None:
    """Tells the hook of a command that a session has run."""
    used = {
        "session_id": "s-9",
        "cwd": str(host.clone.path),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_response": {"stdout": output},
    }
    call = ("hook", "--host", "claude", "PostToolUse")
    noted = host.machine.remand(host.clone.path, *call, stdin=json.dumps(used))
    assert noted.code == 0, noted


def stop_session(host: ServerHost) -> Said:
    """The session wants to end; nothing but its own notes says that it has a task."""
    stop = {"session_id": "s-9", "cwd": str(host.clone.path), "hook_event_name": "Stop"}
    return host.machine.remand(host.clone.path, "hook", "--host", "claude", "Stop", stdin=json.dumps(stop))


def test_what_needs_the_ledger_itself_is_refused_on_a_host_and_says_where_to_go(host: ServerHost) -> None:
    words = {
        ("top",): (3, "The server has a dashboard"),
        ("log", "import", "."): (3, "Run it where the server is."),
        ("log", "move", "--to", "sqlite"): (3, "Run it where the server is."),
        ("analyze", "rejections", "--plot", "chart.svg"): (2, "run the command where the ledger is."),
    }
    for call, (code, text) in words.items():
        said = host.call(*call)
        assert (said.code, text in f"{said.data}") == (code, True), said
    assert not (host.clone.path / "chart.svg").exists()


def test_a_session_without_a_task_opens_no_database_of_a_team(
    place: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("REMAND_STORE", "postgresql://nobody@127.0.0.1:1/none")
    opened = open_session_ledger(find_place(str(place.path)))
    assert isinstance(opened.store, SqliteStore)
    opened.store.close()


def test_mcp_on_a_host_acts_as_the_member_of_its_token(server: RunningServer, place: Repository) -> None:
    token = place.ok("token", "create", "--member", "Ann", "--role", "agent")["token"]
    host = ServerHost(place.path, server.address["url"], str(token))
    task = place.add("Work for whoever the token names")

    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        started = StdioServerParameters(
            command=REMAND, args=["mcp"], env=host.machine.environment, cwd=host.clone.path
        )
        async with Client(started) as client:
            member = Member(client)
            claimed = await member.does("next_task", task=task)
            commit = await asyncio.to_thread(host.commit, "by-mcp", "mcp.txt")
            return claimed, await member.does("submit", task=task, commit=commit)

    try:
        claimed, submitted = asyncio.run(work())
    finally:
        host.close()
    assert (claimed["task_id"], claimed["status"]) == (task, "claimed"), claimed
    assert submitted["status"] == "provisional", submitted
    assert place.ok("task", "show", task)["submission"]["agent"] == "Ann"
