"""The tests of a gate on both sides, and how much time extra runs of them may take."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from remand.domain.gate.gate import Gate, Irregularity, RunCheck, TestOutcome, WatchedTest
from remand.integrity.comparison import FileDiff
from remand.integrity.cross_runs import BAD_OUTCOMES, TestRuns
from remand.integrity.rules.missing_tests import ChangedPaths
from remand.integrity.suspicions import Suspicion, suspicion

EXTRA_RUNS = 1.5
"""How long extra runs may take, as a multiple of the gate's own time."""
SHORT_RUNS_SECONDS = 20.0
"""How long extra runs may take even if the gate itself takes only a moment."""
START_SHARE = 0.1
"""The least time that a run takes besides its tests, as a share of the gate's own time."""


def make_left_out(kind: RunCheck, gate: str, seconds: float) -> Suspicion:
    """A note of a kind of extra run that did not fit."""
    text = f"`{kind}` of the gate `{gate}` would take {seconds:.0f} s more"
    return suspicion("run_left_out", "", 0, text, f"{kind} {gate}")


class TimeLeft:
    """What is left of the time for extra runs of a gate; a run that confirms a finding does not count."""

    def __init__(self, gate_seconds: float) -> None:
        self._seconds = max(EXTRA_RUNS * gate_seconds, SHORT_RUNS_SECONDS)

    def covers(self, cost: float) -> bool:
        return cost <= self._seconds

    def spend(self, cost: float) -> None:
        self._seconds -= cost


class TestSides(NamedTuple):
    """The test results of one gate, on the base and on the head."""

    gate: Gate
    on_base: tuple[TestOutcome, ...]
    on_head: tuple[TestOutcome, ...]
    watched: tuple[tuple[WatchedTest, ...], tuple[WatchedTest, ...]]
    """The same results as the runner reported them during the run."""
    irregularities: tuple[Irregularity, ...]
    seconds: float
    """How long the gate took on the head."""
    left: TimeLeft
    """The time for its extra runs."""
    is_selective: bool
    """True if the gate's runner can run only the named files."""

    def seconds_of(self, files: Sequence[str]) -> float:
        """The time that a run of the tests in some files takes."""
        named = ChangedPaths([FileDiff(status="M", path=path) for path in files])
        left_out = sum(test.seconds for test in self.on_head if not named.path_of(test.id))
        return max(self.seconds - left_out, START_SHARE * self.seconds)

    def seconds_of_some(self, files: Sequence[str]) -> float:
        """How long a run takes that needs the tests in some files only."""
        return self.seconds_of(files) if files and self.is_selective else self.seconds

    def short_gate(self, cost: float, retries: int = 0) -> Gate:
        """The gate with a time limit for an extra run of this expected length, because the code may hang there."""
        timeout = min(self.gate.timeout, max(2.0 * ceil(cost), SHORT_RUNS_SECONDS))
        return replace(self.gate, timeout=timeout, retries=retries)

    def runs(self, crossed: tuple[TestOutcome, ...]) -> TestRuns:
        return TestRuns(on_base=self.on_base, on_head=self.on_head, crossed=crossed)

    @property
    def has_failures(self) -> bool:
        return any(test.outcome in BAD_OUTCOMES for test in self.on_head)

    @property
    def has_new_failures(self) -> bool:
        """True if the gate already rejects the work, so that no crossed run is needed."""
        known = {test.id for test in self.on_base if test.outcome in BAD_OUTCOMES}
        return any(test.outcome in BAD_OUTCOMES and test.id not in known for test in self.on_head)
