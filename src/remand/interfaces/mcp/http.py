"""The MCP server over HTTP: serves only clients with the token, and no web pages."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import signal
import socket
import sys
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import msgspec

from remand.app.errors import EnvironmentFault
from remand.interfaces.mcp.command_runner import CommandLineRunner
from remand.interfaces.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS_VERSION,
    UNSUPPORTED_VERSION,
    ClientConnection,
    McpHandler,
    encode,
)
from remand.interfaces.mcp.server import RemandServer

PATH = "/mcp"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY, MAX_LENGTH_DIGITS = 32 << 20, 10
MAX_SESSIONS = 100
SILENT_SECONDS = 15.0
"""After how many seconds without output a client is told that its request is still in progress."""
IDLE_SECONDS = 300.0
"""How long an idle connection stays open."""
BODY_SECONDS = 60.0
"""How long a request's body may take to arrive."""
SESSION, VERSION = "Mcp-Session-Id", "MCP-Protocol-Version"
HEADER_MISMATCH = -32020
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_STATUSES = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
_END = object()
"""Marks the end of a request's messages in a queue."""


def is_loopback(host: str) -> bool:
    """True for an address that other machines cannot reach."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; if that fails, says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise EnvironmentFault(
            f"Cannot listen on {host}:{port}: {error}. Choose another with --http PORT or --host."
        ) from None


def serve_http(runner: CommandLineRunner, listening: socket.socket, token: str) -> None:
    """Serves clients with the token until a signal stops it."""
    asyncio.run(_serve_http(runner, listening, token))


async def _serve_http(runner: CommandLineRunner, listening: socket.socket, token: str) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    try:
        await serve_until(end, RemandServer(runner), listening, token)
    finally:
        await runner.close()


async def serve_until(end: asyncio.Event, handler: McpHandler, listening: socket.socket, token: str) -> None:
    """Serves clients at a socket. Threads read and write; this event loop answers every request."""
    server = HttpServer(Clients(handler, asyncio.get_running_loop()), listening, token)
    serving = asyncio.create_task(asyncio.to_thread(server.serve_forever, 0.1))
    try:
        await end.wait()
    finally:
        server.shutdown()
        await serving
        server.server_close()


class Clients:
    """The sessions of clients that begin with `initialize`. Other clients send everything with each request."""

    def __init__(self, handler: McpHandler, loop: asyncio.AbstractEventLoop) -> None:
        self._handler = handler
        self._loop = loop
        self._sessions: dict[str, ClientConnection] = {}

    def open(self) -> tuple[str, ClientConnection]:
        """A new session. If there are too many, the oldest ends."""
        number, connection = secrets.token_hex(16), ClientConnection(self._handler)
        while len(self._sessions) >= MAX_SESSIONS:
            self.close(next(iter(self._sessions)))
        self._sessions[number] = connection
        return number, connection

    def close(self, number: str) -> bool:
        """Ends a session; False if there is none."""
        connection = self._sessions.pop(number, None)
        if connection is not None:
            self.run(connection.close)
        return connection is not None

    def find(self, number: str) -> ClientConnection | None:
        """An open session."""
        return self._sessions.get(number)

    def stateless(self) -> ClientConnection:
        """A connection for one request without a session."""
        return ClientConnection(self._handler)

    def run(self, do: Callable[..., object], *given: object) -> None:
        """Runs a function in the event loop."""
        self._loop.call_soon_threadsafe(do, *given)


class HttpServer(ThreadingHTTPServer):
    """Listens, with one thread for each connected client."""

    daemon_threads = True

    def __init__(self, clients: Clients, listening: socket.socket, token: str) -> None:
        super().__init__(listening.getsockname()[:2], _RequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.clients = clients
        self.token = token.encode()
        host, port = listening.getsockname()[:2]
        self.own_names = [f"{name}:{port}" for name in (host, *LOOPBACK_NAMES)] if is_loopback(host) else []
        """The names of this machine that a request may have been sent to; none: any. Another is that of a page that was led here."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected is not a failure, and is not reported to the user."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _RequestHandler(BaseHTTPRequestHandler):
    """Reads the requests of one client."""

    server: HttpServer
    protocol_version = "HTTP/1.1"
    server_version = "remand"
    sys_version = ""
    timeout = IDLE_SECONDS

    def log_message(self, *_: object) -> None:
        """Writes nothing: standard output and error belong to the user."""

    def do_POST(self) -> None:
        body = self._body() if self._is_allowed() else None
        if body is not None:
            self._take(body)

    def do_DELETE(self) -> None:
        if self._is_allowed() and self._body("0") is not None:
            self._respond(200 if self.server.clients.close(self.headers.get(SESSION, "")) else 404)

    def do_GET(self) -> None:
        if self._is_allowed() and self._body("0") is not None:
            self._respond(405, headers={"Allow": "POST, DELETE"})

    def _body(self, usual_length: str = "") -> bytes | None:
        """The whole body: unread data would count as the next request. None if the request was refused."""
        lengths = self.headers.get_all("Content-Length", [usual_length])
        length = lengths[0] if len(lengths) == 1 and "Transfer-Encoding" not in self.headers else ""
        if not length.isdecimal():
            self._refuse(411)
        elif len(length) > MAX_LENGTH_DIGITS or int(length) > MAX_BODY:
            self._refuse(413)
        else:
            return self._read(int(length))
        return None

    def _read(self, length: int) -> bytes | None:
        """This many bytes; None if they do not arrive in time, or the client has disconnected."""
        found, ends = bytearray(), monotonic() + BODY_SECONDS
        try:
            while len(found) < length:
                self.connection.settimeout(max(ends - monotonic(), 0.001))
                part = self.rfile.read1(length - len(found))
                if not part:
                    self.close_connection = True
                    return None
                found += part
        except TimeoutError:
            self._refuse(408)
            return None
        finally:
            self.connection.settimeout(self.timeout)
        return bytes(found)

    def _refuse(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Answers a request without reading its body, and ends the connection."""
        self.close_connection = True
        self._respond(status, body, headers)

    def _is_allowed(self) -> bool:
        """True if the request has the token and comes from no web page; otherwise answers it. Uses only the headers."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(
            token.strip().encode("latin-1", "replace"), self.server.token
        ):
            refusal = {
                "error": "invalid_token",
                "error_description": "Send the token: Authorization: Bearer TOKEN.",
            }
            self._refuse(401, encode(refusal), {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        elif "Origin" in self.headers:
            refusal = {"error": "forbidden", "error_description": "This is not for web pages."}
            self._refuse(403, encode(refusal))
        elif self.server.own_names and self.headers.get("Host", "") not in self.server.own_names:
            self._refuse(421)
        elif self.path.partition("?")[0] != PATH:
            self._refuse(404)
        else:
            return True
        return False

    def _take(self, body: bytes) -> None:
        sent = _decode(body)
        message = sent if isinstance(sent, dict) else {}
        if self.headers.get(VERSION) == STATELESS_VERSION or message.get("method") == "server/discover":
            mismatch = self._header_mismatch(message)
            if mismatch:
                error = {"code": HEADER_MISMATCH, "message": f"The header {mismatch} does not fit the body."}
                self._respond(400, encode({"jsonrpc": "2.0", "id": message.get("id"), "error": error}))
            else:
                connection = self.server.clients.stateless()
                self._answer(connection, body, _numbers(sent))
            return
        number, opened = self.headers.get(SESSION, ""), {}
        if message.get("method") == "initialize":
            number, connection = self.server.clients.open()
            opened = {SESSION: number}
        else:
            known = self.server.clients.find(number)
            if known is None:
                self._respond(404 if number else 400)
                return
            connection = known
            if self.headers.get(VERSION, HANDSHAKE_VERSIONS[0]) not in HANDSHAKE_VERSIONS:
                self._respond(400)
                return
        self._answer(connection, body, _numbers(sent), opened)

    def _header_mismatch(self, message: dict[str, Any]) -> str:
        """The header that contradicts the body; proxies may have used it."""
        method, params = message.get("method"), message.get("params")
        if "id" not in message:
            return ""
        if self.headers.get("Mcp-Method") != method:
            return "Mcp-Method"
        key = _NAMES.get(str(method), "")
        named = params.get(key) if isinstance(params, dict) else None
        return (
            "Mcp-Name"
            if named is not None and _header_text(self.headers.get("Mcp-Name", "")) != named
            else ""
        )

    def _answer(
        self,
        connection: ClientConnection,
        body: bytes,
        numbers: list[object],
        headers: dict[str, str] | None = None,
    ) -> None:
        """Has a message answered: at once as JSON, or as an event stream if messages are sent before the answer or it takes long.

        The stream is empty if its requests are cancelled; `numbers` are their ids.
        """
        sent: SimpleQueue[Any] = SimpleQueue()
        self.server.clients.run(connection.receive, body, sent.put, lambda: sent.put(_END))
        try:
            first = _next(sent)
            if first is _END and not numbers:
                self._respond(202, headers=headers)
            elif isinstance(first, list) or (isinstance(first, dict) and "method" not in first):
                self._respond(200 if headers else _status(first), encode(first), headers)
            else:
                self._stream(first, sent, headers or {})
        except OSError:
            self.close_connection = True
            self.server.clients.run(connection.cancel, *numbers)

    def _stream(self, first: object, sent: SimpleQueue[Any], headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in (
            headers | {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        ).items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        message = first
        while message is not _END:
            event = b"event: message\r\ndata: " + encode(message) if message else b": still at work"
            self.wfile.write(event + b"\r\n\r\n")
            self.wfile.flush()
            message = _next(sent)
        self.close_connection = True

    def _respond(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _decode(body: bytes) -> object:
    """The JSON of a request; None if it is not JSON, which the protocol answers."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _numbers(message: object) -> list[object]:
    """The ids of the requests in a client's messages."""
    messages = message if isinstance(message, list) else [message]
    return [one["id"] for one in messages if isinstance(one, dict) and "method" in one and "id" in one]


def _status(answer: object) -> int:
    """The HTTP status for an answer, or for the answers to several messages."""
    return _STATUSES.get(answer.get("error", {}).get("code"), 200) if isinstance(answer, dict) else 200


def _header_text(value: str) -> str:
    """A header's text; text that a header cannot contain is sent as base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return ""


def _next(sent: SimpleQueue[Any]) -> object:
    """The next message to send; None if there was none for a while."""
    try:
        return sent.get(timeout=SILENT_SECONDS)
    except Empty:
        return None
