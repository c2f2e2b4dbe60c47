"""The way to a running coordinator. Imports little: every call of the command line starts here."""

from __future__ import annotations

from _socket import AF_UNIX, SOCK_STREAM, socket

from remand.adapters.coordinator import frames

PATIENCE = 60.0


class Lost(Exception):  # noqa: N818 - it is the coordinator that is lost
    """The coordinator is not there, or went away before it answered."""


class Connection:
    """One conversation with a coordinator."""

    def __init__(self, path: str) -> None:
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Lost(str(error)) from None

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
            raise Lost(f"the coordinator did not answer within {PATIENCE:.0f} s") from None
        except (OSError, ValueError) as error:
            raise Lost(str(error)) from None
        return found[1]

    def close(self) -> None:
        """Ends the conversation."""
        self._socket.close()
