"""The HTTP server as a real process: the command line's answers and refusals, for who may have them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from multiprocessing.connection import wait
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.fake_server import fake_server
from tests.integration.fake_server import http as http_reply
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import PATIENCE, Machine, Repository

TEAM = """
[team]
members = [{name = "Alice", role = "agent"}, {name = "Bob", role = "agent"}, {name = "Lead", role = "lead"}]
[gates]
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Repository]:
    machine = Machine()
    yield machine.repository(config=TEAM)
    machine.close()


@pytest.fixture(scope="module")
def server(place: Repository) -> Iterator[RunningServer]:
    with run_server(place) as started:
        yield started


def add(server: RunningServer, **values: object) -> str:
    reply = server.post("/api/task/add", **{"title": "Mend the roof", **values})
    assert reply.status == 200, reply
    return str(reply.data["task_id"])


def test_answers_are_those_of_the_command_line(server: RunningServer, place: Repository) -> None:
    task = add(server, priority="high")

    assert server.get("/api/task/show", id=task).data == place.ok("task", "show", task)
    assert server.get("/api/task/list").data == place.ok("task", "list")
    claimed = server.post("/api/task/claim", id=task, agent="Alice")
    assert claimed.data["task_id"] == task
    assert claimed.data["attempt"] == 1


def test_a_refusal_is_a_problem_with_its_code(server: RunningServer) -> None:
    task = add(server)
    server.post("/api/task/claim", id=task, agent="Alice")

    again = server.post("/api/task/claim", id=task, agent="Bob")
    assert again.status == 409
    assert again.headers["content-type"] == "application/problem+json"
    assert again.data["code"] == "already_claimed"
    assert {"type", "title", "status", "detail", "remedy"} <= set(again.data)
    assert server.get("/api/task/show", id="T-0").status == 404
    assert server.post("/api/review/approve", task=task, commit="0" * 40, reviewer="Alice").status == 403
    assert server.post("/api/task/claim", agent=7).status == 400


def test_a_rejection_that_is_invalid_says_all_its_issues(server: RunningServer) -> None:
    handoff = server.post("/api/task/claim", id=add(server), agent="Bob").data["handoff_id"]

    reply = server.post(
        "/api/handoff/reject", handoff=handoff, agent="Bob", record={"reason_type": "SCOPE_CREEP"}
    )
    assert (reply.status, reply.data["code"]) == (422, "invalid_rejection"), reply
    assert reply.data["accepted"] is False
    assert reply.data["issues"]


def test_a_request_is_carried_out_once_under_its_key(server: RunningServer) -> None:
    first, second = (
        server.post("/api/task/add", {"idempotency-key": "a key, of mine"}, title="Once") for _ in range(2)
    )
    assert first.data == second.data
    other = server.post("/api/task/add", {"idempotency-key": "a key, of mine"}, title="Another")
    assert (other.status, other.data["code"]) == (409, "key_reused")


def test_who_has_an_answer_already_gets_no_second(server: RunningServer) -> None:
    task = add(server)
    first = server.get("/api/task/show", id=task)
    again = server.get("/api/task/show", {"if-none-match": first.headers["etag"]}, id=task)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])

    server.post("/api/task/claim", id=task, agent="Alice")
    changed = server.get("/api/task/show", {"if-none-match": first.headers["etag"]}, id=task)
    assert changed.status == 200


def test_a_list_comes_in_pages(server: RunningServer) -> None:
    for number in range(3):
        add(server, title=f"Task {number}")
    whole = server.get("/api/task/list").data
    rows, address = [], "/api/task/list?limit=2"
    while address:
        reply = server.request("GET", address)
        assert len(reply.data) <= 2
        rows += reply.data
        address = reply.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert rows == whole


def test_a_number_that_no_database_can_hold_is_no_fault_of_the_server(server: RunningServer) -> None:
    assert server.get("/api/log/tail", count=-(2**63) - 1).data == []
    assert server.get("/api/log/tail", count=2**63).status == 200


def test_a_whole_command_line_is_run_as_it_was_given(server: RunningServer, place: Repository) -> None:
    shown = server.post("/api/calls", arguments=["task", "list", "--json"])
    assert json.loads(shown.data["output"]) == place.ok("task", "list")
    refused = server.post("/api/calls", arguments=["task", "show", "T-0", "--json"])
    assert (refused.status, refused.data["code"]) == (200, 1)
    people = server.post("/api/calls", arguments=["task", "show", "T-0"])
    assert people.data["errors"].startswith("refused (unknown_task)")
    handoff = server.post("/api/task/claim", id=add(server), agent="Bob").data["handoff_id"]
    words = ["handoff", "reject", handoff, "--agent", "Bob", "--from", "-", "--json"]
    given = server.post("/api/calls", arguments=words, given='{"reason_type": "SCOPE_CREEP"}')
    assert json.loads(given.data["output"]).get("refused") == "invalid_rejection", given


