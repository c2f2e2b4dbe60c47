"""How much is measured: a quick look, the usual run, or everything at full size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one run."""

    name: str
    rounds: int
    """How often each operation is timed where operations are interleaved one by one."""
    slices: int
    """How often each queue gets a slice of time with all processes."""
    slice_seconds: float
    queued: int = 10_000
    many_queued: int = 100_000
    processes: int = 32
    events: int = 200_000
    repeats: int = 2
    """How often a whole rebuild is timed."""
    tasks: int = 100_000
    calls: int = 40
    """How often each command line is started."""


QUICK = Scale(name="quick", rounds=150, slices=3, slice_seconds=0.5, calls=20)
USUAL = Scale(name="usual", rounds=400, slices=7, slice_seconds=0.7, repeats=3)
FULL = Scale(name="full", rounds=1500, slices=15, slice_seconds=1.0, events=1_000_000, repeats=3, calls=150)
