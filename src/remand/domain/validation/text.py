"""Reads text out of whatever a field holds, without ever failing and without reading for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Any

TEXT_LIMIT = 4000
ITEM_TEXT_LIMIT = 1000
ITEM_LIMIT = 12
DEPTH_LIMIT = 5
PIECE_LIMIT = 200
_LARGEST = 10**18


def plain(value: Any) -> str:
    """The text of a value: a string as it is, a mapping as `key: value`, a list joined by commas."""
    if isinstance(value, str):
        return value[:TEXT_LIMIT].strip()
    pieces = islice(_pieces(value, DEPTH_LIMIT), PIECE_LIMIT)
    return ", ".join(piece for piece in pieces if piece)[:TEXT_LIMIT]


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """The texts inside a value. Every container gives a piece, empty or not, so that reading comes to an end."""
    if isinstance(value, Mapping) and depth:
        yield ""
        for key, item in islice(value.items(), ITEM_LIMIT):
            name = _leaf(key)
            if isinstance(item, Mapping | list | tuple):
                yield name
                yield from _pieces(item, depth - 1)
            else:
                yield f"{name}: {_leaf(item)}".strip(": ")
    elif isinstance(value, list | tuple) and depth:
        yield ""
        for item in islice(value, ITEM_LIMIT):
            yield from _pieces(item, depth - 1)
    else:
        yield _leaf(value)


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return value[:TEXT_LIMIT].strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_text(value) if isinstance(value, int | float) else ""


def short(value: Any) -> str:
    """The text of one of many, read less far."""
    return plain(value)[:ITEM_TEXT_LIMIT].strip()


def items(value: Any) -> tuple[str, ...]:
    """The texts of a list that are not blank; a lone text counts as a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in (short(item) for item in islice(value, ITEM_LIMIT)) if text)


def mappings(value: Any) -> tuple[Mapping[Any, Any], ...]:
    """The mappings of a list that hold something; a lone mapping counts as a list of one."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in islice(value, ITEM_LIMIT) if isinstance(item, Mapping) and plain(item))


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
