"""`remand mcp` as a process: what it writes, whom it lets in, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from remand.interfaces.cli.context import CallOrigin, Context
from remand.interfaces.cli.hosts import _actor
from remand.interfaces.cli.registry import CommandCall
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, Said, end, near_call, wait_for
from tests.integration.mcp_team import TEAM, Member

SLOW = TEAM.replace('["grep", "-q", "good", "work.txt"]', '["sleep", "600"]')
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(number: int, tool: str, **arguments: object) -> dict[str, Any]:
    """A call of a tool, as it is sent."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def sent(process: subprocess.Popen[str], *messages: dict[str, Any]) -> None:
    """Sends messages to a server's standard input."""
    assert process.stdin is not None
    process.stdin.write("".join(f"{json.dumps(message)}\n" for message in messages))
    process.stdin.flush()


@contextmanager
def over_http(repository: Repository, *options: str, **environment: str) -> Iterator[tuple[str, str, Any]]:
    """A server over HTTP: its address, its token and its process."""
    words = (REMAND, "mcp", "--as", "Fenster", "--http", "0", "--json", *options)
    process = repository.machine.start(repository.path, *words, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=PATIENCE)
        said = json.loads(line)
        token = (
            Path(said["token_file"]).read_text() if said["token_file"] else environment["REMAND_MCP_TOKEN"]
        )
        yield said["url"], token, process
    finally:
        end(process)


class TestStandardStreams:
    def test_nothing_but_the_protocol_is_written_and_a_model_is_never_the_user_by_itself(
        self, repository: Repository
    ) -> None:
        task = repository.add()
        unfilled = {"REMAND_ACTOR": "${REMAND_ACTOR}", "REMAND_TASK": "${REMAND_TASK}"}
        process = repository.machine.start(
            *(repository.path, REMAND, "mcp", "-C", "${workspaceFolder}", "--json"),
            stdin=subprocess.PIPE,
            env=unfilled,
        )
        sent(process, HELLO, READY, request(2, "next_task"), {"not": "a message"}, request(3, "no_such_tool"))
        sent(process, request(4, "unlock", agent="x", task=task, reason="y"))
        assert process.stdout is not None
        answers = {}
        while not answers.keys() >= {1, 2, 3, 4}:
            message = json.loads(process.stdout.readline())
            answers[message.get("id")] = message.get("result") or message["error"]
        out, err = process.communicate(timeout=PATIENCE)
        assert answers[1]["serverInfo"]["name"] == "remand"
        assert answers[2]["structuredContent"]["task_id"] == task
        assert (answers[3]["code"], answers[3]["message"]) == (-32602, "Unknown tool: no_such_tool")
        assert answers[4]["structuredContent"]["refused"] == "user_only"
        assert repository.ok("task", "show", task)["agent"] == "agent"
        assert (process.returncode, out, "Traceback" in err) == (0, "", False)

    @pytest.mark.parametrize("is_asked", [True, False], ids=["signal", "end of input"])
    def test_what_is_under_way_ends_with_the_server(self, machine: Machine, is_asked: bool) -> None:
        repository = machine.repository(config=SLOW)
        task = repository.add("Mend the roof", "--branch", "work")
        repository.ok("task", "claim", task, "--agent", "Fenster")
        repository.git("checkout", "-q", "-b", "work")
        repository.commit()
        process = machine.start(repository.path, REMAND, "mcp", "--as", "Fenster", stdin=subprocess.PIPE)
        sent(process, HELLO, READY, request(2, "submit", task=task))
        children = wait_for(lambda: _children(process.pid), "the done claim's process")
        if is_asked:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/cwd") for pid in children), "the end of it")


