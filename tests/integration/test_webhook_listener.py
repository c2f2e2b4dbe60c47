"""The listener for webhooks gives every client its time, and no more, and has room for a few at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from urllib.parse import urlsplit

import pytest

from remand.adapters.forges import webhooks
from tests.integration.forge_reviews import HOOK_SECRET, delivery, payload, send
from tests.integration.machine import PATIENCE


@pytest.fixture
def woken() -> SimpleQueue[int]:
    return SimpleQueue()


@pytest.fixture
def address(woken: SimpleQueue[int]) -> Iterator[tuple[str, int]]:
    """A listener as users have it."""
    made = webhooks.WebhookListener(
        "127.0.0.1", 0, kind="github", repository="octo/demo", secret=HOOK_SECRET, wake=woken.put
    )
    made.start()
    yield "127.0.0.1", urlsplit(made.address).port
    made.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives listeners little patience and room for two."""
    monkeypatch.setattr(webhooks, "SECONDS", 0.2)
    monkeypatch.setattr(webhooks, "AT_ONCE", 2)


def is_ended(client: socket.socket) -> bool:
    """True when the other side has closed."""
    with suppress(ConnectionError):
        return client.recv(1000) == b""
    return True


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("begun", [b"POST /web", b"POST /webhooks HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"])
def test_who_drips_is_cut_off_in_the_end(address: tuple[str, int], begun: bytes) -> None:
    with socket.create_connection(address, timeout=PATIENCE) as client:
        client.sendall(begun)

        assert is_ended(client)


@pytest.mark.usefixtures("hasty")
def test_when_there_is_no_room_nobody_is_kept_waiting(
    address: tuple[str, int], woken: SimpleQueue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [socket.create_connection(address, timeout=PATIENCE) for _ in range(2)]
    with socket.create_connection(address, timeout=PATIENCE) as third:
        assert is_ended(third)
    assert all(map(is_ended, held)), "their time is over"
    for client in held:
        client.close()
    monkeypatch.setattr(webhooks, "SECONDS", PATIENCE)
    body = payload("github", 7)

    assert send(f"http://127.0.0.1:{address[1]}/webhooks", body, delivery("github", body)) == 202
    assert woken.get(timeout=PATIENCE) == 7


def test_only_its_own_repository_and_a_new_delivery_wake(
    address: tuple[str, int], woken: SimpleQueue[int]
) -> None:
    url = f"http://127.0.0.1:{address[1]}/webhooks"
    bodies = {
        "1": payload("github", 7),
        "2": payload("github", 8, repository={"full_name": "octo/other"}),
        "3": payload("github", 9, repository={"full_name": "Octo/Demo"}),
    }
    sent = [("1", "1"), ("1", "1"), ("2", "2"), ("4", "1"), ("1", "3"), ("3", "3")]
    codes = {send(url, bodies[body], delivery("github", bodies[body], name)) for name, body in sent}

    assert codes == {202}
    assert [woken.get(timeout=PATIENCE) for _ in range(woken.qsize())] == [7]
