"""Agents' commands: which host each starts, and what that is given and tells."""

from __future__ import annotations

import os

from remand.adapters.hosts.commands import host_of
from remand.adapters.hosts.fitting import Fitting, HostSetting
from remand.adapters.sandbox.agent_view import own_program
from remand.app.scheduling.ports import Hosts
from remand.config import inherited_environment

__all__ = ["host_of", "make_hosts"]


def make_hosts(folder: str, *, is_confined: bool) -> Hosts:
    """Fits out agents' commands as this user would start them, each in a folder of its own in the given one.

    Nobody else uses that: what is in it already was left by a scheduler that was killed, and its agents with it.
    """
    fitting = Fitting(
        HostSetting(
            folder=folder,
            program=own_program(),
            home=os.path.expanduser("~"),
            surroundings=inherited_environment("REMAND_"),
            is_confined=is_confined,
        )
    )
    fitting.sweep()
    return fitting
