"""The page about MCP names everything that is served, and every file that is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from remand.adapters.hosts.table import HOSTS
from remand.interfaces.mcp.command_runner import CommandResult
from remand.interfaces.mcp.protocol import ClientRequest
from remand.interfaces.mcp.server import RemandServer

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


class EveryonesDesk:
    """A server at which one member has every role."""

    async def call(self, *_: str, **__: object) -> CommandResult:
        roles = ["agent", "lead", "director", "user"]
        return CommandResult(0, {"name": "x", "roles": roles, "confined": False, "task": None})


def listed(method: str) -> list[Any]:
    """What a client is shown."""
    request = ClientRequest(method, {}, {}, lambda _: None, None)
    (rows,) = asyncio.run(RemandServer(EveryonesDesk()).answer(request)).values()
    return list(rows)


def test_every_tool_prompt_and_resource_is_on_the_page() -> None:
    tools = [tool["name"] for tool in listed("tools/list")]
    prompts = [prompt["name"] for prompt in listed("prompts/list")]
    uris = [one["uri"] for one in listed("resources/list")] + [
        one["uriTemplate"] for one in listed("resources/templates/list")
    ]

    assert len(tools) > 15
    assert [name for name in (*tools, *prompts, *uris) if f"`{name}`" not in PAGE] == []


def test_every_hosts_file_is_on_the_page() -> None:
    assert [
        entry.path
        for entry in (host.SETUP.server for host in HOSTS.values())
        if entry.path and f"`{entry.path}`" not in PAGE
    ] == []
