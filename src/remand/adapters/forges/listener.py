"""A small listener for webhooks: it checks who sent a delivery, notes which pull request it is about, and says thanks."""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from typing import Any

from remand.adapters.forges.webhooks import MAX_BODY, Delivery, Ignored, read

SECONDS = 10.0
"""How long a delivery may take from the first byte to the last, however slowly it drips in."""
AT_ONCE = 64
REMEMBERED = 10_000
PATH = "/webhooks"


class Listener:
    """Waits for deliveries in a thread of its own. What it hears is only a reason to ask the forge."""

    def __init__(
        self, host: str, port: int, *, kind: str, repository: str, secret: str, wake: Callable[[int], None]
    ) -> None:
        self._seen = _Seen()
        self._wake = wake
        self._kind, self._repository, self._secret = kind, repository, secret
        self._server = _Server((host, port), _handler(self._answer))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begins to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """The status and the words for one delivery. One that came before is answered, and wakes nobody.

        Its id is not signed, so the same words under another id are no new delivery either.
        """
        found = read(self._kind, headers, body, self._secret)
        if isinstance(found, Ignored):
            return 202, found.why
        if not isinstance(found, Delivery):
            return 401, found.why
        if found.repository.lower() != self._repository.lower():
            return 202, "This is about another repository."
        if self._seen.is_new(found.id, sha256(body).hexdigest()):
            self._wake(found.number)
        return 202, "Thank you."


class _Seen:
    """The deliveries of late, by what they go by."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, *names: str) -> bool:
        """True when none of the names was seen; all of them are from then on."""
        with self._lock:
            is_new = not any(name in self._names for name in names)
            self._names.update(dict.fromkeys(names))
            while len(self._names) > REMEMBERED:
                self._names.popitem(last=False)
            return is_new


class _Server(ThreadingHTTPServer):
    """Takes a connection when there is room for it; who comes too much is not kept waiting."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = AT_ONCE

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread of the connection's own."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, and makes room before the client sees the end: who comes again at once is let in."""
        try:
            self.finish_request(request, client_address)
        except OSError:
            self.handle_error(request, client_address)
        finally:
            self._room.release()
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that went away is no error of ours."""


class _Incoming(RawIOBase):
    """What a client sends, until its time is over."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + SECONDS

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes; a `TimeoutError` when the time is over."""
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
            """Gives the client its time."""
            super().setup()
            self.rfile = BufferedReader(_Incoming(self.connection))

        def do_POST(self) -> None:
            """Takes one delivery."""
            self.close_connection = True
            length = self.headers.get("Content-Length", "")
            if self.path.split("?")[0].rstrip("/") != PATH:
                self._say(404, f"Deliveries go to {PATH}.")
            elif not (length.isascii() and length.isdecimal()):
                self._say(411, "Say how long the delivery is.")
            elif len(length) > 9 or int(length) > MAX_BODY:
                self._say(413, f"A delivery has at most {MAX_BODY} bytes.")
            else:
                body = self.rfile.read(int(length))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._say(
                    *(answer(headers, body) if len(body) == int(length) else (400, "The delivery is cut."))
                )

        def _say(self, status: int, text: str) -> None:
            content = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Says nothing: what was heard shows in what follows from it."""

    return Handler
