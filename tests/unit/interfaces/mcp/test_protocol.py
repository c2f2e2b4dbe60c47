"""The protocol itself: which messages are answered, with which errors, and what a client that changes its mind is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from remand.interfaces.mcp.protocol import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    VERSION_KEY,
    ClientConnection,
    ClientRequest,
    Form,
    ProtocolError,
    encode,
)

FORM = Form("Which one?", {"type": "object", "properties": {}}, "E-1")
CAPABLE = {"elicitation": {}}


class Desk:
    """Answers `echo` with its parameters, `ask` with what the user filled in, `fail` not at all, `wait` never."""

    def __init__(self) -> None:
        self.was_cancelled = False
        self.introduction = {
            "serverInfo": {"name": "x", "version": "1"},
            "capabilities": {},
            "instructions": "Read.",
        }

    def has_method(self, method: str) -> bool:
        return method in ("echo", "ask", "fail", "wait")

    async def answer(self, request: ClientRequest) -> dict[str, Any]:
        if request.method == "wait":
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
        if request.method == "fail":
            raise ZeroDivisionError
        if request.method == "ask":
            if not request.has_forms:
                raise ProtocolError(-32602, "There are no forms.")
            answer = request.form_answer or await request.fill(FORM)
            return {"action": answer.action, "values": answer.values, "subject": answer.subject}
        return {"echo": request.params.get("text", "")}


def request(number: object, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def hello(version: str = "2025-06-18") -> dict[str, Any]:
    return request("hello", "initialize", protocolVersion=version, capabilities=CAPABLE)


def envelope(**more: object) -> dict[str, Any]:
    return {"_meta": {VERSION_KEY: STATELESS_VERSION, CAPABILITIES_KEY: CAPABLE}, **more}


def exchanged(
    *messages: object, then: Callable[[ClientConnection, list[Any]], object] | None = None
) -> list[Any]:
    """All that a client is sent, in order; `then` goes on when what can be answered is."""
    sent: list[Any] = []

    async def scene() -> None:
        connection = ClientConnection(Desk())
        for message in messages:
            text = message if isinstance(message, bytes) else json.dumps(message).encode()
            connection.receive(text, sent.append)
        for _ in range(20):
            await asyncio.sleep(0)
        if then is not None:
            then(connection, sent)
            for _ in range(20):
                await asyncio.sleep(0)
        connection.close()

    asyncio.run(scene())
    return [json.loads(encode(one)) for one in sent]


def codes(sent: list[Any]) -> list[Any]:
    """The number and the error's code of each answer."""
    return [(one["id"], one.get("error", {}).get("code")) for one in sent]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b'"\xff"', -32700),
        (b"[" * 100_000, -32700),
        ([], -32600),
        ("text", -32600),
        ([request(1, "ping")], -32600),
        ({"jsonrpc": "1.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "method": 5}, -32600),
    ],
)
def test_what_is_no_message_is_answered_with_its_error(message: object, code: int) -> None:
    assert codes(exchanged(message)) == [(None, code)]


def test_a_request_that_cannot_be_answered_says_why_under_its_own_number() -> None:
    sent = exchanged(
        request(1, "echo"),
        request(2, "ping"),
        request("3", "initialize", protocolVersion=5),
        hello(),
        request(4, "no/such"),
        request(5, "server/discover"),
        {"jsonrpc": "2.0", "id": 6, "method": "echo", "params": []},
        request(7, "fail"),
        request(8, "echo", text="still here"),
    )
    assert sorted(codes(sent), key=str) == sorted(
        [
            *((1, -32602), (2, None), ("3", -32602), ("hello", None)),
            *((4, -32601), (5, -32601), (6, -32600), (7, -32603), (8, None)),
        ],
        key=str,
    )


def test_null_is_the_same_as_nothing_where_an_object_may_be_left_out() -> None:
    sent = exchanged(
        request("hello", "initialize", protocolVersion="2025-06-18", capabilities=None),
        {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": None},
        {"jsonrpc": "2.0", "id": 2, "method": "ping", "params": None},
        request(3, "ask"),
    )
    assert sorted(codes(sent), key=str) == [("hello", None), (1, None), (2, None), (3, -32602)]


@pytest.mark.parametrize(
    "notification",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized", "params": None},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": None},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
        {"jsonrpc": "1.0", "method": "echo", "params": "text"},
        {"method": "tools/call"},
    ],
)
def test_a_notification_is_never_answered_whatever_is_wrong_with_it(notification: object) -> None:
    assert exchanged(notification) == []
    together = exchanged(hello("2025-03-26"), [notification, notification])
    assert codes(together) == [("hello", None)]


