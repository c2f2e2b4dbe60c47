"""Webhooks: verifies the sender of a delivery, reads which pull request it is about, and wakes the poller."""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from typing import Any

import msgspec

from remand.app.errors import EnvironmentFault
from remand.domain.record import Record

MAX_BODY = 4 << 20
MAX_NAME = 200
MAX_ID = 200
GITHUB, GITLAB, GITEA, FORGEJO = "github", "gitlab", "gitea", "forgejo"


class Delivery(Record, kw_only=True):
    """A delivery which says that a pull request may have changed."""

    id: str
    """The id of the delivery: a repeated one needs no poll."""
    repository: str
    number: int


class IgnoredDelivery(Record, kw_only=True):
    """A genuine delivery about something else."""

    why: str


class RefusedDelivery(Record, kw_only=True):
    """A delivery that is not from the forge, or is unreadable."""

    why: str


class _RepositoryName(Record, kw_only=True):
    full_name: str = ""
    path_with_namespace: str = ""


class _NumberedItem(Record, kw_only=True):
    number: int = 0
    iid: int = 0


class _Issue(_NumberedItem, kw_only=True):
    pull_request: dict[str, object] | None = None


class _Payload(Record, kw_only=True):
    """The fields of a delivery that are read: repository and number, in the places where forges put them."""

    repository: _RepositoryName | None = None
    project: _RepositoryName | None = None
    pull_request: _NumberedItem | None = None
    issue: _Issue | None = None
    merge_request: _NumberedItem | None = None
    object_kind: str = ""
    object_attributes: _NumberedItem | None = None


_DECODER = msgspec.json.Decoder(_Payload)
_IDS = {
    GITHUB: ("x-github-delivery",),
    GITLAB: ("idempotency-key", "x-gitlab-event-uuid"),
    GITEA: ("x-gitea-delivery", "x-forgejo-delivery"),
    FORGEJO: ("x-forgejo-delivery", "x-gitea-delivery"),
}


def read_delivery(
    kind: str, headers: Mapping[str, str], body: bytes, secret: str
) -> Delivery | IgnoredDelivery | RefusedDelivery:
    """Parses a delivery, after verifying its signature."""
    named = {name.lower(): value for name, value in headers.items()}
    if kind not in _IDS:
        return RefusedDelivery(why=f"{kind} is not a forge whose deliveries Remand knows")
    if not secret:
        return RefusedDelivery(why="no secret is set for webhooks, so none can be told from a forged one")
    if len(body) > MAX_BODY:
        return RefusedDelivery(why=f"the delivery is longer than {MAX_BODY >> 20} MB")
    if not _is_genuine(kind, named, body, secret):
        return RefusedDelivery(why="the signature is missing or wrong; set the same secret on both sides")
    if "form" in named.get("content-type", ""):
        return RefusedDelivery(why="the webhook sends forms; set its content type to application/json")
    delivered = next((named[name] for name in _IDS[kind] if named.get(name)), "")
    if not delivered or len(delivered) > MAX_ID:
        return RefusedDelivery(why="the delivery has no id")
    try:
        payload = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return RefusedDelivery(why="the delivery is not JSON of a known form")
    number = _pull_number(payload)
    if number is None:
        return IgnoredDelivery(why="it is not about a pull request")
    where = payload.project or payload.repository or _RepositoryName()
    repository = where.full_name or where.path_with_namespace
    if not repository or len(repository) > MAX_NAME or not 0 < number < 1 << 31:
        return RefusedDelivery(why="the delivery names no repository, or no number")
    return Delivery(id=delivered, repository=repository, number=number)


def _is_genuine(kind: str, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    key = secret.encode()
    if kind == GITLAB:
        return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(errors="replace"), key)
    expected = hmac.new(key, body, sha256).hexdigest()
    if kind == GITHUB:
        return hmac.compare_digest(
            headers.get("x-hub-signature-256", "").encode(errors="replace"), f"sha256={expected}".encode()
        )
    signature = headers.get("x-gitea-signature") or headers.get("x-forgejo-signature", "")
    return hmac.compare_digest(signature.encode(errors="replace"), expected.encode())


