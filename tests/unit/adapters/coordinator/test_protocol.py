"""Calls on their way through a socket arrive as they were sent, and what is none is noticed."""

from __future__ import annotations

import pytest

from remand.adapters.coordinator import protocol

SETTINGS = ["Alice", "T-1", ""]
ARGUMENTS = ["task", "wait", "T-1", "--for", "a\nletter ü \udcff", ""]


@pytest.mark.parametrize("given", [b"", b"{}", b"\0\0with\0zeros"])
def test_a_call_arrives_with_what_it_brings_along(given: bytes) -> None:
    frame = protocol.pack_call("/here", SETTINGS, ARGUMENTS, given)
    found = protocol.unpack(frame)
    assert found is not None
    assert protocol.unpack_call_with_input(*found[:2]) == ("/here", SETTINGS, ARGUMENTS, given)
    assert found[2] == len(frame)


def test_a_call_that_brings_nothing_is_one_that_every_coordinator_knows() -> None:
    kind, payload, _ = protocol.unpack(protocol.pack_call("/here", SETTINGS, ARGUMENTS)) or (b"", b"", 0)
    assert kind == protocol.CALL
    assert protocol.unpack_call(payload) == ("/here", SETTINGS, ARGUMENTS)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (protocol.ASKS, b"[]"),
        (protocol.CALL, b""),
        (protocol.CALL_WITH_INPUT, b""),
        (protocol.CALL_WITH_INPUT, b"\xff\xff\xff\xffx"),
        (protocol.CALL_WITH_INPUT, b"\0\0\0\0"),
        (protocol.CALL, b"\0" * (protocol.MAX_TEXTS + 1)),
        (b"?", b"anything"),
    ],
)
def test_what_is_no_call_is_not_taken_for_one(kind: bytes, payload: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        protocol.unpack_call_with_input(kind, payload)
