"""Stops of a session on a host, whose server has its ledger in PostgreSQL and leaves the gates to workers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest

from remand.adapters.git.location import find_place
from remand.wiring.ledger import open_at
from tests.integration.http_client import RunningServer
from tests.integration.machine import Machine, end
from tests.integration.server_hosts import ServerHost, user_token
from tests.integration.test_worker import VERDICTS, Team


@pytest.fixture
def team(database: str) -> Iterator[Callable[..., Team]]:
    with ExitStack() as closing:

        def make(**options: Any) -> Team:
            made = Team(database, 2, **options)
            closing.callback(made.close)
            return made

        yield make


def test_a_stop_is_measured_by_a_worker_and_the_server_starts_no_run_of_its_own(
    team: Callable[..., Team],
) -> None:
    made = team(command="sleep 1")
    first = made.hosts[0]
    token = user_token(first)
    server = RunningServer(first, "--store", made.database, env={"REMAND_STORE": ""})
    host = ServerHost(made.origin, server.address["url"], token)
    worker = made.worker(1)
    try:
        task = host.call("task", "add", "stops").data["task_id"]
        host.call("task", "claim", task, "--agent", "Alice")
        host.commit("work", "a.txt")
        allowed = host.stop(task, "Alice")
        time.sleep(2)  # a second run would record its verdict by now
    finally:
        host.close()
        end(worker)
        server.stop()

    assert '"block"' not in allowed.out, allowed
    assert len(made.events(*VERDICTS)) == 1
    assert not list(first.machine.folder.rglob("gates/runs/*")), "a run in the background"
    assert not (first.path / ".got" / "ledger.db").exists()


def test_a_stop_is_told_to_wait_while_there_is_no_worker(team: Callable[..., Team]) -> None:
    made = team()
    first = made.hosts[0]
    token = user_token(first)
    server = RunningServer(first, "--store", made.database, env={"REMAND_STORE": ""})
    host = ServerHost(made.origin, server.address["url"], token)
    host.machine.environment["REMAND_HOOK_DEADLINE"] = "5"
    try:
        task = host.call("task", "add", "stops").data["task_id"]
        host.call("task", "claim", task, "--agent", "Alice")
        host.commit("work", "a.txt")
        answers = [json.loads(host.stop(task, "Alice").out) for _ in range(2)]
        shown = host.call("task", "show", task).data
    finally:
        host.close()
        server.stop()

    assert ["still running" in answer["reason"] for answer in answers] == [True, True], answers
    assert shown["status"] == "claimed"


def test_a_stop_beside_the_database_is_measured_by_a_worker_in_the_same_ledger(
    team: Callable[..., Team],
) -> None:
    made = team()
    first = made.hosts[0]
    task, _ = made.work()
    worker = made.worker(1)
    payload = {"session_id": "s-1", "cwd": str(first.path), "hook_event_name": "Stop"}
    try:
        allowed = first.machine.remand(
            first.path,
            *("hook", "--host", "claude", "Stop"),
            stdin=json.dumps(payload),
            env={"REMAND_TASK": task, "REMAND_ACTOR": "Alice"},
        )
    finally:
        end(worker)

    assert '"block"' not in allowed.out, allowed
    assert len(made.events(*VERDICTS)) == 1
    assert not (first.path / ".got" / "ledger.db").exists()


def test_a_process_for_a_ledger_is_given_its_database(database: str, near_machine: Machine) -> None:
    place = near_machine.repository()
    with patch.dict(os.environ, near_machine.environment | {"REMAND_TASK": "T-1"}):
        theirs = open_at(find_place(str(place.path)), store_url=database)
        own = open_at(find_place(str(place.path)), store_url="")
        try:
            assert theirs.process_environment["REMAND_STORE"] == database
            assert not [name for name in own.process_environment if name.startswith("REMAND_")]
            assert "REMAND_TASK" not in theirs.process_environment
        finally:
            for opened in (theirs, own):
                opened.store.close()
                opened.ledger.close()
