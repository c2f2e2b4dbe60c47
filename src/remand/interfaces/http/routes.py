"""One route per served command, `/api/calls` for whole command lines, and the OpenAPI document derived from them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from remand.app.errors import RemandError, UsageError
from remand.domain.access.tokens import require_call
from remand.domain.record import NamedTuple
from remand.domain.refusals import MEANINGS, Refused
from remand.interfaces.cli.output import as_json
from remand.interfaces.http.authentication import (
    IS_KNOWN,
    SAFE_METHODS,
    Authenticator,
    RequestFacts,
    request_facts,
)
from remand.interfaces.http.calls import CallResult, CallRunner, ClientPresence, presence
from remand.interfaces.http.commands import MAX_ROWS, RemoteCommand, cut_page, remote_commands, require_limit
from remand.interfaces.http.problems import (
    BAD_REQUEST,
    HIDDEN,
    MEDIA_TYPE,
    STATUS_OF_REFUSAL,
    UNAVAILABLE,
    HttpProblem,
    note_hidden,
    problem_document,
    problem_of_answer,
    refusal_document,
)
from remand.interfaces.http.telemetry import Metrics
from remand.startup import VERSION

MAX_BODY = 4 << 20
"""The largest request body in bytes: the same as for a value on the command line."""
BODY_SECONDS = 30.0
"""How long a request body may take to arrive."""
FIRST_SECONDS = 10.0
"""How long the start of a body with a minimum speed may take."""
JSON_TYPE = "application/json"
NOT_MODIFIED = 304


class ServerContext(NamedTuple):
    """The objects that routes work with."""

    runner: CallRunner
    authenticator: Authenticator
    metrics: Metrics
    is_ending: Callable[[], bool] = lambda: False
    """Whether the server is shutting down; endless streams end then."""


class RemoteCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole command line that was entered on another machine."""

    arguments: list[str]
    settings: dict[str, str] = {}
    """The variables of `FORWARDED_VARIABLES`, `is_terminal`, `width`, and the `branch` checked out there."""
    given: str = ""
    """The text from standard input."""


class HttpAnswer(NamedTuple):
    """The response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    media_type: str = JSON_TYPE


Handle = Callable[[Scope, Receive], Awaitable[HttpAnswer]]


RequestError = HttpProblem | Refused | RemandError
"""The errors that prevent a request from being carried out."""
Refuse = Callable[[RequestError, RequestFacts], HttpAnswer]


def make_route(
    context: ServerContext,
    path: str,
    method: str,
    handle: Handle,
    *,
    is_mount: bool = False,
    refuse: Refuse | None = None,
) -> ASGIRouteHandler:
    """A route that answers only under the server's own host names and turns refusals and errors into problem documents.

    As a mount it serves every path with that prefix; `refuse` replaces the problem documents by other answers.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        IS_KNOWN.set(False)
        client = ClientPresence(receive, has_body=method not in SAFE_METHODS)
        presence.set(client)
        watch = client.start_watch()
        try:
            context.authenticator.require_own_host(request_facts(scope).headers)
            _require_method(scope, method)
            answer = await handle(scope, client.receive)
        except (HttpProblem, Refused, RemandError) as error:
            answer = refuse(error, request_facts(scope)) if refuse else answer_of_error(error)
        finally:
            watch.cancel()
        await send_answer(send, answer)

    return asgi(path, copy_scope=False, is_mount=is_mount)(serve)


def _require_method(scope: Scope, method: str) -> None:
    if scope.get("method") != method:
        raise HttpProblem(405, "method_not_allowed", f"This address takes {method}.", {"allow": method})


def command_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """A route for each served command."""
    return [_command_route(context, command) for command in remote_commands().values()]


def _command_route(context: ServerContext, command: RemoteCommand) -> ASGIRouteHandler:
    async def answer(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        headers, caller = facts.headers, await context.authenticator.caller(facts)
        require_call(caller, command.name)
        if command.is_query:
            values, text, page = command.read_query(scope["query_string"])
        else:
            (values, text), page = command.read_body(await read_body(receive, headers)), {}
        if page:
            values.page_limit, values.page_after = require_limit(page) or -1, page.get("after", "")
        key = headers.get("idempotency-key", "")
        code, data = await context.runner.answer(command, values, text, caller, key)
        context.authenticator.note_words(command.name.split(" "))
        problem = problem_of_answer(data, command.name)
        if problem is not None:
            context.metrics.refusals[problem["code"]] += 1
            return HttpAnswer(problem["status"], as_json(problem).encode(), media_type=MEDIA_TYPE)
        more = {"remand-exit-code": str(code)} if code else {}
        if page:
            data, after = cut_page(data, page)
            more |= {"link": f'<{_next_page(scope, after)}>; rel="next"'} if after else {}
        return _with_entity_tag(command, headers, as_json(data).encode(), more)

    return make_route(context, command.path, command.method, answer)


def _next_page(scope: Scope, after: str) -> str:
    """The URL of the next page."""
    pairs = parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True)
    return f"{scope['path']}?{urlencode([*(pair for pair in pairs if pair[0] != 'after'), ('after', after)])}"


