"""A server as a real process, and a client that speaks to it in plain HTTP, without any of the product's own code."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.integration.machine import PATIENCE, REMAND, Repository


class HttpReply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class RunningServer:
    """A server that was started for a test."""

    def __init__(
        self, repository: Repository, *options: str, env: Mapping[str, str] | None = None, ca: str = ""
    ) -> None:
        self.process = repository.machine.start(
            repository.path, REMAND, "serve", "--port", "0", "--json", *options, env=dict(env or {})
        )
        self._tls = ssl.create_default_context(cafile=ca) if ca else None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"no server: {self.process.communicate(timeout=PATIENCE)}"
        self.address: dict[str, str] = json.loads(line)
        self.headers: dict[str, str] = {}
        self.first_cookie = ""

    def log_in(self) -> HttpReply:
        """Follows the log-in link, and is the user from then on."""
        parts = urlsplit(self.address["login_url"])
        self.headers["host"] = parts.netloc
        reply = self.request("GET", f"{parts.path}?{parts.query}")
        self.first_cookie = reply.headers.get("set-cookie", "")
        self.headers["cookie"] = self.first_cookie.partition(";")[0]
        self.headers["x-csrf-token"] = self.get("/api/session").data["csrf"]
        return reply

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpReply:
        parts = urlsplit(self.address["url"])
        connection = (
            http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=PATIENCE, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        )
        try:
            connection.request(method, path, body or None, self.headers | dict(headers or {}))
            found = connection.getresponse()
            return HttpReply(
                found.status, {name.lower(): value for name, value in found.getheaders()}, found.read()
            )
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None, **values: Any) -> HttpReply:
        query = f"?{urlencode(values, doseq=True)}" if values else ""
        return self.request("GET", f"{path}{query}", headers=headers)

    def post(self, path: str, headers: Mapping[str, str] | None = None, **values: Any) -> HttpReply:
        return self.request("POST", path, json.dumps(values).encode(), headers)

    def stop(self) -> tuple[str, str]:
        """Has it end; returns what it wrote."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=PATIENCE)


@contextmanager
def run_server(
    repository: Repository,
    *options: str,
    env: Mapping[str, str] | None = None,
    ca: str = "",
    logs_in: bool = True,
) -> Iterator[RunningServer]:
    """A server of a repository's ledger, whose user is logged in unless that is unwanted."""
    server = RunningServer(repository, *options, env=env, ca=ca)
    try:
        if logs_in:
            server.log_in()
        yield server
    finally:
        if server.process.poll() is None:
            try:
                server.stop()
            except subprocess.TimeoutExpired:
                server.process.kill()
