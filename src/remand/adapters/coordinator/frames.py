"""What is said over a coordinator's socket: a length, a kind, and the rest. Imports nothing: clients start with it."""

from __future__ import annotations

HEADER = 4
MAX_FRAME = 8 << 20
MAX_TEXTS = 4096
"""How many texts a call may have: taking millions of them apart would keep everyone else waiting."""
ASKS = b"A"
CALL = b"C"
GIVEN = b"G"
"""A call that brings along what it would have read from files or standard input. Only doors take these."""
ANSWER = b"R"


def pack(kind: bytes, payload: bytes) -> bytes:
    """One frame."""
    return (len(payload) + 1).to_bytes(HEADER, "big") + kind + payload


def unpack(buffer: bytes | bytearray) -> tuple[bytes, bytes, int] | None:
    """The first frame in a buffer: kind, payload and the bytes it took; None when it is not whole yet."""
    if len(buffer) < HEADER:
        return None
    length = int.from_bytes(buffer[:HEADER], "big")
    if not 0 < length <= MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes")
    end = HEADER + length
    if len(buffer) < end:
        return None
    return bytes(buffer[HEADER : HEADER + 1]), bytes(buffer[HEADER + 1 : end]), end


def pack_call(folder: str, settings: list[str], arguments: list[str], given: bytes = b"") -> bytes:
    """A call of the command line, forwarded as it is."""
    texts = [folder, *settings, *arguments]
    head = bytes([len(settings)])
    call = head + b"\0".join(text.encode("utf-8", "surrogateescape") for text in texts)
    return pack(GIVEN, len(call).to_bytes(HEADER, "big") + call + given) if given else pack(CALL, call)


def unpack_call(payload: bytes) -> tuple[str, list[str], list[str]]:
    """The folder, settings and arguments of a forwarded call."""
    if payload.count(b"\0") >= MAX_TEXTS:
        raise ValueError(f"a call of more than {MAX_TEXTS} texts")
    count = payload[0]
    folder, *rest = [part.decode("utf-8", "surrogateescape") for part in payload[1:].split(b"\0")]
    return folder, rest[:count], rest[count:]


def unpack_given(kind: bytes, payload: bytes) -> tuple[str, list[str], list[str], bytes]:
    """The folder, settings and arguments of a call of either kind, and what came along with it."""
    if kind == CALL:
        return (*unpack_call(payload), b"")
    end = HEADER + int.from_bytes(payload[:HEADER], "big")
    if kind != GIVEN or not HEADER < end <= len(payload):
        raise ValueError(f"kind {kind!r}")
    return (*unpack_call(payload[HEADER:end]), payload[end:])


def pack_result(code: int, output: bytes, errors: bytes) -> bytes:
    """What a forwarded call led to."""
    return pack(ANSWER, bytes([code]) + len(output).to_bytes(HEADER, "big") + output + errors)


def unpack_result(payload: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a forwarded call."""
    length = int.from_bytes(payload[1 : 1 + HEADER], "big")
    start = 1 + HEADER
    return payload[0], payload[start : start + length], payload[start + length :]