@pytest.mark.parametrize(
    "arguments", [["init"], ["serve"], ["log", "rebuild"], ["keys"], ["hook", "--host", "claude", "Stop"]], ids=" ".join
)  # fmt: skip
def test_what_is_about_a_machine_is_not_run_by_the_server(
    server: RunningServer, arguments: list[str]
) -> None:
    assert server.post("/api/calls", arguments=arguments).status == 400


def test_no_file_of_the_server_is_read(server: RunningServer, place: Repository) -> None:
    (place.path / "secret.txt").write_text("swordfish")
    task = add(server, title="@secret.txt")
    assert server.get("/api/task/show", id=task).data["title"] == "@secret.txt"
    simulated = server.post("/api/calls", arguments=["simulate", "--policy", "secret.txt"])
    assert "swordfish" not in simulated.body.decode()
    assert simulated.data["code"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["graph", "export", "-o", "written.svg"],
        ["graph", "export", "-owritten.svg"],
        ["graph", "export", "--output=written.svg"],
        ["graph", "export", "--outp", "written.svg"],
        ["-C", "/", "graph", "export", "--format", "json", "--output", "written.svg"],
        ["analyze", "rejections", "--plot", "written.svg"],
        ["analyze", "rejections", "--by", "agent", "--plot=written.svg"],
        ["log", "tail", "-f"],
        ["log", "tail", "-fn1"],
    ],
    ids=" ".join,
)
def test_no_command_line_has_a_file_written_on_the_server_or_goes_on_for_good(
    server: RunningServer, place: Repository, arguments: list[str]
) -> None:
    reply = server.post("/api/calls", arguments=arguments)

    assert (reply.status, reply.data.get("code")) in ((400, "bad_request"), (200, 2)), reply
    assert not (place.path / "written.svg").exists()


def test_nobody_gets_in_without_saying_who_it_is(server: RunningServer) -> None:
    described = server.get("/api/openapi.json").data["paths"]
    for headers in (
        {"cookie": ""},
        {"cookie": "remand_session=x"},
        {"cookie": "", "authorization": "Bearer x"},
    ):
        for path, methods in described.items():
            for method in methods:
                reply = server.request(method.upper(), path, headers=headers)
                assert reply.status == 401, (method, path)
                assert reply.data["code"] == "not_authenticated"


def test_the_log_in_link_works_once(server: RunningServer) -> None:
    parts = urlsplit(server.address["login_url"])
    again = server.get(f"{parts.path}?{parts.query}", {"cookie": ""})
    assert again.status == 401
    assert "set-cookie" not in again.headers


def test_local_commands_go_through_the_server(server: RunningServer, place: Repository) -> None:
    assert place.ok("coordinator", "status")["pid"] == server.process.pid
    task = place.add("From the command line")
    assert server.get("/api/task/show", id=task).data["title"] == "From the command line"


def test_one_of_many_gets_a_task(server: RunningServer) -> None:
    task = add(server)

    def claim(number: int) -> int:
        return server.post("/api/task/claim", id=task, agent=("Alice", "Bob")[number % 2]).status

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(claim, range(8))) == 200


def test_nothing_that_is_too_large_is_read(server: RunningServer) -> None:
    reply = server.request("POST", "/api/task/add", b"{" + b" " * (5 << 20))
    assert (reply.status, reply.data["code"]) == (413, "too_large")


def test_health_needs_no_log_in(server: RunningServer) -> None:
    for path in ("/healthz", "/readyz"):
        assert server.get(path, {"cookie": ""}).status == 200


def test_figures_count_requests_by_route_and_hold_nothing_of_them(server: RunningServer) -> None:
    task = add(server, title="A title that nobody else has")
    server.get("/api/task/show", id=task)
    server.get("/api/task/show", id="T-0")
    server.get("/no/such/place")
    text = server.get("/metrics", {"cookie": ""}).body.decode()

    route = 'http_request_method="GET",http_route="/api/task/show",http_response_status_code'
    assert f'http_server_request_duration_seconds_count{{{route}="200"}}' in text
    assert f'http_server_request_duration_seconds_bucket{{{route}="404",le="+Inf"}}' in text
    assert 'http_route="_OTHER",http_response_status_code="404"' in text
    assert 'remand_refusals_total{code="unknown_task"}' in text
    assert task not in text
    assert "/no/such" not in text


