"""`remand serve`: starts a ledger's HTTP server, only its coordinator, or a listener for forge webhooks."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from remand.app.errors import EnvironmentFault, LedgerReplaced, RemandError, UsageError
from remand.app.group_commit import GroupCommit
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Answer, Request
from remand.config import inherited_environment
from remand.domain.access.agent_calls import require_outside_agent
from remand.interfaces.cli.context import Context, argument, command, require_no_password
from remand.interfaces.cli.output import RawJson, Result, as_json
from remand.interfaces.cli.serve import run_forwarded_call, serve_coordinator, serve_webhooks
from remand.interfaces.http import hosts
from remand.interfaces.http import server as http_server
from remand.interfaces.http.authentication import AccessOptions
from remand.ledger.store import LedgerHead
from remand.wiring.coordinator import make_coordinator, make_identity_provider
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation

_OWN_MACHINE = ("127.0.0.1", "::1", "localhost")
"""The addresses that browsers resolve names below `localhost` to."""


class EmbeddedLedger:
    """The SQLite ledger of a repository. One thread at a time uses the shared connection; long calls open their own."""

    threads = 16

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._opened: OpenLedger | None = None

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[OpenLedger]:
        """The open ledger, for one call. It is reopened if its file was replaced."""
        if is_long:
            opened = open_at(self._place, store_url="")
            try:
                yield opened
            finally:
                opened.close()
            return
        with self._lock:
            opened = self._opened = self._opened or self._open()
            try:
                opened.store.require_same_file()
                yield opened
            except LedgerReplaced:
                if self._opened is opened:
                    self._close_shared()
                raise

    def _open(self) -> OpenLedger:
        opened = open_at(self._place, store_url="")
        commit = GroupCommit(_LockedLedger(opened.ledger, self._lock))

        def ask(requests: Sequence[Request]) -> Sequence[Answer | RemandError]:
            # The calling thread holds the lock; it is released while the answers are made durable.
            self._lock.release()
            try:
                return commit.ask_all(requests)
            finally:
                self._lock.acquire()

        opened.ledger.answer_in_group = ask
        return opened

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._close_shared()

    def _close_shared(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class _LockedLedger:
    """A ledger whose tables are used by one thread at a time. Its event files are synced without the lock."""

    def __init__(self, ledger: Ledger, lock: threading.Lock) -> None:
        self._ledger = ledger
        self._lock = lock
        self.sync: Callable[[LedgerHead], None] = ledger.sync

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> UnsyncedAnswers:
        with self._lock:
            return self._ledger.decide_all(requests, on_decided)

    def update_files(self) -> None:
        with self._lock:
            self._ledger.update_files()


class TeamLedger:
    """A PostgreSQL ledger, which many threads use concurrently."""

    threads = 32

    def __init__(self, place: LedgerLocation, url: str) -> None:
        self._opened = open_at(place, store_url=url)
        self._opened.ledger.answer_in_group = GroupCommit(self._opened.ledger).ask_all

    @contextmanager
    def use(self, *, is_long: bool) -> Iterator[OpenLedger]:  # noqa: ARG002 - all calls use the same
        """The open ledger, for one call."""
        yield self._opened

    def close(self) -> None:
        """Closes its connections."""
        self._opened.close()


@command(
    "serve",
    argument("--no-http", action="store_true", help="serve only the coordinator's socket"),
    argument("--until-closed", action="store_true", help="exit when stdin closes (used by `remand run`)"),
    argument(
        "--background",
        action="store_true",
        help="detach, and exit after 15 idle minutes (used by other commands)",
    ),
    argument("--webhooks", action="store_true", help="listen for the forge's webhooks, and poll it"),
    argument("--host", default="127.0.0.1", help="the address to listen on"),
    argument("--port", type=int, default=8787, help="the port to listen on; 0 takes a free one"),
    argument(
        "--store",
        default="",
        help="the ledger's store: sqlite, or postgresql://…; by default $REMAND_STORE",
    ),
    argument("--tls-cert", default="", metavar="FILE", help="the server's certificate, and those above it"),
    argument("--tls-key", default="", metavar="FILE", help="the private key of that certificate"),
    argument(
        "--behind-proxy",
        nargs="?",
        type=int,
        const=1,
        default=0,
        metavar="N",
        help="trust the headers of a TLS proxy, or of a chain of N proxies",
    ),
    argument("--no-open", action="store_true", help="do not open a browser"),
)
def _serve(context: Context) -> Result:
    require_outside_agent("serve", is_confined=context.is_confined)
    if context.arguments.webhooks:
        return serve_webhooks(context)
    return serve_coordinator(context) if context.arguments.no_http else _serve_http(context)


def _serve_http(context: Context) -> Result:
    """Serves HTTP; with an embedded ledger also as the coordinator of local commands."""
    options = context.arguments
    require_private_connection(options)
    require_no_password(options.store, "--store")
    url = _store_url(options.store or inherited_environment().get("REMAND_STORE", ""))
    api_server = _api_server()
    ledger = TeamLedger(context.place, url) if url else EmbeddedLedger(context.place)
    server = api_server(
        http_server.ServerOptions(
            host=options.host,
            port=options.port,
            certificate=options.tls_cert,
            private_key=options.tls_key,
            proxies=options.behind_proxy,
            shares_port=bool(url),
            has_log_in_link=not url and options.host in _OWN_MACHINE,
        ),
        ledger,
        access_options(ledger),
        hosts.base_refresh(context.place) if url or options.tls_cert or options.behind_proxy else _keep_base,
    )
    with nullcontext() if url else _run_coordinator(context):
        login_url = server.login_url or None
        _announce(context, {"url": server.url, "login_url": login_url, "store": _store_name(url)})
        server.serve()
    return Result(RawJson(""), "Stopped.")


def _api_server() -> type[http_server.ApiServer]:
    """The HTTP server, loaded now. Raises `EnvironmentFault` that names the extra if packages are missing."""
    try:
        return http_server.ApiServer
    except ImportError as error:
        raise EnvironmentFault(
            f"The HTTP server needs packages that are not installed ({error.name}). Install remand[server]."
        ) from None


def access_options(ledger: EmbeddedLedger | TeamLedger) -> AccessOptions:
    """Who may log in to the server, from the configuration on the base."""
    with ledger.use(is_long=False) as opened:
        settings = opened.settings.settings().server
    if settings is None:
        return AccessOptions()
    return AccessOptions(
        url=settings.url,
        calls_per_second=settings.calls_per_second,
        provider=make_identity_provider(settings.oidc) if settings.oidc else None,
    )


def _keep_base() -> None:
    """Does not fetch the base: on a server for this machine alone the user does."""


def _store_url(store: str) -> str:
    """The URL of the PostgreSQL database; empty for the embedded ledger."""
    if store in ("", "sqlite"):
        return ""
    if urlsplit(store).scheme not in ("postgresql", "postgres"):
        raise UsageError("--store is sqlite, or the address of a database as postgresql://USER@HOST/NAME.")
    return store


def _store_name(url: str) -> str:
    """The store's URL without user name and password, for display."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}" if url else "sqlite"


