"""What a host does with a server that answers, goes away, refuses, or is not one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remand.adapters.server import client
from remand.adapters.server.client import CallDenied, ServerClient, ServerUnavailable, UnusableServer
from tests.integration.fake_server import FakeServer, Reply, fake_server, http

TOKEN = "rmd_" + "x" * 32


def _answer(output: str = "done\n", code: int = 0) -> Reply:
    body = json.dumps({"code": code, "output": output, "errors": ""}).encode()
    return lambda _: http(200, body)


def _lose(_: bytes) -> None:
    return None


def _client(server: FakeServer) -> ServerClient:
    return ServerClient({"REMAND_SERVER": server.url, "REMAND_TOKEN": TOKEN})


def _run(server: FakeServer, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A call of the command line on a host of the server."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
    return subprocess.run(
        [sys.executable, "-P", "-m", "remand.interfaces.cli.entry", *arguments],
        env=given | {"REMAND_SERVER": server.url, "REMAND_TOKEN": TOKEN} | environment,
        input="",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_call_goes_to_the_server_with_token_and_key_and_its_answer_is_printed() -> None:
    with fake_server(_answer('{"task_id": "T-1"}\n', code=1)) as server:
        found = _run(server, "--json", "task", "add", "a title", "--as", "Ann", "-C", "/", REMAND_ACTOR="Bob")
    assert (found.returncode, found.stdout) == (1, '{"task_id": "T-1"}\n')
    (request,) = server.requests
    sent = json.loads(request.body)
    assert request.head.startswith("POST /api/calls HTTP/1.1\r\n")
    assert request.header("Authorization") == f"Bearer {TOKEN}"
    key = request.header("Idempotency-Key")
    assert sent["arguments"] == ["--key", key, "--as", "Ann", "--json", "task", "add", "a title"]
    assert sent["settings"]["REMAND_ACTOR"] == "Bob"


def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    with fake_server(_lose, _lose, _answer()) as server:
        found = _run(server, "task", "claim", "--agent", "Ann")
    assert (found.returncode, found.stdout) == (0, "done\n")
    first, *others = server.requests
    assert first.header("Idempotency-Key").startswith("cli-")
    assert [one.body for one in others] == [first.body, first.body]
    assert len({one.header("Idempotency-Key") for one in server.requests}) == 1
    assert found.stderr.count("the server cannot be reached") == 1
    assert "Running work continues" in found.stderr


def test_a_server_that_stays_away_is_an_environment_error_that_names_the_key() -> None:
    with fake_server() as server:
        server.close()
        found = _run(
            server, "--json", "--key", "k-1", "task", "claim", "--agent", "A", REMAND_SERVER_WAIT="0.3"
        )
    said = json.loads(found.stdout)
    assert (found.returncode, said["error"]) == (3, "environment")
    assert "The server cannot be reached" in said["message"]
    assert "--key k-1" in said["message"]


def test_a_value_that_is_a_file_here_is_sent_as_its_text(tmp_path: Path) -> None:
    (tmp_path / "scope.txt").write_text("only this")
    (tmp_path / "policy.toml").write_text("[policy]\n")
    with fake_server(_answer(), _answer()) as server:
        _run(server, "task", "add", "title", "--scope", f"@{tmp_path}/scope.txt")
        _run(server, "simulate", "--policy", f"{tmp_path}/policy.toml")
    first, second = (json.loads(one.body) for one in server.requests)
    assert first["arguments"][-1] == "only this"
    assert (second["arguments"][-2:], second["given"]) == (["--policy", "-"], "[policy]\n")


def test_a_graph_is_written_to_a_file_of_this_machine(tmp_path: Path) -> None:
    with fake_server(_answer("graph TD\n"), _answer('{"format": "dot", "text": "digraph"}')) as server:
        plain = _run(server, "graph", "export", "-o", f"{tmp_path}/a")
        as_json = _run(server, "--json", "graph", "export", "--format=dot", f"--output={tmp_path}/b")
    assert plain.stdout == f"written to {tmp_path}/a\n"
    assert json.loads(as_json.stdout) == {"format": "dot", "file": f"{tmp_path}/b"}
    assert [(tmp_path / name).read_text() for name in "ab"] == ["graph TD\n", "digraph"]
    assert all("output" not in one.body.decode() for one in server.requests)


def test_what_is_about_this_machine_is_not_sent() -> None:
    with fake_server() as server:
        assert _run(server, "--version").stdout.startswith("remand ")
        assert "usage" in _run(server, "task", "claim", "--help").stdout.lower()
        refused = _run(server, "top")
    assert (refused.returncode, server.requests) == (3, [])
    assert "dashboard" in refused.stderr


def test_a_refusal_of_the_token_reads_as_one_of_the_rules() -> None:
    problem = b'{"type": "about:blank", "status": 401, "code": "not_authenticated", "detail": "Expired."}'
    with fake_server(lambda _: http(401, problem), lambda _: http(401, problem)) as server:
        as_json, plain = _run(server, "--json", "task", "list"), _run(server, "task", "list")
    assert as_json.returncode == plain.returncode == 1
    assert json.loads(as_json.stdout) == {"refused": "not_authenticated", "message": "Expired."}
    assert plain.stderr == "refused (not_authenticated): Expired.\n"
    assert TOKEN not in as_json.stdout + plain.stderr


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_not_ready_is_away(status: int) -> None:
    with fake_server(lambda _: http(status, b"{}")) as server, pytest.raises(ServerUnavailable):
        _client(server).call({}, "k", patience=5)


def test_an_answer_that_is_cut_off_is_a_lost_one() -> None:
    whole = http(200, b'{"code": 0, "output": "x", "errors": ""}')
    for cut in (whole[:-1], whole[:20], b"", b"HTTP/1.1 200 OK\r\n\r\n{}", b"nonsense\r\n\r\n"):
        with fake_server(lambda _, cut=cut: cut) as server, pytest.raises(ServerUnavailable):
            _client(server).call({}, "k", patience=5)


def test_an_answer_in_chunks_is_read() -> None:
    body = b'{"code": 4, "output": "x", "errors": "y"}'
    chunks = b"%x\r\n%b\r\n%x;a=b\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    with fake_server(lambda _: answer) as server:
        assert _client(server).call({}, "k", patience=5) == (4, b"x", b"y")


def test_a_denied_call_is_told_from_a_server_that_is_away() -> None:
    reply = http(413, b'{"code": "too_large", "title": "Too large"}')
    with fake_server(lambda _: reply) as server, pytest.raises(CallDenied) as denied:
        _client(server).call({}, "k", patience=5)
    assert (denied.value.code, str(denied.value)) == ("too_large", "Too large")


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "http://10.0.0.1:80", "http://127.0.0.1.evil.org", "http://127.1.evil.org:1"],
)
def test_no_token_is_sent_to_another_machine_in_the_clear(url: str) -> None:
    with pytest.raises(UnusableServer, match="plain HTTP to another machine"):
        ServerClient({"REMAND_SERVER": url, "REMAND_TOKEN": TOKEN})


@pytest.mark.parametrize(
    "url", ["ftp://host", "https://", "https://user@host", "https://host:x", "https://host?x", "host"]
)
def test_what_is_no_address_is_not_guessed_at(url: str) -> None:
    with pytest.raises(UnusableServer, match="not an address"):
        ServerClient({"REMAND_SERVER": url, "REMAND_TOKEN": TOKEN})


def test_a_token_file_is_read_unless_others_can_read_it_too(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    with fake_server(_answer()) as server:
        given = {"REMAND_SERVER": server.url, "REMAND_TOKEN_FILE": str(path)}
        ServerClient(given).call({}, "k", patience=5)
        assert server.requests[0].header("Authorization") == f"Bearer {TOKEN}"
        path.chmod(0o640)
        with pytest.raises(UnusableServer, match="chmod 600"):
            ServerClient(given)
        path.unlink()
        with pytest.raises(UnusableServer, match="cannot be read"):
            ServerClient(given)
        with pytest.raises(UnusableServer, match="token create"):
            ServerClient({"REMAND_SERVER": server.url})


def test_whoever_waits_is_told_once_and_gives_up_in_time() -> None:
    told: list[object] = []

    def call() -> None:
        raise ServerUnavailable("away")

    with pytest.raises(ServerUnavailable):
        client.retry_while_unavailable(call, 0.5, told.append)
    assert len(told) == 1
    with pytest.raises(ServerUnavailable):
        client.retry_while_unavailable(call, 0.0, told.append)
    assert len(told) == 1


@pytest.mark.parametrize(
    "key", ["x\r\nTransfer-Encoding: chunked\r\n\r\n0", "a\nb", "a\rb", "a\0b", "a\tb", "\u00e9"]
)
def test_no_key_or_header_or_path_makes_another_request_of_a_call(key: str) -> None:
    with fake_server(_answer()) as server:
        own = _client(server)
        with pytest.raises(CallDenied) as denied:
            own.call({"arguments": []}, key, patience=5)
        assert denied.value.code == "bad_value"
        with pytest.raises(CallDenied):
            own.request("GET", "/api/x", patience=5, headers=(("X-Name", key),))
        with pytest.raises(CallDenied):
            own.request("GET", f"/api/x?name={key}", patience=5)
        with pytest.raises(UnusableServer):
            ServerClient({"REMAND_SERVER": server.url, "REMAND_TOKEN": TOKEN + key})
    assert server.requests == []
