"""Holds that a lockout outlives whatever befalls the ledger, its files, its machine and the agent's name."""

import random
from collections.abc import Callable

import pytest

from tests.integration.lockout_threats import DISTURBANCES, LOCKED, NO_PART, REVIEWER, Site
from tests.integration.machine import Machine

Campaign = Callable[[int, int], int]
PARTS = 4
MORE = 6
"""Fewer than so many disturbances follow the first."""


def mixture(seed: int) -> list[str]:
    """Some of what may happen, in some order. Of a dozen mixtures in a row, each begins with something else."""
    chance, names = random.Random(seed), list(DISTURBANCES)
    return [names[seed % len(names)], *chance.choices(names, k=chance.randrange(MORE))]


def survived(mix: list[str], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a mixture befall a project, and proves that its author is kept away and another is not."""
    machine = Machine(is_near=True)
    try:
        with monkeypatch.context() as patch:
            for name, value in machine.environment.items():
                patch.setenv(name, value)
            site = Site(machine, random.Random(seed), patch)
            for name in mix:
                DISTURBANCES[name](site)
                assert site.try_claim() == LOCKED, name
            for task in site.tasks[:: max(1, len(site.tasks) - 1)]:
                assert site.accepted_calls(task) == []
            another_finishes(site)
    finally:
        machine.close()


def another_finishes(site: Site) -> None:
    """Somebody else hands the work in; the author cannot approve it under any name, and a reviewer can."""
    task, repository = site.tasks[0], site.repository
    worker, _ = site.taken(task)
    repository.ok("task", "prompt", task, "--agent", worker)
    commit = site.work()
    repository.ok("task", "submit", task, "--agent", worker, "--commit", commit, "--branch", "work")
    for name in site.names:
        refused = repository.refused("review", "approve", task, "--reviewer", name, "--commit", commit)
        assert refused in (NO_PART, LOCKED), name
    done = repository.ok("review", "approve", task, "--reviewer", REVIEWER, "--commit", commit)
    assert done["status"] == "done"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_lockout_survives_any_mixture(
    part: int,
    campaign: Campaign,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    count = campaign(12, 1_000) // PARTS
    record_property("mixtures", count)
    for seed in range(part * count, (part + 1) * count):
        mix = mixture(seed)
        print(f"mixture {seed}: {', '.join(mix)}")
        survived(mix, seed, monkeypatch)


@pytest.mark.parametrize("seed", [584], ids=["a publish killed while it brings a file back"])
def test_a_lockout_survives_what_once_befell_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    survived(mixture(seed), seed, monkeypatch)
