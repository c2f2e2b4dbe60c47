"""Agents' commands: which host each starts, and what that is given and tells."""

from __future__ import annotations

import os
import shutil
import sys

from remand.adapters.hosts.commands import host_of
from remand.adapters.hosts.fitting import Fitting, HostSetting
from remand.app.scheduling.ports import Hosts
from remand.config import inherited_environment

__all__ = ["host_of", "make_hosts"]

OWN = "remand"


def make_hosts(folder: str, *, is_confined: bool) -> Hosts:
    """Fits out agents' commands as this user would start them, each in a folder of its own in the given one.

    Nobody else uses that: what is in it already was left by a scheduler that was killed, and its agents with it.
    """
    fitting = Fitting(
        HostSetting(
            folder=folder,
            program=_executable(),
            home=os.path.expanduser("~"),
            surroundings=inherited_environment("REMAND_"),
            is_confined=is_confined,
        )
    )
    fitting.sweep()
    return fitting


def _executable() -> str:
    """Our own program, by its path: an agent's PATH may name another."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), OWN)
    return beside if os.access(beside, os.X_OK) else os.path.abspath(shutil.which(OWN) or OWN)
