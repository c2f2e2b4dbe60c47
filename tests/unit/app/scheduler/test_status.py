"""Holds that what a scheduler says of itself comes back as it was, and that nothing else is taken for it."""

import msgspec
import pytest

from remand.app.scheduler.ports import (
    MAX_SIZE,
    ActiveAgent,
    ActiveMeasurement,
    BreachStatus,
    SchedulerStatus,
    decode_status,
    encode_status,
)
from remand.testing.builders import LATER, NOW, T1

STATUS = SchedulerStatus(
    pid=4711,
    started_at=NOW,
    tick_at=LATER,
    tier="bubblewrap",
    breaker=(BreachStatus(cause="disk", message="full", since=NOW, until=LATER),),
    waiting="ten submissions wait for review",
    forge="it does not answer",
    agents=(
        ActiveAgent(run_id="R", task_id=T1, agent="Alice", purpose="work", started_at=NOW, last_line="…"),
    ),
    gates=(ActiveMeasurement(task_id=T1, agent="Alice", started_at=NOW),),
)


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(STATUS) | fields)


def test_a_status_comes_back_as_it_was() -> None:
    assert decode_status(encode_status(STATUS)) == STATUS
    assert decode_status(changed(of_a_newer_version=1)) == STATUS


HOSTILE = {
    "nothing": b"",
    "bytes": b"\x00\xff",
    "a list": b"[]",
    "no fields": b"{}",
    "torn": encode_status(STATUS)[:-5],
    "nested": b'{"pid":' + b"[" * 5000,
    "every process of ours": changed(pid=0),
    "every process": changed(pid=-1),
    "the first process": changed(pid=1),
    "no process": changed(pid=1 << 40),
    "a word": changed(pid="4711"),
    "no time": changed(tick_at="yesterday"),
    "half a time": changed(started_at="2026-11-15"),
    "a breach without a time": changed(breaker=[{"cause": "x", "message": "y", "since": "z"}]),
    "an agent without a time": changed(
        agents=[{"run_id": "R", "task_id": T1, "agent": "A", "purpose": "work", "started_at": ""}]
    ),
    "a text for a list": changed(gates="none"),
    "too much": encode_status(STATUS) + b" " * MAX_SIZE,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_torn_hostile_or_no_status_is_none(what: str) -> None:
    assert decode_status(HOSTILE[what]) is None
