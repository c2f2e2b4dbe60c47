"""Command line calls over HTTP: the server's address, the token, and what a lost answer means.

Every command loads this, so it imports little.
"""

from __future__ import annotations

import os
from _socket import (
    AF_INET6,
    IPPROTO_TCP,
    SO_KEEPALIVE,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_KEEPCNT,
    TCP_KEEPIDLE,
    TCP_KEEPINTVL,
    TCP_NODELAY,
    getaddrinfo,
    socket,
)
from binascii import crc32
from time import monotonic, sleep

from remand.app import hook_calls
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class ClonedCommits(Protocol):
        """The clone from which commits are delivered."""

        def push(self, task_id: str, commit: str) -> bool:
            """Pushes a commit to the project's remote; returns whether it succeeded."""

        def pack(self, commit: str, known: list[str]) -> bytes:
            """A pack with a commit and all it needs besides the known ones."""


SERVER, TOKEN, TOKEN_FILE, CA, WAIT = (
    *("REMAND_SERVER", "REMAND_TOKEN", "REMAND_TOKEN_FILE", "REMAND_CA", "REMAND_SERVER_WAIT"),
)
CALLS = "/api/calls"
COMMITS = "/api/commits"
OFFER_SECONDS, UPLOAD_SECONDS = 120.0, 900.0
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
"""Seconds between two attempts: the first pause, doubled each time, up to the longest."""
MAX_ANSWER = hook_calls.MAX_PAYLOAD
MAX_TOKEN = 4096
OK = 200
AWAY = (429, 502, 503, 504)
"""Statuses of a server or proxy that is not ready: the same call may succeed later."""
_PORTS = {"http": 80, "https": 443}


class ServerUnavailable(Exception):  # noqa: N818 - it is the server that is away
    """The server cannot be reached, or failed before it answered. Whether it carried the call out is unknown."""


class UnusableServer(Exception):  # noqa: N818 - what is wrong is the setting
    """The address, token or certificate in the environment is unusable; the message says what to do."""


class CallDenied(Exception):  # noqa: N818 - the server's word
    """The server did not carry out a call, because of its token or its form. Has a refusal's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerAddress:
    """The server's address."""

    __slots__ = ("host", "is_secure", "port", "prefix", "url")

    def __init__(self, url: str) -> None:
        """Parses an address strictly. Allows plain HTTP only on this machine, because the token is sent along."""
        scheme, _, rest = url.partition("://")
        where, _, prefix = rest.partition("/")
        host, port = _split_port(where)
        is_plain = url.isascii() and url.isprintable() and not set("@?#\\ ") & set(url)
        if scheme not in _PORTS or not host or not is_plain or not (port == "" or port.isdecimal()):
            raise UnusableServer(f"{SERVER} is not an address. Write it as https://HOST[:PORT].")
        if scheme == "http" and not _is_loopback(host):
            raise UnusableServer(
                f"{SERVER} is plain HTTP to another machine; tokens are not sent over it. Use https://{where}."
            )
        self.url = url.rstrip("/")
        self.host = host
        self.port = int(port or _PORTS[scheme])
        self.is_secure = scheme == "https"
        self.prefix = f"/{prefix.rstrip('/')}" if prefix.rstrip("/") else ""

    @property
    def ledger_id(self) -> str:
        """The id under which this machine keeps notes about the server's ledger."""
        return f"server-{crc32(self.url.encode('ascii')):08x}"

    @property
    def authority(self) -> str:
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"{named}:{self.port}"


def find_server(environment: Mapping[str, str]) -> Callable[[], ServerClient] | None:
    """Returns a function that connects to the server named in an environment; None if it names none."""
    return (lambda: ServerClient(environment)) if environment.get(SERVER) else None


