"""`remand.toml`: read once, into frozen settings; what is wrong in it is named with its remedy."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import tomllib
from typing import Any

from remand.domain.ids import is_agent_name
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.roles import Member, Role, Team
from remand.domain.steps import MAX_LEASE_SECONDS

NAME = "remand.toml"

_TOP = ("project", "team", "gates", "policy", "forge", "sandbox")
_MEMBER = ("name", "role", "roles", "skills", "aliases", "accounts", "paths", "command", "capacity")
_GATE = (
    "command",
    "parser",
    "require",
    "timeout",
    "mode",
    "paths",
    "required",
    "prepare",
    "ratchet",
    "enabled",
)
_POLICY = (
    "lockout",
    "escalate_after_reviews",
    "alert_after_gates",
    "escalate_after_gates",
    "max_invalid_rejections",
    "lease",
    "director",
    "adviser",
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ROLES = (Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR, Role.USER)


class ConfigError(Exception):
    """A key or value in the configuration that is wrong, with what to do about it."""


class Settings(Record, kw_only=True):
    """The configuration, and where it was read."""

    team: tuple[Member, ...] = ()
    policy: Policy = Policy()
    gates: tuple[str, ...] | None = None
    """The gates' names; None when there is no `[gates]` table."""
    base: str = ""
    source: str = ""
    """Empty when nothing was found, else the branch, or `working tree`."""

    def as_team(self) -> Team:
        """The members, ready to be looked up."""
        return Team(self.team)


def inherited_environment(*without: str) -> dict[str, str]:
    """This process's environment for a child, without what starts with one of the given texts."""
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}