def _with_entity_tag(
    command: RemoteCommand, headers: Mapping[str, str], body: bytes, more: dict[str, str]
) -> HttpAnswer:
    """The answer to a query with its ETag, or 304 if the client already has it."""
    if not command.is_query:
        return HttpAnswer(200, body, more)
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    more |= {"etag": tag, "cache-control": "private, no-cache"}
    known = {one.strip().removeprefix("W/") for one in headers.get("if-none-match", "").split(",")}
    return HttpAnswer(NOT_MODIFIED, b"", more) if known & {tag, "*"} else HttpAnswer(200, body, more)


_decode_call = msgspec.json.Decoder(RemoteCall).decode


def call_route(context: ServerContext) -> ASGIRouteHandler:
    """The route for whole command lines, used by Remand's own clients."""

    async def answer(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        headers, caller = facts.headers, await context.authenticator.caller(facts)
        try:
            call = _decode_call(await read_body(receive, headers))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"The body does not fit: {error}.") from None
        if any("\0" in text for text in (*call.arguments, *call.settings.values())):
            raise UsageError("A text contains a NUL character. Remove it.")
        key = headers.get("idempotency-key", "")
        result = await context.runner.run(call.arguments, call.settings, call.given, caller, key)
        context.authenticator.note_words(call.arguments)
        return HttpAnswer(200, msgspec.json.encode(result._asdict()))

    return make_route(context, "/api/calls", "POST", answer)


async def read_body(
    receive: Receive,
    headers: Mapping[str, str],
    limit: int = MAX_BODY,
    seconds: float = BODY_SECONDS,
    slowest: int = 0,
) -> bytes:
    """The body of a request. Raises `HttpProblem` if it is too large or too slow, or if the client disconnects.

    `slowest` is the minimum speed in bytes per second after `FIRST_SECONDS`.
    """
    too_large = HttpProblem(413, "too_large", f"A request may have {limit} bytes.")
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(min(seconds, FIRST_SECONDS) if slowest else seconds) as until:
            begun = asyncio.get_running_loop().time()
            while True:
                message: Any = await receive()
                if message["type"] == "http.disconnect":
                    raise HttpProblem(BAD_REQUEST, "bad_request", "The request ended before its body did.")
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
                if slowest:
                    until.reschedule(begun + min(seconds, FIRST_SECONDS + size / slowest))
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise HttpProblem(
            408, "too_slow", f"The body did not arrive within {seconds:.0f} s, or too slowly."
        ) from None


