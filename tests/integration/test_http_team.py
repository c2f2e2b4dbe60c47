"""Servers of one ledger in PostgreSQL: two answer at one port, and one may end while the other goes on."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.integration.http_client import HttpReply, RunningServer
from tests.integration.machine import PATIENCE, Repository
from tests.support.log_check import log_faults

pytestmark = pytest.mark.more
CLIENTS, RESTARTS = 8, 4
LINES = "SELECT line FROM remand.signed_group UNION ALL SELECT line FROM remand.event"


def test_a_browser_stays_logged_in_when_another_server_takes_over(
    repository: Repository, database: str
) -> None:
    env = {"REMAND_STORE": database}
    first = RunningServer(repository, "--behind-proxy", env=env)
    assert first.address["login_url"] is None
    assert "postgres@" not in first.address["store"]
    browser = {"host": "remand.example"}
    token = bearer(repository, database)
    browser["cookie"] = first.post("/api/login", token | browser).headers["set-cookie"].partition(";")[0]
    browser["x-csrf-token"] = first.get("/api/session", browser).data["csrf"]

    second = follow(first, repository, database)

    second.headers = browser
    changed = second.post("/api/task/add", title="By a browser that the first server logged in")
    assert changed.status == 200, changed
    assert second.post("/api/logout").status == 200
    assert second.get("/api/whoami").status == 401
    second.stop()


def test_servers_that_replace_each_other_under_load_refuse_nothing_and_do_everything_once(
    repository: Repository, database: str
) -> None:
    running = RunningServer(repository, "--behind-proxy", env={"REMAND_STORE": database})
    headers, is_over = bearer(repository, database), threading.Event()
    clients = [Client(running, f"Agent {number}", headers) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(client.work, is_over) for client in clients]
        try:
            for _ in range(RESTARTS):
                wait_for_work(clients)
                running = follow(running, repository, database)
            wait_for_work(clients)
        finally:
            is_over.set()
        for one in working:
            one.result(PATIENCE)
    running.stop()

    answers = [answer for client in clients for answer in client.answers]
    assert [reply for _, reply in answers if reply.status != 200] == []
    with psycopg.connect(database) as connection:
        lines = [bytes(row[0]) for row in connection.execute(LINES)]
    written = Counter(key for line in lines if (key := json.loads(line).get("meta", {}).get("key")))
    assert len(written) == len(answers)
    assert set(written.values()) == {1}
    assert log_faults(lines) == []
    print(f"{len(answers)} commands, {sum(client.cuts for client in clients)} cut off and repeated")


class Client:
    """An agent that adds, claims and releases a task again and again, and repeats under its key what was cut off."""

    def __init__(self, server: RunningServer, name: str, headers: dict[str, str]) -> None:
        self._server, self._name, self._headers = server, name, headers
        self.answers: list[tuple[str, HttpReply]] = []
        self.cuts = 0

    def work(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            added = self._post("/api/task/add", title="Mend the roof")
            task = {"id": added.data["task_id"], "agent": self._name}
            self._post("/api/task/claim", **task)
            self._post("/api/task/release", **task)

    def _post(self, path: str, **values: Any) -> HttpReply:
        key = f"{self._name.replace(' ', '-')}-{len(self.answers)}"
        body, headers = json.dumps(values).encode(), self._headers | {"idempotency-key": key}
        until = time.monotonic() + PATIENCE
        while True:
            try:
                reply = self._server.request("POST", path, body, headers)
                break
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < until, "no server answers"
                self.cuts += 1
        self.answers.append((key, reply))
        return reply


def wait_for_work(clients: list[Client]) -> None:
    """Waits until everybody has been answered some times more."""
    wanted = [len(client.answers) + 5 for client in clients]
    until = time.monotonic() + PATIENCE
    while any(len(client.answers) < many for client, many in zip(clients, wanted, strict=True)):
        assert time.monotonic() < until, "nobody goes on"
        time.sleep(0.05)


def bearer(repository: Repository, database: str) -> dict[str, str]:
    words = ("token", "create", "--member", "user", "--role", "user")
    return {"authorization": f"Bearer {repository.ok(*words, env={'REMAND_STORE': database})['token']}"}


def follow(running: RunningServer, repository: Repository, database: str) -> RunningServer:
    """Starts another server that listens at the same port, and has the first one end."""
    port = str(urlsplit(running.address["url"]).port)
    following = RunningServer(repository, "--port", port, "--behind-proxy", env={"REMAND_STORE": database})
    running.stop()
    return following
