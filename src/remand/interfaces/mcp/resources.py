"""Resources: what there is to read about tasks, without the limits that hosts set to what a tool answers."""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from remand.app.rejection_context import HEADING
from remand.interfaces.mcp.desk import Answer, Desk, Failed

NOTHING_SAID = "Nothing was said about this task yet."
NOTHING_MEASURED = "Nothing was measured for this task yet."


def add_resources(server: MCPServer[Any], desk: Desk) -> None:
    """Adds every resource to a server."""
    reading = Reading(desk)
    add = server.resource
    add(
        "board://tasks",
        name="board",
        title="Board",
        description="every task and its status",
        mime_type="application/json",
    )(reading.board)
    add(
        "task://{task}/prompt",
        name="prompt",
        title="Prompt of a task",
        description="what the agent that holds the task should read",
        mime_type="text/markdown",
    )(reading.prompt)
    add(
        "task://{task}/feedback",
        name="feedback",
        title="Feedback on a task",
        description="what reviewers and gates have said, every finding marked as blocking or not",
        mime_type="text/markdown",
    )(reading.feedback)
    add(
        "task://{task}/report",
        name="report",
        title="Gate report of a task",
        description="what the gates measured last: figures, findings, failing tests",
        mime_type="application/json",
    )(reading.report)


class Reading:
    """Reads resources by calls of the command line."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def board(self) -> str:
        """Every task."""
        return json.dumps((await self._read("task list")).data)

    async def prompt(self, task: str) -> str:
        """What the agent that holds a task should read; that it has is noted."""
        return str((await self._read("task prompt", task)).data["prompt"])

    async def feedback(self, task: str) -> str:
        """What stands in the prompt before the task and the rejections behind it: no feedback can make their headings."""
        told = (await self._read("task prompt", task)).data
        before, _, _ = f"\n{told['prompt']}".partition(f"\n## Task {told['task_id']}: ")
        before, _, _ = before.partition(f"\n{HEADING}\n")
        return before.strip() or NOTHING_SAID

    async def report(self, task: str) -> str:
        """The last verdict of the gates."""
        found = (await self._read("gate wait", task, timeout=0)).data
        return json.dumps(found) if found.get("status") else NOTHING_MEASURED

    async def _read(self, command: str, *named: str, **options: object) -> Answer:
        try:
            answer = await self._desk.call(command, *named, **options)
        except Failed as failed:
            raise ResourceError(str(failed)) from None
        if answer.is_refused:
            message = f"{answer.data['refused']}: {answer.data['message']}"
            is_unknown = answer.data["refused"] == "unknown_task"
            raise (ResourceNotFoundError if is_unknown else ResourceError)(message)
        return answer
