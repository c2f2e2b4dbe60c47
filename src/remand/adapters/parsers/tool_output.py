"""A tool's report or output: its size, encoding, lines, exit status, and JSON in it."""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import UnreadableReport

MAX_BYTES = 64 << 20
MAX_LINE = 20_000


def report(ran: ToolOutput) -> bytes:
    """The report file's content; without one nothing was measured, whatever the exit status says."""
    if ran.report is None:
        raise UnreadableReport(
            f"the command ended with status {ran.status} and left no report that can be read;"
            " it has to write one to {report}"
        )
    return _decode_within_limit(ran.report, "report")


def report_or_output(ran: ToolOutput) -> bytes:
    """The report, and where the command left none, all it printed."""
    return standard_output(ran) if ran.report is None else report(ran)


def standard_output(ran: ToolOutput) -> bytes:
    """All the command printed, which must not have been cut."""
    _require_whole(ran)
    return _decode_within_limit(ran.output, "output")


def error_output(ran: ToolOutput) -> bytes:
    """All the command printed as errors, which must not have been cut."""
    _require_whole(ran)
    return _decode_within_limit(ran.errors, "error output")


def lines(content: bytes) -> Iterator[str]:
    """The lines of a text; of a very long one the beginning."""
    yield from map(_as_text, io.BytesIO(content))


def require_known_status(ran: ToolOutput, tool: str, known: range) -> None:
    """Raises when the tool's own exit status says that it could not do its work."""
    if ran.status not in known:
        raise UnreadableReport(
            f"{tool} ended with status {ran.status}, which says that it could not do its work"
        )


def require_complaint(ran: ToolOutput, tool: str, complaints: int) -> None:
    """Raises when the command failed and nothing it left behind says why."""
    if ran.status != 0 and not complaints:
        raise UnreadableReport(
            f"{tool} ended with status {ran.status}, but nothing that it reports explains why"
        )


def _require_whole(ran: ToolOutput) -> None:
    if ran.is_cut:
        raise UnreadableReport(
            "the command printed more than is kept; let it print less, or write to {report} where it can"
        )


def _decode_within_limit(content: bytes, what: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise UnreadableReport(f"the {what} has {len(content)} bytes; at most {MAX_BYTES} are read")
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content.decode("utf-16", "replace").encode("utf-8", "replace")
    return content.removeprefix(BOM_UTF8)


Shape = TypeVar("Shape")


def document(content: bytes, shape: type[Shape], tool: str) -> Shape:
    """One JSON document of a known shape; fields nobody asks for may hold anything."""
    try:
        return _read(content, shape)
    except (ValueError, RecursionError) as wrong:
        raise UnreadableReport(f"this is not a report of {tool} in JSON: {str(wrong)[:200]}") from None


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
        # What the fast reader refuses and tools may well write: bytes that are no UTF-8, halves of surrogate pairs.
        text = content.decode("utf-8", "replace")
        return msgspec.convert(json.loads(text, strict=False, parse_constant=str), shape)


def _second_look(line: bytes, shape: type[Shape]) -> Shape | str:
    try:
        return _read(line, shape)
    except (ValueError, RecursionError):
        return _as_text(line)


def _as_text(line: bytes) -> str:
    return line[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")
