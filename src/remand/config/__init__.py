"""`remand.toml`, read once into frozen settings; a mistake is reported with its remedy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from remand.config.gates import parse_gate_policy
from remand.config.project import (
    parse_former_names,
    parse_members,
    parse_policy,
    parse_project_hosts,
    parse_project_id,
    parse_trusted_keys,
)
from remand.config.services import ForgeSettings, ServerSettings, parse_forge, parse_server
from remand.config.values import NAME, ConfigError, require_known_keys, seconds, table, text, texts
from remand.domain.access.keys import PublicKey
from remand.domain.access.team import Member, Team
from remand.domain.gate.gate import GatePolicy
from remand.domain.policy import Policy
from remand.domain.record import Record

_RESERVED_FOLDERS = (".git", ".got", ".got/events", ".got/quarantine")


class RecordSettings(Record, kw_only=True):
    """The folders of the orchestration log, open questions and tasks, relative to the repository's root."""

    orchestration_log: str = ".got/orchestration-log"
    messages: str = ".got/messages"
    tasks: str = ".got/tasks"


def parse_records(table: dict[str, Any]) -> RecordSettings:
    """Parses the folders of each kind of file inside the repository."""
    names = RecordSettings.__struct_fields__
    require_known_keys(table, names, "records.")
    found = {name: _folder(table[name], f"records.{name}") for name in names if name in table}
    settings = RecordSettings(**found)
    if len({settings.orchestration_log, settings.messages, settings.tasks}) < len(names):
        raise ConfigError(f"{NAME}: `records` names one folder twice; give each kind of file its own.")
    return settings


def _folder(value: Any, key: str) -> str:
    path = text(value, key)
    parts = path.rstrip("/").split("/")
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f'{NAME}: `{key}` must be a folder in the repository, as in ".got/messages".')
    if not path.isprintable() or "/".join(parts) in _RESERVED_FOLDERS or parts[0] == ".git":
        raise ConfigError(f"{NAME}: `{key}` is `{path}`, which holds other things; name a folder of its own.")
    return "/".join(parts)


_RUN = ("network", "read", "write", "environment", "time", "worktrees", "sandbox", "interval", "coordinator")
_COORDINATOR = ("auto", "off")
_SANDBOX = ("best", "required", "off")


class RunSettings(Record, kw_only=True):
    """What agents may reach, and how long one run may take."""

    has_network: bool = True
    """On by default: most models run elsewhere."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """Names of environment variables that agents inherit from the scheduler."""
    seconds: float = 3600.0
    """Time limit of one run."""
    worktrees: str = ""
    """Where worktrees are; if empty, in Remand's state folder."""
    sandbox: str = "best"
    """`best` available, `required` to start nothing without one, or `off`."""
    interval_seconds: float = 60.0
    """How often the forge is polled, and unreported changes are looked for."""
    coordinator: str = "auto"
    """`auto`: the user's commands and the scheduler start a coordinator if none runs; or `off`."""

    @property
    def starts_coordinator(self) -> bool:
        """Whether a coordinator may be started if none runs."""
        return self.coordinator == "auto"

    def agent_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The part of an environment that agents inherit."""
        return {name: value for name, value in environment.items() if name in self.environment}


def parse_run(table: dict[str, Any]) -> RunSettings:
    """Parses how agents are started."""
    require_known_keys(table, _RUN, "run.")
    network = table.get("network", True)
    if not isinstance(network, bool):
        raise ConfigError(f"{NAME}: `run.network` must be true or false.")
    sandbox = text(table.get("sandbox", "best"), "run.sandbox")
    if sandbox not in _SANDBOX:
        raise ConfigError(f"{NAME}: `run.sandbox` is `{sandbox}`; use one of {', '.join(_SANDBOX)}.")
    coordinator = text(table.get("coordinator", "auto"), "run.coordinator")
    if coordinator not in _COORDINATOR:
        raise ConfigError(
            f"{NAME}: `run.coordinator` is `{coordinator}`; use one of {', '.join(_COORDINATOR)}."
        )
    return RunSettings(
        has_network=network,
        read=_paths(table.get("read", []), "run.read"),
        write=_paths(table.get("write", []), "run.write"),
        environment=_variables(table.get("environment", [])),
        seconds=seconds(table.get("time", "1h"), "run.time"),
        worktrees=text(table.get("worktrees", ""), "run.worktrees"),
        sandbox=sandbox,
        interval_seconds=seconds(table.get("interval", "60s"), "run.interval"),
        coordinator=coordinator,
    )


def _paths(value: Any, key: str) -> tuple[str, ...]:
    paths = tuple(os.path.expanduser(path) for path in texts(value, key))
    if not all(map(os.path.isabs, paths)):
        raise ConfigError(f"{NAME}: `{key}` must name whole paths, from / or ~ on.")
    if not all(os.path.normpath(path).strip("/") for path in paths):
        raise ConfigError(f"{NAME}: `{key}` is the whole disk; name only the folders that agents need.")
    return paths


def _variables(value: Any) -> tuple[str, ...]:
    """Names of variables; refuses Remand's own, since they identify an agent."""
    names = texts(value, "run.environment")
    for name in names:
        if not name.isidentifier() or name.startswith("REMAND_"):
            raise ConfigError(
                f"{NAME}: `run.environment` cannot pass on `{name[:40]}`; give the name of a variable."
            )
    return names


