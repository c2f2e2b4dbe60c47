"""What this machine offers: versions of git and SQLite, and the sandboxes for gates and agents, tested by attacks, and the launch of agents."""

from __future__ import annotations

import os
import tempfile

import apsw

from remand.adapters.git.command import run_git
from remand.adapters.hosts.launcher import HostLauncher, LauncherSettings
from remand.adapters.sandbox import self_test
from remand.adapters.sandbox.agent_launchers import own_program
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import SandboxReport
from remand.app.scheduler.ports import Hosts
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


def attack_gate_sandbox() -> SandboxReport:
    """How the best sandbox for gates fares under attack."""
    return self_test.report_on_gates()


def attack_agent_sandbox() -> SandboxReport:
    """How what holds agents fares under attack, from inside one."""
    return self_test.report_on_agents()


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