def test_figures_need_a_token_where_other_machines_reach_the_server(repository: Repository) -> None:
    token = repository.ok("token", "create", "--member", "user", "--role", "user")["token"]
    server = RunningServer(repository, "--behind-proxy")
    try:
        proxied = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.7"}
        assert server.get("/healthz", proxied).status == 200
        assert server.get("/metrics", proxied).status == 401
        assert server.get("/metrics", proxied | {"authorization": f"Bearer {token}"}).status == 200
    finally:
        server.stop()


def test_traces_go_to_the_collector_that_the_environment_names(repository: Repository) -> None:
    with fake_server(*[lambda _: http_reply(200, b"")] * 20) as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with run_server(repository, env=env) as server:
            trace = "0af7651916cd43dd8448eb211c80319c"
            server.get("/api/task/list", {"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
            server.stop()
    spans = b"".join(request.body for request in collector.requests)
    assert bytes.fromhex(trace) in spans
    assert b"GET /api/task/list" in spans
    assert server.headers["cookie"].partition("=")[2].encode() not in spans
    assert server.address["login_url"].partition("code=")[2].encode() not in spans


def test_it_speaks_tls(repository: Repository) -> None:
    certificate, key = (str(repository.machine.folder / name) for name in ("cert.pem", "key.pem"))
    write_certificate(certificate, key)
    options = ("--tls-cert", certificate, "--tls-key", key)
    with run_server(repository, *options, ca=certificate) as server:
        assert server.address["url"].startswith("https://127.0.0.1:")
        assert server.get("/api/task/list").data == []
        assert "; Secure" in server.first_cookie


def test_a_host_trusts_no_certificate_that_has_expired_and_says_what_to_do(repository: Repository) -> None:
    certificate, key = (str(repository.machine.folder / name) for name in ("cert.pem", "key.pem"))
    write_certificate(certificate, key, days=-0.5)
    with run_server(repository, "--tls-cert", certificate, "--tls-key", key, logs_in=False) as server:
        own = {"REMAND_SERVER": server.address["url"], "REMAND_TOKEN": "t", "REMAND_CA": certificate}
        said = repository.call("task", "list", env=own | {"REMAND_SERVER_WAIT": "0"})
    assert said.code == 3
    assert "has expired" in said.data["message"]
    assert "Renew it" in said.data["message"]


def test_a_port_that_is_none_is_said_in_one_sentence(repository: Repository) -> None:
    said = repository.call("serve", "--port", "99999", "--no-open")
    assert said.code == 3
    assert "0-65535. Choose another --port" in said.data["message"]


def write_certificate(certificate: str, key: str, days: float = 1) -> None:
    """A certificate for this machine that nobody else has signed, and that counts for so many days from now."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    Path(certificate).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    Path(key).write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def test_nothing_secret_is_written_anywhere(repository: Repository) -> None:
    with run_server(repository) as server:
        session = server.headers["cookie"].partition("=")[2]
        code = server.address["login_url"].partition("code=")[2]
        secret = "rmd_20261118-000000-00000000_swordfish"
        replies = [
            server.get("/api/task/show", {"authorization": f"Bearer {secret}", "cookie": ""}, id="T-0"),
            server.get(f"/login?code={secret}", {"cookie": ""}),
            server.get(f"/{secret}"),
            server.request("POST", "/api/task/add", b"{", {"authorization": f"Bearer {secret}"}),
            server.get("/metrics"),
        ]
        out, err = server.stop()
    written = out + err + "".join(f"{reply.headers}{reply.body!r}" for reply in replies)
    for text in (session, code, "swordfish"):
        assert text not in written
    for path in repository.machine.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert session.encode() not in path.read_bytes(), path
            assert code.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("options", [(), ("--behind-proxy",)], ids=["alone", "behind a proxy"])
def test_headers_of_a_proxy_count_only_where_that_was_told(
    repository: Repository, options: tuple[str, ...]
) -> None:
    token = repository.ok("token", "create", "--member", "user")["token"]
    said = {"authorization": f"Bearer {token}", "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.7"}
    with run_server(repository, *options, logs_in=not options) as server:
        own = {} if not options else {"host": "remand.example"}
        opened = server.post("/api/login", said | own)
        assert ("; Secure" in opened.headers["set-cookie"]) is bool(options)


def test_whoever_guesses_through_a_proxy_is_slowed_whatever_address_it_makes_up(
    repository: Repository,
) -> None:
    with run_server(repository, "--behind-proxy", logs_in=False) as server:
        found = set[int]()
        for number in range(10_000):
            if found == {401, 429}:
                break
            made_up = f"198.51.{number // 250}.{number % 250}, 192.0.2.7"
            reply = server.get("/login?code=guess", {"host": "remand.example", "x-forwarded-for": made_up})
            found.add(reply.status)
        assert found == {401, 429}
        other = {"host": "remand.example", "x-forwarded-for": "192.0.2.8"}
        assert server.get("/login?code=guess", other).status == 401


@pytest.mark.parametrize("kind", ["behind a proxy", "for other machines"])
def test_nobody_but_the_user_of_the_machine_gets_a_log_in_link(repository: Repository, kind: str) -> None:
    certificate, key = (str(repository.machine.folder / name) for name in ("cert.pem", "key.pem"))
    write_certificate(certificate, key)
    options = ("--behind-proxy",)
    if kind == "for other machines":
        options = ("--host", "0.0.0.0", "--tls-cert", certificate, "--tls-key", key)
    with run_server(repository, *options, logs_in=False) as server:
        assert server.address["login_url"] is None
        out, err = server.stop()
    assert "code=" not in out + err


def test_it_ends_when_told_and_leaves_the_ledger_to_others(repository: Repository) -> None:
    with run_server(repository) as server:
        task = add(server)
        out, err = server.stop()
    assert server.process.returncode == 0
    assert (out.strip(), err) == ("", "")
    assert repository.ok("task", "show", task)["status"] == "incoming"
    assert repository.socket() == ""
    assert repository.verify() == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/scheduler", b'{"method": "active", "status": "nonsense"}'),
        ("POST", "/api/scheduler", b"[" * 100_000),
        ("GET", "/api/commits/fetch?" + "&".join([f"known={'1' * 40}"] * 80), b""),
        ("POST", "/api/commits", b"[" * 100_000),
        ("POST", "/api/calls", b"[" * 100_000),
        ("POST", "/a2a", b"[" * 100_000),
        ("POST", "/a2a", b'{"a":' * 100_000),
        ("POST", "/a2a", b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": ' + b"[" * 400 + b"]" * 400 + b"}"),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_request_that_does_not_fit_is_no_fault_of_the_server(
    server: RunningServer, method: str, path: str, body: bytes
) -> None:
    reply = server.request(method, path, body, {"content-type": "application/json", "a2a-version": "1.0"})

    assert reply.status < 500, reply
    assert b"-32603" not in reply.body, "an internal error of A2A"


def send_slowly(server: RunningServer, token: str, task: str) -> socket.socket:
    """Begins an upload of a commit, and sends no more than its first byte."""
    parts = urlsplit(server.address["url"])
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)
    head = f"POST /api/commits/upload?task={task}&commit={'a' * 40} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    connection.sendall(f"{head}Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\nx".encode())
    return connection


def test_slow_uploads_of_one_keep_no_other_from_uploading(server: RunningServer, place: Repository) -> None:
    alice, bob = (place.ok("token", "create", "--member", name)["token"] for name in ("Alice", "Bob"))
    tasks = [add(server, title=f"Upload {name}") for name in ("Alice", "Bob")]
    for task, name in zip(tasks, ("Alice", "Bob"), strict=True):
        assert server.post("/api/task/claim", id=task, agent=name).status == 200
    with ExitStack() as held:
        slow = [held.enter_context(send_slowly(server, alice, tasks[0])) for _ in range(5)]
        until, answered = time.monotonic() + PATIENCE, list[socket.socket]()
        while len(answered) < 4 and time.monotonic() < until:
            answered = wait(slow, 0.1)
        assert len(answered) == 4, "one token has more than one place"
        said = [connection.recv(65536) for connection in answered]
        stranger = held.enter_context(send_slowly(server, alice, tasks[1]))
        assert b" 403 " in stranger.recv(65536).partition(b"\r\n")[0], "the task is looked at before the body"
        address = f"/api/commits/upload?task={tasks[1]}&commit={'b' * 40}"
        headers = {"cookie": "", "x-csrf-token": "", "authorization": f"Bearer {bob}"}
        reply = server.request("POST", address, b"no pack", headers)
    assert all(b" 503 " in one.partition(b"\r\n")[0] and b"retry-after: 2" in one for one in said), said
    assert b"under way" not in reply.body, reply
