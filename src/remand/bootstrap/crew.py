"""What starts agents on this machine, how it holds them, and whether it holds."""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import NamedTuple

from remand.adapters.sandbox import agent_probes
from remand.adapters.sandbox.agent_view import PROCESSES
from remand.adapters.sandbox.bubblewrap import find
from remand.adapters.sandbox.confined import ConfinedCrew
from remand.adapters.sandbox.limits import allow_open_files
from remand.adapters.sandbox.unconfined import UnconfinedCrew
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.ports import Crew

OPEN_FILES = 16_384
CONFINED = ConfinedCrew.tier
_choosing = threading.Lock()


class Probe(NamedTuple):
    """One attack by an agent."""

    name: str
    held: bool
    detail: str
    excuse: str
    """What this machine lacks for it to be held off."""


class Tested(NamedTuple):
    """What holds agents here, why nothing better does, and how it fares under attack."""

    tier: str
    detail: str
    probes: tuple[Probe, ...]

    @property
    def broken(self) -> tuple[Probe, ...]:
        """The attacks that got through although they should not."""
        return tuple(probe for probe in self.probes if not (probe.held or probe.excuse))


def make_crew(sandbox: str = "best") -> Crew:
    """What starts agents: held as well as they can be, not at all (`off`), or else nothing is started (`required`).

    Its `detail` says why they are not held better.
    """
    allow_open_files(OPEN_FILES)
    if sandbox == "off":
        return UnconfinedCrew(detail="The sandbox is switched off by `run.sandbox` in remand.toml.")
    made = _made(PROCESSES)
    if sandbox == "required" and made.tier != CONFINED:
        raise EnvironmentFault(
            f"Agents cannot be confined here, which `run.sandbox` in remand.toml requires: {made.detail}."
            " Install bubblewrap, or see `remand doctor`."
        )
    return made


def self_test() -> Tested:
    """Attacks what holds agents here, from inside one."""
    crew = _made(agent_probes.PROCESSES)
    probes = tuple(Probe(*probe) for probe in agent_probes.attack(crew))
    return Tested(crew.tier, crew.detail, probes)


def _made(processes: int) -> Crew:
    fault = _fault()
    if fault:
        return UnconfinedCrew(detail=fault, processes=processes)
    return ConfinedCrew(find(), processes=processes)


def _fault() -> str:
    with _choosing:
        return _tried()


@cache
def _tried() -> str:
    """Why agents cannot be confined here; empty when they can. Tried out once in a process."""
    if sys.platform != "linux":
        return "Only Linux has a sandbox that Remand knows."
    path = find()
    if not path:
        return "bubblewrap is not installed (the package is called bubblewrap)"
    fault = agent_probes.fault_of(ConfinedCrew(path))
    return f"bubblewrap: {fault}" if fault else ""
