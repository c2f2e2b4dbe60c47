"""What is said over a coordinator's socket: a length, a kind, and the rest. Imports nothing: clients start with it."""

from __future__ import annotations

HEADER = 4
MAX_FRAME = 8 << 20
ASKS = b"A"
CALL = b"C"
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


def pack_call(folder: str, settings: list[str], arguments: list[str]) -> bytes:
    """A call of the command line, forwarded as it is."""
    texts = [folder, *settings, *arguments]
    head = bytes([len(settings)])
    return pack(CALL, head + b"\0".join(text.encode("utf-8", "surrogateescape") for text in texts))


def unpack_call(payload: bytes) -> tuple[str, list[str], list[str]]:
    """The folder, settings and arguments of a forwarded call."""
    count = payload[0]
    folder, *rest = [part.decode("utf-8", "surrogateescape") for part in payload[1:].split(b"\0")]
    return folder, rest[:count], rest[count:]


def pack_result(code: int, output: bytes, errors: bytes) -> bytes:
    """What a forwarded call led to."""
    return pack(ANSWER, bytes([code]) + len(output).to_bytes(HEADER, "big") + output + errors)


def unpack_result(payload: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a forwarded call."""
    length = int.from_bytes(payload[1 : 1 + HEADER], "big")
    start = 1 + HEADER
    return payload[0], payload[start : start + length], payload[start + length :]
