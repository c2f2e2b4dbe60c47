"""Runs the HTTP server of a ledger until it is told to stop. Loaded by `remand serve` alone."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType
from urllib.parse import urlsplit

from remand.app.errors import EnvironmentFault
from remand.config import inherited_environment
from remand.domain.record import NamedTuple

try:
    import uvicorn

    from remand.interfaces.http.app import make_app
except ImportError as error:  # the message is for people, who may not know what is missing for what
    raise EnvironmentFault(
        f"The HTTP server needs packages that are not installed ({error.name}). Install remand[server]."
    ) from None
from remand.interfaces.http.authentication import AccessOptions, Authenticator
from remand.interfaces.http.calls import CallRunner, ServedLedger
from remand.interfaces.http.metrics import Metrics, RequestObserver
from remand.interfaces.http.proxies import ProxiedRequests
from remand.interfaces.http.routes import ServerContext
from remand.interfaces.http.traces import make_tracer

KEEP_ALIVE_SECONDS = 75
"""How long a connection stays open between requests: longer than the time between two heartbeats of an agent."""
GRACE_SECONDS = 30
"""How long requests under way may take when the server is told to stop."""
BACKLOG = 2048
_PORTS = {"http": 80, "https": 443}


class ServerOptions(NamedTuple):
    """How the server is reached."""

    host: str
    port: int
    certificate: str = ""
    private_key: str = ""
    proxies: int = 0
    """How many proxies are between the server and whoever calls."""
    shares_port: bool = False
    """True when several servers take requests at one port: for a restart without a gap."""
    has_log_in_link: bool = True
    """The user logs in by a link that is printed: on their own machine."""


class ApiServer:
    """A server that listens; its requests wait until it serves."""

    def __init__(
        self,
        options: ServerOptions,
        ledger: ServedLedger,
        access: AccessOptions = AccessOptions(),  # noqa: B008 - a frozen value
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises `EnvironmentFault` when the address cannot be listened on. `before` is called before each call."""
        self._socket = _listen(options)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if options.certificate else 'http'}://{shown}:{port}"
        runner, metrics = CallRunner(ledger, before), Metrics()
        access = _with_own_names(access, host, port, is_behind_proxy=bool(options.proxies))
        authenticator = Authenticator(runner.look, access)
        self.login_url = ""
        if options.has_log_in_link and access.session_name:
            scheme = self.url.partition("://")[0]
            self.login_url = f"{scheme}://{access.session_name}{authenticator.make_log_in_path()}"
        self._tracer = make_tracer(inherited_environment())
        app = make_app(ServerContext(runner, authenticator, metrics, lambda: self._server.should_exit))
        self._server = uvicorn.Server(
            uvicorn.Config(
                ProxiedRequests(RequestObserver(app, metrics, self._tracer), options.proxies),
                access_log=False,  # addresses may hold what nobody else should read
                log_level="error",  # strangers fill no log with requests that are none
                server_header=False,
                proxy_headers=False,  # of many addresses it would believe the first, which the caller can make up
                ssl_certfile=options.certificate or None,
                ssl_keyfile=options.private_key or None,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                backlog=BACKLOG,
                lifespan="on",
            )
        )

    def serve(self) -> None:
        """Answers requests until the process is told to stop; those under way are answered before it returns."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)  # uvicorn raises it again when it has stopped
        self._server.run(sockets=[self._socket])
        if self._tracer is not None:
            self._tracer.close()

    def stop(self) -> None:
        """Has `serve` return; may be called from another thread."""
        self._server.should_exit = True

    def _note_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._server.should_exit = True


def _with_own_names(access: AccessOptions, host: str, port: int, *, is_behind_proxy: bool) -> AccessOptions:
    """How a server at an address is called: on loopback by the names of this machine, or of the proxy before it.

    Its cookies have its port, or that of the address which all servers of a ledger have: browsers do not tell the servers of
    one machine apart, and behind a proxy they see none of the servers' own ports. So on loopback sessions have a name of
    their own, which nobody guesses; browsers take every name below `localhost` for this machine.
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
