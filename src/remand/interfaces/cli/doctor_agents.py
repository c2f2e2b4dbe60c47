"""The doctor's look at agents: what holds those that `remand run` starts, attacked from inside one."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator

from remand.bootstrap.crew import CONFINED, Tested
from remand.domain.roles import Member
from remand.interfaces.cli.checks import Check

UNCONFINED = "nothing: agents run as this user, without a sandbox"


def tier_of(tested: Tested) -> int:
    """Which tier of enforcement holds for agents that `remand run` starts."""
    return 1 if tested.tier == CONFINED and not tested.broken else 0


def command_checks(members: Iterable[Member]) -> Iterator[Check]:
    """Whether the programs are there that members are started with."""
    named = [member for member in members if member.command]
    lost = [member for member in named if shutil.which(member.command[0]) is None]
    if not named:
        return
    told = ", ".join(f"{member.command[0]} ({member.name})" for member in lost)
    yield Check(
        "agent commands",
        not lost,
        f"{len(named) - len(lost)} of {len(named)} members with a command can be started",
        f"Install {told}, or mend the command in remand.toml." if lost else "",
    )


def agent_checks(tested: Tested, *, is_off: bool = False) -> Iterator[Check]:
    """What holds agents, and how it fared."""
    if is_off:
        yield Check(
            "agents", True, f"agents are held by: {UNCONFINED}", "`run.sandbox` in remand.toml is off."
        )
        return
    is_confined = tested.tier == CONFINED
    yield Check(
        "agents",
        True,
        f"agents are held by: {tested.tier if is_confined else UNCONFINED}",
        "" if is_confined else f"Install bubblewrap to confine them ({tested.detail}).",
    )
    held = [probe.name for probe in tested.probes if probe.held]
    lost = [probe for probe in tested.probes if not probe.held]
    told = [f"{probe.name} ({probe.excuse or probe.detail})" if is_confined else probe.name for probe in lost]
    yield Check(
        "agent probes",
        not (is_confined and tested.broken),
        f"{len(held)} of {len(tested.probes)} attacks by an agent were held: {', '.join(held)}",
        f"Not held: {', '.join(told)}." if lost else "",
    )
