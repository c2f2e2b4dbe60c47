"""Routes for logging in and out: by the embedded server's link, a token, or an OpenID Connect provider."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope

from remand.app.errors import RemandError
from remand.app.tokens import IdentityProvider, LogInAttempt
from remand.domain.access.tokens import parse_token_role, unauthenticated_refusal
from remand.interfaces.cli.output import as_json
from remand.interfaces.http.authentication import (
    LOG_IN_SECONDS,
    RequestFacts,
    cookie_text,
    is_from_own_page,
    read_cookie,
    request_facts,
)
from remand.interfaces.http.problems import (
    FORBIDDEN,
    NOT_FOUND,
    UNAUTHENTICATED,
    HttpProblem,
    refusal_problem,
)
from remand.interfaces.http.routes import (
    HttpAnswer,
    ServerContext,
    make_route,
    problem_of_error,
    read_body,
)

CALLBACK = "/login/oidc/callback"
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}
MAX_FORM = 4096
_HTML = "text/html; charset=utf-8"


LogInPage = Callable[[RequestFacts, int, str], HttpAnswer]
"""Renders the log-in page with a status code and an error message."""


def log_in_routes(context: ServerContext, page: LogInPage) -> list[ASGIRouteHandler]:
    """The routes for logging in and out."""
    access = context.authenticator

    async def follow_link(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts, code = request_facts(scope), _query(scope, "code")
        if not code:
            return page(facts, 200, "")
        try:
            caller = access.take_code(code, facts)
        except HttpProblem as problem:
            if problem.status != UNAUTHENTICATED or "text/html" not in facts.headers.get("accept", ""):
                raise
            return page(facts, UNAUTHENTICATED, "This link has already been used, or is too old.")
        cookie = await access.open_session(caller, facts.headers, is_secure=_is_secure(scope))
        return HttpAnswer(200, _lead_to("/"), {"set-cookie": cookie, **_PRIVATE}, _HTML)

    async def send_token(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        if not is_from_own_page(facts):
            return page(facts, FORBIDDEN, "Log in from this page.")  # prevents log-in CSRF
        form = parse_qs((await read_body(receive, facts.headers, MAX_FORM)).decode("latin-1"))
        shown = facts._replace(
            headers={**facts.headers, "authorization": f"Bearer {form.get('token', [''])[0]}"}
        )
        try:
            access.require_session_name(facts.headers)
            caller = await access.token_caller(shown)
            cookie = await access.open_session(caller, facts.headers, is_secure=_is_secure(scope))
        except (HttpProblem, RemandError) as error:
            problem = problem_of_error(error)
            return page(facts, problem["status"], problem["detail"])
        return HttpAnswer(303, b"", {"location": "/", "set-cookie": cookie, **_PRIVATE})

    async def log_in(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        caller = await access.token_caller(facts)
        cookie = await access.open_session(caller, facts.headers, is_secure=_is_secure(scope))
        data = {"member": caller.member, "role": caller.role}
        return HttpAnswer(200, as_json(data).encode(), {"set-cookie": cookie, **_PRIVATE})

    async def show_session(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        caller, session = await access.caller(facts), access.session(facts.headers)
        data = {"member": caller.member, "role": caller.role, "csrf": session.csrf if session else None}
        return HttpAnswer(200, as_json(data).encode(), _PRIVATE)

    async def log_out(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        await access.caller(facts)
        await access.close_session(facts.headers)
        gone = cookie_text(access.cookie, "", is_secure=_is_secure(scope), seconds=0)
        return HttpAnswer(200, b"{}", {"set-cookie": gone, **_PRIVATE})

    return [
        make_route(context, "/login", "GET", follow_link),
        make_route(context, "/login/token", "POST", send_token),
        make_route(context, "/api/session", "GET", show_session),
        make_route(context, "/api/login", "POST", log_in),
        make_route(context, "/api/logout", "POST", log_out),
        *_provider_routes(context),
    ]


def _provider_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    access = context.authenticator
    kept = f"{access.options.name}_log_in"

    async def begin(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts, provider = request_facts(scope), _provider(context)
        access.require_may_begin(facts)
        role = parse_token_role(_query(scope, "role"))
        secret = secrets.token_urlsafe(32)
        attempt = LogInAttempt.of(secret, f"{_origin(context, scope)}{CALLBACK}")
        address = await asyncio.to_thread(provider.authorization_url, attempt)
        cookie = cookie_text(
            kept,
            f"{secret}.{role or ''}",
            is_secure=_is_secure(scope),
            site="Lax",
            seconds=int(LOG_IN_SECONDS),
        )
        return HttpAnswer(303, b"", {"location": address, "set-cookie": cookie, **_PRIVATE})

    async def finish_provider_log_in(scope: Scope, _receive: Receive) -> HttpAnswer:
        facts, provider = request_facts(scope), _provider(context)
        secret, _, wanted = read_cookie(facts.headers, kept).partition(".")
        attempt = LogInAttempt.of(secret, f"{_origin(context, scope)}{CALLBACK}")
        code, state, role = _query(scope, "code"), _query(scope, "state"), parse_token_role(wanted)
        is_own = bool(secret) and secrets.compare_digest(state.encode(), attempt.state.encode())
        if not code or not is_own or access.used_attempts.find(secret):
            raise refusal_problem(unauthenticated_refusal())
        access.used_attempts.add(True, secret=secret)
        account = await asyncio.to_thread(provider.account, code, attempt)
        caller = await access.account_caller(lambda tokens: tokens.account_caller(account, role), facts)
        if access.options.session_name and not access.takes_sessions(facts.headers):
            # The provider redirects to its registered address, whose host name may not accept sessions.
            link = f"{scope['scheme']}://{access.options.session_name}{access.make_log_in_path(caller)}"
            return HttpAnswer(200, _lead_to(link), _PRIVATE, _HTML)
        cookie = await access.open_session(caller, facts.headers, is_secure=_is_secure(scope))
        return HttpAnswer(200, _lead_to("/"), {"set-cookie": cookie, **_PRIVATE}, _HTML)

    return [
        make_route(context, "/login/oidc", "GET", begin),
        make_route(context, CALLBACK, "GET", finish_provider_log_in),
    ]


def _lead_to(address: str) -> bytes:
    """A page that forwards to an address. After a redirect the browser would still treat the request as cross-site and
    send no strict cookie.
    """
    return (
        f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">'
        f'<title>Remand</title><link rel="icon" href="/static/icon.svg"><a href="{address}">Continue</a>'
    ).encode()


def _provider(context: ServerContext) -> IdentityProvider:
    provider = context.authenticator.options.provider
    if provider is None:
        raise HttpProblem(
            NOT_FOUND, "not_found", "No provider is configured: `[server.oidc]` in remand.toml."
        )
    return provider


def _origin(context: ServerContext, scope: Scope) -> str:
    """The server's origin as the browser sees it."""
    host = request_facts(scope).headers.get("host", "localhost")
    return context.authenticator.options.url or f"{scope.get('scheme', 'http')}://{host}"


def _query(scope: Scope, name: str) -> str:
    return parse_qs(scope["query_string"].decode("latin-1")).get(name, [""])[0]


def _is_secure(scope: Scope) -> bool:
    return scope.get("scheme") == "https"
