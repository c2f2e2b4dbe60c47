"""The limits of a connection that no parser has by itself: what a stranger sends is not kept without end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import PATIENCE, Machine

PART = b"x" * 65_536
CHUNKED = b"POST /api/task/add HTTP/1.1\r\nHost: OWN\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
ENDLESS = {
    "one header": b"GET /healthz HTTP/1.1\r\nHost: OWN\r\nA: ",
    "the address": b"GET /healthz?",
    "the trailer of a body in chunks": CHUNKED + b"0\r\nA: ",
    "a chunk's extension": CHUNKED + b"2;a=",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = Machine(str(tmp_path_factory.mktemp("protocol"))).repository()
    with run_server(repository, logs_in=False) as running:
        yield running
        _, errors = running.stop()
        assert errors == "", "strangers fill no log"


def connect(server: RunningServer) -> socket.socket:
    parts = urlsplit(server.address["url"])
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)


def own(server: RunningServer, text: bytes) -> bytes:
    """A request under the server's own name."""
    return text.replace(b"OWN", urlsplit(server.address["url"]).netloc.encode())


def everything(connection: socket.socket) -> bytes:
    """What is answered until the server closes the connection."""
    found = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            found += part
    return found


def resident(server: RunningServer) -> int:
    """How many bytes the server has in memory; 0 where that cannot be told."""
    path = Path(f"/proc/{server.process.pid}/statm")
    return int(path.read_text(encoding="ascii").split()[1]) * 4096 if path.exists() else 0


@pytest.mark.parametrize("start", ENDLESS.values(), ids=ENDLESS)
def test_a_head_without_end_is_not_kept(server: RunningServer, start: bytes) -> None:
    before = resident(server)
    with connect(server) as connection:
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(own(server, start))
            while sent < 64 << 20:
                connection.sendall(PART)
                sent += len(PART)

    assert sent < 64 << 20, "the server reads on"
    assert resident(server) - before < 16 << 20


def test_a_head_just_below_the_limit_is_read(server: RunningServer) -> None:
    with connect(server) as connection:
        head = own(server, b"GET /healthz HTTP/1.1\r\nHost: OWN\r\nConnection: close\r\nA: ") + b"x" * 15_000
        connection.sendall(head[:9000])
        connection.sendall(head[9000:] + b"\r\n\r\n")
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_requests_that_wait_for_an_answer_are_counted(server: RunningServer) -> None:
    with connect(server) as connection:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(own(server, b"GET /healthz HTTP/1.1\r\nHost: OWN\r\n\r\n") * 20_000)
        answers = everything(connection)

    assert answers.count(b" 200 OK") < 1000


def test_few_requests_at_once_are_all_answered(server: RunningServer) -> None:
    with connect(server) as connection:
        request = own(server, b"GET /healthz HTTP/1.1\r\nHost: OWN\r\n\r\n")
        connection.sendall(request * 9 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert everything(connection).count(b" 200 OK") == 10


@pytest.mark.parametrize(
    "hosts", [b"", b"Host: OWN\r\nHost: OWN\r\n", b"Host: OWN\r\nhost: evil.example\r\n"], ids=range(3)
)
def test_a_request_names_one_host(server: RunningServer, hosts: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(own(server, b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n"))
        assert everything(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length;\r\n",
        b"Content-Length:\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length : 2\r\n",
        b"A: b\r\n c\r\n",
        b"A: b\nB: c\r\n",
        b"A: \0\r\n",
    ],
    ids=range(10),
)
def test_a_head_that_two_programs_may_read_differently_is_refused(server: RunningServer, head: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(own(server, b"POST /a2a HTTP/1.1\r\nHost: OWN\r\n" + head + b"\r\n{}"))
        answered, _, body = everything(connection).partition(b"\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in answered
    assert json.loads(body)["code"] == "bad_request"
