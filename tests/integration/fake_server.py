"""A server on loopback that answers each connection as a script says, and keeps what was sent to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Reply = Callable[[bytes], bytes | None]
"""What is sent back for a request; None closes the connection without an answer."""


class SentRequest(NamedTuple):
    head: str
    body: bytes

    def header(self, name: str) -> str:
        rows = (row.partition(": ") for row in self.head.split("\r\n"))
        return next((value for key, _, value in rows if key.lower() == name.lower()), "")


class FakeServer:
    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.requests: list[SentRequest] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for reply in self.replies:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                request = _read(connection)
                self.requests.append(request)
                answer = reply(request.body)
                if answer is not None:
                    connection.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def _read(connection: socket.socket) -> SentRequest:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    request = SentRequest(head.decode(), body)
    while len(body) < int(request.header("content-length") or 0):
        body += connection.recv(65536)
    return request._replace(body=body)


def http(status: int, body: bytes, *headers: str) -> bytes:
    rows = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(rows).encode() + body


@contextmanager
def fake_server(*replies: Reply) -> Iterator[FakeServer]:
    server = FakeServer(list(replies))
    try:
        yield server
    finally:
        server.close()
