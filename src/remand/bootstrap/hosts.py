"""The agents' hosts by name. A host's module is loaded when a call comes from it, and no other's is."""

from __future__ import annotations

from importlib import import_module

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
    Answer,
    Call,
    Rendered,
)
from remand.adapters.hosts.payload import compose, parse
from remand.adapters.hosts.setup import Setup, deadline
from remand.domain.hosts import HOSTS

__all__ = [
    "AFTER_TOOLS",
    "BEGINNINGS",
    "CONFIG_CHANGE",
    "ENDINGS",
    "HOSTS",
    "KINDS",
    "PRE_TOOL",
    "SESSION_START",
    "STOP",
    "SUBAGENT_STOP",
    "TASK_COMPLETED",
    "Answer",
    "Call",
    "compose",
    "deadline",
    "guarded_files",
    "host",
    "parse",
    "server_files",
    "settings_files",
]

KINDS = (ALLOW, BLOCK, CONTEXT, DENY)
AFTER_TOOLS = (POST_TOOL, POST_TOOL_FAILURE)
BEGINNINGS = (SESSION_START, PROMPT)

TYPE_CHECKING = False  # typing itself costs as much as all else on the hook's way
if TYPE_CHECKING:
    from typing import Protocol

    class Host(Protocol):
        """What every host's module offers."""

        NAME: str
        SETUP: Setup

        def read(self, event: str, data: bytes) -> Call:
            """What the host says; never raises."""

        def render(self, event: str, answer: Answer) -> Rendered:
            """The answer in the host's own form."""


def host(name: str) -> Host | None:
    """A host by its name; None when there is no such host."""
    if name not in HOSTS:
        return None
    module: Host = import_module(f"remand.adapters.hosts.{name}")
    return module


def settings_files() -> tuple[str, ...]:
    """The files that hold hosts' hooks: in a project, and behind `~` in a home folder."""
    modules = [host(name) for name in HOSTS]
    return tuple(path for module in modules if module for path in module.SETUP.paths)


def guarded_files() -> tuple[str, ...]:
    """The files of a project that no agent may change: they say how its work is judged."""
    return ("remand.toml", *(name for name in settings_files() if not name.startswith("~")))


def server_files() -> tuple[str, ...]:
    """The files of a project that name our MCP server."""
    entries = import_module("remand.adapters.hosts.mcp_entries").ENTRIES
    return tuple(entry.path for entry in entries.values() if entry.path)


def is_reading_tool(name: str) -> bool:
    """True for a tool of a host that changes nothing."""
    known: frozenset[str] = import_module("remand.adapters.hosts.tools").READERS
    return name in known
