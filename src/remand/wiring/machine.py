"""What this machine offers: versions of git and SQLite, and the sandboxes for gates and agents, tested by attacks, and the launch of agents."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from functools import cache
from typing import NamedTuple

import apsw

from remand.adapters.git.repository import run_git
from remand.adapters.hosts.launcher import HostLauncher, LauncherSettings
from remand.adapters.sandbox import agent_self_test
from remand.adapters.sandbox import self_test as attacks
from remand.adapters.sandbox.agent_launchers import ConfinedAgentLauncher, PlainAgentLauncher
from remand.adapters.sandbox.file_view import PROCESSES, own_program
from remand.adapters.sandbox.limits import allow_open_files
from remand.adapters.sandbox.sandboxes import best_sandbox, find_bubblewrap
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import AgentLauncher, Hosts
from remand.config import inherited_environment


def sqlite_version() -> str:
    """The version of SQLite in use."""
    return apsw.sqlite_lib_version()


def git_version() -> str:
    """The version of git; empty when there is none."""
    try:
        answer = run_git(tempfile.gettempdir(), "--version")
    except (EnvironmentFault, OSError):
        return ""
    return os.fsdecode(answer.stdout).strip().removeprefix("git version ")


class GateSandboxCheck(NamedTuple):
    """One attack on the sandbox."""

    name: str
    held: bool
    detail: str


def attack_gate_sandbox() -> tuple[str, str, list[GateSandboxCheck]]:
    """The best sandbox there is, why it is no better, and how it fares under attack."""
    sandbox = best_sandbox()
    probes = [GateSandboxCheck(probe.name, probe.held, probe.detail) for probe in attacks.self_test(sandbox)]
    return sandbox.tier, sandbox.detail, probes


OPEN_FILES = 16_384
CONFINED = ConfinedAgentLauncher.tier
_confinement_lock = threading.Lock()


class AgentSandboxCheck(NamedTuple):
    """One attack by an agent."""

    name: str
    held: bool
    detail: str
    excuse: str
    """What this machine lacks for it to be held off."""


class AgentSandboxReport(NamedTuple):
    """What holds agents here, why nothing better does, and how it fares under attack."""

    tier: str
    detail: str
    probes: tuple[AgentSandboxCheck, ...]

    @property
    def breaches(self) -> tuple[AgentSandboxCheck, ...]:
        """The attacks that got through although they should not."""
        return tuple(probe for probe in self.probes if not (probe.held or probe.excuse))


def make_agent_launcher(sandbox: str = "best") -> AgentLauncher:
    """What starts agents: held as well as they can be, not at all (`off`), or else nothing is started (`required`).

    Its `detail` says why they are not held better.
    """
    allow_open_files(OPEN_FILES)
    if sandbox == "off":
        return PlainAgentLauncher(detail="The sandbox is switched off by `run.sandbox` in remand.toml.")
    made = _best_launcher(PROCESSES)
    if sandbox == "required" and made.tier != CONFINED:
        raise EnvironmentFault(
            f"Agents cannot be confined here, which `run.sandbox` in remand.toml requires: {made.detail}."
            " Install bubblewrap, or see `remand doctor`."
        )
    return made


def attack_agent_sandbox() -> AgentSandboxReport:
    """Attacks what holds agents here, from inside one."""
    crew = _best_launcher(agent_self_test.PROCESSES)
    probes = tuple(AgentSandboxCheck(*probe) for probe in agent_self_test.attack_launcher(crew))
    return AgentSandboxReport(crew.tier, crew.detail, probes)


def _best_launcher(processes: int) -> AgentLauncher:
    fault = _confinement_fault()
    if fault:
        return PlainAgentLauncher(detail=fault, processes=processes)
    return ConfinedAgentLauncher(find_bubblewrap(), processes=processes)


def _confinement_fault() -> str:
    with _confinement_lock:
        return _try_confinement()


@cache
def _try_confinement() -> str:
    """Why agents cannot be confined here; empty when they can. Tried out once in a process."""
    if sys.platform != "linux":
        return "Only Linux has a sandbox that Remand knows."
    path = find_bubblewrap()
    if not path:
        return "bubblewrap is not installed (the package is called bubblewrap)"
    fault = agent_self_test.find_agent_fault(ConfinedAgentLauncher(path))
    return f"bubblewrap: {fault}" if fault else ""


def make_launch_configs(folder: str, *, is_confined: bool) -> Hosts:
    """Fits out agents' commands as this user would start them, each in a folder of its own in the given one.

    Nobody else uses that: what is in it already was left by a scheduler that was killed, and its agents with it.
    """
    fitting = HostLauncher(
        LauncherSettings(
            folder=folder,
            program=own_program(),
            home=os.path.expanduser("~"),
            surroundings=inherited_environment("REMAND_"),
            is_confined=is_confined,
        )
    )
    fitting.sweep()
    return fitting
