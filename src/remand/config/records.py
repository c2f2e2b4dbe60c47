"""The `[records]` table: where the files made from the ledger lie."""

from __future__ import annotations

from typing import Any

from remand.config.values import NAME, ConfigError, known, text
from remand.domain.record import Record

_TAKEN = (".git", ".got", ".got/events", ".got/quarantine")


class RecordSettings(Record, kw_only=True):
    """The folders of the orchestration log, of open questions and of tasks, seen from the repository's root."""

    orchestration_log: str = ".got/orchestration-log"
    messages: str = ".got/messages"
    tasks: str = ".got/tasks"


def records(table: dict[str, Any]) -> RecordSettings:
    """Where the files lie: each kind in a folder of its own inside the repository."""
    names = RecordSettings.__struct_fields__
    known(table, names, "records.")
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
    if not path.isprintable() or "/".join(parts) in _TAKEN or parts[0] == ".git":
        raise ConfigError(f"{NAME}: `{key}` is `{path}`, which holds other things; name a folder of its own.")
    return "/".join(parts)
