"""Edits `remand.toml` as text: keeps what people wrote, and leaves alone what only a person can change safely."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from remand.domain.text.toml import toml_value

_NEXT_TABLE = re.compile(r"^\[", re.MULTILINE)


def parse_value(text: str) -> Any:
    """Parses a value that a person typed: TOML if it is valid, else the text itself."""
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text


def with_value(text: str, path: Sequence[str], value: Any) -> str | None:
    """A configuration with one value set; `path` is its tables and its key. None if only a person can make the change."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    section, line = _section(text, path[:-1]), f"{path[-1]} = {toml_value(value)}"
    if section is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[{'.'.join(path[:-1])}]\n{line}\n"
        return _require_only(changed, _with_set(before, path, value))
    start, end = section
    found = re.compile(rf"^{re.escape(path[-1])}[^\S\n]*=[^\S\n]*([^\n]*)$", re.MULTILINE).search(
        text, start, end
    )
    if found is None:
        changed = f"{text[:start]}\n{line}{text[start:]}"
    else:
        kept = _comment(found[1])
        changed = f"{text[: found.start()]}{line}{kept}{text[found.end() :]}"
    return _require_only(changed, _with_set(before, path, value))


def with_member(text: str, member: Mapping[str, Any]) -> str | None:
    """A configuration with one more member after the others; None if only a person can make the change."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    team = before.get("team", {})
    members = team.get("members", []) if isinstance(team, dict) else None
    if not isinstance(members, list):
        return None
    wanted = _with_set(before, ("team", "members"), [*members, dict(member)])
    if not members:
        return with_value(text, ("team", "members"), [member])
    if section := _section(text, ("team",)):
        for place in re.compile(r"\]").finditer(text, *section):
            head, tail = text[: place.start()].rstrip(), text[place.start() :]
            for comma in ("", ","):
                changed = f"{head}{comma}\n  {toml_value(member)},\n{tail}"
                if _require_only(changed, wanted):
                    return changed
    rows = "".join(f"{name} = {toml_value(one)}\n" for name, one in member.items())
    gap = "" if text.endswith("\n") else "\n"
    return _require_only(f"{text}{gap}\n[[team.members]]\n{rows}", wanted)


def hosts_line(hosts: Sequence[str]) -> str:
    """The line that names hosts."""
    return f"hosts = {toml_value(hosts)}"


def with_hosts(text: str, hosts: Sequence[str]) -> str | None:
    """A configuration that also names these hosts; None if only a person can make the change."""
    try:
        project = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError:
        return None
    known = project.get("hosts", []) if isinstance(project, dict) else None
    if not isinstance(known, list):
        return None
    wanted = [*known, *(name for name in hosts if name not in known)]
    return text if wanted == known else with_value(text, ("project", "hosts"), wanted)


def _section(text: str, tables: Sequence[str]) -> tuple[int, int] | None:
    """The lines of a table, from after its header to the next header; None if there is none."""
    name = re.escape(".".join(tables))
    header = re.search(rf"^\[{name}\][^\S\n]*(?:#[^\n]*)?$", text, re.MULTILINE)
    if header is None:
        return None
    following = _NEXT_TABLE.search(text, header.end())
    return header.end(), following.start() if following else len(text)


def _comment(written: str) -> str:
    """The comment after a value, with the space before it."""
    for place in re.finditer(r"\s*#", written):
        try:
            tomllib.loads(f"value = {written[: place.start()]}")
        except tomllib.TOMLDecodeError:
            continue  # It is inside a string.
        return written[place.start() :]
    return ""


def _with_set(before: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    if len(path) == 1:
        return {**before, path[0]: value}
    inner = before.get(path[0], {})
    return {**before, path[0]: _with_set(inner if isinstance(inner, dict) else {}, path[1:], value)}


def _require_only(changed: str, wanted: Mapping[str, Any]) -> str | None:
    """The changed text if it parses to exactly what was wanted, else None."""
    try:
        return changed if tomllib.loads(changed) == wanted else None
    except tomllib.TOMLDecodeError:
        return None
