"""Calls of the command line made over MCP: each becomes a call of the tool that does the same, where there is one.

A tool tells less than the command it runs. So an answer is the command's, with all that the tool told put in its place:
what a tool gets wrong, a test of the command line sees.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from remand.app.errors import RemandError
from remand.interfaces.cli.main import parse_values
from remand.interfaces.cli.registry import CommandCall, parse_call
from remand.interfaces.http.commands import remote_commands
from remand.interfaces.mcp.command_runner import CommandError, CommandResult, build_arguments, parse_result
from remand.interfaces.mcp.protocol import (
    CAPABILITIES_KEY,
    STATELESS_VERSION,
    VERSION_KEY,
    ClientConnection,
    encode,
)
from remand.interfaces.mcp.server import RemandServer
from tests.support.http_way import request_values


class _Printed(Protocol):
    code: int
    out: str
    err: str


Run = Callable[[Path, tuple[str, ...]], _Printed | None]
TASK, REVIEWED = {"id": "task"}, {"task": "task"}


class ToolOfCommand(NamedTuple):
    """The tool that does what a command does: the argument for each of the command's, and where the answer is told."""

    tool: str
    arguments: dict[str, str]
    told: str = ""


TOOLS = {
    "handoff appeal": ToolOfCommand("appeal", {"handoff": "handoff", "reason": "reason"}),
    "handoff reject": ToolOfCommand(
        "reject_task",
        {
            "handoff": "handoff",
            "reason": "reason_type",
            "summary": "reason_summary",
            "detail": "reason_detail",
            "attempted": "what_attempted",
            "blocker": "blocking_factor",
            "alternative": "suggested_alternative",
            "scope_growth": "scope_growth_factor",
            "original_scope": "task_original_scope",
            "evidence": "evidence",
            "alt_task": "alternative_tasks",
        },
    ),
    "handoff rejection-response": ToolOfCommand(
        "decide",
        {
            name: name
            for name in ("handoff", "decision", "rationale", "message", "created_tasks", "reassign_to")
        },
    ),
    "inbox": ToolOfCommand("inbox", {}, "questions"),
    "inbox answer": ToolOfCommand(
        "answer", {"id": "question", "option": "option", "guidance": "guidance"}, "given"
    ),
    "reject-task": ToolOfCommand("reject", REVIEWED | {"text": "findings"}),
    "review approve": ToolOfCommand("approve", REVIEWED | {"commit": "commit", "checked": "checked"}),
    "review diff": ToolOfCommand("review_diff", REVIEWED | {"path": "paths"}),
    "review reject": ToolOfCommand(
        "reject", REVIEWED | {"commit": "commit", "finding": "findings", "suggestion": "suggestions"}
    ),
    "review retract": ToolOfCommand("retract", REVIEWED | {"reason": "reason", "review": "review"}),
    "task claim": ToolOfCommand("next_task", TASK),
    "task continue": ToolOfCommand("continue_later", TASK | {"reason": "reason"}),
    "task heartbeat": ToolOfCommand("heartbeat", TASK),
    "task prompt": ToolOfCommand("feedback", TASK),
    "task release": ToolOfCommand("release", TASK | {"reason": "reason"}),
    "task show": ToolOfCommand("status", TASK, "task"),
    "task submit": ToolOfCommand("submit", TASK | {"commit": "commit", "branch": "branch", "pr": "pr"}),
    "task wait": ToolOfCommand("waiting", TASK | {"for": "reason"}),
    "unlock": ToolOfCommand("unlock", {name: name for name in ("agent", "task", "reason", "guidance")}),
    "why": ToolOfCommand("why", {"agent": "agent", "task": "task"}),
}
"""The commands that have a tool. The others have none by design, and are called on the command line (docs/mcp.md)."""
ACTORS = ("agent", "reviewer")
"""Whom a user may name with a command: over MCP, the member for whom the server was started."""


class McpWay:
    """Servers of one repository inside this process, one for each member."""

    def __init__(self, folder: Path, run: Run) -> None:
        self._folder = folder
        self._run = run

    def call(self, arguments: tuple[str, ...]) -> tuple[int, str, str] | None:
        """Exit code, output and errors; None for a call that has no tool, that its tool does not take, or that asks for text."""
        call = parse_call(list(arguments))
        tool = TOOLS.get(call.command)
        if (
            tool is None
            or not call.is_json
            or call.key
            or call.usage_error
            or call.wants_help
            or call.folder != "."
        ):
            return None
        try:
            given = request_values(remote_commands()[call.command], parse_values(call))
        except (RemandError, OSError, ValueError):
            return None
        if given is None:
            return None
        actor = call.actor or next(
            (given.pop(name) for name in ACTORS if name in given and name not in tool.arguments), ""
        )
        if not set(given) <= set(tool.arguments):
            return None
        named = {tool.arguments[name]: value for name, value in given.items()}
        if call.command == "reject-task":
            named["findings"] = str(named.get("findings", "")).splitlines()
        return asyncio.run(self._call_tool(call, tool, actor, named))

    def close(self) -> None:
        """Ends nothing: each call has a server of its own."""

    async def _call_tool(
        self, call: CommandCall, tool: ToolOfCommand, actor: str, arguments: dict[str, Any]
    ) -> tuple[int, str, str] | None:
        runner = _RecordedRunner(self._folder, self._run, actor)
        result = await _answer(ClientConnection(RemandServer(runner)), tool.tool, arguments)
        printed = runner.printed.get(call.command)
        if result.get("isError"):
            if printed is None:
                return None  # the tool did not take the arguments, and did nothing
            assert json.loads(printed.out)["message"] == result["content"][0]["text"], (printed, result)
            return printed.code, printed.out, printed.err
        assert printed is not None, (call, result)
        told, data = result["structuredContent"], json.loads(printed.out)
        if "refused" in told and isinstance(data, dict):
            assert told["refused"] == data.get("refused"), (told, data)
        if tool.told and not told["refused"]:
            told = told[tool.told] if isinstance(data, list) else told | (told[tool.told] or {})
        return printed.code, json.dumps(with_told(data, told)) + "\n", printed.err


class _RecordedRunner:
    """Runs the commands of tools, and keeps what the last call of each has printed."""

    def __init__(self, folder: Path, run: Run, actor: str) -> None:
        self._folder = folder
        self._run = run
        self._own = ("--json", f"--as={actor}") if actor else ("--json",)
        self.printed: dict[str, _Printed] = {}

    async def call(self, command: str, *named: str, **options: object) -> CommandResult:
        words = (*self._own, *build_arguments(command, named, options))
        printed = await asyncio.to_thread(self._run, self._folder, words)
        if printed is None:
            raise CommandError("There is no ledger here.")
        self.printed[command] = printed
        return parse_result(printed.code, printed.out.encode(), printed.err.encode())


async def _answer(connection: ClientConnection, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool."""
    answered: asyncio.Queue[Any] = asyncio.Queue()
    meta = {VERSION_KEY: STATELESS_VERSION, CAPABILITIES_KEY: {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection.receive(encode(request), answered.put_nowait)
    answer = json.loads(encode(await answered.get()))
    assert "result" in answer, answer
    found: dict[str, Any] = answer["result"]
    return found


def with_told(data: Any, told: Any) -> Any:
    """Data in which whatever was told of it stands as it was told."""
    if isinstance(data, dict) and isinstance(told, dict):
        return {name: with_told(value, told[name]) if name in told else value for name, value in data.items()}
    if isinstance(data, list) and isinstance(told, list):
        assert len(data) == len(told), (data, told)
        return [with_told(one, other) for one, other in zip(data, told, strict=True)]
    return told
