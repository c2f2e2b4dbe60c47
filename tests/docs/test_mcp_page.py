"""The page about MCP names everything that is served, and every file that is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from remand.adapters.hosts.table import HOSTS
from remand.interfaces.mcp.command_runner import CommandResult
from remand.interfaces.mcp.server import RemandServer

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


class EveryonesDesk:
    """A server at which one member has every role."""

    async def call(self, *_: str, **__: object) -> CommandResult:
        roles = ["agent", "lead", "director", "user"]
        return CommandResult(0, {"name": "x", "roles": roles, "confined": False, "task": None})


def listed(kind: str) -> list[Any]:
    return list(asyncio.run(getattr(RemandServer(EveryonesDesk()), f"list_{kind}")()))


def test_every_tool_prompt_and_resource_is_on_the_page() -> None:
    tools = [tool.name for tool in listed("tools")]
    prompts = [prompt.name for prompt in listed("prompts")]
    uris = [one.uri for one in listed("resources")] + [
        one.uri_template for one in listed("resource_templates")
    ]

    assert len(tools) > 15
    assert [name for name in (*tools, *prompts, *uris) if f"`{name}`" not in PAGE] == []


def test_every_hosts_file_is_on_the_page() -> None:
    assert [
        entry.path
        for entry in (host.SETUP.server for host in HOSTS.values())
        if entry.path and f"`{entry.path}`" not in PAGE
    ] == []