def parse(text: str, source: str = "") -> Settings:
    """Reads a configuration; raises `ConfigError` on anything unknown or wrong."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{NAME} is not TOML: {error}. Mend that line.") from None
    _known(data, _TOP, "")
    project = _table(data, "project")
    _known(project, ("base",), "project.")
    return Settings(
        team=_members(_table(data, "team")),
        policy=_policy(_table(data, "policy")),
        gates=_gates(data),
        base=_text(project.get("base", ""), "project.base"),
        source=source,
    )


def _known(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in names:
            close = difflib.get_close_matches(key, names, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(names)}."
            raise ConfigError(f"{NAME}: there is no key `{where}{key}`; {hint}")


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{NAME}: `{key}` must be a table; write `[{key}]`.")
    return value


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f'{NAME}: `{key}` must be text; write it as `{key.rpartition(".")[2]} = "…"`.')
    return value


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{NAME}: `{key}` must be a list of texts, as in `["a", "b"]`.')
    return tuple(value)


def _count(value: Any, key: str, least: int = 1, most: int = 1 << 31) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{NAME}: `{key}` must be a whole number of at least {least}.")
    if value > most:
        raise ConfigError(f"{NAME}: `{key}` must be at most {most}.")
    return value


def _seconds(value: Any, key: str) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f'{NAME}: `{key}` must be a duration such as "90s", "10m" or "2h".')
    return float(match[1]) * _SECONDS[match[2]]


def _members(team: dict[str, Any]) -> tuple[Member, ...]:
    _known(team, ("members",), "team.")
    rows = team.get("members", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(
            f'{NAME}: `team.members` must be a list of tables such as {{name = "A", role = "agent"}}.'
        )
    members = tuple(_member(row, f"team.members[{number}].") for number, row in enumerate(rows))
    names = [name for member in members for name in (member.name, *member.aliases, *member.accounts)]
    if not all(map(is_agent_name, names)):
        raise ConfigError(
            f"{NAME}: a member's alias or account is no name: use up to 64 letters, digits or @ . + - _ / :"
        )
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(
            f"{NAME}: two members go by the name `{double}`; every name and alias is one member's."
        )
    return members


def _member(row: dict[str, Any], where: str) -> Member:
    _known(row, _MEMBER, where)
    name = _text(row.get("name", ""), f"{where}name")
    if not is_agent_name(name):
        raise ConfigError(
            f"{NAME}: `{where}name` must be a name of up to 64 letters, digits or @ . + - _ / :"
        )
    if "role" in row and "roles" in row:
        raise ConfigError(f"{NAME}: `{where}role` and `{where}roles` both stand there; keep one.")
    roles = (
        _texts(row["roles"], f"{where}roles")
        if "roles" in row
        else (_text(row.get("role", "agent"), f"{where}role"),)
    )
    for role in roles:
        if role not in _ROLES:
            raise ConfigError(f"{NAME}: `{where}role` is `{role}`; use one of {', '.join(_ROLES)}.")
    return Member(
        name=name,
        roles=tuple(Role(role) for role in roles),
        skills=_texts(row.get("skills", []), f"{where}skills"),
        aliases=_texts(row.get("aliases", []), f"{where}aliases"),
        accounts=_texts(row.get("accounts", []), f"{where}accounts"),
        paths=_texts(row.get("paths", []), f"{where}paths"),
        command=_texts(row.get("command", []), f"{where}command"),
        capacity=_count(row.get("capacity", 1), f"{where}capacity"),
    )


def _gates(data: dict[str, Any]) -> tuple[str, ...] | None:
    if "gates" not in data:
        return None
    gates = _table(data, "gates")
    for name in gates:
        _known(_table(gates, name), _GATE, f"gates.{name}.")
    return tuple(name for name in gates if name != "integrity" and gates[name].get("enabled", True))


def _policy(table: dict[str, Any]) -> Policy:
    _known(table, _POLICY, "policy.")
    standard = Policy()
    director = table.get("director", "auto")
    if not director:
        raise ConfigError(f'{NAME}: `policy.director` is empty; use "auto", "human" or a command.')
    return Policy(
        lockout_after=_lockout(table.get("lockout", "strict")),
        escalate_after_reviews=_count(
            table.get("escalate_after_reviews", standard.escalate_after_reviews),
            "policy.escalate_after_reviews",
        ),
        alert_after_gates=_count(
            table.get("alert_after_gates", standard.alert_after_gates), "policy.alert_after_gates"
        ),
        escalate_after_gates=_count(
            table.get("escalate_after_gates", standard.escalate_after_gates), "policy.escalate_after_gates"
        ),
        max_invalid_rejections=_count(
            table.get("max_invalid_rejections", standard.max_invalid_rejections),
            "policy.max_invalid_rejections",
            most=100,
        ),
        lease_seconds=_lease(table.get("lease", "30m")),
        director=_director(director),
        adviser=_program(table.get("adviser", []), "policy.adviser"),
    )


def _director(value: Any) -> tuple[str, ...]:
    """Who answers rejections: `auto`, `human`, or a command, as a list or as one would type it."""
    if not isinstance(value, str):
        return _program(value, "policy.director")
    if value in ("auto", "human"):
        return (value,)
    if value.lower() in ("auto", "human"):
        raise ConfigError(f'{NAME}: `policy.director` is written "{value.lower()}".')
    try:
        return _program(shlex.split(value), "policy.director")
    except ValueError as error:
        raise ConfigError(f"{NAME}: `policy.director` is no command ({error}); write it as a list.") from None


def _program(value: Any, key: str) -> tuple[str, ...]:
    """A command. One in the working tree could be changed by any agent, and is none."""
    words = _texts(value, key)
    if words and "/" in words[0] and not words[0].startswith("/"):
        raise ConfigError(
            f"{NAME}: `{key}` names a file in the working tree; give its full path, outside of it."
        )
    return words


def _lease(value: Any) -> float:
    seconds = _seconds(value, "policy.lease")
    if seconds > MAX_LEASE_SECONDS:
        raise ConfigError(f'{NAME}: `policy.lease` is {value}; a lease lasts at most 7 days ("7d").')
    return seconds


def _lockout(value: Any) -> int:
    if value == "strict":
        return 1
    if value == "off":
        return 0
    if isinstance(value, dict) and set(value) == {"after"}:
        return _count(value["after"], "policy.lockout.after")
    raise ConfigError(f'{NAME}: `policy.lockout` must be "strict", "off" or {{after = 2}}.')
