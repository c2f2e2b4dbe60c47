"""A forge on loopback: takes requests, has a dialect answer them from the state, and fails when told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

Item = TypeVar("Item")


class HttpRequest(NamedTuple):
    """What was asked."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By their names in lower case."""
    body: bytes
    base: str
    """The address the server is asked at."""

    def json(self) -> object:
        """The body, read."""
        return msgspec.json.decode(self.body)

    def fields(self) -> dict[str, object]:
        """The body's fields; none when it is no object."""
        body = self.json() if self.body else None
        return body if isinstance(body, dict) else {}


class HttpAnswer(NamedTuple):
    """What is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Dialect(Protocol):
    """How one kind of forge answers."""

    def answer(self, request: HttpRequest) -> HttpAnswer | None:
        """The answer; None when the request is not in this dialect."""


class ListPage(NamedTuple, Generic[Item]):
    """One page of a list, and where the others are."""

    items: list[Item]
    headers: dict[str, str]
    number: int
    pages: int


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """An answer in JSON."""
    return HttpAnswer(
        status, msgspec.json.encode(value), {"content-type": "application/json", **(headers or {})}
    )


def page_of(
    request: HttpRequest, items: Sequence[Item], *, size: str = "per_page", usual: int = 30, most: int = 100
) -> ListPage[Item]:
    """The page that is asked for, with a Link header to the others."""
    count = min(int(request.query.get(size, usual)), most)
    number, pages = int(request.query.get("page", 1)), max(1, -(-len(items) // count))
    ends = {"prev": number - 1, "next": number + 1, "last": pages, "first": 1}
    links = [
        f'<{request.base}{request.path}?{urlencode({**request.query, "page": str(at)})}>; rel="{name}"'
        for name, at in ends.items()
        if 1 <= at <= pages and at != number
    ]
    headers = {"link": ", ".join(links)} if pages > 1 else {}
    return ListPage(list(items[(number - 1) * count : number * count]), headers, number, pages)


def with_etag(request: HttpRequest, answer: HttpAnswer) -> HttpAnswer:
    """The same answer with its ETag, or 304 when the asker has it already.

    A tag is the content's alone: the last page, when it is full, keeps it after another page has come.
    """
    if request.method != "GET" or answer.status != 200:
        return answer
    etag = f'W/"{sha256(answer.body).hexdigest()}"'
    headers = {**answer.headers, "etag": etag}
    if request.headers.get("if-none-match") == etag:
        return HttpAnswer(304, b"", {"etag": etag})
    return HttpAnswer(200, answer.body, headers)


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to requests in place of an answer."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: int = 1
    after: int = 0
    """How many are answered before."""
    where: str = ""
    """Part of the address of those it happens to."""
    spared: str = ""
    """Part of the address of those it never happens to."""
    is_silent: bool = False
    """Nothing is ever answered."""
    is_cut: bool = False
    """The right answer, and the connection ends in the midst of it."""
    is_endless: bool = False
    """An answer that goes on and on."""


class Faults:
    """What is to go wrong next."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._lock = Lock()

    def add(self, fault: Fault) -> None:
        """Lets something go wrong."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Lets everything go right again."""
        self._waiting.clear()

    @property
    def left(self) -> int:
        """How often something is still to go wrong."""
        return sum(fault.times for fault in self._waiting)

    def next(self, request: HttpRequest) -> Fault | None:
        """What happens to this request; None when it is answered."""
        with self._lock:
            for fault in self._waiting:
                address = f"{request.path}?{urlencode(request.query)}"
                is_spared = fault.spared and fault.spared in address
                if fault.where not in address or is_spared or not fault.times:
                    continue
                if fault.after:
                    fault.after -= 1
                    continue
                fault.times -= 1
                return fault
        return None


class ForgeServer:
    """A forge that can be asked over HTTP, in every dialect it is given."""

    def __init__(self, *dialects: Dialect) -> None:
        self.faults = Faults()
        self.requests: list[HttpRequest] = []
        self.ended = Event()
        self._dialects = dialects
        self._lock = Lock()
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.forge = self
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.002}, daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Starts to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops, also for those who were never answered."""
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: HttpRequest) -> tuple[HttpAnswer, Fault | None]:
        """What the first dialect that knows the request says, and what is to go wrong with it."""
        with self._lock:
            self.requests.append(request)
            fault = self.faults.next(request)
            if fault is not None and not fault.is_cut:
                return HttpAnswer(fault.status, fault.body, fault.headers), fault
            answers = (dialect.answer(request) for dialect in self._dialects)
            found = next((answer for answer in answers if answer is not None), None)
            return found or json_answer({"message": "Not Found"}, 404), fault


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    forge: ForgeServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the standard library has it
        """Says nothing: requests are kept instead."""

    def do_GET(self) -> None:
        """Reads the request, and answers or fails."""
        answer, fault = self.server.forge.answer(self._request())
        if fault is not None and fault.is_silent:
            self.server.forge.ended.wait()
            self.close_connection = True
            return
        self._write(answer, fault)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as the standard library has it

    def _request(self) -> HttpRequest:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        return HttpRequest(self.command, parts.path, query, headers, body, self.server.forge.url)

    def _write(self, answer: HttpAnswer, fault: Fault | None) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        is_endless = fault is not None and fault.is_endless
        self.send_header("content-length", str(1 << 40 if is_endless else len(answer.body)))
        self.end_headers()
        if fault is not None and fault.is_cut:
            self.wfile.write(answer.body[: len(answer.body) // 2])
            self.close_connection = True
            return
        self.wfile.write(answer.body)
        with suppress(OSError):
            while is_endless and not self.server.forge.ended.is_set():
                self.wfile.write(b" " * (1 << 16))
