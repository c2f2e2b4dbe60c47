"""The OpenAPI 3.1 document, made from the same declarations and records as the routes."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from remand.domain.refusals import MEANINGS
from remand.interfaces.http.calls import CallResult
from remand.interfaces.http.commands import MAX_ROWS, RemoteCommand, remote_commands
from remand.interfaces.http.problems import MEDIA_TYPE, STATUS_OF_REFUSAL
from remand.interfaces.http.routes import JSON_TYPE, RemoteCall
from remand.startup import VERSION

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
    "401": "the request does not say who makes it, or not in a way that holds",
    "403": "the caller may not do this",
    "404": "there is no such task, handoff, rejection or commit",
    "405": "this address takes another method",
    "408": "the request took too long to arrive",
    "409": "how things are does not allow it",
    "413": "the request is too large",
    "421": "the request was sent to a name that is not this server's",
    "422": "a value, or the work itself, does not meet what is required",
    "429": "the token was used too often; Retry-After says when to come again",
    "503": "the server cannot carry the command out now",
}


@cache
def document() -> dict[str, Any]:
    """The whole document."""
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
            "summary": "How a team of AI coding agents says no, and how no is respected.",
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
        {"name": "limit", "in": "query", "description": "how many rows; without it all", "schema": limit},
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
        "description": "a request that is repeated under its key is carried out once, and answered as the first time",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    }


def _if_none_match() -> dict[str, Any]:
    return {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}


def _problem_references() -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/Problem{status}"} for status in _PROBLEMS}


def _own_paths() -> dict[str, Any]:
    """What is no command: whole command lines, and the sessions of browsers."""
    call = {
        "operationId": "call",
        "summary": "run a whole command line, as the clients of Remand itself do",
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
        "/api/login": {"post": _session_operation("login", "open a session by a token", "member role")},
        "/api/logout": {"post": _session_operation("logout", "end the session", "")},
    }


def _session_operation(name: str, summary: str, fields: str) -> dict[str, Any]:
    kinds = {"csrf": {"type": ["string", "null"], "description": "what every change sends in X-CSRF-Token"}}
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
