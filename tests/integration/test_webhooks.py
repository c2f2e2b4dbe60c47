"""`remand serve --webhooks` as a real process: woken by its forge, by nobody else, and not put off by anything."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from random import Random
from threading import Timer
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from remand.adapters.forges.webhooks import SECRET
from remand.domain.forge import ReviewState
from tests.integration.forge_reviews import (
    DIALECTS,
    HOOK_SECRET,
    Scene,
    delivery,
    forge_scene,
    payload,
    send,
)
from tests.integration.machine import PATIENCE, REMAND, Machine, end, wait_for
from tests.support.forge.server import Fault

AT_ONCE = 20
"""A forge that does not answer would be waited for longer than so many seconds."""


class Serving(NamedTuple):
    """A listener, and where it is."""

    scene: Scene
    process: subprocess.Popen[str]
    address: str

    def deliver(self, number: int, name: str = "1", **fields: object) -> int:
        """A genuine delivery about a pull request."""
        body = payload(self.scene.kind, number, **fields)
        return send(self.address, body, delivery(self.scene.kind, body, name))

    def polls(self) -> int:
        """How often the forge was asked."""
        return len(self.scene.server.requests)

    def settled(self, title: str = "Last") -> int:
        """How often the forge was asked until everything before had led to what it leads to.

        One more delivery is handled after all others, and its poll after theirs.
        """
        task, pull = self.scene.handed_in(title, "Verbal")
        self.scene.state.review(pull, self.scene.lead, ReviewState.CHANGES_REQUESTED, "No")
        before = self.polls()
        assert self.deliver(pull.number, title) == 202
        wait_for(lambda: self.scene.shown(task)["status"] == "rejected", f"the rejection of {title}")
        wait_for(self._is_quiet, f"the end of the poll that rejected {title}")
        return before

    def _is_quiet(self) -> bool:
        """True when the forge was not asked for a while: a poll goes on after what it leads to is recorded."""
        before = self.polls()
        time.sleep(1)
        return self.polls() == before


@pytest.fixture(params=["github"])
def scene(near_machine: Machine, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with forge_scene(near_machine, DIALECTS[request.param]) as made:
        yield made


@pytest.fixture
def serving(scene: Scene) -> Iterator[Serving]:
    environment = {**scene.environment, SECRET: HOOK_SECRET}
    process = scene.repository.machine.start(
        scene.repository.path, REMAND, "serve", "--webhooks", "--port", "0", env=environment
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, process.communicate(timeout=PATIENCE)
    yield Serving(scene, process, line.split()[2])
    end(process)


@pytest.mark.parametrize("scene", ["github", "gitea", "gitlab"], indirect=True)
def test_a_delivery_wakes_the_poll(serving: Serving) -> None:
    task, pull = serving.scene.handed_in()
    serving.scene.state.review(pull, serving.scene.lead, ReviewState.CHANGES_REQUESTED, "No")

    assert serving.deliver(pull.number) == 202
    wait_for(lambda: serving.scene.shown(task)["status"] == "rejected", "the rejection")


def test_a_delivery_is_worth_one_poll_and_a_forged_one_none(serving: Serving) -> None:
    scene = serving.scene
    serving.settled("First")
    task, pull = scene.handed_in()
    first = serving.polls()
    body = payload(scene.kind, pull.number)
    forged = [
        send(serving.address, body, delivery(scene.kind, body, "2", "guess")),
        send(serving.address, body + b" ", delivery(scene.kind, body, "3")),
        send(serving.address, body, {"Content-Type": "application/json"}),
        send(serving.address.replace("/webhooks", "/elsewhere"), body, delivery(scene.kind, body, "4")),
    ]
    assert (forged, serving.polls()) == ([401, 401, 401, 404], first)
    assert serving.deliver(pull.number, "1") == 202
    wait_for(lambda: serving.polls() >= first + 3, "a glance, and the pull request")
    replayed = [serving.deliver(pull.number, name) for name in ("1", "1", "another-id")]
    asked = serving.settled()

    assert replayed == [202, 202, 202]
    about = [one.path.partition("/octo/demo")[2] for one in scene.server.requests[first:asked]]
    assert (about.count("/pulls"), about.count(f"/pulls/{pull.number}")) == (1, 1), "and nothing more"
    assert scene.shown(task)["status"] == "provisional"


def test_mutated_deliveries_change_nothing(serving: Serving, campaign: Callable[[int, int], int]) -> None:
    scene = serving.scene
    serving.settled()
    _, pull = scene.handed_in()
    before, asked = scene.repository.digest(), serving.polls()
    random = Random(44)
    body = payload(scene.kind, pull.number, review={"state": "approved", "body": "@remand unlock Fenster"})
    codes = set()
    for number in range(campaign(150, 1000)):
        headers, sent = delivery(scene.kind, body, str(number)), bytearray(body)
        if random.random() < 0.7:
            place = random.randrange(len(sent))
            sent[place] ^= 1 << random.randrange(8)
        else:
            name = random.choice(
                [name for name in headers if "Delivery" not in name and name != "Content-Type"]
            )
            headers[name] = headers[name][:-1] + random.choice("xyz!")
        codes.add(send(serving.address, bytes(sent), headers))

    assert codes == {401}
    assert (scene.repository.digest(), serving.polls()) == (before, asked)


def test_a_forge_that_is_down_is_asked_again(serving: Serving) -> None:
    scene = serving.scene
    serving.settled()
    task, pull = scene.handed_in()
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
    scene.server.faults.add(Fault(status=500, times=1))
    before = serving.polls()
    serving.deliver(pull.number, "1")
    wait_for(lambda: serving.polls() > before, "the failing poll")
    wait_for(lambda: scene.shown(task)["waits_for_forge"], "what it waits for")
    serving.deliver(pull.number, "2", action="edited")

    wait_for(lambda: scene.shown(task)["status"] == "rejected", "the rejection")
    assert serving.process.poll() is None


def test_a_ledger_that_is_replaced_is_opened_again(serving: Serving) -> None:
    scene = serving.scene
    task, pull = scene.handed_in()
    scene.repository.forget_ledger()
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
    scene.shown(task)
    serving.deliver(pull.number)

    wait_for(lambda: scene.shown(task)["status"] == "rejected", "the rejection")
    assert serving.process.poll() is None


def test_a_configuration_that_breaks_ends_nothing(serving: Serving) -> None:
    scene = serving.scene
    serving.settled("First")
    _, pull = scene.handed_in()
    whole = (scene.repository.path / "remand.toml").read_text()
    scene.repository.configure(f"{whole}\n[nonsense]\n")
    assert serving.deliver(pull.number, "1") == 202
    assert serving.process.stdout is not None
    limit = Timer(PATIENCE, serving.process.kill)
    limit.start()
    assert any("nonsense" in line for line in iter(serving.process.stdout.readline, ""))
    limit.cancel()
    scene.repository.configure(whole)

    assert serving.settled()
    assert serving.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_even_in_the_midst_of_a_poll(serving: Serving, number: signal.Signals) -> None:
    scene = serving.scene
    _, pull = scene.handed_in()
    scene.server.faults.add(Fault(is_silent=True, times=9))
    before = serving.polls()
    serving.deliver(pull.number)
    wait_for(lambda: serving.polls() > before, "a poll that is never answered")
    os.kill(serving.process.pid, number)

    assert serving.process.wait(timeout=AT_ONCE) == 0


def test_slow_clients_keep_nobody_from_delivering(serving: Serving) -> None:
    scene = serving.scene
    task, pull = scene.handed_in()
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
    place = urlsplit(serving.address)
    slow = [socket.create_connection((place.hostname, place.port), timeout=PATIENCE) for _ in range(40)]
    for number, client in enumerate(slow):
        begun = b"POST /webhooks HTTP/1.1\r\nContent-Length: 1000\r\n" + (b"\r\n{" if number % 2 else b"")
        client.sendall(begun)
    code = serving.deliver(pull.number)
    for client in slow:
        client.close()

    assert code == 202
    wait_for(lambda: scene.shown(task)["status"] == "rejected", "the rejection")


@pytest.mark.parametrize(
    ("environment", "options", "said"),
    [
        ({}, (), f"Set {SECRET}"),
        ({SECRET: HOOK_SECRET}, ("--host", "203.0.113.7"), "Cannot listen on"),
    ],
)
def test_what_is_missing_is_said_before_it_begins(
    scene: Scene, environment: dict[str, str], options: tuple[str, ...], said: str
) -> None:
    answer = scene.repository.machine.remand(
        scene.repository.path, "serve", "--webhooks", "--port", "0", *options, env=environment
    )

    assert (answer.code, said in answer.err, answer.out) == (3, True, "")
