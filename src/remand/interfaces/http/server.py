"""The HTTP application (routes and error handling), and the server that runs it until it is told to stop."""

from __future__ import annotations

import gc
import json
import logging
import secrets
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvicorn
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from remand.app.errors import EnvironmentFault, RemandError, UsageError
from remand.config import inherited_environment
from remand.domain.access.tokens import Caller
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.interfaces.cli.output import as_json
from remand.interfaces.http import a2a
from remand.interfaces.http.authentication import AccessOptions, Authenticator, request_facts
from remand.interfaces.http.calls import CallRunner, ServedLedger
from remand.interfaces.http.hosts import commit_routes, scheduler_routes
from remand.interfaces.http.log_in import log_in_routes
from remand.interfaces.http.pages.site import Site
from remand.interfaces.http.problems import BAD_REQUEST, MEDIA_TYPE, HttpProblem, problem_document
from remand.interfaces.http.routes import (
    HttpAnswer,
    ServerContext,
    answer_of_error,
    call_route,
    command_routes,
    document,
    make_route,
    read_body,
)
from remand.interfaces.http.telemetry import Metrics, RequestObserver, make_tracer

_log = logging.getLogger("remand.http")
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
FAILED = 500


def make_app(context: ServerContext) -> Litestar:
    """The application with all routes. Modules that add routes are listed here."""
    site = Site(context)
    routes = [*command_routes(context), call_route(context), *own_routes(context)]
    routes += [
        *site.routes(),
        *log_in_routes(context, site.log_in_page),
        *commit_routes(context),
        *scheduler_routes(context),
        *a2a_routes(context),
    ]
    return Litestar(
        route_handlers=routes,
        exception_handlers={Exception: partial(_answer_error, site)},
        openapi_config=None,
        logging_config=None,
        debug=False,
        on_shutdown=[context.runner.close],
    )


