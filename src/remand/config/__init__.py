"""`remand.toml`: read once, into frozen settings; what is wrong in it is named with its remedy."""

from __future__ import annotations

import os
import tomllib

from remand.config.forge import ForgeSettings, forge
from remand.config.gates import gate_policy
from remand.config.hosts import hosts_line, project_hosts, with_hosts
from remand.config.keys import project_id, trusted_keys
from remand.config.policy import policy
from remand.config.records import RecordSettings, records
from remand.config.run import RunSettings, run
from remand.config.team import former_names, members
from remand.config.values import NAME, ConfigError, known, table, text
from remand.domain.gates.gate import GatePolicy
from remand.domain.keys import PublicKey
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.roles import Member, Team

__all__ = [
    "NAME",
    "ConfigError",
    "ForgeSettings",
    "RecordSettings",
    "RunSettings",
    "Settings",
    "hosts_line",
    "inherited_environment",
    "parse",
    "with_hosts",
]

_TOP = ("project", "keys", "team", "gates", "policy", "forge", "sandbox", "records", "run")


class Settings(Record, kw_only=True):
    """The configuration, and where it was read."""

    team: tuple[Member, ...] = ()
    former: tuple[str, ...] = ()
    """The names of members who have left the team."""
    policy: Policy = Policy()
    gate_policy: GatePolicy = GatePolicy()
    forge: ForgeSettings = ForgeSettings()
    records: RecordSettings = RecordSettings()
    run: RunSettings = RunSettings()
    base: str = ""
    project: str = ""
    """The project's id, which signatures are bound to; empty when it has none."""
    hosts: tuple[str, ...] = ()
    """The agents' hosts that every clone should have our hooks in."""
    trusted: tuple[PublicKey, ...] = ()
    has_keys: bool = False
    """True when there is a `[keys]` table."""
    source: str = ""
    """Empty when nothing was found, else the branch, or `working tree`."""

    @property
    def gates(self) -> tuple[str, ...] | None:
        """The gates' names; None when there is no `[gates]` table."""
        gates = self.gate_policy.gates
        return None if gates is None else tuple(gate.name for gate in gates)

    def as_team(self) -> Team:
        """The members, ready to be looked up."""
        return Team(self.team, self.former)


def inherited_environment(*without: str) -> dict[str, str]:
    """This process's environment for a child, without what starts with one of the given texts."""
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}


def parse(content: str, source: str = "") -> Settings:
    """Reads a configuration; raises `ConfigError` on anything unknown or wrong."""
    try:
        data = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{NAME} is not TOML: {error}. Mend that line.") from None
    known(data, _TOP, "")
    project = table(data, "project")
    known(project, ("base", "id", "hosts"), "project.")
    return Settings(
        team=members(table(data, "team")),
        former=former_names(table(data, "team")) if "former" in data.get("team", {}) else (),
        policy=policy(table(data, "policy")),
        gate_policy=gate_policy(data),
        forge=forge(table(data, "forge")),
        records=records(table(data, "records")),
        run=run(table(data, "run")),
        base=text(project.get("base", ""), "project.base"),
        project=project_id(project),
        hosts=project_hosts(project),
        trusted=trusted_keys(table(data, "keys")),
        has_keys="keys" in data,
        source=source,
    )
