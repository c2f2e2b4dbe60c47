"""Holds which ways there are to leave a task without handing anything in."""

import pytest

from remand.domain import commands as c
from remand.domain.task import Status
from remand.testing.builders import ALICE, BOB, H1, H2, T1, a_claim, a_task
from tests.support.builders import decide_events, refusal_code
from tests.unit.domain.done_claims import Story

HELD_CLAIM = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), attempt_count=1, epoch=1)


@pytest.mark.parametrize("kind", [c.ReleaseTask, c.ContinueTask, c.WaitTask])
def test_each_way_out_is_there_once_per_task_and_agent(kind: type[c.ClaimCommand]) -> None:
    story = Story()
    leaving = kind(task_id=T1, agent="Alice", reason="Because")
    (event,) = story.ask(leaving, ALICE)
    if story.task.claim is None:
        story.ask(c.ClaimTask(task_id=T1, agent="Alice"), ALICE, handoff_id=H2)

    assert refusal_code(story.task, leaving, ALICE) == "exit_used"
    others = [way for way in (c.ReleaseTask, c.ContinueTask, c.WaitTask) if way is not kind]
    for way in others:
        assert decide_events(story.task, way(task_id=T1, agent="Alice", reason="Because"), ALICE)
    assert story.task.claims.exits == (("Alice", event.name),)


@pytest.mark.parametrize("kind", [c.ReleaseTask, c.ContinueTask, c.WaitTask])
def test_one_agents_way_out_is_not_anothers(kind: type[c.ClaimCommand]) -> None:
    story = Story()
    story.ask(kind(task_id=T1, agent="Alice", reason="Because"), ALICE)
    if story.task.claim is not None:
        story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
    story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)

    assert decide_events(story.task, kind(task_id=T1, agent="Bob", reason="Because"), BOB)


def test_nobody_waits_for_what_has_ended() -> None:
    wait = c.WaitTask(task_id=T1, agent="Alice", reason="T-20261115-080000-00000002")

    assert refusal_code(HELD_CLAIM, wait, ALICE, closed_tasks=("T-20261115-080000-00000002",)) == (
        "nothing_to_wait_for"
    )
