"""The server over HTTP: who is refused before anything is read, and how each request ends."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest

from remand.interfaces.mcp import http
from remand.interfaces.mcp.http import SESSION, VERSION, listen, serve_until
from remand.interfaces.mcp.protocol import ClientRequest

TOKEN = "a-token-of-the-tests-own"
PATIENCE = 120.0
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Desk:
    """Answers `echo` at once, and `wait` never."""

    def __init__(self) -> None:
        self.introduction = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {}}

    def has_method(self, method: str) -> bool:
        return method in ("echo", "wait")

    async def answer(self, request: ClientRequest) -> dict[str, Any]:
        if request.method == "wait":
            await asyncio.sleep(600)
        return {"echo": True}


@pytest.fixture
def port() -> Iterator[int]:
    """A server at a real port, in a thread of this process."""
    listening = listen("127.0.0.1", 0)
    number: int = listening.getsockname()[1]
    ends: SimpleQueue[Callable[[], object]] = SimpleQueue()

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        ends.put(lambda: loop.call_soon_threadsafe(end.set))
        await serve_until(end, Desk(), listening, TOKEN)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    yield number
    ends.get(timeout=PATIENCE)()
    thread.join(timeout=PATIENCE)


def send(port: int, body: bytes = b"", method: str = "POST", **headers: str) -> socket.socket:
    """Sends a request; `Content_Length` is that of the body unless given."""
    usual = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {TOKEN}"}
    usual["Content-Length"] = str(len(body))
    given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    connection.sendall(f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def received(connection: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def post(port: int, message: object, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer after which the connection ends."""
    given = {"Connection": "close"} | headers
    head, _, body = received(send(port, json.dumps(message).encode(), **given)).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


def request(number: int, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def session(port: int, version: str = "2025-06-18") -> dict[str, str]:
    """The header of a new session."""
    _, headers, _ = post(port, request(0, "initialize", protocolVersion=version, capabilities={}))
    return {SESSION: headers[SESSION]}


@pytest.mark.parametrize("how", ["cancelled", "deleted", "evicted"])
def test_a_request_that_nobody_will_answer_ends(port: int, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    own = session(port)
    with monkeypatch.context() as patch:
        patch.setattr(http, "SILENT_SECONDS", 0.1)
        waiting = send(port, json.dumps(request(7, "wait")).encode(), **own)
        assert b"text/event-stream" in waiting.recv(1 << 16)
    if how == "cancelled":
        params = {"requestId": 7}
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert post(port, cancelled, **own)[0] == 202
    elif how == "deleted":
        assert b" 200 " in received(send(port, method="DELETE", Connection="close", **own))
    else:
        monkeypatch.setattr(http, "MAX_SESSIONS", 1)
        session(port)
    ends, found = time.monotonic() + PATIENCE, b"..."
    while found and time.monotonic() < ends:
        found = waiting.recv(1 << 16)
    waiting.close()
    assert found == b"", "the stream goes on"


def test_several_messages_at_once_are_answered_and_notifications_alone_are_taken(port: int) -> None:
    own = session(port, "2025-03-26")
    status, _, body = post(port, [request(1, "ping"), INITIALIZED, request(2, "echo")], **own)
    assert (status, sorted(one["id"] for one in json.loads(body))) == (200, [1, 2])
    assert post(port, [INITIALIZED, INITIALIZED], **own)[::2] == (202, b"")
    assert post(port, INITIALIZED, **own)[::2] == (202, b"")
    assert post(port, [], **own)[0] == 400
    assert post(port, [request(1, "ping")], **session(port))[0] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer guess", "Content-Length": str(31 << 20)}, 401),
        ({"Origin": "http://localhost:3000", "Content-Length": "1000"}, 403),
        ({"Content-Length": str(1 << 30)}, 413),
        ({"Content-Length": "9" * 5000}, 413),
        ({"Content-Length": ""}, 411),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_what_is_refused_is_refused_once_before_its_body_is_read(
    port: int, headers: dict[str, str], status: int
) -> None:
    answer = received(send(port, **headers))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"Connection: close" in answer


def test_a_body_that_does_not_come_in_time_ends_the_request(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.3)
    connection = send(port, b"{", Content_Length="1000000")
    ends = time.monotonic() + PATIENCE
    with suppress(OSError):
        while time.monotonic() < ends:  # each byte comes in time, the whole does not
            time.sleep(0.1)
            connection.sendall(b" ")
    assert received(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("method", ["DELETE", "GET"])
def test_a_body_where_none_belongs_is_not_taken_for_the_next_request(port: int, method: str) -> None:
    answer = received(send(port, b"GET /mcp HTTP/1.1\r\n\r\n", method, Connection="close"))
    connection = send(port, b"POST /other HTTP/1.1\r\n\r\n", method)
    found = connection.recv(1 << 16)
    connection.settimeout(0.5)  # a second answer would come at once
    with suppress(TimeoutError):
        while part := connection.recv(1 << 16):
            found += part
    connection.close()
    assert (answer.count(b"HTTP/1.1"), found.count(b"HTTP/1.1")) == (1, 1)


def test_a_client_that_goes_leaves_no_traceback(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        connection = send(port, b"{", Content_Length="100")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    time.sleep(0.3)
    assert "Traceback" not in capfd.readouterr().err


def test_a_version_that_a_session_cannot_have_is_refused(port: int) -> None:
    own = session(port)
    assert post(port, request(1, "ping"), **own, **{VERSION: "1999-01-01"})[0] == 400
    assert post(port, request(2, "ping"), **own, **{VERSION: "2025-06-18"})[0] == 200
    assert post(port, request(3, "ping"), **own)[0] == 200
