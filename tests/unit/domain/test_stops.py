"""Holds what a stop means, and that stops with nothing to measure are counted in the ledger, in a row."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.decisions.claims import StopMeaning, StopState, stop_meaning
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.work import IdleStopCounted
from remand.domain.task import Status
from remand.testing.builders import ALICE, BOB, H1, H2, SHA, T1, a_claim, a_task
from tests.unit.domain.done_claims import Story, failed, names, recording

BASE = "b" * 40
HELD_TASK = a_task(
    status=Status.CLAIMED, claim=replace(a_claim("Alice", H1), base=BASE), attempt_count=1, epoch=1
)


@pytest.mark.parametrize(
    ("stop", "meaning"),
    [
        (StopState(), StopMeaning.NOTHING_COMMITTED),
        (StopState(commit=BASE), StopMeaning.NOTHING_COMMITTED),
        (StopState(commit=SHA), StopMeaning.DONE_CLAIM),
        (StopState(commit=SHA, agent="Alice"), StopMeaning.DONE_CLAIM),
        (StopState(commit=SHA, uncommitted=("a.py",)), StopMeaning.UNCOMMITTED),
        (StopState(commit=SHA, uncommitted=("a.py",), has_fault=True), StopMeaning.FAULT),
        (StopState(commit=SHA, has_background_work=True), StopMeaning.END),
        (StopState(commit=SHA, has_background_work=True, is_unreadable=True), StopMeaning.UNREADABLE),
        (StopState(commit=SHA, is_unreadable=True, agent="Bob"), StopMeaning.END),
    ],
    ids=str,
)
def test_what_a_stop_means(stop: StopState, meaning: StopMeaning) -> None:
    assert stop_meaning(HELD_TASK, stop) == meaning


@pytest.mark.parametrize(
    "task", [None, a_task(), a_task(status=Status.ESCALATED)], ids=["none", "free", "asked"]
)
def test_who_holds_no_task_may_stop(task: Any) -> None:
    assert stop_meaning(task, StopState(uncommitted=("a.py",))) == StopMeaning.END


def test_who_waits_may_stop_once() -> None:
    story = Story()
    story.ask(c.WaitTask(task_id=T1, agent="Alice", reason="the key from ops"), ALICE)

    assert stop_meaning(story.task, StopState()) == StopMeaning.WAIT
    assert stop_meaning(story.task, StopState(has_waited=True)) == StopMeaning.NOTHING_COMMITTED


def idle(story: Story, key: str, limit: int = 3, handoff: str = H1, reason: str = "") -> tuple[Event, ...]:
    ask = c.CountIdleStop(task_id=T1, handoff_id=handoff, key=key, reason=reason)
    return story.ask(ask, escalate_after_gates=limit)


def test_an_idle_stop_is_an_event_of_the_claim() -> None:
    story = Story()

    (event,) = idle(story, "s1")

    assert isinstance(event, IdleStopCounted)
    assert (event.handoff_id, event.agent, event.number, event.key) == (H1, "Alice", 1, "s1")
    assert story.task.status == Status.CLAIMED
    assert story.task.claim is not None
    assert (story.task.claim.idle_stops, story.task.claim.idle_key) == (1, "s1")


def test_the_last_idle_stop_that_the_policy_allows_asks_the_user() -> None:
    story = Story()
    idle(story, "s1")
    idle(story, "s2")

    counted, asked = idle(story, "s3", reason="Commit them.")

    assert isinstance(counted, IdleStopCounted)
    assert isinstance(asked, EscalationOpened)
    assert asked.kind == "gates"
    assert asked.reason == "Alice stopped 3 times with nothing to measure: Commit them."
    assert (story.task.status, story.task.claim) == (Status.ESCALATED, None)


def test_a_stop_that_is_reported_again_is_the_same_stop() -> None:
    story = Story()
    idle(story, "s1")

    assert idle(story, "s1") == ()
    assert names(idle(story, "s2")) == ["task.idle"]


def test_stops_without_a_name_count_each() -> None:
    story = Story()
    idle(story, "")

    assert names(idle(story, "", limit=2)) == ["task.idle", "escalation.open"]


def test_what_is_measured_ends_the_row() -> None:
    story = Story()
    idle(story, "s1")
    idle(story, "s2")
    story.ask(recording(failed(3)))

    assert names(idle(story, "s3")) == ["task.idle"]
    assert story.task.claim is not None
    assert story.task.claim.idle_stops == 1


def test_another_claim_starts_at_nought_and_has_no_part_in_the_stops_of_the_one_before() -> None:
    story = Story()
    idle(story, "s1")
    story.ask(c.ReleaseTask(task_id=T1, agent="Alice", reason="Because"), ALICE)
    assert idle(story, "s2") == ()
    story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)

    assert idle(story, "s3", handoff=H1) == ()
    assert names(idle(story, "s4", handoff=H2)) == ["task.idle"]
    assert story.task.claim is not None
    assert story.task.claim.idle_stops == 1
