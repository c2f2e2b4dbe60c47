"""The agent hosts by name. A host's module is loaded when it is first used, and no other's is."""

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
        """What every host's module offers."""

        SETUP: Setup

        def read(self, event: str, data: bytes) -> HookCall:
            """What the host says; never raises."""

        def render(self, event: str, answer: HookAnswer) -> Rendered:
            """The answer in the host's own form."""

        def launch_config(self, run: HostRun) -> HostLaunchConfig:
            """What the host is started with."""

        def prints_json(self, words: list[str]) -> bool:
            """Whether its output is JSON, given the words that the host is started with."""

        def read_output(self, lines: list[Payload]) -> SessionResult:
            """What its output tells of a session."""


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
    """A host by its name; None when there is no such host."""
    return HOSTS.get(name)


def settings_files() -> tuple[str, ...]:
    """The files that hold hosts' hooks: in a project, and behind `~` in a home folder."""
    return tuple(path for host in HOSTS.values() for path in host.SETUP.paths)


def guarded_files() -> tuple[str, ...]:
    """The files of a project that no agent may change: they say how its work is judged."""
    return ("remand.toml", *(name for name in settings_files() if not name.startswith("~")))


def server_files() -> tuple[str, ...]:
    """The files of a project that name our MCP server."""
    return tuple(host.SETUP.server.path for host in HOSTS.values() if host.SETUP.server.path)