__all__ = [
    "NAME",
    "ConfigError",
    "ForgeSettings",
    "RecordSettings",
    "RunSettings",
    "Settings",
    "inherited_environment",
    "parse",
]

_TOP = ("project", "keys", "team", "gates", "policy", "forge", "sandbox", "records", "run", "server")


class Settings(Record, kw_only=True):
    """The configuration, and where it was read."""

    team: tuple[Member, ...] = ()
    former: tuple[str, ...] = ()
    """The names of members who left the team."""
    policy: Policy = Policy()
    gate_policy: GatePolicy = GatePolicy()
    forge: ForgeSettings = ForgeSettings()
    records: RecordSettings = RecordSettings()
    run: RunSettings = RunSettings()
    server: ServerSettings | None = None
    """How the server is reached, and who logs people in; None without a `[server]` table."""
    base: str = ""
    project: str = ""
    """The project's id, to which signatures are bound; empty if it has none."""
    hosts: tuple[str, ...] = ()
    """The agent hosts whose hooks every clone should install."""
    trusted: tuple[PublicKey, ...] = ()
    has_keys: bool = False
    """True if there is a `[keys]` table."""
    source: str = ""
    """Empty if there is no configuration, else the branch, or `working tree`."""

    @property
    def gates(self) -> tuple[str, ...] | None:
        """The gates' names; None if there is no `[gates]` table."""
        gates = self.gate_policy.gates
        return None if gates is None else tuple(gate.name for gate in gates)

    def as_team(self) -> Team:
        """The members, indexed for look-up."""
        return Team(self.team, self.former)


def inherited_environment(*without: str) -> dict[str, str]:
    """This process's environment for a child process, without variables that start with one of the prefixes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}


def parse(content: str, source: str = "") -> Settings:
    """Parses a configuration; raises `ConfigError` for anything unknown or wrong."""
    import tomllib  # Imported only if there is a configuration.

    try:
        data = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{NAME} is not TOML: {error}. Fix that line.") from None
    require_known_keys(data, _TOP, "")
    project = table(data, "project")
    require_known_keys(project, ("base", "id", "hosts"), "project.")
    return Settings(
        team=parse_members(table(data, "team")),
        former=parse_former_names(table(data, "team")) if "former" in data.get("team", {}) else (),
        policy=parse_policy(table(data, "policy")),
        gate_policy=parse_gate_policy(data),
        forge=parse_forge(table(data, "forge")),
        records=parse_records(table(data, "records")),
        run=parse_run(table(data, "run")),
        server=parse_server(table(data, "server")) if "server" in data else None,
        base=text(project.get("base", ""), "project.base"),
        project=parse_project_id(project),
        hosts=parse_project_hosts(project),
        trusted=parse_trusted_keys(table(data, "keys")),
        has_keys="keys" in data,
        source=source,
    )
