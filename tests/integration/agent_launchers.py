"""Every launcher that this machine has, and what tests ask of agents that one has started."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from remand.adapters.sandbox.agent_launchers import ConfinedAgentLauncher, PlainAgentLauncher
from remand.adapters.sandbox.sandboxes import find_bubblewrap
from remand.adapters.sandbox.self_test import AgentTestbed
from remand.app.scheduler.ports import AgentLaunch, AgentLauncher, RunEnd, RunningAgent
from tests.integration.sandboxes import marked, sandbox_of

KINDS = ("confined", "unconfined")
PATIENCE = 600.0


def launcher_of(kind: str, **more: int) -> AgentLauncher:
    """A launcher of a kind; skips the test where there is none."""
    if kind == "unconfined":
        return PlainAgentLauncher(**more)
    sandbox_of("bubblewrap")
    return ConfinedAgentLauncher(find_bubblewrap(), **more)


def eventually(is_so: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Waits until something is so; fails when it is not to be."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.005)


def end_of(running: RunningAgent) -> RunEnd:
    """How a run ends, waited for."""
    eventually(lambda: running.poll() is not None)
    ended = running.poll()
    assert ended is not None
    return ended


class Bench:
    """A launcher, a small world for its agents, and a mark by which everything of them is found again."""

    def __init__(self, launcher: AgentLauncher, stand: AgentTestbed) -> None:
        self.launcher = launcher
        self.stand = stand
        self.folder = Path(stand.worktree.folder)
        self.mark = secrets.token_hex(16)

    def order(self, *command: str, **more: object) -> AgentLaunch:
        """A run that carries the mark."""
        given: dict[str, object] = {
            "environment": {"MARK": self.mark},
            "log": self.stand.path(f"logs/{self.mark}"),
        } | more
        return self.stand.order(*command, **given)

    def start(self, *command: str, seconds: float = 600.0, **more: object) -> RunningAgent:
        """Starts an agent."""
        order = self.order(*command, **more)
        bounds = msgspec.structs.replace(order.bounds, seconds=seconds)
        return self.launcher.start(msgspec.structs.replace(order, bounds=bounds))

    def shell(self, script: str, *arguments: str, **more: object) -> RunEnd:
        """Runs an agent that is a shell script to its end."""
        return end_of(self.start("/bin/sh", "-c", script, self.mark, *arguments, **more))

    def python(self, script: str, *arguments: str, **more: object) -> RunEnd:
        """Runs an agent that is a Python script to its end."""
        return end_of(self.start(sys.executable, "-I", "-S", "-c", script, *arguments, **more))

    def log(self) -> bytes:
        """What was written to the log."""
        return Path(self.order().log).read_bytes()

    def survivors(self) -> list[str]:
        """What runs that carries the mark, in its environment or on its command line."""
        return marked(self.mark)
