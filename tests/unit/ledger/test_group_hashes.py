"""Holds that signed groups have hashes of their own, so that forged ones that are much alike are read as fast as others."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.ledger.signatures import EventGroup, GroupedEvent, GroupOrigin

EVENTS = tuple(GroupedEvent(f"{n:032x}", "") for n in range(3))
GROUP = EventGroup(
    ts="2026-11-15T09:00:00.000000Z",
    meta=GroupOrigin(session="s"),
    first=1,
    before="0" * 32,
    events=EVENTS,
    key="0" * 16,
    signature="x",
)


@pytest.mark.parametrize(
    "change",
    [
        {"events": (EVENTS[0], GroupedEvent("f" * 32, ""), EVENTS[2])},
        {"key": "1" * 16},
        {"ts": "2026-11-15T09:00:00.000001Z"},
    ],
)
def test_groups_that_differ_have_different_hashes(change: dict[str, Any]) -> None:
    assert hash(replace(GROUP, **change)) != hash(GROUP)
    assert hash(replace(GROUP)) == hash(GROUP)
