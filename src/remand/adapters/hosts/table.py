"""The agent hosts by name. A host's module is loaded only when it is used."""

from __future__ import annotations

from remand.adapters.hosts import claude, codex, copilot, cursor, gemini, openhands, qwen
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from remand.adapters.hosts.host import Rendered, Setup
    from remand.adapters.hosts.launch import HostLaunchConfig, HostRun
    from remand.app.hook_calls import HookAnswer, HookCall, Payload
    from remand.app.scheduler.ports import SessionResult

    class Host(Protocol):
        """The interface of every host's module."""

        SETUP: Setup

        def read(self, event: str, data: bytes) -> HookCall:
            """Reads a hook call; never raises."""

        def render(self, event: str, answer: HookAnswer) -> Rendered:
            """Renders an answer in the host's format."""

        def launch_config(self, run: HostRun) -> HostLaunchConfig:
            """The launch options of the host."""

        def prints_json(self, words: list[str]) -> bool:
            """True if the host's output is JSON, given its command-line words."""

        def read_output(self, lines: list[Payload]) -> SessionResult:
            """What the output reports about the session."""


HOSTS: dict[str, Host] = {
    "claude": claude,
    "codex": codex,
    "copilot": copilot,
    "cursor": cursor,
    "gemini": gemini,
    "qwen": qwen,
    "openhands": openhands,
}


def load_host(name: str) -> Host | None:
    """A host by name; None if there is no such host."""
    return HOSTS.get(name)


def settings_files() -> tuple[str, ...]:
    """The files that contain hooks: in a project, and with `~` in a home folder."""
    return tuple(path for host in HOSTS.values() for path in host.SETUP.paths)


def guarded_files() -> tuple[str, ...]:
    """The project files that no agent may change, because they decide how its work is judged."""
    return ("remand.toml", *(name for name in settings_files() if not name.startswith("~")))


def server_files() -> tuple[str, ...]:
    """The project files that name our MCP server."""
    return tuple(host.SETUP.server.path for host in HOSTS.values() if host.SETUP.server.path)
