"""The sandbox that this machine has, and whether it holds."""

from __future__ import annotations

from typing import NamedTuple

from remand.adapters.sandbox import self_test as attacks
from remand.adapters.sandbox.choose import best


class Probe(NamedTuple):
    """One attack on the sandbox."""

    name: str
    held: bool
    detail: str


def self_test() -> tuple[str, str, list[Probe]]:
    """The best sandbox there is, why it is no better, and how it fares under attack."""
    sandbox = best()
    probes = [Probe(probe.name, probe.held, probe.detail) for probe in attacks.self_test(sandbox)]
    return sandbox.tier, sandbox.detail, probes
