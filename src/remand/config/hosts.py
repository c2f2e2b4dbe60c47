"""`hosts` in the `[project]` table: the agents' hosts that every clone should have our hooks in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from remand.config.values import NAME, ConfigError, texts
from remand.domain.hosts import HOSTS

_TABLE = re.compile(r"^\[project\][^\S\n]*(?:#[^\n]*)?$", re.MULTILINE)
_LIST = re.compile(r"^hosts[^\S\n]*=[^\S\n]*\[[^\]\n]*\]", re.MULTILINE)


def project_hosts(project: dict[str, Any]) -> tuple[str, ...]:
    """The hosts that the project names."""
    found = texts(project.get("hosts", []), "project.hosts")
    wrong = next((name for name in found if name not in HOSTS), None)
    if wrong is not None:
        raise ConfigError(f"{NAME}: `project.hosts` holds `{wrong}`; use any of {', '.join(HOSTS)}.")
    return tuple(dict.fromkeys(found))


def hosts_line(hosts: Sequence[str]) -> str:
    """The line that names hosts."""
    return f"hosts = [{', '.join(f'{chr(34)}{name}{chr(34)}' for name in hosts)}]"


def with_hosts(text: str, hosts: Sequence[str]) -> str | None:
    """A configuration that names these hosts, too; None when it is written in a way that only a person can change."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    project = before.get("project", {})
    known = project.get("hosts", []) if isinstance(project, dict) else None
    if not isinstance(known, list):
        return None
    wanted = [*known, *(name for name in hosts if name not in known)]
    if wanted == known:
        return text
    changed = _changed(text, hosts_line(wanted))
    try:
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        return None
    return changed if after == {**before, "project": {**project, "hosts": wanted}} else None


def _changed(text: str, line: str) -> str:
    table = _TABLE.search(text)
    if table is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}\n[project]\n{line}\n"
    found = _LIST.search(text, table.end())
    if found:
        return text[: found.start()] + line + text[found.end() :]
    return f"{text[: table.end()]}\n{line}{text[table.end() :]}"
