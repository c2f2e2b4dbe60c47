"""Asks addresses on loopback: listed ones alone, no longer and no more than is borne, and nowhere else."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from remand.adapters.system.web_pages import MAX_TEXT, HostPages, target_of

Answering = Callable[[socket.socket, str], None]


@contextmanager
def served(answering: Answering) -> Iterator[int]:
    """A server on loopback that answers each request as it is told to; gives its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            answering(self.request, self.request.recv(65536).decode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def saying(text: str) -> Answering:
    """Answers everything with the same text."""
    return lambda connection, _: connection.sendall(text.encode())


def page(status: int, body: str = "", **headers: str) -> str:
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{told}\r\n{body}"


def get(port: int, path: str = "/", host: str = "127.0.0.1", **options: Any) -> Any:
    return HostPages([f"{host}:{port}"], **options).get(f"http://{host}:{port}{path}")


@pytest.mark.parametrize("status", [200, 204, 401, 404, 500, 503])
def test_an_address_answers_with_its_status_and_text(status: int) -> None:
    body = "" if status == 204 else "down for repair"
    with served(saying(page(status, body))) as port:
        assert get(port) == (status, body, False)
        assert get(port, host="localhost")[0] == status


def test_where_nothing_listens_there_is_no_answer() -> None:
    with socket.socket() as closed:  # bound, so that nobody else listens there meanwhile
        closed.bind(("127.0.0.1", 0))
        status, why, _ = get(closed.getsockname()[1])

    assert status == 0
    assert "refused" in why


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://127.1:{port}/",
        "http://0.0.0.0:{port}/",
        "http://status.example.org:{port}/",
        "http://status.example.org@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}#@status.example.org/",
        "http://127.0.0.1:{port}\\@status.example.org/",
        "file:///etc/passwd",
        "ftp://status.example.org/",
        "gopher://status.example.org/",
        "http://",
        "http://[::1",
        "http://status.example.org:99999/",
        "http://status.example.org:x/",
        "http://ſtatus.example.org/",
        "http://status.example.org/\r\nHost: x",
        "http://status.example.org/ x",
        "status.example.org",
        "",
        "//status.example.org/",
    ],
)
def test_nothing_is_asked_that_is_not_listed(url: str) -> None:
    with served(saying(page(200))) as port:
        assert HostPages(["status.example.org"]).get(url.format(port=port)) is None


def test_an_address_with_a_name_and_password_in_it_is_not_asked() -> None:
    with served(saying(page(200))) as port:
        assert HostPages([f"127.0.0.1:{port}"]).get(f"http://user:password@127.0.0.1:{port}/") is None


def test_a_host_is_listed_with_its_usual_ports_or_one_of_its_own() -> None:
    def is_listed(hosts: list[str], url: str) -> bool:
        target = target_of(url)
        return target is not None and HostPages(hosts)._is_listed(target)

    assert is_listed(["Status.Example.org"], "https://status.example.ORG/health")
    assert is_listed(["status.example.org"], "http://status.example.org:80")
    assert not is_listed(["status.example.org"], "https://status.example.org:8443")
    assert not is_listed(["status.example.org"], "https://evil.status.example.org")
    assert not is_listed(["status.example.org"], "https://status.example.org.evil.org")
    assert is_listed(["status.example.org:8443"], "https://status.example.org:8443")
    assert not is_listed(["status.example.org:8443"], "https://status.example.org")


def test_a_listed_name_that_leads_to_this_machine_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, port, *more, **named: real("127.0.0.1", port, *more, **named)
    )
    with served(saying(page(200, "internal"))) as port:
        assert get(port, host="status.example.org") is None
        assert get(port, host="169.254.169.254") is None


def test_a_redirect_is_followed_on_the_same_host_and_port_alone() -> None:
    with served(saying(page(200, "elsewhere"))) as other:
        pages = {
            "/old": page(302, "", Location="/new"),
            "/new": page(200, "here"),
            "/away": page(302, "moved", Location=f"http://127.0.0.1:{other}/"),
            "/file": page(302, "moved", Location="file:///etc/passwd"),
            "/loop": page(302, "again", Location="/loop"),
        }
        with served(
            lambda connection, asked: connection.sendall(pages[asked.split(" ")[1]].encode())
        ) as port:
            answers = {path: HostPages([f"127.0.0.1:{port}", f"127.0.0.1:{other}"]).get(f"http://127.0.0.1:{port}{path}") for path in pages}  # fmt: skip

    assert answers["/old"] == (200, "here", False)
    assert answers["/away"] == (302, "moved", False)
    assert answers["/file"] == (302, "moved", False)
    assert answers["/loop"] == (302, "again", False)


def test_a_text_without_end_is_cut() -> None:
    def flood(connection: socket.socket, _: str) -> None:
        connection.sendall(b"HTTP/1.1 200 x\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            return

    with served(flood) as port:
        status, text, is_cut = get(port)

    assert (status, len(text), is_cut) == (200, MAX_TEXT, True)


@pytest.mark.parametrize("trickle", [b"HTTP/1.1 200 x\r\nA: ", b"HTTP/1.1 200 x\r\n\r\n", b""])
def test_an_answer_that_trickles_is_cut_off(trickle: bytes) -> None:
    def drip(connection: socket.socket, _: str) -> None:
        try:
            connection.sendall(trickle)
            connection.settimeout(0.01)
            while True:
                connection.sendall(b"x")
                with suppress(TimeoutError):
                    connection.recv(1)
        except OSError:
            return

    with served(drip) as port:
        assert get(port, seconds=0.3)[0] == 0


@pytest.mark.parametrize(
    "answer", ["", "nonsense\r\n\r\n", "HTTP/1.1 999999 x\r\n\r\n", "HTTP/1.1 200 x\r\nContent-Length: -5\r\n\r\n", "HTTP/1.1 200 x\r\n" + "A: b\r\n" * 500 + "\r\n", "\x00" * 5000]
)  # fmt: skip
def test_no_answer_whatever_it_is_fails(answer: str) -> None:
    with served(saying(answer)) as port:
        found = get(port, seconds=1.0)

    assert found is not None
    assert isinstance(found.output, str)


def test_nothing_of_this_machine_is_told_to_the_host() -> None:
    asked: list[str] = []

    def listening(connection: socket.socket, request: str) -> None:
        asked.append(request)
        connection.sendall(page(200).encode())

    with served(listening) as port:
        get(port, "/health?x=1")

    line, *headers = asked[0].strip().split("\r\n")
    assert line == "GET /health?x=1 HTTP/1.1"
    assert {header.split(":")[0] for header in headers} == {
        "Host",
        "User-Agent",
        "Accept",
        "Accept-Encoding",
        "Connection",
    }
