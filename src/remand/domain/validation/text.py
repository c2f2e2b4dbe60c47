"""Reads text out of whatever a field holds, without ever failing and without reading for ever."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

TEXT_LIMIT = 4000
ITEM_TEXT_LIMIT = 1000
ITEM_LIMIT = 12
DEPTH_LIMIT = 5
_LARGEST = 10**18


def plain(value: Any, depth: int = 0) -> str:
    """The text of a value: a string as it is, a mapping as `key: value`, a list joined by commas."""
    if isinstance(value, str):
        return value[:TEXT_LIMIT].strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(value)
    if depth >= DEPTH_LIMIT:
        return ""
    if isinstance(value, Mapping):
        return _joined(
            f"{plain(key, depth + 1)}: {plain(item, depth + 1)}" for key, item in _first(value.items())
        )
    if isinstance(value, list | tuple):
        return _joined(plain(item, depth + 1) for item in _first(value))
    return ""


def short(value: Any) -> str:
    """The text of one of many, read less far."""
    return plain(value)[:ITEM_TEXT_LIMIT].strip()


def items(value: Any) -> tuple[str, ...]:
    """The texts of a list that are not blank; a lone text counts as a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in (short(item) for item in _first(value)) if text)


def mappings(value: Any) -> tuple[Mapping[Any, Any], ...]:
    """The mappings of a list that hold something; a lone mapping counts as a list of one."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in _first(value) if isinstance(item, Mapping) and plain(item))


def number(value: Any) -> float | None:
    """A finite number, also when it is written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = _number_in(value)
    if not isinstance(value, int | float) or abs(value) > _LARGEST or not isfinite(value):
        return None
    return float(value)


def _number_in(text: str) -> float | None:
    try:
        return float(text[:40].strip().removesuffix("x"))
    except ValueError:
        return None


def _number_text(value: float) -> str:
    """Empty for what is not finite, which no comparison holds for, and for what is too long to be read."""
    if not abs(value) <= _LARGEST:
        return ""
    return str(int(value)) if value == int(value) else str(value)


def _first(values: Any) -> list[Any]:
    found = []
    for value in values:
        found.append(value)
        if len(found) >= ITEM_LIMIT:
            break
    return found


def _joined(texts: Any) -> str:
    return ", ".join(text for text in texts if text.strip(" :"))[:TEXT_LIMIT]
