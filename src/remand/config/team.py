"""The `[team]` table."""

from __future__ import annotations

import os
from typing import Any

from remand.config.values import NAME, ConfigError, count, known, text, texts
from remand.domain.ids import is_agent_name
from remand.domain.names import fold
from remand.domain.roles import Member, Role

_MEMBER = ("name", "role", "roles", "skills", "aliases", "accounts", "paths", "command", "capacity")
_ROLES = (Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR, Role.USER)


def former_names(team: dict[str, Any]) -> tuple[str, ...]:
    """The names of members who have left the team."""
    names = texts(team.get("former", []), "team.former")
    taken = {fold(name): member.name for member in members(team) for name in _names(member)}
    for name in names:
        if not is_agent_name(name):
            raise ConfigError(f"{NAME}: `team.former` has {name[:80]!r}, which is no name of a member.")
        if fold(name) in taken:
            raise ConfigError(
                f"{NAME}: `team.former` has `{name}`, which is {taken[fold(name)]}'s name; it is one or the other."
            )
    return names


def _names(member: Member) -> tuple[str, ...]:
    return (member.name, *member.aliases, *member.accounts)


def members(team: dict[str, Any]) -> tuple[Member, ...]:
    """The members of the team."""
    known(team, ("members", "former"), "team.")
    rows = team.get("members", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(
            f'{NAME}: `team.members` must be a list of tables such as {{name = "A", role = "agent"}}.'
        )
    found = tuple(_member(row, f"team.members[{number}].") for number, row in enumerate(rows))
    names = [name for member in found for name in _names(member)]
    if not all(map(is_agent_name, names)):
        raise ConfigError(
            f"{NAME}: a member's alias or account is no name: use up to 64 letters, digits or @ . + - _ / :"
        )
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(
            f"{NAME}: two members go by the name `{double}`; every name and alias is one member's."
        )
    owners: dict[str, tuple[str, str]] = {}
    for member in found:
        for name in _names(member):
            other, own = owners.setdefault(fold(name), (member.name, name))
            if other != member.name:
                raise ConfigError(
                    f"{NAME}: `{name}` of {member.name} and `{own}` of {other} differ in case, width or spaces "
                    "alone, which makes no other name. Change one of them."
                )
    return found


def _member(row: dict[str, Any], where: str) -> Member:
    known(row, _MEMBER, where)
    name = text(row.get("name", ""), f"{where}name")
    if not is_agent_name(name):
        raise ConfigError(
            f"{NAME}: `{where}name` must be a name of up to 64 letters, digits or @ . + - _ / :"
        )
    if "role" in row and "roles" in row:
        raise ConfigError(f"{NAME}: `{where}role` and `{where}roles` both stand there; keep one.")
    roles = (
        texts(row["roles"], f"{where}roles")
        if "roles" in row
        else (text(row.get("role", "agent"), f"{where}role"),)
    )
    for role in roles:
        if role not in _ROLES:
            raise ConfigError(f"{NAME}: `{where}role` is `{role}`; use one of {', '.join(_ROLES)}.")
    return Member(
        name=name,
        roles=tuple(Role(role) for role in roles),
        skills=texts(row.get("skills", []), f"{where}skills"),
        aliases=texts(row.get("aliases", []), f"{where}aliases"),
        accounts=texts(row.get("accounts", []), f"{where}accounts"),
        paths=texts(row.get("paths", []), f"{where}paths"),
        command=_command(row.get("command", []), f"{where}command"),
        capacity=count(row.get("capacity", 1), f"{where}capacity"),
    )


def _command(value: Any, key: str) -> tuple[str, ...]:
    """The command of a member. A file of the working tree would be whatever the author of a change makes of it."""
    words = texts(value, key)
    if not words:
        return ()
    program = os.path.expanduser(words[0])
    if not program or ("/" in program and not os.path.isabs(program)):
        raise ConfigError(
            f"{NAME}: `{key}` names a file in the working tree, which agents write; give its full path, outside of it."
        )
    return (program, *words[1:])