def test_notifications_and_answers_that_nobody_waits_for_are_ignored() -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/no-such"}
    answer = {"jsonrpc": "2.0", "id": "remand-9", "result": {}}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}
    assert exchanged(notification, answer, cancelled) == []


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, "1999-01-01", STATELESS_VERSION])
def test_the_version_is_the_clients_where_it_is_known_and_else_the_newest(version: str) -> None:
    (sent,) = exchanged(hello(version))
    expected = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    assert sent["result"]["protocolVersion"] == expected
    assert sent["result"]["serverInfo"]["name"] == "x"


def test_a_client_that_found_out_about_the_later_protocol_may_still_greet() -> None:
    sent = exchanged(request(1, "server/discover", **envelope()), hello(), request(2, "echo", text="a"))
    assert codes(sorted(sent, key=lambda one: str(one["id"]))) == [(1, None), (2, None), ("hello", None)]
    (found,) = [one["result"] for one in sent if one["id"] == 1]
    assert found["supportedVersions"] == [STATELESS_VERSION]
    assert (found["resultType"], found["instructions"]) == ("complete", "Read.")


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION_KEY: STATELESS_VERSION}, -32602),
        ({VERSION_KEY: 5, CAPABILITIES_KEY: {}}, -32602),
        ({VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {}}, -32022),
    ],
)
def test_a_request_of_the_later_protocol_says_version_and_capabilities(meta: object, code: int) -> None:
    assert codes(exchanged(request(1, "echo", _meta=meta))) == [(1, code)]


def test_several_messages_at_once_are_answered_at_once_in_the_version_that_has_that() -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    together = [request(1, "ping"), notification, request(2, "echo", text="b"), {"no": "message"}]
    sent = exchanged(hello("2025-03-26"), together)
    assert sorted(codes(sent[1]), key=str) == [(1, None), (2, None), (None, -32600)]
    assert codes(exchanged(hello("2025-06-18"), together))[1:] == [(None, -32600)]


def test_a_request_that_is_cancelled_is_not_answered() -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    sent = exchanged(
        hello(),
        request(1, "wait"),
        request(2, "wait"),
        then=lambda connection, found: connection.receive(json.dumps(cancelled).encode(), found.append),
    )
    assert codes(sent) == [("hello", None)]


def test_a_form_is_a_request_of_its_own_and_its_answer_that_of_the_client() -> None:
    def fill(connection: ClientConnection, found: list[Any]) -> None:
        (asked,) = [one for one in found if one.get("method") == "elicitation/create"]
        assert asked["params"]["message"] == "Which one?"
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"a": 1}}}
        connection.receive(json.dumps(answer).encode(), found.append)

    *_, sent = exchanged(hello(), request(1, "ask"), then=fill)
    assert sent["result"] == {"action": "accept", "values": {"a": 1}, "subject": "E-1"}


def test_in_the_later_protocol_a_form_is_an_answer_and_the_request_comes_again() -> None:
    (first,) = exchanged(request(1, "ask", **envelope()))
    assert first["result"]["resultType"] == "input_required"
    ((name, asked),) = first["result"]["inputRequests"].items()
    assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "Which one?")
    filled = {name: {"action": "decline"}}
    state = first["result"]["requestState"]
    (second,) = exchanged(request(2, "ask", **envelope(inputResponses=filled, requestState=state)))
    assert second["result"]["resultType"] == "complete"
    assert (second["result"]["action"], second["result"]["subject"]) == ("decline", "E-1")


def test_a_line_of_megabytes_and_half_a_surrogate_pair_pass() -> None:
    text = "x" * (8 << 20)
    _, sent = exchanged(hello(), request(1, "echo", text=text))
    assert sent["result"]["echo"] == text
    assert json.loads(encode({"text": "\ud800"})) == {"text": "\ud800"}
