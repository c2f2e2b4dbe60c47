"""The coordinator's socket protocol and its client: frames of a length, a kind and a payload. Imports almost nothing, because every command starts here."""

from __future__ import annotations

from _socket import AF_UNIX, SOCK_STREAM, socket
from time import sleep

HEADER = 4
MAX_FRAME = 8 << 20
MAX_CALL = MAX_FRAME - 4096
"""The most bytes of a forwarded call, including its attached input."""
MAX_TEXTS = 4096
"""The most strings in a call: parsing millions of them would delay all other clients."""
ASKS = b"A"
CALL = b"C"
CALL_WITH_INPUT = b"G"
"""A call with the contents of the files or standard input it would have read. Only agent sockets accept these."""
ANSWER = b"R"
STATUS = b"S"
"""Asks for the coordinator's status; the answer is `CoordinatorStatus` as a JSON object."""
STOP = b"Q"
"""Asks for the status too, and then stops the coordinator once it has answered all clients."""


def pack(kind: bytes, payload: bytes) -> bytes:
    return (len(payload) + 1).to_bytes(HEADER, "big") + kind + payload


def unpack(buffer: bytes | bytearray) -> tuple[bytes, bytes, int] | None:
    """The first frame in a buffer: kind, payload and the number of bytes used; None if it is incomplete."""
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
    """Encodes a call of the command line for forwarding."""
    texts = [folder, *settings, *arguments]
    head = bytes([len(settings)])
    call = head + b"\0".join(text.encode("utf-8", "surrogateescape") for text in texts)
    return (
        pack(CALL_WITH_INPUT, len(call).to_bytes(HEADER, "big") + call + given) if given else pack(CALL, call)
    )


def unpack_call(payload: bytes) -> tuple[str, list[str], list[str]]:
    """The folder, settings and arguments of a forwarded call."""
    if payload.count(b"\0") >= MAX_TEXTS:
        raise ValueError(f"a call of more than {MAX_TEXTS} texts")
    count = payload[0]
    folder, *rest = [part.decode("utf-8", "surrogateescape") for part in payload[1:].split(b"\0")]
    return folder, rest[:count], rest[count:]


def unpack_call_with_input(kind: bytes, payload: bytes) -> tuple[str, list[str], list[str], bytes]:
    """The folder, settings and arguments of a call of either kind, and its attached input."""
    if kind == CALL:
        return (*unpack_call(payload), b"")
    end = HEADER + int.from_bytes(payload[:HEADER], "big")
    if kind != CALL_WITH_INPUT or not HEADER < end <= len(payload):
        raise ValueError(f"kind {kind!r}")
    return (*unpack_call(payload[HEADER:end]), payload[end:])


def pack_result(code: int, output: bytes, errors: bytes) -> bytes:
    """Encodes the result of a forwarded call."""
    return pack(ANSWER, bytes([code]) + len(output).to_bytes(HEADER, "big") + output + errors)


def unpack_result(payload: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a forwarded call."""
    length = int.from_bytes(payload[1 : 1 + HEADER], "big")
    start = 1 + HEADER
    return payload[0], payload[start : start + length], payload[start + length :]


PATIENCE = 60.0
ROOM_SECONDS = 0.05
"""The seconds between attempts to connect while the backlog is full."""


class CoordinatorUnavailable(Exception):  # noqa: N818 - it is the coordinator that is lost
    """The coordinator is not running, or went away before it answered."""


class Connection:
    """A connection to a coordinator."""

    def __init__(self, path: str, patience: float = 0.0) -> None:
        self._patience = patience or PATIENCE
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._socket.settimeout(self._patience)
        try:
            self._connect(path)
        except OSError as error:
            self._socket.close()
            raise CoordinatorUnavailable(str(error)) from None

    def _connect(self, path: str) -> None:
        """Connects; retries while the backlog is full."""
        for _ in range(int(self._patience / ROOM_SECONDS)):
            try:
                return self._socket.connect(path)
            except BlockingIOError:
                sleep(ROOM_SECONDS)
        return self._socket.connect(path)

    def exchange(self, frame: bytes) -> bytes:
        """Sends a frame and returns the payload of the answer."""
        try:
            self._socket.sendall(frame)
            buffer = b""
            while (found := unpack(buffer)) is None:
                part = self._socket.recv(1 << 18)
                if not part:
                    raise CoordinatorUnavailable("the coordinator went away")
                buffer += part
        except TimeoutError:
            raise CoordinatorUnavailable(
                f"the coordinator did not answer within {self._patience:.0f} s"
            ) from None
        except (OSError, ValueError) as error:
            raise CoordinatorUnavailable(str(error)) from None
        return found[1]

    def close(self) -> None:
        self._socket.close()


def forward_call(
    path: str,
    folder: str,
    settings: list[str],
    arguments: list[str],
    *,
    given: bytes = b"",
    patience: float = 0.0,
) -> tuple[int, bytes, bytes]:
    """Forwards a command line to a coordinator or an agent socket; command line and hook both use it.

    Returns exit code, output and errors; raises CoordinatorUnavailable if there is no answer.
    """
    connection = Connection(path, patience)
    try:
        return unpack_result(connection.exchange(pack_call(folder, settings, arguments, given)))
    except IndexError:
        raise CoordinatorUnavailable("it gave no valid answer") from None
    finally:
        connection.close()
