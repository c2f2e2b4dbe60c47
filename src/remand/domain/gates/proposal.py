"""Gates that suit a project, as far as its files tell."""

from __future__ import annotations

from remand.domain.gates.gate import Gate
from remand.domain.record import Record


class Proposal(Record, kw_only=True):
    """One gate, and what in the project speaks for it."""

    name: str
    gate: Gate
    why: str


class Proposed(Record, kw_only=True):
    """All gates that suit a project, and the folders in which they find their tools (`[sandbox] path`)."""

    gates: tuple[Proposal, ...] = ()
    path: tuple[str, ...] = ()