def _pull_number(payload: _Payload) -> int | None:
    if payload.merge_request is not None:
        return payload.merge_request.iid
    if payload.object_kind == "merge_request" and payload.object_attributes is not None:
        return payload.object_attributes.iid
    if payload.pull_request is not None:
        return payload.pull_request.number
    if payload.issue is not None and payload.issue.pull_request is not None:
        return payload.issue.number
    return None


SECONDS = 10.0
"""The most seconds from the first byte of a delivery to the last, however slowly it arrives."""
AT_ONCE = 64
REMEMBERED = 10_000
WEBHOOK_PATH = "/webhooks"
SECRET = "REMAND_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable


class WebhookListener:
    """Receives deliveries in its own thread. A delivery only triggers a poll of the forge."""

    def __init__(
        self, host: str, port: int, *, kind: str, repository: str, secret: str, wake: Callable[[int], None]
    ) -> None:
        if not secret:
            raise EnvironmentFault(
                f"Webhooks are verified by the secret that signs them. Set {SECRET} to the secret configured on the forge."
            )
        self._seen = _RecentDeliveries()
        self._wake = wake
        self._kind, self._repository, self._secret = kind, repository, secret
        self._host = host
        try:
            self._server = _Server((host, port), _handler(self._answer))
        except OSError as error:
            raise EnvironmentFault(
                f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port."
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        """The URL to which the forge sends its webhooks."""
        return f"http://{self._host}:{self._server.server_address[1]}{WEBHOOK_PATH}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """The status and text that answer a delivery. A repeated one is answered without triggering a poll.

        Its id is not signed, so the same body with another id counts as a repetition too.
        """
        found = read_delivery(self._kind, headers, body, self._secret)
        if isinstance(found, IgnoredDelivery):
            return 202, found.why
        if not isinstance(found, Delivery):
            return 401, found.why
        if found.repository.lower() != self._repository.lower():
            return 202, "This is about another repository."
        if self._seen.is_new(found.id, sha256(body).hexdigest()):
            self._wake(found.number)
        return 202, "Thank you."


class _RecentDeliveries:
    """Recent deliveries, by their ids and the hashes of their bodies."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, *names: str) -> bool:
        """True if none of the names is known; then remembers all of them."""
        with self._lock:
            is_new = not any(name in self._names for name in names)
            self._names.update(dict.fromkeys(names))
            while len(self._names) > REMEMBERED:
                self._names.popitem(last=False)
            return is_new


class _Server(ThreadingHTTPServer):
    """Accepts a limited number of connections and closes any more immediately."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = AT_ONCE

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles a request and frees its slot before the client sees the end, so that it can reconnect at once."""
        try:
            self.finish_request(request, client_address)
        except OSError:
            self.handle_error(request, client_address)
        finally:
            self._free.release()
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: a client that disconnects is not an error."""


class _DeadlineReader(RawIOBase):
    """Reads from a client until its deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _handler(answer: Callable[[dict[str, str], bytes], tuple[int, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.rfile = BufferedReader(_DeadlineReader(self.connection))

        def do_POST(self) -> None:
            self.close_connection = True
            length = self.headers.get("Content-Length", "")
            if self.path.split("?")[0].rstrip("/") != WEBHOOK_PATH:
                self._send_answer(404, f"Deliveries go to {WEBHOOK_PATH}.")
            elif not (length.isascii() and length.isdecimal()):
                self._send_answer(411, "The delivery needs a Content-Length.")
            elif len(length) > 9 or int(length) > MAX_BODY:
                self._send_answer(413, f"A delivery has at most {MAX_BODY} bytes.")
            else:
                body = self.rfile.read(int(length))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._send_answer(
                    *(
                        answer(headers, body)
                        if len(body) == int(length)
                        else (400, "The delivery is incomplete.")
                    )
                )

        def _send_answer(self, status: int, text: str) -> None:
            content = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Prints nothing: the effect of a delivery is in the log."""

    return Handler
