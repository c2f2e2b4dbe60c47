"""Reports that read a ledger task by task say what they would say after folding every event."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.app.analysis.graph import count_graph, graph_stats, read_graph
from remand.app.analysis.rework import measure_rework, read_rework
from remand.app.analysis.work_report import build_work_report, read_work_report
from remand.app.events.task_folds import task_events
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationOpened,
    ReviewApproved,
    ReviewRetracted,
    TaskReassigned,
)
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    LeaseExpired,
    TaskBlocked,
    TaskCancelled,
    TaskChanges,
    TaskContinued,
    TaskDeferred,
    TaskDeleted,
    TaskEdited,
    TaskReleased,
    TaskReopened,
    TaskWaiting,
)
from remand.domain.events.work import GateRejected, How, RunEnded, RunStarted
from remand.domain.evolve import replay
from remand.domain.ids import task_node_id
from remand.domain.instant import Instant
from remand.ledger.event_tables import EventEntry
from remand.testing.builders import (
    H1,
    H2,
    T1,
    T2,
    T3,
    Session,
    got_tool_entry,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
    task_woken,
)
from tests.support.builders import (
    FakeLedger,
    a_result,
    a_verdict,
    gate_passed,
    gate_passed_and_submitted,
    lockout_set,
    review_rejected,
)

N1, N2, N3 = map(task_node_id, (T1, T2, T3))
START = "2026-11-15T09:00:00.000000Z"
WORK: dict[str, Any] = {"task_id": T1, "handoff_id": H1, "agent": "Alice"}
REVIEW: dict[str, Any] = {"task_id": T1, "reviewer": "Lead", "commit": "c0ffee00" * 5}
SENT_BACK = review_rejected(review_id="V-1")
STEPS: tuple[tuple[Event, ...], ...] = (
    (task_claimed(), gate_passed()),
    (task_claimed(), *gate_passed_and_submitted()),
    (task_claimed("Bob", H2), *gate_passed_and_submitted("Bob", H2, commit="b", tree="b")),
    (TaskWaiting(**WORK, waiting_for="rain"),),
    (TaskReleased(**WORK),),
    (TaskContinued(**WORK),),
    (LeaseExpired(**WORK),),
    (GateRejected(**WORK, verdict=a_verdict(a_result())),),
    (
        RunStarted(**WORK, run_id="R-1"),
        RunEnded(task_id=T1, agent="Alice", run_id="R-1", how=How.EXITED, seconds=1.5),
    ),
    (SENT_BACK, lockout_set("Alice", "V-1")),
    (review_rejected(review_id="V-2", commit="b", tree="b"), lockout_set("Bob", "V-2")),
    (review_rejected(review_id="V-3", commit="unknown", tree="unknown"),),
    (review_rejected(review_id="V-4", source="forge"),),
    (lockout_set("Alice", ""),),
    (ReviewRetracted(task_id=T1, review_id="V-1", reviewer="Lead", reason="It was right"),),
    (ReviewApproved(**REVIEW),),
    (ReviewApproved(task_id=T1, reviewer="Lea", commit="b"),),
    (rejection_filed(), TaskBlocked(task_id=T1)),
    (invalid_rejection_filed(), rejection_answered("OVERRIDE")),
    (rejection_answered("ACCEPT_AND_DEFER"), TaskDeferred(task_id=T1, waits_for=(T2,))),
    (task_woken(),),
    (TaskReopened(task_id=T1),),
    (TaskReassigned(task_id=T1, target="Bob", reason="He can"),),
    (EscalationOpened(task_id=T1, kind="asked", reason="What now?", deadline=START),),
    (TaskCancelled(task_id=T1),),
    (TaskEdited(id=N1, changes=TaskChanges(title="Another")),),
    (task_added(T1, "Added again"),),
    (EdgeCreated(src=N1, tgt=N2, type="DEPENDS_ON"),),
)


Told = Event | EventEntry
"""An event, or a line of a GoT tool."""


def stored(*parts: tuple[Told, ...]) -> FakeLedger:
    """A ledger with events, each part of them written by a session of its own, a second after one another."""
    world = FakeLedger()
    entries = []
    for number, events in enumerate(parts):
        session = Session(f"20261115-080000-0000000{number}")
        for second, event in enumerate(events):
            if isinstance(event, EventEntry):
                entries.append(event._replace(subject=event_task_id(event.event)))
            else:
                entries.append(session.entry(event, at=event.ts or moment(second)))
    with world.store.write() as tx:
        tx.events.add(entries)
        names = {entry.subject for entry in entries} - {""}
        tasks = [replay(task_events(tx, name)) for name in sorted(names)]
        tx.tasks.replace_all([task for task in tasks if task is not None], [])
    return world


def moment(second: int) -> Instant:
    return f"2026-11-15T09:{second // 60:02d}:{second % 60:02d}.000000Z"


@pytest.mark.parametrize("since", ["", moment(4)])
@given(st.lists(st.sampled_from(STEPS), max_size=8), st.booleans())
def test_what_moved_a_task_gives_the_figures_of_all_its_events(
    since: Instant, steps: list[tuple[Event, ...]], is_shared: bool
) -> None:
    events = tuple(event for step in steps for event in step)
    parts = (events[::2], events[1::2]) if is_shared else (events,)
    world = stored((task_added(T1), *parts[0]), (task_added(T2), *(parts[1] if is_shared else ())))

    with world.store.read() as view:
        stories = [task_events(view, task.id) for task in view.tasks.every()]
        assert read_rework(view, moment(3000), since) == measure_rework(stories, moment(3000), since)
        assert read_work_report(view, since) == build_work_report(stories, since)


GRAPH_EVENTS: tuple[Told, ...] = (
    *(task_added(T1), task_added(T2), task_added(T2, "Another"), task_added(T3)),
    *(rejection_filed(T1), rejection_filed(T1, 2), rejection_filed(T2, 2), invalid_rejection_filed(T2, 3)),
    *(rejection_answered("ACCEPT_AND_DEFER", T1, 1, (T2,)), rejection_answered("ACCEPT", T1, 2, ("T-else",))),
    *(
        rejection_answered("OVERRIDE", T2, 3),
        rejection_answered("OVERRIDE", T2, 1),
        rejection_filed("not a name", 4),
    ),
    *(EdgeCreated(src=N1, tgt=N2, type="DEPENDS_ON"), EdgeDeleted(src=N1, tgt=N2, type="DEPENDS_ON")),
    *(EdgeCreated(src=N2, tgt=N3, type="BLOCKS"), EdgeCreated(src=N1, tgt="sprint:S-1", type="PART_OF")),
    *(EdgeCreated(src=N1, tgt=f"rejection:{N1}:R-1", type="SIMILAR"), TaskDeleted(id=N3)),
    *(
        TaskEdited(id=N3, changes=TaskChanges(title="New")),
        got_tool_entry("node.delete", id="sprint:S-1"),
    ),
    got_tool_entry("node.create", id="sprint:S-1", type="GOAL", data={"name": "Dry"}),
    got_tool_entry("node.create", id="blocker:R-1", type="GOAL", data={"name": "Dry"}),
    got_tool_entry("node.update", id=N2, changes={"title": "Newer"}),
    got_tool_entry("decision.create", id=N1, decision="Wait"),
)


@pytest.mark.parametrize(
    "events",
    [
        (task_added(T1), task_added(T2), rejection_filed(T1, 2), rejection_filed(T2, 2)),
        (task_added(T1), rejection_filed(T1, 2), rejection_answered("OVERRIDE", T2, 2)),
        (
            task_added(T1),
            rejection_filed(T1, 1),
            EdgeCreated(src=N2, tgt=f"rejection:{N1}:R-1", type="SIMILAR"),
        ),
        (task_added(T1), task_added(T2), EdgeCreated(src=N1, tgt=N2, type="BLOCKS"), TaskDeleted(id=N1)),
        (task_added(T1), got_tool_entry("decision.create", id=N1, decision="Wait")),
        (task_added(T1), rejection_filed(T1, 1), rejection_answered("ACCEPT", T1, 1, ("T-else", T2))),
        (EdgeCreated(src=N1, tgt=N2, type="DEPENDS_ON"), task_added(T2)),
    ],
)
def test_what_one_part_names_of_another_is_counted_once(events: tuple[Told, ...]) -> None:
    world = stored(events)

    with world.store.read() as view:
        assert count_graph(view) == graph_stats(read_graph(view))


@given(st.lists(st.sampled_from(GRAPH_EVENTS), max_size=12), st.integers(0, 9))
def test_a_graph_counted_part_by_part_has_the_figures_of_the_whole(events: list[Told], seed: int) -> None:
    rng = Random(seed)
    first = [event for event in events if rng.random() < 0.5]
    world = stored(tuple(first), tuple(event for event in events if event not in first))

    with world.store.read() as view:
        assert count_graph(view) == graph_stats(read_graph(view))


def test_most_tasks_are_read_without_folding_them(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = (task_added(T1), *STEPS[1], *STEPS[9], *STEPS[2], *STEPS[16])
    world = stored(usual)
    monkeypatch.delattr("remand.app.analysis.rework.evolve")

    with world.store.read() as view:
        found = read_rework(view, moment(3000))
    assert (found.done_tasks, found.reworked_tasks, found.cycles) == (1, 1, {"2": 1})
