"""The MCP server over HTTP: only clients with the token are served, and no web page."""

from __future__ import annotations

import asyncio
import hmac
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from remand.app.errors import EnvironmentFault
from remand.interfaces.mcp.command_runner import CommandLineRunner
from remand.interfaces.mcp.server import RemandServer

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
LEAVE_SECONDS = 2


def is_loopback(host: str) -> bool:
    """True for an address that other machines cannot reach."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; says what to do when there cannot be one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise EnvironmentFault(
            f"Cannot listen on {host}:{port}: {error}. Choose another with --http PORT or --host."
        ) from None


def serve_http(runner: CommandLineRunner, listening: socket.socket, token: str) -> None:
    """Serves clients that have the token, until a signal ends it."""
    asyncio.run(_serve_http(runner, listening, token))


async def _serve_http(runner: CommandLineRunner, listening: socket.socket, token: str) -> None:
    host, port = listening.getsockname()[:2]
    app = RemandServer(runner).streamable_http_app(transport_security=_security(host, port), host=host)
    config = uvicorn.Config(
        Guard(app, token),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=LEAVE_SECONDS,
    )
    serving = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.leave)
    try:
        await serving.serve(sockets=[listening])
    finally:
        await runner.close()


def _security(host: str, port: int) -> TransportSecuritySettings:
    """Which names of this machine a request may have been sent to: another one is a page that was led here."""
    if not is_loopback(host):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return TransportSecuritySettings(allowed_hosts=[f"{name}:{port}" for name in (host, *LOOPBACK_NAMES)])


class Guard:
    """Lets a request through that has the token and comes from no page."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request that may not pass; hands every other on."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] != "lifespan" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            body = {
                "error": "invalid_token",
                "error_description": "Send the token: Authorization: Bearer TOKEN.",
            }
            return JSONResponse(body, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if "origin" in headers:
            return JSONResponse(
                {"error": "forbidden", "error_description": "This is not for web pages."}, 403
            )
        return None


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes no signal."""
        yield

    def leave(self) -> None:
        """Ends the server."""
        self.should_exit = True
