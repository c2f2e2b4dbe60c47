"""What reviews cost, against a history counted by hand."""

from __future__ import annotations

import pytest

from remand.app.analysis.rework import Rework, measure_rework, read_rework
from remand.app.events.task_folds import task_events
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import Finding
from remand.domain.instant import Instant
from remand.domain.task import Status
from tests.support.builders import FakeLedger, member

TEAM = Team(
    (member("Alice"), member("Bob"), member("Carol"), member("Lead", Role.LEAD), member("Lea", Role.LEAD))
)
NO = (Finding(text="It leaks"),)


def reject(world: FakeLedger, task: str, commit: str, by: str = "Lead") -> None:
    world.ask(c.RejectReview(task_id=task, commit=commit, findings=NO), by)


def approve(world: FakeLedger, task: str, commit: str) -> None:
    world.ask(c.ApproveReview(task_id=task, commit=commit), "Lead")


def hand_in(world: FakeLedger, task: str, agent: str, commit: str) -> None:
    world.claim(task, agent)
    world.submit(task, agent, commit)


def figures(world: FakeLedger, since: Instant = "") -> Rework:
    with world.store.read() as view:
        return read_rework(view, world.clock.now(), since)


@pytest.fixture
def world() -> FakeLedger:
    """Four tasks: reworked by a colleague, right at once, falsely rejected, and sent back by two reviewers."""
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    one, two, three, four = (world.add(f"Task {number}") for number in range(4))
    hand_in(world, one, "Alice", "one")
    reject(world, one, "one")
    hand_in(world, one, "Bob", "one again")
    approve(world, one, "one again")
    hand_in(world, two, "Alice", "two")
    approve(world, two, "two")
    hand_in(world, three, "Bob", "three")
    reject(world, three, "three")
    world.ask(c.RetractReview(task_id=three, reason="I misread it"), "Lead")
    approve(world, three, "three")
    hand_in(world, four, "Alice", "four")
    reject(world, four, "four")
    reject(world, four, "four", "Lea")
    return world


def test_the_figures_are_those_counted_by_hand(world: FakeLedger) -> None:
    found = figures(world)

    assert (found.reviewed_tasks, found.done_tasks, found.reworked_tasks) == (4, 3, 2)
    assert (found.cycles, round(found.mean_cycles, 3)) == ({"1": 2, "2": 1}, 1.333)
    assert (found.rejections, found.retracted, found.false_rejection_rate.rate) == (4, 1, 0.25)


def test_an_agents_submissions_are_counted_once_by_what_stands(world: FakeLedger) -> None:
    counted = {one.name: (one.reviewed, one.rejected, one.retracted) for one in figures(world).by_agent}

    assert counted == {"Alice": (3, 2, 0), "Bob": (2, 0, 1)}


def test_a_reviewers_reviews_are_all_counted(world: FakeLedger) -> None:
    counted = {one.name: (one.reviewed, one.rejected, one.retracted) for one in figures(world).by_reviewer}

    assert counted == {"Lead": (6, 2, 1), "Lea": (1, 1, 0)}


def test_time_is_counted_in_each_status(world: FakeLedger) -> None:
    task = world.add("Slow")
    world.clock.advance(3600)
    hand_in(world, task, "Carol", "slow")
    world.clock.advance(60)
    approve(world, task, "slow")
    stays = {one.status: one for one in figures(world).time_in_status}

    assert 3600 <= stays[Status.INCOMING].total_seconds < 3700
    assert 60 <= stays[Status.PROVISIONAL].total_seconds < 120
    assert Status.DONE not in stays


def test_only_what_happened_since_then_is_counted(world: FakeLedger) -> None:
    world.clock.advance(10)
    found = figures(world, world.clock.now())

    assert (found.reviewed_tasks, found.rejections, found.by_agent) == (0, 0, ())


def test_what_is_read_of_a_task_leads_to_the_figures_of_its_whole_history() -> None:
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    kept, lost = world.add("Kept"), world.add("Lost")
    world.claim(kept, "Alice")
    world.clock.advance(1200)
    world.ask(c.Heartbeat(task_id=kept, agent="Alice"), "Alice")
    world.claim(lost, "Carol")
    world.submit(kept, "Alice", "one")
    reject(world, kept, "one")
    world.clock.advance(10_000)
    world.claim(lost, "Bob")

    now = world.clock.now()
    with world.store.read() as view:
        stories = [task_events(view, task.id) for task in view.tasks.every()]
        whole, found = measure_rework(stories, now), read_rework(view, now)
    kinds = {event.name for story in stories for event in story}
    assert {"task.heartbeat", "task.expire", "review.reject"} <= kinds
    assert found == whole
    assert {one.status: one.times for one in whole.time_in_status}["claimed"] == 3
