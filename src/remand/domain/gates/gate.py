"""A gate as the configuration has it."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256

import msgspec

from remand.domain.record import Record

_encode = msgspec.json.Encoder(order="deterministic").encode


class Mode(StrEnum):
    """What a gate's figures are held against."""

    DELTA = "delta"
    """The threshold, or a base that misses it already."""
    RATCHET = "ratchet"
    """As delta, and within the threshold nothing may get worse."""
    STRICT = "strict"
    """The threshold alone."""


class Prepare(Record, kw_only=True):
    """How a gate's dependencies are made ready, once for each state of the lock files."""

    command: tuple[str, ...]
    """`{cache}` in it is the folder that is kept, and that gates find again as `{cache}`."""
    key: tuple[str, ...] = ()
    """The files whose content decides whether it runs again."""
    timeout: float = 900.0


class Gate(Record, kw_only=True):
    """A command, the parser of what it says, and the figures it must reach."""

    name: str
    command: tuple[str, ...]
    """`{report}` in it is a file outside the checkout, `{cache}` the prepared folder."""
    parser: str = "exit"
    require: dict[str, float] = msgspec.field(default_factory=dict)
    """Thresholds by name: `max_…` or `min_…` and one of the parser's figures."""
    timeout: float = 600.0
    mode: Mode = Mode.DELTA
    paths: tuple[str, ...] = ()
    """Patterns of the files the gate is about; untouched by a change, it is not run. None: always run."""
    required: bool = True
    """False: its result is shown and changes nothing."""
    prepare: Prepare | None = None
    retries: int = 0
    """How often failed tests are run again; one that then passes is flaky, and is said to be."""


class GatePolicy(Record, kw_only=True):
    """All gates of a configuration, with what holds for all of them."""

    gates: tuple[Gate, ...] | None = None
    """None when the configuration has no `[gates]` table."""
    integrity: bool = True
    protected: tuple[str, ...] = ()
    """Further patterns of files that only the base may change (`[gates.integrity] protected`)."""
    enforce: bool = True
    """False: everything is judged and recorded, and nothing is stopped."""
    read: tuple[str, ...] = ()
    """Further folders that gates may read (`[sandbox] read`)."""
    path: tuple[str, ...] = ()
    """Folders where gates find their tools (`[sandbox] path`); relative ones lie in the main worktree."""
    probes: tuple[tuple[str, ...], ...] = ()
    """Commands that evidence may name to be run again, by their first words (`[sandbox] probes`)."""
    hosts: tuple[str, ...] = ()
    """Hosts a probe may look at (`[sandbox] hosts`)."""


def digest(policy: GatePolicy) -> str:
    """A short text that changes when the gates' rules do."""
    return sha256(_encode(policy)).hexdigest()[:16]
