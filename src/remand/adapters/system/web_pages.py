"""Fetches web addresses in evidence: only from listed hosts, one request, limited time and size, no credentials."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from remand.app.ports import CommandOutcome

SECONDS = 10.0
MAX_TEXT = 64 << 10
MAX_HOPS = 3
PORTS = {"http": 80, "https": 443}
REDIRECTS = (301, 302, 303, 307, 308)
HEADERS = {"User-Agent": "remand", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}


class Target(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def where(self) -> tuple[str, int]:
        """The host and its port."""
        return self.host, self.port


class PageAnswer(NamedTuple):
    """A response, and where it redirects to."""

    outcome: CommandOutcome
    leads_to: str = ""


class HostPages:
    """Fetches addresses on listed hosts: `status.example.org`, or with a port `localhost:8080`.

    Follows redirects on the same host and port only. Follows no name that resolves to this machine or a
    private network address, unless that very address is listed.
    """

    def __init__(self, hosts: Sequence[str], seconds: float = SECONDS) -> None:
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._seconds = seconds

    def get(self, url: str) -> CommandOutcome | None:
        """The response of an address; status 0 and the reason if there is none. None if the address is not permitted."""
        deadline = time.monotonic() + self._seconds
        target, answer = target_of(url), None
        for _ in range(MAX_HOPS):
            answer = self._request(target, deadline)
            following = target_of(answer.leads_to) if answer is not None else None
            if target is None or following is None or following.where != target.where:
                break
            target = following
        return answer.outcome if answer is not None else None

    def _is_listed(self, target: Target) -> bool:
        is_usual = target.port == PORTS[target.scheme]
        return f"{target.host}:{target.port}" in self._hosts or (is_usual and target.host in self._hosts)

    def _request(self, target: Target | None, deadline: float) -> PageAnswer | None:
        """Makes one request. Returns the response and its redirect, or None if the address is not permitted."""
        if target is None or not self._is_listed(target):
            return None
        kind = HTTPSConnection if target.scheme == "https" else HTTPConnection
        connection = kind(target.host, target.port, timeout=max(0.1, deadline - time.monotonic()))
        try:
            connection.connect()
            if not _is_expected_peer(connection, target.host):
                return None
            return _read_answer(connection, target, deadline)
        except (OSError, HTTPException, UnicodeError, ValueError) as error:
            return PageAnswer(CommandOutcome(0, _reason(error)))
        finally:
            connection.close()


def _read_answer(connection: HTTPConnection, target: Target, deadline: float) -> PageAnswer:
    """Sends the request and reads the response; stops at the deadline, however slowly it arrives."""
    timer = Timer(max(0.0, deadline - time.monotonic()), _cut_off, (connection.sock,))
    timer.daemon = True
    timer.start()
    try:
        connection.request("GET", target.path, headers=HEADERS)
        answer = connection.getresponse()
        text = answer.read(MAX_TEXT + 1)
    finally:
        timer.cancel()
    if time.monotonic() >= deadline:
        return PageAnswer(CommandOutcome(0, "timed out"))
    leads_to = answer.headers.get("Location", "") if answer.status in REDIRECTS else ""
    host = f"[{target.host}]" if ":" in target.host else target.host
    here = f"{target.scheme}://{host}:{target.port}{target.path}"
    said = text[:MAX_TEXT].decode("utf-8", "replace")
    return PageAnswer(
        CommandOutcome(answer.status, said, len(text) > MAX_TEXT), urljoin(here, leads_to) if leads_to else ""
    )


def _cut_off(sock: socket) -> None:
    with suppress(OSError):
        sock.shutdown(SHUT_RDWR)


def target_of(url: str) -> Target | None:
    """The target of an address; None unless it is a plain http address without a user name."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host or parts.username is not None or not _is_plain(url):
        return None
    return Target(parts.scheme, host.casefold(), port or PORTS[parts.scheme], _path(parts))


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url and "\\" not in url


def _is_expected_peer(connection: HTTPConnection, host: str) -> bool:
    """Checks the connected peer: a listed name must not resolve to this machine."""
    peer = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    if host == "localhost":
        return peer.is_loopback
    try:
        return ipaddress.ip_address(host) == peer
    except ValueError:
        return not (peer.is_loopback or peer.is_link_local or peer.is_unspecified or peer.is_multicast)


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason or type(error).__name__
