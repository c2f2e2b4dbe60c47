"""JSON of tools, read into records whatever it holds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from remand.adapters.parsers.source import MAX_LINE
from remand.domain.gates.figures import Unreadable

Shape = TypeVar("Shape")


def document(content: bytes, shape: type[Shape], tool: str) -> Shape:
    """One JSON document of a known shape; fields nobody asks for may hold anything."""
    try:
        return _read(content, shape)
    except (ValueError, RecursionError) as wrong:
        raise Unreadable(f"this is no report of {tool} in JSON: {str(wrong)[:200]}") from None


def objects(content: bytes, shape: type[Shape]) -> Iterator[Shape | str]:
    """Line by line, the JSON object of that shape, or the line itself when it is none."""
    decode = msgspec.json.Decoder(shape).decode
    for line in io.BytesIO(content):
        if not line.startswith(b"{"):
            yield _as_text(line)
            continue
        try:
            yield decode(line)
        except (ValueError, RecursionError):
            yield _second_look(line, shape)


def values(text: str) -> Iterator[object]:
    """The JSON values that follow one another in a text; raises `ValueError` where there is none."""
    decoder = json.JSONDecoder(strict=False, parse_constant=str)
    place, end = 0, len(text)
    while place < end:
        if text[place].isspace():
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        yield value


def _read(content: bytes, shape: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(content, type=shape)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(_lenient(content), shape)


def _second_look(line: bytes, shape: type[Shape]) -> Shape | str:
    try:
        return _read(line, shape)
    except (ValueError, RecursionError):
        return _as_text(line)


def _as_text(line: bytes) -> str:
    return line[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")


def _lenient(content: bytes) -> Any:
    """What the fast reader refuses and tools may well write: bytes that are no UTF-8, halves of surrogate pairs."""
    return json.loads(content.decode("utf-8", "replace"), strict=False, parse_constant=str)
