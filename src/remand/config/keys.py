"""The `[keys]` table, and the id of the project that signatures are bound to."""

from __future__ import annotations

import re
from typing import Any

from remand.config.values import NAME, ConfigError, known, text, texts
from remand.domain.keys import PublicKey, public_key

_PROJECT = re.compile(r"[0-9a-f]{16}")


def project_id(project: dict[str, Any]) -> str:
    """The project's own id; empty when it has none."""
    found = text(project.get("id", ""), "project.id")
    if "id" in project and not _PROJECT.fullmatch(found):
        raise ConfigError(
            f"{NAME}: `project.id` must be 16 hex digits; put back the one that `remand init` wrote."
        )
    return found


def trusted_keys(keys: dict[str, Any]) -> tuple[PublicKey, ...]:
    """The keys whose signatures count."""
    known(keys, ("trusted",), "keys.")
    entries = texts(keys.get("trusted", []), "keys.trusted")
    found = tuple(_key(entry, f"keys.trusted[{number}]") for number, entry in enumerate(entries))
    names = [key.id for key in found]
    double = next((key for key in found if names.count(key.id) > 1), None)
    if double is not None:
        raise ConfigError(f"{NAME}: `keys.trusted` holds the key {double.text} twice; keep one.")
    return found


def _key(entry: str, where: str) -> PublicKey:
    key = public_key(entry)
    if key is None:
        raise ConfigError(
            f'{NAME}: `{where}` is no key; write it as "ed25519:BASE64 name", as `remand keys` prints it '
            "on the machine it belongs to."
        )
    return key
