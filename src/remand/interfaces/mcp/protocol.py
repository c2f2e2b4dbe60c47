"""The Model Context Protocol for one client: reads its messages, answers its requests, and asks it back in forms.

A client that begins with `initialize` settles a version for the whole connection. One of the later protocol puts the version and
what it is capable of into each request, and needs no greeting. Both may speak on one connection: each message says which it is.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCH_VERSION = "2025-03-26"
"""The only version in which a client may send several messages as one list."""
STATELESS_VERSION = "2026-07-28"
"""The version without `initialize`."""
_RESERVED = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{_RESERVED}protocolVersion", f"{_RESERVED}clientCapabilities"
SERVER_KEY = f"{_RESERVED}serverInfo"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, UNSUPPORTED_VERSION = -32603, -32022

_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}
_CACHEABLE = ("/list", "/read", "/discover")
FORM = "form"
"""The key of a form in a request, and of its answer."""

Message = dict[str, Any]
Send = Callable[[Any], None]


class ProtocolError(Exception):
    """A message that cannot be answered; the client gets the code and the text."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class Form(NamedTuple):
    """A question to the user, for clients that support forms."""

    text: str
    schema: Message
    subject: str
    """What the form is about; returned with the answer."""


class FormAnswer(NamedTuple):
    """The answer to a form: `accept` with the values, `decline` or `cancel`."""

    action: str
    values: Message
    subject: str


class FormNeededError(Exception):
    """Ends a request of the later protocol, in which the client repeats it with the form's answer."""

    def __init__(self, form: Form) -> None:
        super().__init__(form.text)
        self.form = form


class ClientRequest:
    """One request, and how to reach the client that sent it."""

    def __init__(
        self,
        method: str,
        params: Message,
        capabilities: Message,
        notify: Send,
        ask: Callable[[str, Message], asyncio.Future[Message]] | None,
    ) -> None:
        self.method = method
        self.params = params
        self._capabilities = capabilities
        self._notify = notify
        self._ask = ask

    @property
    def has_forms(self) -> bool:
        """True if the client supports forms. A capability without modes, from before there were any, counts."""
        known = self._capabilities.get("elicitation")
        return isinstance(known, dict) and ("form" in known or "url" not in known)

    def report_progress(self, progress: float, text: str) -> None:
        """Reports progress to a client that asked for it."""
        token = _as_object(self.params.get("_meta")).get("progressToken")
        if isinstance(token, str | int):
            params = {"progressToken": token, "progress": progress, "message": text}
            self._notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    @property
    def form_answer(self) -> FormAnswer | None:
        """The answer to a form in this request; None if there is none."""
        response = _as_object(self.params.get("inputResponses")).get(FORM)
        return (
            _form_answer(response, str(self.params.get("requestState", "")))
            if self._ask is None and response
            else None
        )

    async def fill(self, form: Form) -> FormAnswer:
        """Has the client show a form.

        In the later protocol this raises `FormNeededError`, and the client repeats the request.
        """
        if self._ask is None:
            raise FormNeededError(form)
        answer = await self._ask("elicitation/create", _form_params(form))
        return _form_answer(answer, form.subject)


def _form_params(form: Form) -> Message:
    return {"message": form.text, "requestedSchema": form.schema}


def _form_answer(response: object, subject: str) -> FormAnswer:
    answer = _as_object(response)
    return FormAnswer(str(answer.get("action", "")), _as_object(answer.get("content")), subject)


def _as_object(value: object) -> Message:
    return value if isinstance(value, dict) else {}


def optional_object(holder: Message, key: str) -> Message | None:
    """An optional object: missing and `null` mean an empty one; None if it is something else."""
    value = holder.get(key)
    return {} if value is None else value if isinstance(value, dict) else None


class McpHandler(Protocol):
    """Answers the requests of all clients."""

    introduction: Mapping[str, Any]
    """`serverInfo`, `capabilities` and `instructions`."""

    def has_method(self, method: str) -> bool:
        """True if it can answer such a request."""

    async def answer(self, request: ClientRequest) -> Message:
        """The result of a request; raises `ProtocolError` and `FormNeededError`."""


