"""The server itself: what it tells a client that waits, and what is left of its schemas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from remand.interfaces.mcp import task_tools
from remand.interfaces.mcp.command_runner import CommandError, CommandResult
from remand.interfaces.mcp.protocol import ClientConnection, encode
from remand.interfaces.mcp.server import RemandServer
from remand.interfaces.mcp.tools import without_titles
from tests.support.mcp_client import in_memory

PASSED = {
    "task_id": "T-1",
    "status": "provisional",
    "verdict": {"status": "passed", "message": "All gates passed"},
}


class HeldDesk:
    """A runner whose done claims last until somebody lets them go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def call(self, command: str, *_: str, **__: object) -> CommandResult:
        if command == "task submit":
            await self.go.wait()
            return CommandResult(0, PASSED)
        if command == "whoami":
            return CommandResult(0, {"name": "Fenster", "roles": ["agent"], "confined": False, "task": None})
        raise CommandError("There is nothing here. Make something.")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_waits_for_gates_is_told_that_they_run_and_others_are_answered(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(task_tools, "PROGRESS_SECONDS", 0.01)

    async def scene() -> tuple[Any, list[str | None]]:
        runner = HeldDesk()
        told: list[str | None] = []

        async def progress(_: float, __: float | None, message: str | None) -> None:
            told.append(message)
            if len(told) == 2:
                assert (await client.list_tools()).tools, "nobody waits for another's gates"
                runner.go.set()

        async with Client(in_memory(RemandServer(runner)), mode=mode) as client:
            result = await client.call_tool("submit", {"task": "T-1"}, progress_callback=progress)
        return result, told

    result, told = asyncio.run(scene())
    assert result.structured_content["status"] == "provisional"
    assert result.structured_content["message"] == "All gates passed"
    assert told[0] is not None
    assert "gates" in told[0]


def test_a_fault_of_the_environment_is_an_error_that_says_the_remedy() -> None:
    async def scene() -> Any:
        async with Client(in_memory(RemandServer(HeldDesk()))) as client:
            return await client.call_tool("feedback", {"task": "T-1"})

    result = asyncio.run(scene())
    assert result.is_error
    assert "Make something." in result.content[0].text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"task": "T-1", "escalation": "E-1"}, "no argument 'escalation'"), ({}, "`reason_type` is missing")],
)
def test_an_argument_that_is_not_there_is_an_error_and_nothing_is_done(
    arguments: dict[str, Any], said: str
) -> None:
    async def scene() -> Any:
        async with Client(in_memory(RemandServer(HeldDesk()))) as client:
            return await client.call_tool("reject_task", arguments)

    result = asyncio.run(scene())
    assert result.is_error
    assert said in result.content[0].text
    assert "Nothing was done" in result.content[0].text


@pytest.mark.parametrize(("method", "name"), [("tools/call", "inbox"), ("prompts/get", "inbox")])
def test_null_arguments_are_none(method: str, name: str) -> None:
    sent: list[Any] = []

    async def scene() -> None:
        connection = ClientConnection(RemandServer(HeldDesk()))
        hello = {"protocolVersion": "2025-06-18", "capabilities": None}
        for number, (one, params) in enumerate(
            [("initialize", hello), (method, {"name": name, "arguments": None})]
        ):
            message = {"jsonrpc": "2.0", "id": number, "method": one, "params": params}
            connection.receive(encode(message), sent.append)
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(scene())
    assert "error" not in sent[1], sent[1]


def test_a_schema_keeps_a_field_that_is_called_title() -> None:
    schema = {
        "title": "SubTask",
        "properties": {"title": {"title": "Title", "type": "string"}},
        "anyOf": [{"title": "x"}],
    }

    assert without_titles(schema) == {"properties": {"title": {"type": "string"}}, "anyOf": [{}]}
