"""Events as lines: writes them with their hash, and reads lines that anyone may have written."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any, NoReturn, Union

import msgspec
from msgspec.structs import force_setattr, replace

from remand.domain.events.catalogue import NATIVE, Unknown
from remand.domain.events.event import Event, Meta
from remand.domain.events.tasks import TaskAdded
from remand.domain.instant import is_instant
from remand.domain.text.redaction import NO_PATHS, MachinePaths
from remand.ledger import legacy
from remand.ledger.problems import BadLine
from remand.startup import lazy_pattern

MAX_EVENT = 256 * 1024
MAX_SEQ = 1 << 40
MAX_DEPTH = 64
ID_LENGTH = 32
_STAMP_LENGTH = ID_LENGTH
"""The length that an id adds to a line."""
_OWN_MARKS = frozenset({"id", "seq", "prev"})
"""Fields that lines of GoT tools never have: a line with one of them is ours, and must be complete."""
_SESSION = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_STAMP = frozenset({"event", "ts", "meta"})
_ID_MARK = b'"meta":{"id":"'
_CUT = 4096

_NAME_MARK = b'{"event":"'
"""The start of our lines, before the name of the event."""

_ARCHIVED_MARK = b'{"event":"task.archive",'
"""The start of an archive line, whose many brackets are in a text and in rows: it cannot be deeply nested."""

_encode = msgspec.json.Encoder().encode
_KINDS = {str(kind.__struct_config__.tag): kind for kind in NATIVE}


def encode_event(event: Event, meta: Meta, paths: MachinePaths = NO_PATHS) -> tuple[Event, bytes]:
    """Stamps an event: returns it with the hash of its line as id, and the line without its newline.

    Replaces the machine's own paths, since other machines read the line.
    """
    return encode_stamped(replace(event, meta=replace(meta, id="")), paths)


def encode_stamped(stamped: Event, paths: MachinePaths) -> tuple[Event, bytes]:
    """The same for an event whose origin lacks only the id, and which nobody else has yet: its id is set in place."""
    line = _encode(stamped)
    if paths.may_occur_in(line):
        stamped = _without_machine_paths(stamped, paths)
        line = _encode(stamped)
    if len(line) + _STAMP_LENGTH > MAX_EVENT:
        stamped = _shorten_event(stamped)
        line = _encode(stamped)
    event_id = sha256(line).hexdigest()[:ID_LENGTH]
    place = line.index(_ID_MARK) + len(_ID_MARK)
    force_setattr(stamped.meta, "id", event_id)
    return stamped, line[:place] + event_id.encode() + line[place:]


PACKED = ".gz.jsonl"
"""The suffix of packed event files: git and every other rule treat them as event files."""
MAX_UNPACKED = 512 << 20
"""How much of a packed file is read at most."""
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 18


def is_packed(content: bytes) -> bool:
    """True if the content of an event file is packed."""
    return content.startswith(_GZIP)


def packed_name(name: str) -> str:
    """The name of an event file once it is packed."""
    return f"{name.removesuffix('.jsonl')}{PACKED}"


def pack(content: bytes) -> bytes:
    """Packs an event file's content. The same content gives the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