class ClientConnection:
    """One client. All its methods are called in the event loop's thread."""

    def __init__(self, handler: McpHandler) -> None:
        self._handler = handler
        self._version = ""
        self._capabilities: Message = {}
        self._running: dict[str | int, asyncio.Task[Any]] = {}
        self._asked: dict[str, asyncio.Future[Message]] = {}
        self._count = 0

    def receive(self, text: bytes, send: Send, end: Callable[[], None] = lambda: None) -> None:
        """Takes a client's message, or a list of messages, and sends answers when they are known.

        `end` is called when no more will be sent about them: after the answer, or without one if nobody waits
        for any.
        """
        task = self._take_text(text, send)
        if task is None:
            end()
        else:
            task.add_done_callback(lambda _: end())

    def _take_text(self, text: bytes, send: Send) -> asyncio.Task[Any] | None:
        try:
            message = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            send(_error(None, ProtocolError(PARSE_ERROR, "The message is not JSON.")))
            return None
        if not isinstance(message, list):
            return self._take(message, send, send)
        if self._version == BATCH_VERSION and message:
            return self._take_batch(message, send)
        send(_error(None, ProtocolError(INVALID_REQUEST, "Send one message at a time.")))
        return None

    def cancel(self, *numbers: object) -> None:
        """Ends the wait for the answers to requests."""
        for number in numbers:
            running = self._running.get(number) if isinstance(number, str | int) else None
            if running is not None:
                running.cancel()

    def close(self) -> None:
        """Ends the wait for everything in progress."""
        for running in list(self._running.values()):
            running.cancel()

    def _take_batch(self, messages: list[object], send: Send) -> asyncio.Task[Any]:
        answers: list[Message] = []
        under_way = [task for one in messages if (task := self._take(one, answers.append, send))]

        async def send_all() -> None:
            await asyncio.gather(*under_way, return_exceptions=True)
            if answers:
                send(answers)

        self._count += 1
        return self._start(f"batch {self._count}", send_all())

    def _take(self, message: object, reply: Send, notify: Send) -> asyncio.Task[Any] | None:
        """Handles one message; returns the task of a request that is still being answered."""
        found = _as_object(message)
        number, method, params = found.get("id"), found.get("method"), optional_object(found, "params")
        if (
            found.get("jsonrpc") == "2.0"
            and "method" not in found
            and ("result" in found or "error" in found)
        ):
            self._settle(found)
            return None
        if isinstance(method, str) and "id" not in found:  # a notification: nobody waits for an answer
            if method == "notifications/cancelled":
                self.cancel((params or {}).get("requestId"))
            return None
        is_whole = found.get("jsonrpc") == "2.0" and not isinstance(number, bool) and params is not None
        if is_whole and isinstance(number, str | int) and isinstance(method, str):
            return self._take_request(number, method, params or {}, reply, notify)
        known = number if isinstance(number, str | int) else None
        reply(_error(known, ProtocolError(INVALID_REQUEST, "This is not a message of JSON-RPC 2.0.")))
        return None

    def _take_request(
        self, number: str | int, method: str, params: Message, reply: Send, notify: Send
    ) -> asyncio.Task[Any] | None:
        try:
            if method in ("initialize", "ping"):  # at once: what follows may have been sent already
                reply(_result(number, self._initialize(params) if method == "initialize" else {}))
                return None
            answering = self._answer(method, params, notify)
        except ProtocolError as error:
            reply(_error(number, error))
            return None
        task = self._start(number, answering)
        task.add_done_callback(lambda ended: _reply(number, ended, reply))
        return task

    def _start(self, number: str | int, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._running[number] = task
        task.add_done_callback(lambda _: self._running.pop(number, None))
        return task

    def _initialize(self, params: Message) -> Message:
        wanted, capabilities = params.get("protocolVersion"), optional_object(params, "capabilities")
        if not isinstance(wanted, str) or capabilities is None:
            raise ProtocolError(INVALID_PARAMS, "initialize needs `protocolVersion` and `capabilities`.")
        self._version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self._capabilities = capabilities
        return {"protocolVersion": self._version, **self._handler.introduction}

    def _answer(self, method: str, params: Message, notify: Send) -> Any:
        meta = _as_object(params.get("_meta"))
        if VERSION_KEY in meta:
            return self._answer_stateless(method, params, meta, notify)
        if not self._handler.has_method(method):
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)
        if not self._version:
            raise ProtocolError(INVALID_PARAMS, "Send `initialize` first.")

        def ask(asked: str, about: Message) -> asyncio.Future[Message]:
            return self._ask(asked, about, notify)

        return self._handler.answer(ClientRequest(method, params, self._capabilities, notify, ask))

    def _answer_stateless(self, method: str, params: Message, meta: Message, notify: Send) -> Any:
        version, capabilities = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY)
        if not isinstance(version, str) or not isinstance(capabilities, dict):
            raise ProtocolError(
                INVALID_PARAMS, f"`_meta` needs the texts of {VERSION_KEY} and {CAPABILITIES_KEY}."
            )
        if version != STATELESS_VERSION:
            data = {"supported": [STATELESS_VERSION], "requested": version}
            raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        if method != "server/discover" and not self._handler.has_method(method):
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)
        return self._stateless_result(ClientRequest(method, params, capabilities, notify, None))

    async def _stateless_result(self, request: ClientRequest) -> Message:
        known = dict(self._handler.introduction)
        server = known.pop("serverInfo")
        try:
            if request.method == "server/discover":
                result: Message = {"supportedVersions": [STATELESS_VERSION], **known}
            else:
                result = await self._handler.answer(request)
            result = {"resultType": "complete", **result}
        except FormNeededError as needed:
            asked = {"method": "elicitation/create", "params": _form_params(needed.form)}
            state = {"inputRequests": {FORM: asked}, "requestState": needed.form.subject}
            return {"resultType": "input_required", **state, "_meta": {SERVER_KEY: server}}
        if request.method.endswith(_CACHEABLE):
            result |= _UNCACHED
        return result | {"_meta": {SERVER_KEY: server}}

    def _ask(self, method: str, params: Message, send: Send) -> asyncio.Future[Message]:
        self._count += 1
        number = f"remand-{self._count}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        answer.add_done_callback(lambda _: self._asked.pop(number, None))
        send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answer

    def _settle(self, message: Message) -> None:
        """Takes the client's answer to a request of the server. An answer that nobody waits for is dropped."""
        waiting = self._asked.get(str(message.get("id")))
        if waiting is None or waiting.done():
            return
        if "error" in message:
            text = str(_as_object(message["error"]).get("message", "the client refused"))
            waiting.set_exception(ProtocolError(INTERNAL_ERROR, f"The client showed no form: {text}"))
        else:
            waiting.set_result(_as_object(message["result"]))


def _reply(number: str | int, ended: asyncio.Task[Any], reply: Send) -> None:
    """Sends the answer to a request, but none for a cancelled one. No failure of a request ends the server."""
    error = None if ended.cancelled() else ended.exception()
    if isinstance(error, ProtocolError):
        reply(_error(number, error))
    elif error is not None:
        traceback.print_exception(error, file=sys.stderr)
        reply(_error(number, ProtocolError(INTERNAL_ERROR, "Internal error; see the server's log.")))
    elif not ended.cancelled():
        reply(_result(number, ended.result()))


def _result(number: str | int, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: str | int | None, error: ProtocolError) -> Message:
    fields: Message = {"code": error.code, "message": str(error)}
    if error.data is not None:
        fields["data"] = error.data
    return {"jsonrpc": "2.0", "id": number, "error": fields}


def encode(message: object) -> bytes:
    """A message as one line of text."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return json.dumps(message).encode()  # half of a surrogate pair, which only an escape can carry
