"""How much is measured: a quick look, the usual run, or everything at full size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one run."""

    name: str
    rounds: int
    """How often each operation is timed where operations are interleaved one by one."""
    turns: int
    """How often each queue is claimed from by all processes at once."""
    share: int = 40
    """How many claims each process has in a turn."""
    slice_seconds: float = 0.5
    queued: int = 10_000
    many_queued: int = 100_000
    processes: int = 32
    events: int = 200_000
    repeats: int = 2
    """How often a whole rebuild is timed."""
    tasks: int = 100_000
    calls: int = 40
    """How often each command line is started."""
    patience: float = 5.0
    """How many seconds a measurement may wait, in all, for moments when others leave the machine alone."""


QUICK = Scale(name="quick", rounds=150, turns=3, calls=20)
USUAL = Scale(name="usual", rounds=400, turns=7, repeats=3, patience=15)
FULL = Scale(name="full", rounds=1500, turns=15, events=1_000_000, repeats=3, calls=150, patience=120)