def own_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """The server's own routes: its description and health."""
    described = as_json(document()).encode()

    async def describe(_scope: Scope, _receive: Receive) -> HttpAnswer:
        return HttpAnswer(200, described)

    async def health(_scope: Scope, _receive: Receive) -> HttpAnswer:
        return HttpAnswer(200, b'{"status": "ok"}')

    async def readiness(_scope: Scope, _receive: Receive) -> HttpAnswer:
        await context.runner.require_ready()
        return HttpAnswer(200, b'{"status": "ready"}')

    async def figures(scope: Scope, _receive: Receive) -> HttpAnswer:
        if not context.authenticator.options.session_name:  # other machines can reach it
            await context.authenticator.caller(request_facts(scope))
        text = context.metrics.text(context.runner.call_count)
        return HttpAnswer(200, text.encode(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return [
        make_route(context, "/metrics", "GET", figures),
        make_route(context, "/api/openapi.json", "GET", describe),
        make_route(context, "/healthz", "GET", health),
        make_route(context, "/readyz", "GET", readiness),
    ]


def a2a_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """The A2A endpoint and its card; none if the extra `a2a` is not installed."""
    try:
        application = a2a.make_endpoint(partial(_run_for_a2a, context))
    except ModuleNotFoundError:
        return []

    async def card(scope: Scope, _receive: Receive) -> HttpAnswer:
        address = f"{scope['scheme']}://{request_facts(scope).headers.get('host', '')}"
        return HttpAnswer(200, as_json(a2a.agent_card(address)).encode())

    async def handle(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        own: Any = {**scope, a2a.CALLER: await context.authenticator.caller(facts)}
        body = await read_body(receive, facts.headers)
        _require_flat(body)
        sent: list[Any] = []

        async def give() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def take(message: Any) -> None:
            sent.append(message)

        await application(own, give, take)
        return HttpAnswer(sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]))

    return [
        make_route(context, a2a.CARD_PATH, "GET", card),
        make_route(context, a2a.PATH, "POST", handle),
    ]


def _require_flat(body: bytes) -> None:
    """Refuses JSON that is nested too deeply to parse. The A2A library reports all other faults."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        try:
            msgspec.json.decode(body)
        except RecursionError:
            raise UsageError("The body is nested too deeply.") from None


async def _run_for_a2a(context: ServerContext, caller: Caller, words: list[str]) -> tuple[int, Any]:
    """Runs a command line for the A2A endpoint and returns its exit code and `--json` output."""
    try:
        done = await context.runner.run(words, {}, "", caller, "")
    except Refused as refused:
        return a2a.REFUSED, {"refused": refused.code, "message": refused.message}
    except UsageError as error:
        return a2a.USAGE, {"message": str(error)}
    except HttpProblem as problem:
        return a2a.UNAVAILABLE, {"message": problem.detail}
    return done.code, json.loads(done.output) if done.output else {}


def _answer_error(site: Site, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The answer if no route matches or a route fails; an HTML page for browsers."""
    if isinstance(error, HttpProblem | Refused | RemandError):
        answer = answer_of_error(error)
    else:
        status = error.status_code if isinstance(error, HTTPException) else FAILED
        if status >= FAILED:
            # A request may contain a secret, so only the place of the failure is logged.
            _log.error("a request failed: %s", type(error).__name__, exc_info=error)
        code = _CODES.get(status, "failed" if status >= FAILED else "bad_request")
        detail = (
            str(error.detail)
            if isinstance(error, HTTPException) and status < FAILED
            else "See the server's log."
        )
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        problem, facts = problem_document(status, code, detail), request_facts(request.scope)
        if "text/html" in facts.headers.get("accept", ""):
            page = site.problem_page(problem, facts)
            answer = page._replace(headers={**headers, **page.headers})
        else:
            answer = HttpAnswer(status, as_json(problem).encode(), headers, MEDIA_TYPE)
    return Response(
        answer.body, status_code=answer.status, media_type=answer.media_type, headers=dict(answer.headers)
    )


_SCHEMES = ("http", "https")


class ProxiedRequests:
    """An application behind a known number of proxies.

    Each proxy appends its client's address to `X-Forwarded-For`. Anything left of the entry of the outermost proxy was
    sent by the client, which can write anything there.
    """

    def __init__(self, app: Any, proxies: int) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._proxies:
            addresses = _values(scope, b"x-forwarded-for")
            address = _address(addresses[-self._proxies]) if len(addresses) >= self._proxies else ""
            # A proxy without TLS may pass on the scheme from the proxy before it, so there can be fewer schemes than
            # proxies.
            schemes = _values(scope, b"x-forwarded-proto")[-self._proxies :]
            scheme = schemes[0] if schemes and schemes[0] in _SCHEMES else scope["scheme"]
            scope = {**scope, "scheme": scheme, "client": (address, 0) if address else scope["client"]}
        await self._app(scope, receive, send)


def _values(scope: Any, name: bytes) -> list[str]:
    """The values of a list header, which may be repeated."""
    given = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return [part.strip() for part in ",".join(given).split(",")] if given else []


def _address(text: str) -> str:
    """An address without its port; empty if it is invalid."""
    with suppress(ValueError):
        return str(ip_address(text))
    with suppress(ValueError):
        return str(ip_address(urlsplit(f"//{text}").hostname or ""))
    return ""


MAX_HEAD = 16 << 10
"""How many bytes of a head, or of what follows a body in chunks, may arrive without completing it."""
MAX_PIPELINED = 16
"""How many requests a client may send before it has the answer to the first."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. The parser keeps a head until it is complete, however long it is, and so would every stranger's be kept.

    Whoever exceeds a limit, or names no host or two, gets 400 and is disconnected.
    """

    _kept = 0
    """How many bytes came since a head was last complete, or a part of a body arrived."""

    def data_received(self, data: bytes) -> None:
        self._kept += len(data)
        super().data_received(data)
        if self._kept > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def send_400_response(self, msg: str) -> None:
        """Answers as routes answer what they refuse; the parser's own answer would be plain text."""
        body = as_json(problem_document(BAD_REQUEST, "bad_request", msg)).encode()
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head.encode("ascii") + body)
        self.transport.close()

    def on_headers_complete(self) -> None:
        self._kept = 0
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests wait for an answer")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._kept = 0
        super().on_body(body)


KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open: longer than the interval between an agent's heartbeats."""
GRACE_SECONDS = 30
"""How long requests in progress may take when the server shuts down."""
BACKLOG = 2048
_PORTS = {"http": 80, "https": 443}


class ServerOptions(NamedTuple):
    """How the server can be reached."""

    host: str
    port: int
    certificate: str = ""
    private_key: str = ""
    proxies: int = 0
    """The number of proxies in front of the server."""
    shares_port: bool = False
    """Whether several servers listen on the same port, for restarts without downtime."""
    has_log_in_link: bool = True
    """Whether the user logs in with a printed link, as on their own machine."""


class ApiServer:
    """A listening server; requests wait until `serve` is called."""

    def __init__(
        self,
        options: ServerOptions,
        ledger: ServedLedger,
        access: AccessOptions = AccessOptions(),  # noqa: B008 - a frozen value
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises `EnvironmentFault` if it cannot listen on the address. `before` is called before each call."""
        self._socket = _listen(options)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if options.certificate else 'http'}://{shown}:{port}"
        runner, metrics = CallRunner(ledger, before), Metrics()
        access = _with_own_names(access, host, port, is_behind_proxy=bool(options.proxies))
        authenticator = Authenticator(runner.read_ledger, access)
        self.login_url = ""
        if options.has_log_in_link and access.session_name:
            scheme = self.url.partition("://")[0]
            self.login_url = f"{scheme}://{access.session_name}{authenticator.make_log_in_path()}"
        self._tracer = make_tracer(inherited_environment())
        app = make_app(ServerContext(runner, authenticator, metrics, lambda: self._server.should_exit))
        self._server = uvicorn.Server(
            uvicorn.Config(
                ProxiedRequests(RequestObserver(app, metrics, self._tracer), options.proxies),
                http=BoundedHttpProtocol,
                access_log=False,  # URLs may contain data that others should not read
                log_level="error",  # invalid requests must not fill the log
                server_header=False,
                proxy_headers=False,  # of several addresses it would trust the first, which the client can forge
                ssl_certfile=options.certificate or None,
                ssl_keyfile=options.private_key or None,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                backlog=BACKLOG,
                lifespan="on",
            )
        )
        # Aborted requests must not fill the log either.
        logging.getLogger("uvicorn.error").addFilter(
            lambda record: "callable returned" not in str(record.msg)
        )

    def serve(self) -> None:
        """Serves requests until the process is told to stop; requests in progress are answered first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(
                number, lambda *_: self.stop()
            )  # uvicorn raises the signal again after it has stopped
        gc.collect()
        gc.freeze()  # requests would wait while a collection looks at modules and routes, which stay
        self._server.run(sockets=[self._socket])
        if self._tracer is not None:
            self._tracer.close()

    def stop(self) -> None:
        """Makes `serve` return; may be called from another thread."""
        self._server.should_exit = True


def _with_own_names(access: AccessOptions, host: str, port: int, *, is_behind_proxy: bool) -> AccessOptions:
    """The host and cookie names of a server at an address: on loopback those of this machine, or of the proxy in front.

    Cookie names contain the port, or that of the public address, which all servers of a ledger share: browsers do not
    separate cookies by port, and behind a proxy they do not see the servers' own ports. On loopback, sessions therefore
    use an unguessable host name below `localhost`, which browsers resolve to this machine.
    """
    names = ("localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host)
    own = [f"{name}:{port}" for name in names] if ip_address(host).is_loopback else []
    behind, session_name = urlsplit(access.url).netloc.casefold(), ""
    if is_behind_proxy:
        own = [*own, behind] if own and behind else []
    elif own:
        session_name = f"remand-{secrets.token_hex(12)}.localhost:{port}"
        own.append(session_name)
    seen = urlsplit(access.url or ("https://" if is_behind_proxy else ""))
    seen_port = port if session_name else seen.port or _PORTS.get(seen.scheme, port)
    return access._replace(own_names=tuple(own), session_name=session_name, name=f"remand_{seen_port}")


def _listen(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.shares_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((options.host, options.port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise EnvironmentFault(
            f"Cannot listen on {options.host}:{options.port}: {str(error).rstrip('.')}. Choose another --port, or --port 0 for a free one."
        ) from None
    return listener
