"""The HTTP application: its routes, and how errors of its own are answered."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope

from remand.app.errors import RemandError, UsageError
from remand.domain.access.tokens import Caller
from remand.domain.refusals import Refused
from remand.interfaces.a2a import endpoint
from remand.interfaces.cli.output import as_json
from remand.interfaces.http.authentication import request_facts
from remand.interfaces.http.commits import commit_routes
from remand.interfaces.http.log_in import log_in_routes
from remand.interfaces.http.openapi import document
from remand.interfaces.http.pages.site import Site
from remand.interfaces.http.problems import MEDIA_TYPE, HttpProblem, problem_document
from remand.interfaces.http.routes import (
    HttpAnswer,
    ServerContext,
    answer_of_error,
    call_route,
    command_routes,
    make_route,
    read_body,
)
from remand.interfaces.http.scheduler import scheduler_routes

_log = logging.getLogger("remand.http")
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
FAILED = 500


def make_app(context: ServerContext) -> Litestar:
    """The application with every route. A module that brings more of them is named here."""
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
    """The routes of the server itself: its description and health."""
    described = as_json(document()).encode()

    async def describe(_scope: Scope, _receive: Receive) -> HttpAnswer:
        return HttpAnswer(200, described)

    async def health(_scope: Scope, _receive: Receive) -> HttpAnswer:
        return HttpAnswer(200, b'{"status": "ok"}')

    async def readiness(_scope: Scope, _receive: Receive) -> HttpAnswer:
        await context.runner.require_ready()
        return HttpAnswer(200, b'{"status": "ready"}')

    async def figures(scope: Scope, _receive: Receive) -> HttpAnswer:
        if not context.authenticator.options.session_name:  # other machines reach it
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
    """The A2A endpoint and its card; none where the extra `a2a` is not installed."""
    try:
        application = endpoint.make_endpoint(partial(_run_for_a2a, context))
    except ModuleNotFoundError:
        return []

    async def card(scope: Scope, _receive: Receive) -> HttpAnswer:
        address = f"{scope['scheme']}://{request_facts(scope).headers.get('host', '')}"
        return HttpAnswer(200, as_json(endpoint.agent_card(address)).encode())

    async def handle(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        own: Any = {**scope, endpoint.CALLER: await context.authenticator.caller(facts)}
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
        make_route(context, endpoint.CARD_PATH, "GET", card),
        make_route(context, endpoint.PATH, "POST", handle),
    ]


def _require_flat(body: bytes) -> None:
    """Refuses JSON that is nested too deeply to be read. Whatever else is wrong with it, A2A says in its own way."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        try:
            msgspec.json.decode(body)
        except RecursionError:
            raise UsageError("The body is nested too deeply.") from None


async def _run_for_a2a(context: ServerContext, caller: Caller, words: list[str]) -> tuple[int, Any]:
    """Runs a command line for the A2A endpoint: its exit code, and what it answers with `--json`."""
    try:
        done = await context.runner.run(words, {}, "", caller, "")
    except Refused as refused:
        return endpoint.REFUSED, {"refused": refused.code, "message": refused.message}
    except UsageError as error:
        return endpoint.USAGE, {"message": str(error)}
    except HttpProblem as problem:
        return endpoint.UNAVAILABLE, {"message": problem.detail}
    return done.code, json.loads(done.output) if done.output else {}


def _answer_error(site: Site, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """What is answered where no route is, and where one fails; a page for browsers."""
    if isinstance(error, HttpProblem | Refused | RemandError):
        answer = answer_of_error(error)
    else:
        status = error.status_code if isinstance(error, HTTPException) else FAILED
        if status >= FAILED:
            # A request may hold a secret: only where it failed is written down.
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