def require_private_connection(options: Any) -> None:
    """Refuses to send tokens over an unencrypted network connection."""
    if options.behind_proxy < 0:
        raise UsageError("--behind-proxy is followed by the number of proxies, or by nothing: 1.")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key belong together.")
    is_loopback = options.host == "localhost" or options.host.startswith("127.") or options.host == "::1"
    if not (is_loopback or options.tls_cert or options.behind_proxy):
        raise UsageError(
            f"--host {options.host} is reached by other machines, and tokens would go there in plain text. Give --tls-cert "
            "and --tls-key, or --behind-proxy where a proxy has TLS."
        )


@contextmanager
def _run_coordinator(context: Context) -> Iterator[None]:
    """Runs the ledger's coordinator in a thread, unless another process (such as a scheduler) already does."""
    opened = context.opened_ledger
    try:
        coordinator = make_coordinator(opened, lambda *call: run_forwarded_call(opened, *call))
    except EnvironmentFault as fault:
        context.origin.stderr.write(f"remand: local commands are not answered by this process: {fault}\n")
        yield
        return
    thread = threading.Thread(target=coordinator.serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        coordinator.stop()
        thread.join()
        opened.store.close()


def _announce(context: Context, address: dict[str, str | None]) -> None:
    """Prints the server's address in one line and, on a terminal, opens it in the browser unless `--no-open` is given."""
    login_url = address["login_url"] or ""
    text = f"Remand at {address['url']}" + (f", log in: {login_url}" if login_url else "")
    context.origin.stdout.write(f"{as_json(address) if context.call.is_json else text}\n")
    context.origin.stdout.flush()
    if login_url and context.origin.is_terminal and not context.arguments.no_open:
        webbrowser.open(login_url)
