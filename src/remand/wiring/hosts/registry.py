"""The agent hosts by name. A host's module is loaded when a call comes from it, and no other's is."""

from __future__ import annotations

from remand.adapters.hosts import claude, codex, copilot, cursor, gemini, mcp_entries, openhands, qwen
from remand.adapters.hosts.hook import (
    ALLOW,
    BLOCK,
    CONFIG_CHANGE,
    CONTEXT,
    DENY,
    ENDINGS,
    POST_TOOL,
    POST_TOOL_FAILURE,
    PRE_TOOL,
    PROMPT,
    SESSION_START,
    STOP,
    SUBAGENT_STOP,
    TASK_COMPLETED,
    HookAnswer,
    HookCall,
    Rendered,
    Setup,
    deadline,
)
from remand.adapters.hosts.payload import READERS, compose, parse
from remand.domain.hosts import HOSTS
from remand.startup import TYPE_CHECKING

__all__ = [
    "CONFIG_CHANGE",
    "ENDINGS",
    "HOSTS",
    "KINDS",
    "PRE_TOOL",
    "SESSION_START",
    "START_EVENTS",
    "STOP",
    "SUBAGENT_STOP",
    "TASK_COMPLETED",
    "TOOL_RESULT_EVENTS",
    "HookAnswer",
    "HookCall",
    "compose",
    "deadline",
    "guarded_files",
    "load_host",
    "parse",
    "server_files",
    "settings_files",
]

KINDS = (ALLOW, BLOCK, CONTEXT, DENY)
TOOL_RESULT_EVENTS = (POST_TOOL, POST_TOOL_FAILURE)
START_EVENTS = (SESSION_START, PROMPT)


if TYPE_CHECKING:
    from typing import Protocol

    class Host(Protocol):
        """What every host's module offers."""

        NAME: str
        SETUP: Setup

        def read(self, event: str, data: bytes) -> HookCall:
            """What the host says; never raises."""

        def render(self, event: str, answer: HookAnswer) -> Rendered:
            """The answer in the host's own form."""


_MODULES: dict[str, Host] = {
    "claude": claude,
    "codex": codex,
    "copilot": copilot,
    "cursor": cursor,
    "gemini": gemini,
    "qwen": qwen,
    "openhands": openhands,
}


def load_host(name: str) -> Host | None:
    """A host by its name; None when there is no such host."""
    return _MODULES.get(name)


def settings_files() -> tuple[str, ...]:
    """The files that hold hosts' hooks: in a project, and behind `~` in a home folder."""
    modules = [load_host(name) for name in HOSTS]
    return tuple(path for module in modules if module for path in module.SETUP.paths)


def guarded_files() -> tuple[str, ...]:
    """The files of a project that no agent may change: they say how its work is judged."""
    return ("remand.toml", *(name for name in settings_files() if not name.startswith("~")))


def server_files() -> tuple[str, ...]:
    """The files of a project that name our MCP server."""
    return tuple(entry.path for entry in mcp_entries.ENTRIES.values() if entry.path)


def is_reading_tool(name: str) -> bool:
    """True for a tool of a host that changes nothing."""
    return name in READERS
