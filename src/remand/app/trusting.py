"""Changing which keys `remand.toml` trusts, and how far, without touching anything else in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from remand.domain.keys import ChainEnd, PublicKey, public_key

_TABLE = re.compile(r"^\[keys\][^\S\n]*(?:#[^\n]*)?$", re.MULTILINE)
_LIST = re.compile(r"^trusted\s*=\s*\[", re.MULTILINE)
_WITHIN = r"(?:[^{}]|\{[^{}]*\})*"
"""What may stand in a table that is written in one line, beside one text in it."""


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


def with_end(text: str, key: PublicKey, ends: Sequence[ChainEnd]) -> str | None:
    """A configuration that trusts a key up to these places; None when only a human can change it so."""
    listed = _trusted(text)
    written = next((entry for entry in listed if _is_of(entry, key)), None)
    if written is None:
        return None
    is_text = isinstance(written, str)
    name = re.escape(written if is_text else str(written["key"]))
    quoted = rf"""(["']){name}\1"""
    pattern = quoted if is_text else rf"\{{{_WITHIN}?{quoted}{_WITHIN}\}}"
    named = public_key(written) if is_text else public_key(f"{written['key']} {written.get('name', '')}")
    entry = entry_text(named or key, ends)
    changed = re.sub(pattern, lambda _: entry, text, count=1)
    told = tomllib.loads(f"x = {entry}")["x"]
    return changed if _says(changed, text, [told if one is written else one for one in listed]) else None


def entry_text(key: PublicKey, ends: Sequence[ChainEnd]) -> str:
    """A key and where its trust ends, as `trusted` has it."""
    rows = "".join(
        f'    {{ session = "{end.session}", number = {end.number}, chain = "{end.chain}" }},\n'
        for end in ends
    )
    until = f"[\n{rows}  ]" if rows else "[]"
    return f'{{ key = "{key.entry}", until = {until} }}'


def _is_of(entry: Any, key: PublicKey) -> bool:
    found = public_key(entry if isinstance(entry, str) else str(entry.get("key", "")))
    return found is not None and found.id == key.id


def _trusted(text: str) -> list[Any]:
    entries = tomllib.loads(text).get("keys", {}).get("trusted", [])
    return list(entries)


def _says(changed: str, text: str, entries: list[Any]) -> bool:
    """True when a changed configuration lists these keys, and for the rest says what it said."""
    try:
        told, before = tomllib.loads(changed), tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    listed = told.pop("keys", {}).pop("trusted", [])
    return sorted(map(_plain, listed)) == sorted(map(_plain, entries)) and _rest(told) == _rest(before)


def _plain(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True)


def _rest(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "keys"}
