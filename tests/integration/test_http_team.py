"""Servers of one ledger in PostgreSQL: two answer at one port, and one may end while the other goes on."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.integration.http_client import RunningServer
from tests.integration.machine import Repository

pytestmark = pytest.mark.more


def test_two_servers_of_one_database_replace_each_other_without_a_lost_command(
    repository: Repository, database: str
) -> None:
    env = {"REMAND_STORE": database}
    token = repository.ok("token", "create", "--member", "user", "--role", "user", env=env)["token"]
    first = RunningServer(repository, "--behind-proxy", env=env)
    assert first.address["login_url"] is None
    assert "postgres@" not in first.address["store"]
    port = str(urlsplit(first.address["url"]).port)
    headers = {"authorization": f"Bearer {token}"}
    browser = {"host": "remand.example"}
    browser["cookie"] = first.post("/api/login", headers | browser).headers["set-cookie"].partition(";")[0]
    browser["x-csrf-token"] = first.get("/api/session", browser).data["csrf"]
    running, added = first, []
    for number in range(30):
        if number % 10 == 5:
            # A second one listens at the same port before the first is told to stop.
            following = RunningServer(repository, "--port", port, "--behind-proxy", env=env)
            running.stop()
            running = following
        added.append(add(running, number, headers))
    running.headers = headers
    rows = running.get("/api/task/list").data
    running.headers = browser
    changed = running.post("/api/task/add", title="By a browser that the first server logged in")
    assert changed.status == 200, changed
    assert running.post("/api/logout").status == 200
    assert running.get("/api/whoami").status == 401
    running.stop()
    assert sorted(row["task_id"] for row in rows) == sorted(added)


def add(server: RunningServer, number: int, headers: dict[str, str]) -> str:
    """Adds a task, again under its key when the connection was cut."""
    body = json.dumps({"title": f"Task {number}"}).encode()
    for _ in range(5):
        try:
            reply = server.request("POST", "/api/task/add", body, headers | {"idempotency-key": f"k{number}"})
        except (OSError, http.client.HTTPException):
            continue
        assert reply.status == 200, reply
        return str(reply.data["task_id"])
    raise AssertionError("no answer")
