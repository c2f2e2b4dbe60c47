"""`remand serve`: the HTTP server of a ledger; or only its coordinator, or a listener for the forge's webhooks."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from remand.app.errors import EnvironmentFault, UsageError
from remand.domain.access.agent_calls import require_outside_agent
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import RawJson, Result, as_json
from remand.interfaces.cli.serve import run_forwarded_call, serve_coordinator, serve_webhooks
from remand.interfaces.http import server as http_server
from remand.interfaces.http.authentication import AccessOptions
from remand.interfaces.http.commits import base_refresh
from remand.interfaces.http.ledgers import EmbeddedLedger
from remand.wiring.coordinator import make_coordinator, make_identity_provider


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
    argument("--store", default="sqlite", help="where the ledger is kept: sqlite, or postgresql://…"),
    argument("--tls-cert", default="", metavar="FILE", help="the server's certificate, and those above it"),
    argument("--tls-key", default="", metavar="FILE", help="the private key of that certificate"),
    argument("--behind-proxy", action="store_true", help="believe the headers of a proxy, which has TLS"),
    argument("--no-open", action="store_true", help="open no browser"),
)
def _serve(context: Context) -> Result:
    require_outside_agent("serve", is_confined=context.is_confined)
    if context.arguments.webhooks:
        return serve_webhooks(context)
    return serve_coordinator(context) if context.arguments.no_http else _serve_http(context)


def _serve_http(context: Context) -> Result:
    """Answers HTTP requests, and with an embedded ledger those of its coordinator, too: local commands come here."""
    options = context.arguments
    require_private_connection(options)
    server = http_server.ApiServer(
        http_server.ServerOptions(
            host=options.host,
            port=options.port,
            certificate=options.tls_cert,
            private_key=options.tls_key,
            is_behind_proxy=options.behind_proxy,
        ),
        EmbeddedLedger(context.place),
        access_options(context),
        base_refresh(context.place) if _is_for_a_team(options) else _keep_base,
    )
    with _coordinator_beside(context):
        _announce(context, {"url": server.url, "login_url": server.login_url, "store": options.store})
        server.serve()
    return Result(RawJson(""), "Stopped.")


def access_options(context: Context) -> AccessOptions:
    """Who may log in at the server, as the base says."""
    settings = context.opened_ledger.settings.settings().server
    if settings is None:
        return AccessOptions()
    return AccessOptions(
        url=settings.url,
        calls_per_second=settings.calls_per_second,
        provider=make_identity_provider(settings.oidc),
    )


def _is_for_a_team(options: Any) -> bool:
    """True for a server of many machines. One for this machine alone leaves its remote alone."""
    return bool(options.store != "sqlite" or options.tls_cert or options.behind_proxy)


def _keep_base() -> None:
    """Leaves the base as it is: whoever works here fetches it."""


def require_private_connection(options: Any) -> None:
    """Refuses to send tokens through a network that others can read."""
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key belong together.")
    is_loopback = options.host == "localhost" or options.host.startswith("127.") or options.host == "::1"
    if not (is_loopback or options.tls_cert or options.behind_proxy):
        raise UsageError(
            f"--host {options.host} is reached by other machines, and tokens would go there in plain text. Give --tls-cert "
            "and --tls-key, or --behind-proxy where a proxy has TLS."
        )


@contextmanager
def _coordinator_beside(context: Context) -> Iterator[None]:
    """Runs the coordinator of the ledger in a thread, unless another process has it, as a scheduler may."""
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


def _announce(context: Context, address: dict[str, str]) -> None:
    """Says where the server is, in one line; on a terminal it opens there, unless that is unwanted."""
    text = (
        as_json(address)
        if context.call.is_json
        else f"Remand at {address['url']}, log in: {address['login_url']}"
    )
    context.origin.stdout.write(f"{text}\n")
    context.origin.stdout.flush()
    if context.origin.is_terminal and not context.arguments.no_open:
        webbrowser.open(address["login_url"])
