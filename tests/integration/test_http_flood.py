"""Bad requests from many connections do not keep good ones waiting, nor fill the server's memory."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Self
from urllib.parse import urlsplit

import pytest

from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import Repository

WRONG_TOKEN = b"Authorization: Bearer rmd_20261118-000000-00000000_" + b"x" * 43
OWN = b"Host: OWN\r\n"
"""Stands for the server's own name: under another one a request is refused before anything of it is looked at."""
BAD_REQUESTS = [
    b"GET /api/task/list HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /api/task/list HTTP/1.1\r\nHost: OWN\r\n\r\n",
    b"GET /api/task/list HTTP/1.1\r\nHost: OWN\r\n" + WRONG_TOKEN + b"\r\n\r\n",
    b"GET /api/task/list HTTP/1.1\r\nHost: OWN\r\nCookie: remand_session=x\r\n\r\n",
    b"POST /api/task/add HTTP/1.1\r\nHost: OWN\r\nContent-Length: 9\r\n\r\n{ no json",
    b"POST /api/task/add HTTP/1.1\r\nHost: OWN\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /api/calls HTTP/1.1\r\nHost: OWN\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"DELETE /api/task/list HTTP/1.1\r\nHost: OWN\r\n\r\n",
    b"GET /" + b"x" * 4000 + b" HTTP/1.1\r\nHost: OWN\r\n\r\n",
    b"GET /api/task/list?" + b"a=b&" * 2000 + b" HTTP/1.1\r\nHost: OWN\r\n\r\n",
    b"GET /api/task/list HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    b"GET /login?code=guess HTTP/1.1\r\nHost: OWN\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"\0" * 200,
]


class Flood:
    """Sends bad requests, so many a second, from so many connections."""

    def __init__(self, server: RunningServer, connections: int, rate: int) -> None:
        parts = urlsplit(server.address["url"])
        self._where = (parts.hostname or "", parts.port or 0)
        host = f"Host: {parts.netloc}\r\n".encode()
        self._requests = [request.replace(OWN, host) for request in BAD_REQUESTS]
        self._pause = connections / rate
        self._ended = threading.Event()
        self.statuses: list[int] = []
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(connections)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        chosen = Random(number)
        requests = cycle(chosen.sample(self._requests, len(BAD_REQUESTS)))
        time.sleep(chosen.random() * self._pause)
        while not self._ended.is_set():
            begun = time.monotonic()
            with suppress(OSError), socket.create_connection(self._where, timeout=10) as connection:
                connection.sendall(next(requests))
                answer = connection.recv(4096)
                if answer:
                    self.statuses.append(int(answer.split(b" ", 2)[1]))
            self._ended.wait(max(0.0, self._pause - (time.monotonic() - begun)))


def memory(server: RunningServer) -> int:
    """How many bytes the server has in memory."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_flood_of_bad_requests_keeps_nobody_waiting(
    repository: Repository, campaign: Callable[[int, int], int]
) -> None:
    seconds, connections, rate = campaign(2, 60), campaign(10, 50), campaign(60, 300)
    waits: list[float] = []
    with run_server(repository) as server:
        parts = urlsplit(server.address["url"])

        def ask(_: int) -> None:
            with closing(
                http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
            ) as connection:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    begun = time.monotonic()
                    connection.request("GET", "/api/whoami", headers=server.headers)
                    reply = connection.getresponse()
                    reply.read()
                    waits.append(time.monotonic() - begun)
                    assert reply.status == 200
                    time.sleep(0.05)

        with Flood(server, connections, rate) as flood, ThreadPoolExecutor(2) as pool:
            list(pool.map(ask, range(2)))
            before, begun = memory(server), len(flood.statuses)
            list(pool.map(ask, range(2)))
            after = memory(server)
        assert begun
        assert max(flood.statuses) < 500, [status for status in flood.statuses if status >= 500][:5]
        assert after - before < max(8 << 20, before // 10), f"from {before >> 20} to {after >> 20} MiB"
        _, errors = server.stop()
    assert errors == "", "strangers fill no log"
    waits.sort()
    p99 = waits[int(len(waits) * 0.99)]
    print(
        f"good requests: {len(waits)}, p50 {waits[len(waits) // 2]:.3f} s, p99 {p99:.3f} s; bad: {len(flood.statuses)}"
    )
    if seconds >= 60:
        assert p99 <= 1.0, f"p99 was {p99:.3f} s"
