"""The `[run]` table: how agents are started."""

from __future__ import annotations

import os
from typing import Any

from remand.config.values import NAME, ConfigError, known, seconds, text, texts
from remand.domain.record import Record

_RUN = ("network", "read", "write", "environment", "time", "worktrees", "sandbox", "interval")
_SANDBOX = ("best", "required", "off")


class RunSettings(Record, kw_only=True):
    """What agents may reach, and how long one run may take."""

    has_network: bool = True
    """Agents' models are mostly elsewhere."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """Names of variables that agents are given from the scheduler's own environment."""
    seconds: float = 3600.0
    """How long one run may take."""
    worktrees: str = ""
    """Where worktrees are kept; empty: out of everybody's way."""
    sandbox: str = "best"
    """`best` there is, `required` to start nothing without one, or `off`."""
    interval_seconds: float = 60.0
    """How often the forge is polled and what nobody told of is looked for."""


def run(table: dict[str, Any]) -> RunSettings:
    """How agents are started."""
    known(table, _RUN, "run.")
    network = table.get("network", True)
    if not isinstance(network, bool):
        raise ConfigError(f"{NAME}: `run.network` must be true or false.")
    sandbox = text(table.get("sandbox", "best"), "run.sandbox")
    if sandbox not in _SANDBOX:
        raise ConfigError(f"{NAME}: `run.sandbox` is `{sandbox}`; use one of {', '.join(_SANDBOX)}.")
    return RunSettings(
        has_network=network,
        read=_paths(table.get("read", []), "run.read"),
        write=_paths(table.get("write", []), "run.write"),
        environment=_variables(table.get("environment", [])),
        seconds=seconds(table.get("time", "1h"), "run.time"),
        worktrees=text(table.get("worktrees", ""), "run.worktrees"),
        sandbox=sandbox,
        interval_seconds=seconds(table.get("interval", "60s"), "run.interval"),
    )


def _paths(value: Any, key: str) -> tuple[str, ...]:
    paths = tuple(os.path.expanduser(path) for path in texts(value, key))
    if not all(map(os.path.isabs, paths)):
        raise ConfigError(f"{NAME}: `{key}` must name whole paths, from / or ~ on.")
    if not all(os.path.normpath(path).strip("/") for path in paths):
        raise ConfigError(f"{NAME}: `{key}` names the whole disk; name the folders that agents need.")
    return paths


def _variables(value: Any) -> tuple[str, ...]:
    """Names of variables; ours settle who an agent is, and are not for it to have."""
    names = texts(value, "run.environment")
    for name in names:
        if not name.isidentifier() or name.startswith("REMAND_"):
            raise ConfigError(f"{NAME}: `run.environment` cannot hand on `{name[:40]}`; name a variable.")
    return names
