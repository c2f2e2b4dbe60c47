"""Our MCP server in the settings of the agents' hosts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from remand.adapters.hosts import mcp_entries as entries
from remand.adapters.hosts.settings import UnusableSettings
from remand.bootstrap import host_files

Planned = list[tuple[str, str | None]]
"""Files, and what each is to hold; None: it is deleted."""


def plan_servers(root: str, names: Sequence[str], executable: str, *, is_portable: bool = False) -> Planned:
    """What hosts' files are to hold so that they start our server; raises where one cannot be changed safely."""
    path = os.path.abspath(executable)
    inside = os.path.relpath(path, root)
    program = inside if is_portable and not inside.startswith("..") else path
    planned: Planned = []
    for entry in (entries.ENTRIES[name] for name in names):
        if entry.path:
            file = host_files.inside(root, entry.path)
            try:
                planned.append((file, entries.install(entry, host_files.read(file), program)))
            except UnusableSettings as problem:
                raise host_files.fault(file, problem) from None
    return planned


def plan_removal(root: str) -> Planned:
    """What hosts' files are to hold once our server is taken out; raises where one cannot be changed safely."""
    planned: Planned = []
    for entry in entries.ENTRIES.values():
        file = host_files.inside(root, entry.path) if entry.path else ""
        text = host_files.read(file) if file else None
        try:
            if text is not None and entries.is_installed(entry, text):
                planned.append((file, entries.uninstall(entry, text)))
        except UnusableSettings as problem:
            raise host_files.fault(file, problem) from None
    return planned


def carry_out(root: str, planned: Planned) -> list[str]:
    """Writes what was planned; gives the files."""
    for path, text in planned:
        if text is None:
            host_files.remove(root, path)
        else:
            host_files.write(path, text)
    return [path for path, _ in planned]


def hint(name: str, executable: str) -> str:
    """What a person still has to do after a host's entry is written; empty when there is nothing."""
    return entries.ENTRIES[name].hint.format(program=executable)
