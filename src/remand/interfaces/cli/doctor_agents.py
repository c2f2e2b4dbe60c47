"""The doctor's look at agents: what holds those that `remand run` starts, attacked from inside one."""

from __future__ import annotations

from collections.abc import Iterator

from remand.bootstrap.crew import CONFINED, Tested
from remand.interfaces.cli.checks import Check

UNCONFINED = "nothing: agents run as this user, without a sandbox"


def tier_of(tested: Tested) -> int:
    """Which tier of enforcement holds for agents that `remand run` starts."""
    return 1 if tested.tier == CONFINED and not tested.broken else 0


def agent_checks(tested: Tested) -> Iterator[Check]:
    """What holds agents, and how it fared."""
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