async def send_answer(send: Send, answer: HttpAnswer) -> None:
    """Sends a complete response."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
    headers.append((b"x-content-type-options", b"nosniff"))
    if "referrer-policy" not in answer.headers:
        headers.append((b"referrer-policy", b"same-origin"))  # keeps the session's host name from other sites
    if "cache-control" not in answer.headers:
        headers.append((b"cache-control", b"no-store"))
    if answer.status != NOT_MODIFIED:
        headers += [
            (b"content-type", answer.media_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
        ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def answer_of_error(error: RequestError) -> HttpAnswer:
    """The response to a request that was not carried out."""
    document, headers = problem_of_error(error), error.headers if isinstance(error, HttpProblem) else {}
    return HttpAnswer(document["status"], as_json(document).encode(), headers, MEDIA_TYPE)


def problem_of_error(error: RequestError) -> dict[str, Any]:
    """The problem document of an error; for unauthenticated callers it reveals nothing about the machine."""
    if isinstance(error, HttpProblem):
        return problem_document(error.status, error.code, error.detail)
    if isinstance(error, UsageError):
        return problem_document(BAD_REQUEST, "bad_request", str(error))
    detail = error.message if isinstance(error, Refused) else str(error)
    if not IS_KNOWN.get():
        note_hidden(error)
        detail = HIDDEN
    if isinstance(error, Refused):
        return refusal_document(error.code, detail)
    return problem_document(UNAVAILABLE, "unavailable", detail)


_REF = "#/components/schemas/{name}"
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "remedy": {"type": "string", "description": "what to do about it"},
    },
}
_PROBLEMS = {
    "400": "the request does not fit the command",
    "401": "the request does not identify its caller, or not validly",
    "403": "the caller may not do this",
    "404": "there is no such task, handoff, rejection or commit",
    "405": "this address does not accept this method",
    "408": "the request took too long to arrive",
    "409": "the current state does not allow it",
    "413": "the request is too large",
    "421": "the request was sent to a name that is not this server's",
    "422": "a value, or the work itself, does not meet the requirements",
    "429": "the token was used too often; Retry-After says when to try again",
    "503": "the server cannot carry out the command now",
}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    commands = list(remote_commands().values())
    _, schemas = msgspec.json.schema_components(
        [*(one.record for one in commands), RemoteCall], ref_template=_REF
    )
    schemas |= {"Problem": _PROBLEM | {"examples": [_example()]}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Remand",
            "version": VERSION,
            "summary": 'Makes "no" count in a team of AI coding agents.',
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {one.path: {one.method.lower(): _operation(one, schemas)} for one in commands}
        | _own_paths(),
        "components": {
            "schemas": schemas,
            "responses": {f"Problem{status}": _problem_response(text) for status, text in _PROBLEMS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "remand_PORT_session",
                    "description": "of a browser that logged in; PORT is the server's. Changes need X-CSRF-Token, from /api/session",
                },
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _example() -> dict[str, Any]:
    code = "already_claimed"
    meaning, remedy = MEANINGS[code]
    return {
        "type": f"/api/explain?code={code}",
        "title": meaning,
        "status": STATUS_OF_REFUSAL.get(code, 409),
        "detail": "Alice holds the task until 12:00.",
        "code": code,
        "remedy": remedy,
    }


def _problem_response(text: str) -> dict[str, Any]:
    return {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}}


def _operation(command: RemoteCommand, schemas: dict[str, Any]) -> dict[str, Any]:
    name = command.record.__name__
    answer: dict[str, Any] = {"description": "what the command prints with --json"}
    answer |= {"content": {JSON_TYPE: {"schema": {}}}}
    operation: dict[str, Any] = {
        "operationId": command.name.replace(" ", "_").replace("-", "_"),
        "summary": command.help,
        "tags": [command.name.split(" ")[0]],
        "responses": {"200": answer} | _problem_references(),
    }
    if command.is_query:
        pages = _page_parameters() if command.has_pages else []
        operation["parameters"] = [*_query_parameters(command, schemas.pop(name)), *pages, _if_none_match()]
        answer["headers"] = {"ETag": {"schema": {"type": "string"}}}
        operation["responses"]["304"] = {"description": "whoever asks has the answer already"}
        return operation
    is_needed = any(one.is_required for one in command.parameters)
    body = {JSON_TYPE: {"schema": {"$ref": _REF.format(name=name)}}}
    operation["requestBody"] = {"required": is_needed, "content": body}
    operation["parameters"] = [_idempotency_key()]
    return operation


def _query_parameters(command: RemoteCommand, schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.is_required,
            "description": one.argument.help,
            "schema": _without_description(schema["properties"][one.name]),
        }
        for one in command.parameters
    ]


def _page_parameters() -> list[dict[str, Any]]:
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_ROWS}
    after = {"type": "string", "pattern": "^[0-9]{1,9}-[0-9a-f]{16}$"}
    return [
        {"name": "limit", "in": "query", "description": "how many rows; all by default", "schema": limit},
        {
            "name": "after",
            "in": "query",
            "description": "where the page begins, from the Link header of the page before",
            "schema": after,
        },
    ]


def _without_description(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "description"}


def _idempotency_key() -> dict[str, Any]:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "a request that is repeated with its key is carried out once, and gets the first answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    }


def _if_none_match() -> dict[str, Any]:
    return {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}


def _problem_references() -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/Problem{status}"} for status in _PROBLEMS}


def _own_paths() -> dict[str, Any]:
    """The paths that are not commands: whole command lines and browser sessions."""
    call = {
        "operationId": "call",
        "summary": "run a command line, as Remand's own clients do",
        "tags": ["calls"],
        "requestBody": {
            "required": True,
            "content": {JSON_TYPE: {"schema": {"$ref": _REF.format(name=RemoteCall.__name__)}}},
        },
        "responses": {
            "200": {
                "description": "its exit code, and what it printed",
                "content": {JSON_TYPE: {"schema": _call_result()}},
            }
        }
        | _problem_references(),
    }
    return {
        "/api/calls": {"post": call},
        "/api/session": {"get": _session_operation("session", "whose session it is", "member role csrf")},
        "/api/login": {"post": _session_operation("login", "open a session with a token", "member role")},
        "/api/logout": {"post": _session_operation("logout", "end the session", "")},
    }


def _session_operation(name: str, summary: str, fields: str) -> dict[str, Any]:
    kinds = {
        "csrf": {
            "type": ["string", "null"],
            "description": "the text that every change sends in X-CSRF-Token",
        }
    }
    schema = {
        "type": "object",
        "required": fields.split(),
        "properties": {field: kinds.get(field, {"type": "string"}) for field in fields.split()},
    }
    answer = {"description": "as it is now", "content": {JSON_TYPE: {"schema": schema}}}
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["sessions"],
        "responses": {"200": answer} | _problem_references(),
    }


def _call_result() -> dict[str, Any]:
    kinds = {"code": "integer", "output": "string", "errors": "string"}
    return {
        "type": "object",
        "required": list(CallResult._fields),
        "properties": {name: {"type": kind} for name, kind in kinds.items()},
    }