def unpack_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a packed file in chunks; raises `BadLine` if it is damaged or too large."""
    unpacker, size = zlib.decompressobj(31), 0
    try:
        for chunk in chunks:
            part = unpacker.decompress(chunk, _CHUNK)
            while part:
                size += len(part)
                if size > MAX_UNPACKED:
                    raise BadLine(f"unpacks to more than {MAX_UNPACKED >> 20} MB, and is read no further")
                yield part
                part = unpacker.decompress(unpacker.unconsumed_tail, _CHUNK)
    except zlib.error as error:
        raise BadLine(f"is packed and damaged ({error})") from None
    if not unpacker.eof or unpacker.unused_data:
        raise BadLine("is packed and damaged: it does not end where it should")


def iterate_lines(content: bytes) -> Iterator[bytes]:
    """Iterates over the lines of an event file, packed or not, up to a damaged or overlong place in a packed one."""
    left = b""
    with suppress(BadLine):
        for chunk in unpack_chunks([content]) if is_packed(content) else [content]:
            *lines, left = (left + chunk).split(b"\n")
            yield from lines
            if len(left) > MAX_EVENT:
                return
    yield left


def split_lines(content: bytes) -> Iterator[bytes]:
    """The lines of an event file, without blank lines and carriage returns that git may add.

    Never holds all of a packed file in memory; a damaged or too large one has no lines.
    """
    try:
        for _ in unpack_chunks([content]) if is_packed(content) else ():
            pass
    except BadLine:
        return
    yield from (line.rstrip(b"\r") for line in iterate_lines(content) if line.strip())


def decode_line(line: bytes) -> Event:
    """Decodes a line from any source, or raises `BadLine` with the reason."""
    if len(line) > MAX_EVENT:
        raise BadLine(f"is {len(line)} bytes long; an event has at most {MAX_EVENT}")
    if not line.startswith(_ARCHIVED_MARK) and line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return _decode_strictly(line)
    try:
        event = decode_trusted_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_strictly(line)
    if event.is_legacy or not is_instant(event.ts) or _encode(event) != line:
        return _decode_strictly(line)
    _require_place(event.meta)
    _require_hash(line, event.meta.id)
    return event


@cache
def _decoder(kind: type[Event] | None = None) -> Callable[[bytes], Event]:
    """A decoder for one kind of event, or for any. Created at first use: one for all kinds takes a while."""
    return msgspec.json.Decoder(kind or Union[NATIVE]).decode  # noqa: UP007 - built from a tuple


def decode_trusted_line(line: bytes) -> Event:
    """Decodes a line that was checked when it entered the ledger."""
    event = _decoder()(line)
    if type(event) is TaskAdded and event.type != "TASK":
        raise msgspec.ValidationError("a node that is no task")
    return event


def decode_stored_line(line: bytes, kind: type[Event] | None = None) -> Event:
    """Decodes one of the ledger's own lines of any kind; faster for the expected kind."""
    try:
        event = _decoder(kind)(line)
    except msgspec.MsgspecError:
        return _decode_strictly(line)
    if event.meta.seq <= 0 or (type(event) is TaskAdded and event.type != "TASK"):
        return _decode_strictly(line)
    return event


def decode_stored_lines(lines: Iterable[bytes], names: Collection[str] = ()) -> Iterator[Event]:
    """Decodes the ledger's own lines; with names, only those events: of most others, reads just the name."""
    if not names:
        yield from map(decode_stored_line, lines)
        return
    wanted = encoded_names(frozenset(names))
    for line in lines:
        if not line.startswith(_NAME_MARK):
            event = decode_stored_line(line)
            if event.name in names:
                yield event
        elif line[len(_NAME_MARK) : line.find(b'"', len(_NAME_MARK))] in wanted:
            yield decode_stored_line(line)


@cache
def encoded_names(names: frozenset[str]) -> frozenset[bytes]:
    """Names of events as lines have them."""
    return frozenset(name.encode() for name in names)


def may_have_kinds(lines: Iterable[bytes], kinds: tuple[type[Event], ...]) -> bool:
    """True if one of the ledger's own lines may be of one of these kinds."""
    marks = _marks_of_kinds(kinds)
    return any(line.startswith(marks) or not line.startswith(_NAME_MARK) for line in lines)


@cache
def _marks_of_kinds(kinds: tuple[type[Event], ...]) -> tuple[bytes, ...]:
    return tuple(_NAME_MARK + f'{kind.__struct_config__.tag}"'.encode() for kind in kinds)


def line_kind(line: bytes) -> type[Event] | None:
    """The kind that one of our lines names: a decoder for one kind is created much faster than one for all."""
    return _KINDS.get(line_names([line])[0].decode("ascii", "replace"))


def line_names(lines: Iterable[bytes]) -> list[bytes]:
    """The names of the events in the ledger's own lines; empty for a line that does not begin as ours do."""
    start = len(_NAME_MARK)
    return [line[start : line.find(b'"', start)] if line.startswith(_NAME_MARK) else b"" for line in lines]


def lines_of_kind(lines: Iterable[bytes], kind: type[Event]) -> Iterator[bytes]:
    """Those of the ledger's own lines that may be of a kind."""
    ours, first, beyond, others = bounds_of_kind(kind)
    return (line for line in lines if first <= line < beyond or not ours <= line < others)


def bounds_of_kind(kind: type[Event]) -> tuple[bytes, bytes, bytes, bytes]:
    """Where, in alphabetical order, our lines begin and those of a kind, and where those of the kind and ours end."""
    name = _NAME_MARK + f"{kind.__struct_config__.tag}".encode()
    return _NAME_MARK, name + b'"', name + b"#", _NAME_MARK[:-1] + b"#"


def stored_id(line: bytes) -> str:
    """The id of one of the ledger's own lines; "" if it may only be read by decoding the line.

    Nothing else can be at the first such mark: inside a text a quotation mark is escaped, and in any other place the
    hash of the line would have to contain itself.
    """
    place = line.find(_ID_MARK)
    found = line[place + len(_ID_MARK) : place + len(_ID_MARK) + ID_LENGTH] if place > 0 else b""
    return found.decode("ascii", "replace")


