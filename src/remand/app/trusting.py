"""Changing which keys `remand.toml` trusts, without touching anything else in it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from remand.domain.keys import PublicKey, public_key

_TABLE = re.compile(r"^\[keys\][^\S\n]*(?:#[^\n]*)?$", re.MULTILINE)
_LIST = re.compile(r"^trusted\s*=\s*\[", re.MULTILINE)


def with_key(text: str, key: PublicKey) -> str | None:
    """A configuration that trusts one key more; None when it is written in a way that only a human can change."""
    listed = _trusted(text)
    line = f'  "{key.entry}",\n'
    table = _TABLE.search(text)
    if table is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[keys]\ntrusted = [\n{line}]\n"
    elif found := _LIST.search(text, table.end()):
        rest = text[found.end() :]
        changed = f"{text[: found.end()]}\n{line}{rest.lstrip() if rest.startswith(chr(10)) else rest}"
    else:
        changed = f"{text[: table.end()]}\ntrusted = [\n{line}]{text[table.end() :]}"
    return changed if _says(changed, text, [key.entry, *listed]) else None


def without_key(text: str, key: PublicKey) -> str | None:
    """A configuration that trusts one key less; None when it is written in a way that only a human can change."""
    listed = _trusted(text)
    kept = [entry for entry in listed if (public_key(entry) or key).id != key.id]
    changed = text
    for entry in listed:
        if entry not in kept:
            changed = re.sub(rf"""[^\S\n]*(["']){re.escape(entry)}\1[^\S\n]*,?[^\S\n]*\n?""", "", changed)
    return changed if _says(changed, text, kept) else None


def _trusted(text: str) -> list[str]:
    entries = tomllib.loads(text).get("keys", {}).get("trusted", [])
    return list(entries)


def _says(changed: str, text: str, entries: list[str]) -> bool:
    """True when a changed configuration lists these keys, and for the rest says what it said."""
    try:
        told, before = tomllib.loads(changed), tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    listed = told.pop("keys", {}).pop("trusted", [])
    return sorted(listed) == sorted(entries) and _rest(told) == _rest(before)


def _rest(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "keys"}
