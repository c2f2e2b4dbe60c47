"""The way to a running coordinator. Imports little: every call of the command line starts here."""

from __future__ import annotations

from _socket import AF_UNIX, SOCK_STREAM, socket
from time import sleep

from remand.adapters.coordinator import frames

PATIENCE = 60.0
ROOM_SECONDS = 0.05
"""How long to wait before another try where too many wait to be let in."""


class Lost(Exception):  # noqa: N818 - it is the coordinator that is lost
    """The coordinator is not there, or went away before it answered."""


class Connection:
    """One conversation with a coordinator."""

    def __init__(self, path: str, patience: float = 0.0) -> None:
        self._patience = patience or PATIENCE
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._socket.settimeout(self._patience)
        try:
            self._connect(path)
        except OSError as error:
            self._socket.close()
            raise Lost(str(error)) from None

    def _connect(self, path: str) -> None:
        """Connects; where too many wait already, as soon as there is room."""
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
            while (found := frames.unpack(buffer)) is None:
                part = self._socket.recv(1 << 18)
                if not part:
                    raise Lost("the coordinator went away")
                buffer += part
        except TimeoutError:
            raise Lost(f"the coordinator did not answer within {self._patience:.0f} s") from None
        except (OSError, ValueError) as error:
            raise Lost(str(error)) from None
        return found[1]

    def close(self) -> None:
        """Ends the conversation."""
        self._socket.close()