class TestHttp:
    def test_only_who_has_the_token_and_is_no_page_is_let_in(self, repository: Repository) -> None:
        with over_http(repository) as (url, token, process):
            own = {"Authorization": f"Bearer {token}"}
            assert (_status(url), _status(url, Authorization="Bearer guess")) == (401, 401)
            assert _status(url, Authorization=f"Basic {token}") == 401
            assert _status(url, **own, Origin="http://localhost:3000") == 403
            assert _status(url, **own, Host="rebound.example") == 421
            assert asyncio.run(_counts(url, own)) == {}
            (kept,) = (repository.machine.runtime / "remand").glob("mcp-*.token")
            assert kept.stat().st_mode & 0o777 == 0o600
            taken = _near(repository, "--http", url.rpartition(":")[2].partition("/")[0])
            assert (taken.code, "--http PORT" in taken.data["message"]) == (3, True)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, out, "Traceback" in err) == (0, '{"stopped": true}\n', False)
            assert not kept.exists()

    def test_an_address_that_others_reach_needs_a_token_of_the_users_own(
        self, repository: Repository
    ) -> None:
        token = "a token of the user's own"
        with over_http(repository, "--host", "0.0.0.0", REMAND_MCP_TOKEN=token) as (url, _, _process):
            reached = url.replace("0.0.0.0", "127.0.0.1")
            assert _status(reached) == 401
            assert _status(reached, Authorization=f"Bearer {token}", Origin="http://evil.example") == 403
            assert not list((repository.machine.runtime / "remand").glob("mcp-*.token"))

    @pytest.mark.parametrize(
        ("host", "token", "told"),
        [
            ("0.0.0.0", "", "REMAND_MCP_TOKEN"),
            ("::", "", "REMAND_MCP_TOKEN"),
            ("127.0.0.1", "short", "longer"),
        ],
    )
    def test_too_little_of_a_token_is_said(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch, host: str, token: str, told: str
    ) -> None:
        monkeypatch.setenv("REMAND_MCP_TOKEN", token)
        said = _near(repository, "--http", "0", "--host", host)
        assert (said.code, told in said.data["message"]) == (2, True)


@pytest.mark.parametrize(
    ("named", "environment", "speaks"),
    [
        ("", {}, "agent"),
        ("", {"REMAND_ACTOR": "Fenster"}, "Fenster"),
        ("", {"REMAND_ACTOR": "${REMAND_ACTOR}"}, "agent"),
        ("Lead", {"REMAND_ACTOR": "Fenster"}, "Lead"),
        ("user", {}, "user"),
        ("", {"REMAND_SOCKET": "/run/agent"}, ""),
    ],
)
def test_a_server_speaks_for_who_was_named_and_at_a_socket_for_whose_it_is(
    named: str, environment: dict[str, str], speaks: str
) -> None:
    around = CallOrigin("/", environment, StringIO(), StringIO())
    context = Context(CommandCall("mcp", [], actor=named), Namespace(), around)
    assert _actor(context, environment) == speaks


def test_no_other_command_loads_what_serves() -> None:
    """What serves costs a second to load."""
    program = (
        "import sys\n"
        "from remand.interfaces.cli.main import command_parser\n"
        "from remand.interfaces.cli.registry import COMMANDS\n"
        "for name in COMMANDS: command_parser(name)\n"
        "print([name for name in ('mcp', 'pydantic', 'starlette', 'uvicorn') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == "[]\n"


def test_no_package_is_needed_that_the_command_line_does_not_need(
    repository: Repository, tmp_path: Path
) -> None:
    for name in ("anyio", "mcp", "pydantic", "starlette", "uvicorn"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}')\n")
    said = repository.call("mcp", stdin=f"{json.dumps(HELLO)}\n", env={"PYTHONPATH": str(tmp_path)})
    assert said.code == 0, said
    assert json.loads(said.out)["result"]["protocolVersion"] == "2025-06-18"


def _near(repository: Repository, *options: str) -> Said:
    """A call that does not come to serving, inside this process."""
    said = near_call(repository.path, ("mcp", "--json", *options))
    assert said is not None
    return said


def _children(pid: int) -> list[int]:
    """The processes of a done claim that a server has started: the call, and what it runs."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    below = [child for one in listed for child in _descendants(int(one))]
    return [*map(int, listed), *below] if below else []


def _descendants(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
        own = [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []
    return [*own, *(child for one in own for child in _descendants(one))]


def _status(url: str, **headers: str) -> int:
    accepted = {"Accept": "application/json, text/event-stream"}
    return int(httpx2.post(url, json=HELLO, headers=accepted | headers, timeout=PATIENCE).status_code)


async def _counts(url: str, headers: dict[str, str]) -> Any:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        member = Member(client)
        assert "submit" in await member.tools()
        return (await member.does("status"))["counts"]


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    return near_machine
