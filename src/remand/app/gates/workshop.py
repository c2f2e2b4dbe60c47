"""Everything measuring works with, in one hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from remand.app.gates.ports import Cache, Checkouts, Mirror, Parse, Reports, Sandbox, Tools


class Parser(NamedTuple):
    """How a tool's words are read, and what is required where the configuration says nothing."""

    parse: Parse
    figures: tuple[str, ...]
    defaults: Mapping[str, float]


class Workshop(NamedTuple):
    """The ports of a place, and what its gates may see."""

    mirror: Mirror
    tree: Callable[[str], str]
    """The code tree of a commit, brought to the mirror once and remembered."""
    checkouts: Checkouts
    sandbox: Sandbox
    parser: Callable[[str], Parser | None]
    cache: Cache
    tools: Tools
    reports: Reports
    prepared: str
    """The folder in which prepared dependencies are kept."""
    root: str
    """The main worktree, in which relative tool folders lie."""
    path: tuple[str, ...]
    """Folders in which programs are found when the configuration names none."""
    hide: tuple[str, ...] = ()
    """What no gate may see: the ledger, keys, sockets."""