def content_hash(line: bytes) -> str:
    """The id that one of our lines must have."""
    place = line.find(_ID_MARK) + len(_ID_MARK)
    return sha256(line[:place] + line[place + ID_LENGTH :]).hexdigest()[:ID_LENGTH]


def _require_hash(line: bytes, event_id: str) -> None:
    if content_hash(line) != event_id:
        raise BadLine(f"was changed after it was written: its content does not match its id {event_id[:40]}")


def _require_place(meta: Meta) -> None:
    if not _SESSION.fullmatch(meta.session) or not 0 < meta.seq < MAX_SEQ:
        raise BadLine("has no place in a session: its session or number is none")


def _decode_strictly(line: bytes) -> Event:
    """Decodes a line slowly and strictly: one of a GoT tool, of a newer version, or an invalid one."""
    fields = _parse_strict_json(line)
    name, ts, meta = fields.get("event"), fields.get("ts"), fields.get("meta")
    if not isinstance(name, str) or not isinstance(ts, str) or not isinstance(meta, dict):
        raise BadLine("is not an event: it needs a text `ts`, a text `event` and an object `meta`")
    if not meta.keys() & _OWN_MARKS:
        return legacy.translate_legacy_line(fields)
    if not isinstance(meta.get("id"), str):
        raise BadLine("is damaged: it has no id")
    if not is_instant(ts):
        raise BadLine(f"has an invalid time: {ts[:40]!r}")
    _require_hash(line, meta["id"])
    event = _build_event(fields, name)
    _require_place(event.meta)
    return event


def _build_event(fields: dict[str, Any], name: str) -> Event:
    kind = _KINDS.get(name)
    try:
        if kind is None or (kind is TaskAdded and fields.get("type", "TASK") != "TASK"):
            rest = {key: value for key, value in fields.items() if key not in ("ts", "event", "meta")}
            meta = msgspec.convert(fields["meta"], Meta)
            return Unknown(ts=fields["ts"], meta=meta, kind=name, fields=rest)
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as wrong:
        raise BadLine(f"is no {name} event: {wrong}") from None


def _parse_strict_json(line: bytes) -> dict[str, Any]:
    """Parses one JSON object; refuses anything that parsers interpret differently."""
    try:
        text = line.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLine(f"is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise BadLine("holds half a surrogate pair") from None
    except RecursionError:
        raise BadLine("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadLine(_json_problem(line, error)) from None
    except ValueError as error:
        raise BadLine(f"holds a number that is too long ({str(error)[:60]})") from None
    if not isinstance(value, dict):
        raise BadLine("is not a JSON object")
    if _depth(value) > MAX_DEPTH:
        raise BadLine("is nested too deeply")
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _json_problem(line: bytes, error: json.JSONDecodeError) -> str:
    if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")):
        return "is a conflict marker that git left"
    if b"\x00" in line:
        return "holds NUL bytes"
    if line.startswith(b"\xef\xbb\xbf"):
        return "starts with a byte order mark"
    return f"is not JSON: {error.msg} at column {error.colno}"


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadLine("holds a key twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadLine(f"holds {name}, which is not JSON")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadLine("holds a number that is too large")
    return value


def _without_machine_paths(event: Event, paths: MachinePaths) -> Event:
    """The event without the machine's paths. Its place in the log and its idempotency key stay unchanged."""
    fields = msgspec.to_builtins(event)
    portable = {name: item if name in _STAMP else paths.replace_in(item) for name, item in fields.items()}
    return msgspec.convert(portable, type(event))


def _shorten_event(event: Event) -> Event:
    """Cuts long texts, longest first, until the event fits; each cut text ends with its hash."""
    fields = msgspec.to_builtins(event)
    while len(_encode(fields)) + _STAMP_LENGTH > MAX_EVENT:
        fields = _cut_longest(fields)
    return msgspec.convert(fields, type(event))


def _cut_longest(value: Any) -> Any:
    longest = max(_texts(value), key=len)
    digest = sha256(longest.encode()).hexdigest()
    short = f"{longest[:_CUT]}… [cut: {len(longest)} characters, sha256 {digest}]"
    if len(short) >= len(longest):
        raise BadLine("has too many fields to fit into one event")
    return _replace_text(value, longest, short)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _replace_text(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replace_text(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_text(item, old, new) for item in value]
    return new if value == old else value