def _split_port(where: str) -> tuple[str, str]:
    if where.startswith("["):
        host, _, port = where[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = where.partition(":")
    return host, port


def _is_loopback(host: str) -> bool:
    parts = host.split(".")
    is_ipv4 = len(parts) == 4 and all(part.isdecimal() for part in parts) and parts[0] == "127"
    return is_ipv4 or host in ("localhost", "::1")


class ServerAnswer:
    """An HTTP response."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body


class ServerClient:
    """The connection to a server. Raises UnusableServer if the environment's settings are unusable."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.address = ServerAddress(environment.get(SERVER, ""))
        self._token = _read_token(environment)
        self._ca = environment.get(CA, "")
        self._tls: Any = None

    def call(self, fields: dict[str, object], key: str, *, patience: float) -> tuple[int, bytes, bytes]:
        """Runs one command line call on the server; returns exit code, output and errors.

        Raises ServerUnavailable or CallDenied. A call may be repeated under the same key: it is carried out
        once.
        """
        answered = self.request(
            "POST",
            CALLS,
            hook_calls.compose(fields).encode("ascii"),
            patience=patience,
            headers=(("Content-Type", "application/json"), ("Idempotency-Key", key)),
        )
        payload = hook_calls.parse(answered.body)
        code, output, errors = payload.first("code"), payload.first("output"), payload.first("errors")
        if not isinstance(code, int) or not isinstance(output, str) or not isinstance(errors, str):
            raise ServerUnavailable(
                f"{self.address.url} gave no valid answer ({payload.is_broken or 'no output'})"
            )
        return code, _encode(output), _encode(errors)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        patience: float,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> ServerAnswer:
        """Sends one request; raises ServerUnavailable or CallDenied unless it succeeds."""
        rows = [
            f"{method} {self.address.prefix}{path} HTTP/1.1",
            f"Host: {self.address.authority}",
            f"Authorization: Bearer {self._token}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in headers),
        ]
        if not all(row.isascii() and row.isprintable() for row in rows):
            raise CallDenied(
                "bad_value",
                "A key or name contains a line break or another character that a request cannot contain.",
            )
        try:
            answered = self._exchange("\r\n".join([*rows, "", ""]).encode("ascii") + body, patience)
        except TimeoutError:
            raise ServerUnavailable(f"{self.address.url} did not answer in time") from None
        except (OSError, ValueError) as error:
            if type(error).__name__ == "SSLCertVerificationError":
                is_expired = "expired" in str(error)
                remedy = (
                    "Renew it on the server."
                    if is_expired
                    else f"{CA} names a file with the certificate of its authority."
                )
                raise UnusableServer(
                    f"The certificate of {self.address.url} is not trusted ({error}). {remedy}"
                ) from None
            raise ServerUnavailable(f"{self.address.url}: {error}") from None
        if not OK <= answered.status < OK + 100:
            raise _failure(answered, self.address.url)
        return answered

    def _exchange(self, request: bytes, patience: float) -> ServerAnswer:
        connection = self._connect()
        try:
            connection.settimeout(patience)
            connection.sendall(request)
            return read_answer(connection.recv)
        finally:
            connection.close()

    def _connect(self) -> Any:
        """Connects to the first address of the host that accepts."""
        fault: OSError | None = None
        # Text in place of bytes would load the tables for international names.
        host = self.address.host.encode("ascii")
        for family, _, _, _, where in getaddrinfo(host, self.address.port, 0, SOCK_STREAM):
            connection: Any = self._new_socket(family)
            connection.settimeout(CONNECT_SECONDS)
            try:
                connection.connect(where)
                _keep_alive(connection)
                if not self.address.is_secure:
                    _require_loopback(connection, family)
                    return connection
                return self._tls_context().wrap_socket(connection, server_hostname=self.address.host)
            except OSError as error:
                connection.close()
                fault = error
        raise fault or OSError("the host has no address")

    def _new_socket(self, family: int) -> Any:
        """A socket. Without TLS the plain C class is enough and imports nothing."""
        if not self.address.is_secure:
            return socket(family, SOCK_STREAM)
        import socket as full_socket  # Only TLS needs more than the C class has.

        return full_socket.socket(family, SOCK_STREAM)

    def _tls_context(self) -> Any:
        if self._tls is None:
            import ssl  # Imported only for TLS.

            try:
                self._tls = ssl.create_default_context(cafile=self._ca or None)
            except OSError as error:
                raise UnusableServer(f"{CA} does not name a file of certificates ({error}).") from None
        return self._tls


def retry_while_unavailable(
    call: Callable[[], T], seconds: float, report: Callable[[ServerUnavailable], None]
) -> T:
    """Makes a call and repeats it while the server is unavailable; then raises ServerUnavailable.

    Reports the waiting once. The call keeps its key, so that a lost answer is returned again.
    """
    until, pause, has_reported = monotonic() + seconds, FIRST_PAUSE, False
    while True:
        try:
            return call()
        except ServerUnavailable as away:
            if monotonic() + pause > until:
                raise
            if not has_reported:
                report(away)
            has_reported = True
        sleep(pause * (0.5 + os.urandom(1)[0] / 512))  # Random, so that hosts do not all return at once.
        pause = min(2 * pause, LONGEST_PAUSE)


class CommitDelivery:
    """Delivers commits of a clone to a server: through the project's remote, or else as the objects that it lacks."""

    def __init__(self, server: ServerClient, clone: ClonedCommits) -> None:
        self._server = server
        self._clone = clone

    def deliver(
        self,
        kind: str,
        name: str,
        commit: str,
        seconds: float,
        report: Callable[[ServerUnavailable], None] = lambda _: None,
    ) -> None:
        """Delivers the commit of a task or a handoff; `kind` and `name` say which. Raises what the client raises."""

        def send(method: str, path: str, body: bytes, media_type: str, patience: float) -> hook_calls.Payload:
            headers = (("Content-Type", media_type),)
            answer = retry_while_unavailable(
                lambda: self._server.request(method, path, body, patience=patience, headers=headers),
                seconds,
                report,
            )
            return hook_calls.parse(answer.body)

        def offer(*, is_pushed: bool) -> hook_calls.Payload:
            fields: dict[str, object] = {"kind": kind, "name": name, "commit": commit, "is_pushed": is_pushed}
            return send(
                "POST", COMMITS, hook_calls.compose(fields).encode("ascii"), "application/json", OFFER_SECONDS
            )

        answered = offer(is_pushed=False)
        task_id = answered.text("task_id")
        if answered.flag("is_there"):
            return
        if self._clone.push(task_id, commit) and offer(is_pushed=True).flag("is_there"):
            return
        pack = self._clone.pack(commit, answered.texts("known"))
        path = f"{COMMITS}/upload?task={task_id}&commit={commit}"
        send("POST", path, pack, "application/octet-stream", UPLOAD_SECONDS)


def wait_seconds(environment: Mapping[str, str], usual: float) -> float:
    """How long a command waits for an unavailable server: from the environment, else the default."""
    try:
        return max(0.0, float(environment.get(WAIT, "") or usual))
    except ValueError:
        raise UnusableServer(f"{WAIT} is not a number of seconds.") from None


def _read_token(environment: Mapping[str, str]) -> str:
    """The token: from the environment, else from a file that only this user may read."""
    token, path = environment.get(TOKEN, ""), environment.get(TOKEN_FILE, "")
    if not token and path:
        try:
            with open(path, encoding="ascii") as file:
                status = os.fstat(file.fileno())
                token = file.read(MAX_TOKEN).strip()
        except (OSError, ValueError) as error:
            raise UnusableServer(f"The token file {path} cannot be read: {error}.") from None
        if status.st_mode & 0o077 or status.st_uid != os.getuid():
            raise UnusableServer(f"The token file {path} can be read by others. Run `chmod 600 {path}`.")
    if not token:
        raise UnusableServer(
            f"{SERVER} is set, but neither {TOKEN} nor {TOKEN_FILE} is. `remand token create` on the server creates one."
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UnusableServer(f"{TOKEN} is not a token.")
    return token


def _keep_alive(connection: Any) -> None:
    """Lets the kernel detect a broken connection within a minute, however long the call takes."""
    connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
    for option, value in ((TCP_KEEPIDLE, 20), (TCP_KEEPINTVL, 5), (TCP_KEEPCNT, 6)):
        connection.setsockopt(IPPROTO_TCP, option, value)


def _require_loopback(connection: Any, family: int) -> None:
    """Refuses a name such as localhost that resolves elsewhere, since the token is sent unencrypted."""
    peer = connection.getpeername()[0]
    if not (peer == "::1" if family == AF_INET6 else peer.startswith("127.")):
        raise OSError(f"{peer} is another machine")


def read_answer(receive: Callable[[int], bytes]) -> ServerAnswer:
    """Reads a complete response; raises OSError or ValueError if it is cut off or invalid."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _part(receive, len(data))
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rows = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    status = int(first.split(" ")[1]) if first.startswith("HTTP/1.") and " " in first else 0
    if not status:
        raise ValueError("it does not speak HTTP")
    chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    length = int(headers["content-length"]) if "content-length" in headers else -1
    parts, size = [body], len(body)
    while True:
        if chunked and (whole := _join_chunks(b"".join(parts))) is not None:
            return ServerAnswer(status, whole)
        if not chunked and 0 <= length <= size:
            return ServerAnswer(status, b"".join(parts)[:length])
        if length < 0 and not chunked:
            raise ValueError("the answer does not say how long it is")
        parts.append(_part(receive, size))
        size += len(parts[-1])


def _part(receive: Callable[[int], bytes], size: int) -> bytes:
    if size > MAX_ANSWER:
        raise ValueError(f"the answer has more than {MAX_ANSWER} bytes")
    part = receive(1 << 18)
    if not part:
        raise ValueError("it went away before it had answered")
    return part


def _join_chunks(data: bytes) -> bytes | None:
    """The body of a chunked response; None until its last chunk is there."""
    found: list[bytes] = []
    at = 0
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(found)
        found.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return None


def _failure(answered: ServerAnswer, url: str) -> CallDenied | ServerUnavailable:
    """The exception for an error response, from its problem details."""
    payload = hook_calls.parse(answered.body)
    text = payload.text("detail", "message", "title")
    if answered.status in AWAY:
        return ServerUnavailable(f"{url} answered {answered.status}{f', {text}' if text else ''}")
    return CallDenied(payload.text("code") or "not_authorised", text or f"{url} answered {answered.status}.")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
